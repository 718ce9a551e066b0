"""What is kept of a corpus: statistics by key, which add up, and are read again by the kind that they are of.

A key is NAME@PLACE.LAYER: `entropy@self.3` of a layer, `points@self` of a stack, `drop@rollout` of a method, `own` of
all there is. NAME may have parts, with a space, a slash or a full stop between them; it has no @.

    >>> str(Key("entropy", "self", 3)), Key.read("drop@rollout")
    ('entropy@self.3', Key(name='drop', place='rollout', layer=None))
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from torch import Tensor

from headwise import stats
from headwise.stats import Moments, Pieces, Statistic, Sums
from headwise.types import Layer

Kind = TypeVar("Kind", bound=Statistic)
Stats = dict[str, Statistic]  # what a study returns of a part of the corpus, to be added up


class Key(NamedTuple):
    """Where a statistic is kept."""

    name: str
    place: str | None = None  # a stack, or a method
    layer: int | None = None

    def __str__(self) -> str:
        place = "" if self.place is None else f"@{self.place}"
        return f"{self.name}{place}" if self.layer is None else f"{self.name}{place}.{self.layer}"

    @classmethod
    def read(cls, written: str) -> Key:
        name, at, place = written.partition("@")
        found = re.fullmatch(r"(.+)\.(\d+)", place)
        return cls(name, found[1], int(found[2])) if found else cls(name, place if at else None)


class State(dict[str, Statistic]):
    """The sum over the corpus, or a part of it. What is not there is a KeyError, of another kind a TypeError."""

    def of(self, kind: type[Kind], key: str) -> Kind:
        found = self[key]
        if not isinstance(found, kind):
            raise TypeError(f"{key} must be of kind {kind.__name__}, but it is {type(found).__name__}.")
        return found

    def sums(self, key: str) -> Sums:
        return self.of(Sums, key)

    def moments(self, key: str) -> Moments:
        return self.of(Moments, key)

    def pieces(self, key: str) -> Pieces:
        return self.of(Pieces, key)

    def documents(self, key: str) -> dict[int, Tensor]:
        """Pieces by the numbers of their documents."""
        pieces = self.pieces(key)
        return dict(zip(pieces.numbers, pieces.tensors, strict=True))

    def by_layer(self, kind: type[Kind], name: str, place: str) -> list[Kind]:
        """The statistics called `name` of a stack's layers, in order."""
        keys = [key for key in map(Key.read, self) if key.name == name and key.place == place]
        return [self.of(kind, str(key)) for key in sorted(keys, key=_layer) if key.layer is not None]

    def after(self, kind: type[Kind], prefix: str) -> Iterator[tuple[str, Kind]]:
        """What is kept under keys that begin with `prefix`, by the rest of the key, in the order of its coming."""
        yield from ((key.removeprefix(prefix), self.of(kind, key)) for key in self if key.startswith(prefix))


def _layer(key: Key) -> int:
    return -1 if key.layer is None else key.layer


def at(name: str, layer: Layer) -> str:
    """The key of a layer's statistic: entropy@self.3."""
    return str(Key(name, layer.stack, layer.index))


def plus(left: Mapping[str, Statistic], right: Mapping[str, Statistic]) -> State:
    """Two states added, key by key; the order of the keys is that of their first coming."""
    total = State(left)
    for key, statistic in right.items():
        total[key] = total[key] + statistic if key in total else statistic  # type: ignore[operator]
    return total


def packed(state: Mapping[str, Statistic]) -> dict[str, Tensor]:
    """One flat dict of tensors in which every statistic names its class: `Moments:entropy@self.3/count`."""
    return stats.pack({f"{type(value).__name__}:{key}": value for key, value in state.items()})


def unpacked(tensors: Mapping[str, Tensor]) -> State:
    """The state that `packed` made."""
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, part = key.rpartition("/")
        groups.setdefault(name, {})[part] = tensor
    state = State()
    for name, parts in groups.items():
        kind, key = re.split(":", name, maxsplit=1)
        state[key] = getattr(stats, kind).from_state(parts)
    return state

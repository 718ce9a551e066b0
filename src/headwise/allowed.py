"""What a value that a user gives may be: declared once, checked in one place, refused in one sentence.

>>> Allowed(above=0, most=1).told(float)
'a number above 0 and up to 1'
>>> check("fraction", 1.5, float, Allowed(above=0, most=1))
Traceback (most recent call last):
headwise.errors.InputError: fraction must be a number above 0 and up to 1, but 1.5 was given.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from headwise.errors import InputError

Number = int | float
KEY = "allowed"
PLAIN = {int: "a whole number", float: "a number", str: "a name", bool: "true or false", NoneType: "none"}
SEED = 2**63 - 1  # the largest that a generator takes


@dataclass(frozen=True)
class Allowed:
    """Bounds of a number, or the names there are; of a tuple, what each part may be. `of` is a registry of names."""

    least: Number | None = None
    most: Number | None = None
    above: Number | None = None
    below: Number | None = None
    one_of: tuple[Any, ...] | Callable[[], tuple[Any, ...]] = ()
    of: Any = None

    @property
    def names(self) -> tuple[Any, ...]:
        """What there is; a function where that is known only once everything is registered."""
        return self.one_of() if callable(self.one_of) else self.one_of

    def holds(self, value: Any) -> bool:
        if self.one_of:
            return value in self.names
        if self.of is not None and isinstance(value, str):
            self.of.entry(value)  # refuses what there is not, and says what was probably meant
        if not isinstance(value, (int, float)):
            return True
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def told(self, hint: Any) -> str:
        each = "of parts that are each " if _is_tuple(hint) else ""
        if self.one_of:
            return f"{each}one of {', '.join(map(str, self.names))}"
        parts = [_plain(one, self._bounds if one in (int, float) else "") for one in _flat(hint)]
        return each + " or ".join(parts)

    @property
    def _bounds(self) -> str:
        ends = {"above {:g}": self.above, "{:g} or more": self.least, "below {:g}": self.below, "up to {:g}": self.most}
        return " and ".join(words.format(end) for words, end in ends.items() if end is not None)


ANY = Allowed()


def setting(default: Any, **allowed: Any) -> Any:
    """A field of a study, with what it may be: `bucket: int = setting(8, least=1)`."""
    return field(default=default, metadata={KEY: Allowed(**allowed)})


def allowed(one: Field[Any]) -> Allowed:
    return one.metadata.get(KEY, ANY)


def check_fields(kind: type[Any], given: Mapping[str, Any], *, whose: str) -> None:
    """What is given for the fields of a dataclass, by their types and by what they declare."""
    hints, known = get_type_hints(kind), {one.name: one for one in fields(kind)}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"A setting must be one that {whose} has, but there is no {name!r}: {', '.join(known)}.")
        check(f"{name} of {whose}", value, hints[name], allowed(known[name]))


def check_all(given: Mapping[str, Any], declared: Mapping[str, tuple[Any, Allowed]]) -> None:
    """The values that are declared; None is what was not given."""
    for name, value in given.items():
        if value is not None and name in declared:
            check(name, value, *declared[name])


def check(name: str, value: Any, hint: Any, may: Allowed = ANY) -> None:
    """Raise, in a sentence, where a value is of another type or out of bounds."""
    values: Iterable[Any] = value if _is_tuple(hint) and isinstance(value, tuple) else (value,)
    if not _fits(value, hint) or not all(may.holds(one) for one in values):
        raise InputError(f"{name} must be {may.told(hint)}, but {_written(value)} was given.")


def _fits(value: Any, hint: Any) -> bool:
    if _is_tuple(hint):
        return isinstance(value, tuple) and all(_fits(one, get_args(hint)[0]) for one in value)
    kinds = _flat(hint)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, tuple(kinds)) or (float in kinds and isinstance(value, int))


def _is_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple


def _flat(hint: Any) -> list[Any]:
    """The plain types of a hint: of `tuple[int | str, ...]` int and str."""
    if _is_tuple(hint):
        return _flat(get_args(hint)[0])
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]


def _plain(kind: Any, bounds: str) -> str:
    plain = PLAIN.get(kind, str(kind))
    if not bounds:
        return plain
    return f"{plain} {bounds}" if bounds.startswith(("above", "below", "up")) else f"{plain}, {bounds}"


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else repr(value)

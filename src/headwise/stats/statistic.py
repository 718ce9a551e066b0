"""What every statistic is: frozen sufficient statistics that add up.

The law, for samples x and y and their concatenation x ⧺ y:   of(x ⧺ y) == of(x) + of(y).

The sum is associative within float64 rounding, and the same bits for the same order of terms; statistics of
whole counts (histograms, ranks, the reservoir) are the same bits in any order. A state is a flat dict of
tensors on the CPU, float64 and int64 (but `Pieces` keeps what it is given), so that many statistics go into one
safetensors file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import add
from typing import TypeVar

from torch import Tensor

S = TypeVar("S", bound="Statistic")


@dataclass(frozen=True, eq=False)
class Statistic:
    """Sufficient statistics in tensors [*cells …], e.g. [layer head category]; subclasses define the sum."""

    def to_state(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_state(cls: type[S], state: Mapping[str, Tensor]) -> S:
        return cls(**{field.name: state[field.name] for field in fields(cls)})


def merge(statistics: Iterable[S]) -> S:
    """The sum of one or more statistics, from left to right."""
    return reduce(add, statistics)  # pyright: ignore[reportArgumentType] each subclass adds its own kind


def pack(statistics: Mapping[str, Statistic]) -> dict[str, Tensor]:
    """One flat state of several statistics: {"entropy": Moments} → {"entropy/count": …, "entropy/m2": …}.

    subtle: safetensors wants contiguous tensors that share no memory, hence the copies.
    """
    return {
        f"{name}/{field}": value.contiguous().clone()
        for name, statistic in statistics.items()
        for field, value in statistic.to_state().items()
    }


def unpack(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The state of the statistic called `name` within a packed one, for its `from_state`."""
    prefix = f"{name}/"
    part = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    if not part:
        names = sorted({key.rpartition("/")[0] for key in state})
        raise ValueError(f"The state holds no statistic {name!r}; it holds {', '.join(names)}.")
    return part

"""Weighted sum and mean:  mean = Σ w x / Σ w,  NaN where Σ w = 0."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from headwise.stats.cells import Cells, LastAxis, Shape, ratio, usable
from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Sums(Statistic):
    """Σ w x and Σ w a cell; construct it directly where an einsum already gave both."""

    total: Float64[Tensor, "*cells"]
    weight: Float64[Tensor, "*cells"]

    @classmethod
    def empty(cls, shape: Shape) -> Sums:
        return cls(*torch.zeros(2, *shape, dtype=torch.float64))

    @classmethod
    def of(cls, x: Shaped[Tensor, "..."], weight: Shaped[Tensor, "..."], *, over: Cells | None = None) -> Sums:
        over = over or LastAxis()
        weight, x = usable(weight, x)
        return cls(over.total(weight * x).cpu(), over.total(weight).cpu())

    def __add__(self, other: Sums, /) -> Sums:
        return Sums(self.total + other.total, self.weight + other.weight)

    @property
    def mean(self) -> Float64[Tensor, "*cells"]:
        return ratio(self.total, self.weight)

"""Weighted mean, spread and range in one pass that merges.

Of a sample:  n = Σ w,  mean = Σ w x / n,  M2 = Σ w (x − mean)².  Of two samples a and b, with δ = mean_b −
mean_a:

    mean = mean_a + δ n_b / n        M2 = M2_a + M2_b + δ² n_a n_b / n

(Chan, Golub & LeVeque 1979, https://doi.org/10.1007/978-3-642-51461-6_3). No cancellation of large sums, so
the spread of a million values near 10⁸ is still right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from headwise.stats.cells import Cells, LastAxis, Shape, ratio, share, usable
from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Moments(Statistic):
    """Weight, mean, M2, least and greatest value a cell. Group by length or layer with `over=Groups(…)`.

    `count` is the sum of the weights: the number of values where the weight is a mask.
    """

    count: Float64[Tensor, "*cells"]
    average: Float64[Tensor, "*cells"]  # 0 in an empty cell
    m2: Float64[Tensor, "*cells"]
    least: Float64[Tensor, "*cells"]  # inf in an empty cell
    greatest: Float64[Tensor, "*cells"]  # −inf in an empty cell

    @classmethod
    def empty(cls, shape: Shape) -> Moments:
        zero, inf = torch.zeros(shape, dtype=torch.float64), torch.full(shape, math.inf, dtype=torch.float64)
        return cls(zero, zero, zero, inf, -inf)

    @classmethod
    def of(cls, x: Shaped[Tensor, "..."], weight: Shaped[Tensor, "..."], *, over: Cells | None = None) -> Moments:
        over = over or LastAxis()
        weight, x = usable(weight, x)
        count = over.total(weight)
        mean = share(over.total(weight * x), count)
        m2 = over.total(weight * (x - over.spread(mean)).square())
        least = over.least(torch.where(weight != 0, x, math.inf))
        greatest = -over.least(torch.where(weight != 0, -x, math.inf))
        return cls(count.cpu(), mean.cpu(), m2.cpu(), least.cpu(), greatest.cpu())

    def __add__(self, other: Moments, /) -> Moments:
        count = self.count + other.count
        step = share(other.count, count)
        delta = other.average - self.average
        return Moments(
            count,
            self.average + delta * step,
            self.m2 + other.m2 + delta.square() * self.count * step,
            torch.minimum(self.least, other.least),
            torch.maximum(self.greatest, other.greatest),
        )

    @property
    def mean(self) -> Float64[Tensor, "*cells"]:
        """NaN in an empty cell."""
        return torch.where(self.count != 0, self.average, torch.nan)

    @property
    def sd(self) -> Float64[Tensor, "*cells"]:
        """Standard deviation of the values themselves: √(M2 / n), without Bessel's correction."""
        return ratio(self.m2, self.count).sqrt()

    @property
    def cv(self) -> Float64[Tensor, "*cells"]:
        """Coefficient of variation, sd / mean."""
        return ratio(self.sd, self.mean)

    @property
    def low(self) -> Float64[Tensor, "*cells"]:
        """The least value, NaN in an empty cell."""
        return torch.where(self.count != 0, self.least, torch.nan)

    @property
    def high(self) -> Float64[Tensor, "*cells"]:
        """The greatest value, NaN in an empty cell."""
        return torch.where(self.count != 0, self.greatest, torch.nan)

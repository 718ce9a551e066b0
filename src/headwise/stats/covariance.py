"""Pearson correlation and regression slope in one pass that merges.

    C_xy = Σ w (x − mean_x)(y − mean_y);   of two samples:  C = C_a + C_b + δ_x δ_y n_a n_b / n

(Pébay 2008, SAND2008-6212, the bivariate form of Chan et al.);  pearson = C_xy / √(C_xx C_yy),  slope = C_xy
/ C_xx.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from headwise.stats.cells import Cells, LastAxis, Shape, ratio, share, usable
from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Covariance(Statistic):
    """Weight, means and centred second moments of pairs (x, y) a cell; means are 0 in an empty cell."""

    count: Float64[Tensor, "*cells"]
    mean_x: Float64[Tensor, "*cells"]
    mean_y: Float64[Tensor, "*cells"]
    m2_x: Float64[Tensor, "*cells"]
    m2_y: Float64[Tensor, "*cells"]
    c_xy: Float64[Tensor, "*cells"]

    @classmethod
    def empty(cls, shape: Shape) -> Covariance:
        return cls(*torch.zeros(6, *shape, dtype=torch.float64))

    @classmethod
    def of(
        cls,
        x: Shaped[Tensor, "..."],
        y: Shaped[Tensor, "..."],
        weight: Shaped[Tensor, "..."],
        *,
        over: Cells | None = None,
    ) -> Covariance:
        over = over or LastAxis()
        weight, x, y = usable(weight, x, y)
        count = over.total(weight)
        mean_x, mean_y = share(over.total(weight * x), count), share(over.total(weight * y), count)
        dx, dy = x - over.spread(mean_x), y - over.spread(mean_y)
        seconds = (over.total(weight * dx * dx), over.total(weight * dy * dy), over.total(weight * dx * dy))
        return cls(*(value.cpu() for value in (count, mean_x, mean_y, *seconds)))

    def __add__(self, other: Covariance, /) -> Covariance:
        count = self.count + other.count
        step = share(other.count, count)
        dx, dy = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        scale = self.count * step
        return Covariance(
            count,
            self.mean_x + dx * step,
            self.mean_y + dy * step,
            self.m2_x + other.m2_x + dx * dx * scale,
            self.m2_y + other.m2_y + dy * dy * scale,
            self.c_xy + other.c_xy + dx * dy * scale,
        )

    @property
    def pearson(self) -> Float64[Tensor, "*cells"]:
        """In [−1, 1]; NaN where x or y does not vary."""
        return ratio(self.c_xy, self.m2_x.sqrt() * self.m2_y.sqrt()).clamp(-1, 1)

    @property
    def slope(self) -> Float64[Tensor, "*cells"]:
        """Change of y a unit of x, by least squares; NaN where x does not vary."""
        return ratio(self.c_xy, self.m2_x)

    @property
    def intercept(self) -> Float64[Tensor, "*cells"]:
        return self.mean_y - self.slope * self.mean_x

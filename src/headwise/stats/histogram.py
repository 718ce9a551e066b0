"""Histograms on fixed bins, and quantiles from them with the error stated.

The q-quantile is the least value x with F(x) ≥ q. The histogram tells its bin [a, b) exactly; within the bin
the value is interpolated and the stated error is the distance to the farther edge: ∞ in the outermost bins, 0
in that of 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from headwise.stats.bins import Bins, bins_from, bins_state, same_bins
from headwise.stats.cells import Cells, LastAxis, Shape, ratio, tally
from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Histogram(Statistic):
    """Weight a bin and cell; with a mask for a weight these are whole counts and exact to 2^53."""

    bins: Bins
    counts: Float64[Tensor, "*cells bin"]

    @classmethod
    def empty(cls, shape: Shape, bins: Bins) -> Histogram:
        return cls(bins, torch.zeros(*shape, len(bins.edges) - 1, dtype=torch.float64))

    @classmethod
    def of(
        cls, x: Shaped[Tensor, "..."], weight: Shaped[Tensor, "..."], bins: Bins, *, over: Cells | None = None
    ) -> Histogram:
        over = over or LastAxis()
        size = len(bins.edges) - 1
        index = over.index_of(x) * size + bins.index(x)
        weight = torch.where(x.isnan(), 0.0, weight.double()).expand(index.shape)
        return cls(bins, tally(index.reshape(-1), (*over.shape_of(x), size), weight).cpu())

    def __add__(self, other: Histogram, /) -> Histogram:
        return Histogram(same_bins(self.bins, other.bins), self.counts + other.counts)

    def to_state(self) -> dict[str, Tensor]:
        return {"bins": bins_state(self.bins), "counts": self.counts}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Histogram:
        return cls(bins_from(state["bins"]), state["counts"])

    @property
    def total(self) -> Float64[Tensor, "*cells"]:
        return self.counts.sum(-1)

    @property
    def share(self) -> Float64[Tensor, "*cells bin"]:
        """Part of the weight in each bin, the outer ones included; NaN in an empty cell."""
        return ratio(self.counts, self.total[..., None].expand_as(self.counts))

    @property
    def density(self) -> Float64[Tensor, "*cells bin"]:
        """Share a unit of x; NaN in bins without a finite width."""
        width = self.bins.edges.diff()
        return self.share / torch.where(width.isfinite() & ~self.bins.exact, width, torch.nan)

    def quantile(self, q: float) -> tuple[Float64[Tensor, "*cells"], Float64[Tensor, "*cells"]]:
        """The q-quantile and its greatest possible error, in the unit of x; NaN in an empty cell."""
        cumulated = self.counts.cumsum(-1)
        target = (q * self.total).clamp(min=math.ulp(0))[..., None] * (1 - 1e-12)
        place = torch.searchsorted(cumulated, target).clamp(max=self.counts.shape[-1] - 1)
        inside = self.counts.gather(-1, place)
        part = (target - cumulated.gather(-1, place) + inside) / inside
        low, high = self.bins.edges[place], self.bins.edges[place + 1]
        value, error = interpolate(low, high, part)
        exact = self.bins.exact[place]
        value, error = torch.where(exact, low, value), torch.where(exact, 0.0, error)
        empty = self.total == 0
        return value[..., 0].masked_fill(empty, torch.nan), error[..., 0].masked_fill(empty, torch.nan)


def interpolate(
    low: Float64[Tensor, "*any"], high: Float64[Tensor, "*any"], part: Float64[Tensor, "*any"]
) -> tuple[Float64[Tensor, "*any"], Float64[Tensor, "*any"]]:
    """low + part · (high − low) and its distance to the farther edge; for an infinite place its end and ∞."""
    inside = low + part * (high - low)
    value = torch.where(low.isinf(), high, torch.where(high.isinf(), low, inside))
    return value, torch.maximum(value - low, high - value)

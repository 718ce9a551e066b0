"""Spearman's rank correlation over any number of pairs, by a 2-D histogram that merges, with a rigorous error
bound.

Let R_i and S_i be the exact mid-ranks of x_i and y_i, and R'_i the mean rank of x_i's bin, which the
histogram tells exactly, so R = R' + U where U sums to 0 in every bin of x. Likewise S = S' + V. Everything
centred,

    ρ = ⟨R, S⟩ / |R||S|,    ⟨R, S⟩ = ⟨R', S'⟩ + ⟨U, S'⟩ + ⟨R', V⟩ + ⟨U, V⟩,    |R|² = |R'|² + |U|².

`correlation` is ρ' = ⟨R', S'⟩ / |R'||S'|. What is not known is bounded thus:
  |U|² ≤ Σ_bins (c³ − c)/12, c the bin's count: the ranks of a bin are spread most when there are no ties;
  |⟨U, S'⟩| ≤ the value when each bin's ranks are sorted as S' is (rearrangement inequality; ties only average
  ranks, and so lower it), which the joint counts tell: Σ_bins Σ_j n_j S'_j (n_1 + … + n_(j−1) + n_j/2 − c/2);
  |⟨U, V⟩| ≤ |U||V| (Cauchy-Schwarz).
A bin that holds one value only (that of 0) has U = 0. So numerator and denominator lie in intervals, and so
does ρ. The error seen is far below the bound, since U hardly ever sides with S'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from headwise.stats.bins import Bins, bins_from, bins_state, same_bins
from headwise.stats.cells import Cells, LastAxis, Shape, ratio, tally
from headwise.stats.statistic import Statistic


@dataclass(frozen=True, eq=False)
class RankHistogram(Statistic):
    """Numbers of pairs a bin of x, bin of y and cell.

    Memory is cells · bins of x · bins of y · 8 bytes: 5 MB a cell with bins WEIGHTS and NORMS.
    """

    x_bins: Bins
    y_bins: Bins
    counts: Int64[Tensor, "*cells x_bin y_bin"]

    @classmethod
    def empty(cls, shape: Shape, x_bins: Bins, y_bins: Bins) -> RankHistogram:
        return cls(x_bins, y_bins, torch.zeros(*shape, *sizes(x_bins, y_bins), dtype=torch.int64))

    @classmethod
    def of(
        cls,
        x: Shaped[Tensor, "..."],
        y: Shaped[Tensor, "..."],
        mask: Bool[Tensor, "..."],
        x_bins: Bins,
        y_bins: Bins,
        *,
        over: Cells | None = None,
    ) -> RankHistogram:
        """Count the pairs where `mask` holds; x, y and mask broadcast, and are binned before they do."""
        over = over or LastAxis()
        widest = x.new_empty(()).expand(torch.broadcast_shapes(x.shape, y.shape, mask.shape))
        shape = (*over.shape_of(widest), *sizes(x_bins, y_bins))
        total = torch.Size(shape).numel()
        if total >= 2**31:
            raise ValueError(f"A table of counts must have under 2^31 entries; got {shape}. Use fewer bins.")
        n_x, n_y = sizes(x_bins, y_bins)
        row = over.index_of(widest).int() * (n_x * n_y) + y_bins.index(y)
        index = torch.add(row, x_bins.index(x), alpha=n_y)
        index = torch.where(mask & ~x.isnan() & ~y.isnan(), index, total)
        return cls(x_bins, y_bins, tally(index.reshape(-1), (total + 1,))[:total].view(shape).cpu())

    def __add__(self, other: RankHistogram, /) -> RankHistogram:
        x_bins, y_bins = same_bins(self.x_bins, other.x_bins), same_bins(self.y_bins, other.y_bins)
        return RankHistogram(x_bins, y_bins, self.counts + other.counts)

    def to_state(self) -> dict[str, Tensor]:
        """The table holds few entries beside its zeros: only those are kept."""
        flat = self.counts.reshape(-1)
        index = flat.nonzero()[:, 0]
        bins = {"x_bins": bins_state(self.x_bins), "y_bins": bins_state(self.y_bins)}
        return {**bins, "shape": torch.tensor(self.counts.shape), "index": index, "number": flat[index]}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> RankHistogram:
        counts = torch.zeros(state["shape"].tolist(), dtype=torch.int64)
        counts.view(-1)[state["index"]] = state["number"]
        return cls(bins_from(state["x_bins"]), bins_from(state["y_bins"]), counts)

    @property
    def count(self) -> Int64[Tensor, "*cells"]:
        return self.counts.sum((-2, -1))

    def correlation(self) -> Float64[Tensor, "*cells"]:
        """ρ', in [−1, 1]; NaN where all of x or all of y lies in one bin."""
        joint = self._joint()
        r, s = mid_ranks(joint.sum(-1)), mid_ranks(joint.sum(-2))
        covariance = torch.einsum("...xy,...x,...y->...", joint, r, s)
        return ratio(covariance, (spread(joint.sum(-1), r) * spread(joint.sum(-2), s)).sqrt()).clamp(-1, 1)

    def error_bound(self) -> Float64[Tensor, "*cells"]:
        """The exact ρ is within ρ' ± this; NaN where ρ' is."""
        joint, count = self._joint(), self.count
        by_x, by_y = joint.sum(-1), joint.sum(-2)
        r, s = mid_ranks(by_x), mid_ranks(by_y)
        var_r, var_s = spread(by_x, r), spread(by_y, s)
        u2 = within(by_x, count, ~self.x_bins.exact)
        v2 = within(by_y, count, ~self.y_bins.exact)
        doubt = sorted_alike(joint, s, ~self.x_bins.exact) + sorted_alike(joint.mT, r, ~self.y_bins.exact)
        doubt = doubt + (u2 * v2).sqrt()
        covariance = torch.einsum("...xy,...x,...y->...", joint, r, s)
        least, most = var_r * var_s, (var_r + u2) * (var_s + v2)
        rho = ratio(covariance, least.sqrt())
        above = highest(covariance + doubt, least, most) - rho
        below = rho + highest(doubt - covariance, least, most)
        return torch.maximum(above, below)  # NaN where rho is

    def _joint(self) -> Float64[Tensor, "*cells x_bin y_bin"]:
        return self.counts.double() / self.count.clamp(min=1)[..., None, None]


def sizes(x_bins: Bins, y_bins: Bins) -> tuple[int, int]:
    return len(x_bins.edges) - 1, len(y_bins.edges) - 1


def mid_ranks(p: Float64[Tensor, "*cells bin"]) -> Float64[Tensor, "*cells bin"]:
    """Mean rank of each bin as a part of all pairs, centred: p_1 + … + p_(b−1) + p_b/2 − 1/2."""
    return p.cumsum(-1) - p / 2 - 0.5


def spread(p: Float64[Tensor, "*cells bin"], ranks: Float64[Tensor, "*cells bin"]) -> Float64[Tensor, "*cells"]:
    """|R'|² a pair. subtle: 0 and not rounding where all pairs share one bin, or ρ' would be noise."""
    return torch.where(p.amax(-1) < 1, (p * ranks.square()).sum(-1), 0.0)


def within(
    p: Float64[Tensor, "*cells bin"], count: Int64[Tensor, "*cells"], unsure: Bool[Tensor, " bin"]
) -> Float64[Tensor, "*cells"]:
    """Greatest |U|² a pair: Σ (c³ − c)/12 over the bins that may hold several values."""
    single = 1 / count.clamp(min=1).double().square()[..., None]
    return (unsure * p * (p.square() - single).clamp(min=0)).sum(-1) / 12


def sorted_alike(
    joint: Float64[Tensor, "*cells bin other"],
    ranks: Float64[Tensor, "*cells other"],
    unsure: Bool[Tensor, " bin"],
) -> Float64[Tensor, "*cells"]:
    """Greatest ⟨U, S'⟩ a pair: each bin's ranks sorted as the other side's are."""
    place = joint.cumsum(-1) - joint / 2 - joint.sum(-1, keepdim=True) / 2
    return torch.einsum("...bo,...bo,...o,b->...", joint, place, ranks, unsure.double())


def highest(
    covariance: Float64[Tensor, "*cells"], least: Float64[Tensor, "*cells"], most: Float64[Tensor, "*cells"]
) -> Float64[Tensor, "*cells"]:
    """Greatest covariance / √v for v in [least, most], at most 1. The lowest is −highest(−covariance)."""
    return (covariance / torch.where(covariance > 0, least, most).sqrt()).clamp(max=1)

"""Fixed bins, chosen before the data is seen, so that histograms of different shards add up.

    LinearBins(low, high, parts)     `parts` equal bins of [low, high)
    OctaveBins(low, high, parts)     every octave [2^e, 2^(e+1)) from 2^low to 2^high in `parts` equal bins

What lies outside is kept in bins of its own: −∞ … low and high … ∞; and for octaves −∞ … 0, exactly 0, and 0
… 2^low. A value's number of bin never falls as the value grows: that is all that ranks need.

The octave number of a float32 is read off its bits, which grow with the number: 0.2 ms for 1.5 million values
where a search among the edges takes 40. Hence octaves split evenly (bins are 1/2 to 1 part in `parts` wide)
rather than a true logarithm, `parts` a power of two, and values read as float32 (below 1.4e-45 that is 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int32, Shaped
from torch import Tensor

MANTISSA = 23  # bits of a float32's fraction
LEAST = 2.0**-149  # the least positive float32


@dataclass(frozen=True)
class LinearBins:
    """Bin ⌊(x − low) · parts / (high − low)⌋ + 1 holds x; bin 0 lies below `low`, the last from `high` on."""

    low: float | int
    high: float | int
    parts: int

    def __post_init__(self):
        if not (self.low < self.high and self.parts >= 1):
            raise ValueError(f"Bins need low < high and parts >= 1; got {self}.")

    @cached_property
    def edges(self) -> Float64[Tensor, " edge"]:
        return unbounded(torch.linspace(self.low, self.high, self.parts + 1, dtype=torch.float64))

    @property
    def exact(self) -> Bool[Tensor, " bin"]:
        """True for bins that hold a single value."""
        return torch.zeros(len(self.edges) - 1, dtype=torch.bool)

    def index(self, x: Shaped[Tensor, "*any"]) -> Int32[Tensor, "*any"]:
        position = (x.double() - self.low) * (self.parts / (self.high - self.low))
        return position.floor().nan_to_num(self.parts).clamp(-1, self.parts).int() + 1


@dataclass(frozen=True)
class OctaveBins:
    """`parts` bins an octave from 2^low to 2^high, after the bins below 0, of 0, and from 0 to 2^low."""

    low: int
    high: int
    parts: int

    def __post_init__(self):
        if not (-126 <= self.low < self.high <= 127 and self.parts in [2**k for k in range(MANTISSA)]):
            raise ValueError(f"Bins need -126 <= low < high <= 127 and parts a power of two; got {self}.")

    @cached_property
    def edges(self) -> Float64[Tensor, " edge"]:
        octave = 2.0 ** torch.arange(self.low, self.high, dtype=torch.float64)
        inner = (octave[:, None] * (1 + torch.arange(self.parts) / self.parts)).reshape(-1)
        return unbounded(torch.cat([torch.tensor([0.0, LEAST]).double(), inner, 2 * octave[-1:]]))

    @property
    def exact(self) -> Bool[Tensor, " bin"]:
        """True for bins that hold a single value: here that of 0."""
        return torch.arange(len(self.edges) - 1) == 1

    def index(self, x: Shaped[Tensor, "*any"]) -> Int32[Tensor, "*any"]:
        shift = MANTISSA - int(math.log2(self.parts))
        bits = (x.float() + 0.0).view(torch.int32)  # subtle: −0.0 + 0.0 is 0.0, whose bits are 0
        first = (self.low + 127) * self.parts  # the bits of 2^low, shifted
        number = (bits >> shift).sub_(first).clamp_(-1, (self.high - self.low) * self.parts).add_(3)
        return number.sub_((bits <= 0).int()).sub_((bits < 0).int())


Bins = LinearBins | OctaveBins
KINDS: tuple[type[LinearBins] | type[OctaveBins], ...] = (LinearBins, OctaveBins)

WEIGHTS = OctaveBins(-40, 0, 16)  # attention weights, in (0, 1]: many octaves
NORMS = OctaveBins(-8, 8, 64)  # lengths of vectors: few octaves, so finer bins


def unbounded(inner: Float64[Tensor, " inner"]) -> Float64[Tensor, " edge"]:
    inf = inner.new_tensor([math.inf])
    return torch.cat([-inf, inner, inf])


def bins_state(bins: Bins) -> Float64[Tensor, "4"]:
    """Kind, low, high and parts as one tensor."""
    return torch.tensor([KINDS.index(type(bins)), bins.low, bins.high, bins.parts], dtype=torch.float64)


def bins_from(state: Float64[Tensor, "4"]) -> Bins:
    kind, low, high, parts = state.tolist()
    if KINDS[int(kind)] is LinearBins:
        return LinearBins(low, high, int(parts))
    return OctaveBins(int(low), int(high), int(parts))


def same_bins(a: Bins, b: Bins) -> Bins:
    """`a`, which must equal `b`: counts on different bins do not add up."""
    if a != b:
        raise ValueError(f"Histograms add up only on the same bins; got {a} and {b}.")
    return a

"""Which numbers are reduced into which cell of a statistic.

    LastAxis()             x [*cells sample]: every leading index is a cell, the last axis is the sample
    Groups(index, shape)   x [any]: `index` (int, broadcastable to x) numbers the cell of each element in a
    grid `shape`

`ravel` builds such an index from one index an axis, e.g. per layer, head and category, or per bucket of
lengths:

    Groups(ravel((head[:, None, None], category), (12, 4)), (12, 4))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int, Int64, Shaped
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LastAxis:
    """Every leading index is a cell, the last axis is the sample."""

    def shape_of(self, x: Tensor, /) -> Shape:
        return tuple(x.shape[:-1])

    def index_of(self, x: Tensor, /) -> Int64[Tensor, "*cells 1"]:
        shape = self.shape_of(x)
        return torch.arange(math.prod(shape), device=x.device).view(*shape, 1)

    def total(self, x: Float64[Tensor, "*cells sample"]) -> Float64[Tensor, "*cells"]:
        return x.sum(-1)

    def least(self, x: Float64[Tensor, "*cells sample"]) -> Float64[Tensor, "*cells"]:
        if x.shape[-1] == 0:
            return x.new_full(x.shape[:-1], math.inf)
        return x.amin(-1)

    def spread(self, cells: Float64[Tensor, "*cells"]) -> Float64[Tensor, "*cells 1"]:
        return cells[..., None]


@dataclass(frozen=True, eq=False)
class Groups:
    """`index` numbers the cell of each element, row-major in a grid of `shape`.

    subtle: on CUDA `total` adds floats in no fixed order; bit-equal runs need the CPU, or whole weights.
    """

    index: Int[Tensor, "..."]
    shape: Shape

    def shape_of(self, _x: Tensor, /) -> Shape:
        return self.shape

    def index_of(self, _x: Tensor, /) -> Int[Tensor, "..."]:
        return self.index

    def total(self, x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return tally(self._flat(x), self.shape, x)

    def least(self, x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        least = x.new_full((math.prod(self.shape),), math.inf)
        return least.scatter_reduce_(0, self._flat(x), x.reshape(-1), "amin").view(self.shape)

    def spread(self, cells: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        return cells.reshape(-1)[self.index.long()]

    def _flat(self, x: Tensor) -> Int64[Tensor, " element"]:
        return self.index.long().expand(x.shape).reshape(-1)


Cells = LastAxis | Groups


def ravel(index: Sequence[Int[Tensor, "..."] | int], shape: Shape) -> Int64[Tensor, "..."]:
    """Row-major number of a cell from one broadcastable index an axis: ravel((1, 2), (3, 5)) = 1·5 + 2."""
    number = torch.zeros((), dtype=torch.int64)
    for axis, size in zip(index, shape, strict=True):
        number = number * size + torch.as_tensor(axis)
    return number


def tally(
    index: Int[Tensor, " element"], shape: Shape, weight: Float64[Tensor, "..."] | None = None
) -> Shaped[Tensor, "..."]:
    """Sum of the weights (float64), or number of elements (int64), at each index of a grid of `shape`."""
    size = math.prod(shape)
    sums = torch.bincount(index, None if weight is None else weight.reshape(-1), minlength=size)
    if sums.numel() > size:
        raise ValueError(f"Every index must be below {size} (shape {shape}); got {sums.numel() - 1}.")
    # subtle: bincount of nothing forgets the dtype of its weights
    return sums.to(torch.int64 if weight is None else torch.float64).view(shape)


def usable(weight: Shaped[Tensor, "..."], *values: Shaped[Tensor, "..."]) -> list[Float64[Tensor, "..."]]:
    """The weight and the values in float64 at one shape, all 0 where the weight is 0 or any value is NaN."""
    used = weight != 0
    for x in values:
        used = used & ~x.isnan()
    shape = torch.broadcast_shapes(weight.shape, *(x.shape for x in values))
    return [torch.where(used, x.double(), 0.0).expand(shape) for x in (weight, *values)]


def ratio(a: Float64[Tensor, "*cells"], b: Float64[Tensor, "*cells"]) -> Float64[Tensor, "*cells"]:
    """a / b, NaN where b is 0."""
    return torch.where(b != 0, a / b, torch.nan)


def share(part: Float64[Tensor, "..."], whole: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
    """part / whole, 0 where whole is 0: the step of a merge towards an empty side."""
    return torch.where(whole != 0, part / torch.where(whole != 0, whole, 1.0), 0.0)

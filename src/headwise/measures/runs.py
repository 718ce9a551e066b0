r"""Gram matrices of the keys that each row sees, where every row sees another run of them (windows, and rows in doubt).

G_i = Σ_{first_i ≤ k < stop_i} v_k v_kᵀ
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.errors import ModelError

CHUNK_BYTES = 2**26  # of float64 Gram matrices held at once


def row_grams(
    values: Float[Tensor, "batch kv_head key d_head"], visible: Bool[Tensor, "batch query key"]
) -> Iterator[tuple[slice, Float[Tensor, "batch kv_head rows d_head d_head"], Int[Tensor, "batch kv_head rows"]]]:
    """G_i = Σ v vᵀ over the keys of each row, a few rows at a time.

    Rows see runs of keys (causal, window, padding). The keys that all rows of a chunk see are summed once; from there a
    running sum goes right to the keys that come into sight and another left to those that go out of it. subtle: nothing
    is ever subtracted, as the rounding of a large value that has left the window would stay behind.
    """
    step = max(1, CHUNK_BYTES // (values.shape[0] * values.shape[1] * values.shape[3] ** 2 * 8))
    start = 0
    while start < visible.shape[1]:
        rows = slice(start, start + step)
        first, stop = _runs(visible[:, rows])
        if int(first.max()) > int(stop.min()) and step > 1:  # no key that all see: take fewer rows
            step = max(1, step // 2)
            continue
        yield rows, _run_grams(values, first, stop), visible[:, rows].sum(-1)[:, None].expand(-1, values.shape[1], -1)
        start += step


def _runs(visible: Bool[Tensor, "batch rows key"]) -> tuple[Int[Tensor, "batch rows"], Int[Tensor, "batch rows"]]:
    """The first key of each row's run and the one after its last; rows that see nothing (padding) fit in anywhere."""
    count = visible.sum(-1)
    first = visible.int().argmax(-1)
    stop = first + count
    if bool((visible & (torch.arange(visible.shape[2], device=visible.device) >= stop[..., None])).any()):
        raise ModelError("Each query must see a run of consecutive keys; this model's mask has gaps. Use raw or norm.")
    blind = count == 0
    return (
        torch.where(blind, first.where(~blind, 0).max(), first),
        torch.where(blind, stop.where(~blind, visible.shape[2]).min(), stop),
    )


def _run_grams(
    values: Float[Tensor, "batch kv_head key d_head"],
    first: Int[Tensor, "batch rows"],
    stop: Int[Tensor, "batch rows"],
) -> Float[Tensor, "batch kv_head rows d_head d_head"]:
    """Σ v vᵀ over keys first … stop−1 of each row, from a part that is common to all rows."""
    middle, end = int(first.max()), max(int(stop.min()), int(first.max()))
    common = values[:, :, middle:end]
    right = _running(values[:, :, end : int(stop.max())])
    left = _running(values[:, :, int(first.min()) : middle].flip(2))
    take = lambda sums, number: torch.stack([s[:, n] for s, n in zip(sums, number, strict=True)])  # noqa: E731
    grams = take(right, (stop - end).clamp(min=0)) + take(left, (middle - first).clamp(min=0))
    return grams + (common.mT @ common)[:, :, None]


def _running(values: Float[Tensor, "batch kv_head key d_head"]) -> Float[Tensor, "batch kv_head more d_head d_head"]:
    """Σ v vᵀ over the first 0, 1, 2 … keys."""
    outer = torch.einsum("bhkd,bhke->bhkde", values, values).cumsum(2)
    return torch.cat([outer.new_zeros(*outer.shape[:2], 1, *outer.shape[3:]), outer], dim=2)

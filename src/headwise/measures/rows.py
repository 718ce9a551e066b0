"""Numbers of an attention row, averaged over the real rows of a text: how broad it is and where its mass goes.

All take a map of any attention quantity; entropy alone needs a distribution.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CACHED = 1 << 16  # numbers that are worked on at once: 256 kB of float32

Map = Float[Tensor, "batch head query key"]


def entropy(alpha: Map) -> Float[Tensor, "batch head query"]:
    """−Σ_k α log α of every row, in nats; 0 log 0 = 0 (α below 1e-30 adds nothing that float32 would show).

    Some rows at a time, so that what is made of them stays in the cache: a whole map takes four times as long.
    """
    if alpha.requires_grad or not alpha.numel():
        return -(alpha * alpha.clamp(min=1e-30).log()).sum(-1)
    rows = alpha.reshape(-1, alpha.shape[-1])
    parts = [(some.clamp(min=1e-30).log_().mul_(some)).sum(-1) for some in rows.split(max(1, CACHED // rows.shape[1]))]
    return -torch.cat(parts).view(alpha.shape[:-1])


def mass(quantity: Map, keys: Bool[Tensor, "batch key"]) -> Float[Tensor, "batch head query"]:
    """What each row gives to a set of keys."""
    return torch.einsum("bhqk,bk->bhq", quantity, keys.to(quantity))


def at_offset(quantity: Map, offset: int, *, first_row: int = 0) -> Float[Tensor, "batch head query"]:
    """What each query gives to the key `offset` places after it (−1: the previous token); NaN where there is none."""
    diagonal = quantity.diagonal(offset=first_row + offset, dim1=2, dim2=3)
    before = max(0, -(first_row + offset))
    after = quantity.shape[2] - before - diagonal.shape[2]
    return torch.nn.functional.pad(diagonal, (before, after), value=torch.nan)


def mean_rows(
    rows: Float[Tensor, "batch head query"], counted: Bool[Tensor, "batch query"]
) -> Float[Tensor, "batch head"]:
    """Mean over the rows that count, NaN rows left out."""
    kept = rows.where(counted[:, None], torch.nan)
    return kept.nanmean(-1)

"""Numbers of an attention row, averaged over the real rows of a text: how broad it is and where its mass goes.

All take a map of any attention quantity; entropy alone needs a distribution.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Map = Float[Tensor, "batch head query key"]


def entropy(alpha: Map) -> Float[Tensor, "batch head query"]:
    """−Σ_k α log α of every row, in nats; 0 log 0 = 0."""
    return torch.special.entr(alpha).sum(-1)


def mass(quantity: Map, keys: Bool[Tensor, "batch key"]) -> Float[Tensor, "batch head query"]:
    """What each row gives to a set of keys."""
    return torch.einsum("bhqk,bk->bhq", quantity, keys.to(quantity))


def at_offset(quantity: Map, offset: int, *, first_row: int = 0) -> Float[Tensor, "batch head query"]:
    """What each query gives to the key `offset` places after it (−1: the previous token); NaN where there is none."""
    query = torch.arange(quantity.shape[2], device=quantity.device)
    key = query + first_row + offset
    there = (key >= 0) & (key < quantity.shape[3])
    result = quantity.new_full(quantity.shape[:3], torch.nan)
    result[:, :, there] = quantity[:, :, query[there], key[there]]
    return result


def mean_rows(
    rows: Float[Tensor, "batch head query"], counted: Bool[Tensor, "batch query"]
) -> Float[Tensor, "batch head"]:
    """Mean over the rows that count, NaN rows left out."""
    kept = rows.where(counted[:, None], torch.nan)
    return kept.nanmean(-1)

"""Rows that see few keys: certified linear independence of their values, in which case no weight is free."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.measures.whitening import EPS, certify


def independent_rows(
    values: Float[Tensor, "batch kv_head key d_head"], visible: Bool[Tensor, "batch query key"]
) -> Bool[Tensor, "batch kv_head query"]:
    """Rows that see at most d_head keys and whose values are certified independent."""
    few = (visible.sum(-1) <= values.shape[3]) & visible.any(-1)
    independent = torch.zeros(values.shape[:2] + visible.shape[1:2], dtype=torch.bool, device=values.device)
    if not bool(few.any()):
        return independent
    nested = _nested_in_widest(values, visible, few)
    independent |= nested
    batch, query = (few & ~nested.all(1)).nonzero(as_tuple=True)
    if len(batch):
        independent[batch, :, query] |= _certified_rows(values, visible, batch, query)
    return independent


def _nested_in_widest(
    values: Float[Tensor, "batch kv_head key d_head"],
    visible: Bool[Tensor, "batch query key"],
    few: Bool[Tensor, "batch query"],
) -> Bool[Tensor, "batch kv_head query"]:
    """Rows that see a part of what the widest such row sees: a part of independent vectors is independent."""
    text = torch.arange(len(values), device=values.device)
    widest = torch.where(few, visible.sum(-1), 0).argmax(-1)
    certified = _certified_rows(values, visible, text, widest) & few.any(-1)[:, None]
    part = few & ~(visible & ~visible[text, widest][:, None]).any(-1)
    return certified[:, :, None] & part[:, None]


def _certified_rows(
    values: Float[Tensor, "batch kv_head key d_head"],
    visible: Bool[Tensor, "batch query key"],
    batch: Int[Tensor, " row"],
    query: Int[Tensor, " row"],
) -> Bool[Tensor, "row kv_head"]:
    """Whether the values that each of these rows sees are certified independent."""
    seen = visible[batch, query]
    keys = seen.double().topk(min(values.shape[3], seen.shape[1]), dim=-1, sorted=True).indices
    chosen = values[batch[:, None], :, keys].transpose(1, 2)  # row kv_head key d_head
    shown = seen.gather(1, keys)[:, None]
    return independent(chosen * shown[..., None], shown) & (seen.sum(-1) <= values.shape[3])[:, None]


def independent(vectors: Float[Tensor, "*many key d_head"], seen: Bool[Tensor, "*#many key"]) -> Bool[Tensor, "*many"]:
    """Certify that the seen vectors (no more than their dimension) are linearly independent."""
    gram = vectors @ vectors.mT
    size = gram.diagonal(dim1=-2, dim2=-1)
    padding = torch.where(seen, 0.0, size.amax(-1, keepdim=True))
    tolerance = torch.tensor(EPS * vectors.shape[-1], dtype=gram.dtype, device=gram.device)
    return certify(gram + torch.diag_embed(padding), tolerance)[1]

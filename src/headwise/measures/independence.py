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
    certified, decided = _within_widest(values, visible, few)
    independent |= certified
    batch, query = (few & ~decided).nonzero(as_tuple=True)
    if len(batch):
        independent[batch, :, query] |= _certified_rows(values, visible, batch, query)
    return independent


def _within_widest(
    values: Float[Tensor, "batch kv_head key d_head"],
    visible: Bool[Tensor, "batch query key"],
    few: Bool[Tensor, "batch query"],
) -> tuple[Bool[Tensor, "batch kv_head query"], Bool[Tensor, "batch query"]]:
    """Rows that see a part of what the widest such row sees, from one factor a text; and which rows that decides.

    Rows that see its first keys, as causal rows do, are decided by their own part of the factor. Any other part of
    independent vectors is independent, and undecided where the whole is not.
    """
    text, count = torch.arange(len(values), device=values.device), visible.sum(-1)
    widest = torch.where(few, count, 0).argmax(-1)
    seen = visible[text, widest]
    keys = seen.int().argsort(dim=-1, descending=True, stable=True)[:, : values.shape[3]]
    certified = independent_prefixes(
        values[text[:, None], :, keys].transpose(1, 2) * seen.gather(1, keys)[:, None, :, None]
    )
    first = few & (visible == (seen[:, None] & (seen.cumsum(-1)[:, None] <= count[..., None]))).all(-1)
    part = few & ~(visible & ~seen[:, None]).any(-1)
    upto = torch.where(first, count, seen.sum(-1)[:, None]).clamp(1, keys.shape[1]) - 1
    found = certified.gather(2, upto[:, None].expand(-1, values.shape[1], -1)) & part[:, None]
    return found, first | found.all(1)


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


def independent_prefixes(vectors: Float[Tensor, "*many key d_head"]) -> Bool[Tensor, "*many key"]:
    """Certify that the first vectors up to each one are linearly independent: the leading parts of one factor."""
    gram = vectors @ vectors.mT
    factor, info = torch.linalg.cholesky_ex(gram)
    at = torch.arange(gram.shape[-1], device=gram.device)
    good = at < torch.where(info == 0, len(at), info - 1)[..., None]
    unit = torch.eye(len(at), dtype=gram.dtype, device=gram.device).expand_as(gram)
    inverse = torch.linalg.solve_triangular(torch.where(good[..., None], factor, unit), unit, upper=False)
    bound, largest = inverse.square().sum(-1).cumsum(-1), gram.diagonal(dim1=-2, dim2=-1).cumsum(-1)
    return good & (bound * largest * (EPS * vectors.shape[-1]) ** 2 < 1)

r"""Effective attention where every row sees other keys: row i is o_i G_i⁺ V_iᵀ over its own keys.

Whatever settles a row at less than the price of its own factorisation is tried first:

    few keys, certified independent            the weights as they are         independence.py
    causal, certified to have full rank        a block of rows at a time       prefixes.py
    causal, copies of few independent values   the mean over the copies        copies.py
    the rest (windows, ranks in doubt)         row by row                      runs.py, whitening.py

What is tried depends on the text and the head alone, never on the batch around them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from headwise.measures.copies import Copies, average_copies, find_copies, may_repeat
from headwise.measures.independence import independent_rows
from headwise.measures.prefixes import Prefixes, factor_prefixes, sweep
from headwise.measures.runs import row_grams
from headwise.measures.whitening import precision, svd_basis, whiten
from headwise.types import Layer

Ranks = Int[Tensor, "batch kv_head query"]
Grouped = Float[Tensor, "batch kv_head group query key"]
Values = Float64[Tensor, "batch kv_head key d_head"]


def project_rowwise(layer: Layer, alpha: Grouped, values: Values) -> tuple[Grouped, Ranks]:
    """a⊥ and the rank of every row; rows that see no more keys than the rank are as they were."""
    known = _prefixes(layer, values)
    found = _settle(layer, values, known)
    first, stop = found.swept.start, found.swept.stop
    result = torch.zeros_like(alpha)
    result[:, :, :, :first], result[:, :, :, stop:] = alpha[:, :, :, :first], alpha[:, :, :, stop:]
    sweep(alpha, known, layer.first_row, rows=found.swept, into=result)
    for text, head in found.doubtful.any(-1).nonzero().tolist():
        one, rest = values[text, head], found.doubtful[text, head]
        copies, covered = _copies(layer, one, rest, stop)
        if copies is not None:
            weights, visible = alpha[text, head][:, covered], layer.visible[text, covered]
            result[text, head, :, covered] = average_copies(weights, copies, visible)
            found.ranks[text, head, covered] = copies.rank[layer.first_row + covered]
        rows = (rest & ~_mask(covered, rest)).nonzero()[:, 0]
        if len(rows):
            way = _project_by_svd if layer.value.dtype == torch.float64 else _project_rows
            projected, ranks = way(alpha[text, head][:, rows], one, layer.visible[text, rows])
            result[text, head, :, rows], found.ranks[text, head, rows] = projected, ranks
    return result, found.ranks


def rowwise_ranks(layer: Layer, values: Values) -> Ranks:
    """The rank of the values that each row sees."""
    found = _settle(layer, values, factor_prefixes(values, layer.key_mask))
    for text, head in found.doubtful.any(-1).nonzero().tolist():
        one, rest = values[text, head], found.doubtful[text, head]
        copies, covered = _copies(layer, one, rest, found.swept.stop)
        if copies is not None:
            found.ranks[text, head, covered] = copies.rank[layer.first_row + covered]
        rows = (rest & ~_mask(covered, rest)).nonzero()[:, 0]
        if layer.value.dtype == torch.float64:
            found.ranks[text, head, rows] = _svd_ranks(one, layer.visible[text, rows])
            continue
        for some, grams, counts in row_grams(one[None, None], layer.visible[text, rows][None]):
            found.ranks[text, head, rows[some]] = whiten(grams, counts).rank[0, 0]
    return found.ranks


class Settled(NamedTuple):
    """What is known of the rows of a block before any head is looked at by itself."""

    ranks: Ranks  # right wherever not doubtful
    swept: slice  # causal rows after the first d_head keys; rows from its stop on see something else than a prefix
    doubtful: Bool[Tensor, "batch kv_head query"]


def _settle(layer: Layer, values: Values, known: Prefixes) -> Settled:
    """Rows of few independent values, and causal rows whose values are certified to have full rank."""
    size, counts = values.shape[3], layer.visible.sum(-1)[:, None]
    few = independent_rows(values, layer.visible)
    stop = _causal_rows(layer)
    first = min(max(size - layer.first_row, 0), stop)
    full = torch.zeros_like(few)
    full[:, :, first:stop] = known.certain[:, :, layer.first_row + first : layer.first_row + stop]
    doubtful = ~(few | full) & layer.query_mask[:, None]
    return Settled(counts.clamp(max=size).expand_as(few).clone(), slice(first, stop), doubtful)


def _causal_rows(layer: Layer) -> int:
    """How many rows of the block, from its first on, see exactly the keys up to their own."""
    keys = torch.arange(layer.visible.shape[2], device=layer.visible.device)
    rows = layer.first_row + torch.arange(layer.visible.shape[1], device=layer.visible.device)
    causal = (keys <= rows[:, None]) & layer.key_mask[:, None]
    plain = (layer.visible == causal).all(-1).all(0)
    return int(plain.int().cumprod(0).sum())


def _prefixes(layer: Layer, values: Values) -> Prefixes:
    """What the causal rows of a text share, whichever block of them asks first."""
    name = f"{__name__}.prefixes"
    if name not in layer.text_memo:
        layer.text_memo[name] = factor_prefixes(values, layer.key_mask)
    return layer.text_memo[name]


def _copies(
    layer: Layer, values: Float64[Tensor, "key d_head"], rows: Bool[Tensor, " query"], stop: int
) -> tuple[Copies | None, Int[Tensor, " covered"]]:
    """The distinct values of one head where rows of it are copies of these, and which of `rows` they are."""
    causal = rows[:stop].nonzero()[:, 0]
    if len(causal) == 0:
        return None, causal
    last, eps = layer.first_row + int(causal[-1]) + 1, precision(layer.value.dtype)
    if not may_repeat(values[:last], eps):
        return None, causal[:0]
    copies = find_copies(values[:last], eps)
    inside = causal[layer.first_row + causal < len(copies.certain)]
    covered = inside[copies.certain[layer.first_row + inside]]
    return (copies if len(covered) else None), covered


def _mask(rows: Int[Tensor, " some"], like: Bool[Tensor, " query"]) -> Bool[Tensor, " query"]:
    return torch.zeros_like(like).index_fill_(0, rows, True)


def _project_rows(
    alpha: Float[Tensor, "group row key"], values: Float64[Tensor, "key d_head"], visible: Bool[Tensor, "row key"]
) -> tuple[Float[Tensor, "group row key"], Int[Tensor, " row"]]:
    """Rows of one head that nothing cheaper settles: each has its own Gram matrix and whitener."""
    result, ranks = torch.empty_like(alpha), []
    for rows, grams, counts in row_grams(values[None, None], visible[None]):
        whitener = whiten(grams[0, 0], counts[0, 0])
        out = (alpha[:, rows].double() @ values).transpose(0, 1)  # row group d_head
        solved = (out @ whitener.matrix @ whitener.matrix.mT).transpose(0, 1)
        projected = (solved @ values.mT).to(alpha.dtype) * visible[rows]
        whole = (whitener.rank == counts[0, 0])[:, None]
        result[:, rows] = torch.where(whole, alpha[:, rows], projected)
        ranks.append(whitener.rank)
    return result, torch.cat(ranks)


def _project_by_svd(
    alpha: Float64[Tensor, "group row key"], values: Float64[Tensor, "key d_head"], visible: Bool[Tensor, "row key"]
) -> tuple[Float64[Tensor, "group row key"], Int[Tensor, " row"]]:
    """The same for values whose own precision is float64."""
    result, ranks = alpha.clone(), visible.sum(-1)
    for row, seen in enumerate(visible):
        basis, rank = svd_basis(values[seen], seen.sum())
        if int(rank) < int(ranks[row]):
            result[:, row, seen], ranks[row] = alpha[:, row, seen] @ basis @ basis.mT, rank
    return result, ranks


def _svd_ranks(values: Float64[Tensor, "key d_head"], visible: Bool[Tensor, "row key"]) -> Int[Tensor, " row"]:
    ranks = [svd_basis(values[seen], seen.sum())[1] for seen in visible]
    return torch.stack(ranks) if ranks else visible.sum(-1)

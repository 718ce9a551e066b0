"""Sums over keys, and diagonals, of a map that is not formed.

Studies ask a map of n × n numbers for a few a row: what goes to the separators, to the previous token. For these

    raw        Σ_k α_qk w_k                                        one product with the n × c weights
    norm       Σ_k α_qk ‖f(x_k)‖ w_k                               the same with other weights
    effective  (a Q) (Qᵀ w)                                        the projection is not multiplied out
    null       raw − effective

cost n · d_v a row instead of n²; any other quantity is formed and then summed, and so is norm where a gate makes what a
key sends depend on the query. `tests` compare the two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.measures import ATTENTION
from headwise.measures.norms import sent_norm
from headwise.measures.nullspace import factors
from headwise.measures.rows import at_offset, entropy
from headwise.types import Layer, once

Weights = Float[Tensor, "batch key column"]
Sums = Float[Tensor, "batch head query column"]
Diagonal = Float[Tensor, "batch head query"]


def key_sums(layer: Layer, quantity: str, weights: Weights) -> Sums:
    """Σ_k map[q, k] · weights[k, c] for every row and column of weights."""
    way = KEY_SUMS.get(quantity)
    return way(layer, weights) if way is not None else ATTENTION[quantity](layer) @ weights[:, None]


def diagonal(layer: Layer, quantity: str, offset: int) -> Diagonal:
    """map[q, q + offset] for every row; NaN where there is no such key."""
    way = DIAGONALS.get(quantity)
    if way is not None:
        return way(layer, offset)
    return at_offset(ATTENTION[quantity](layer), offset, first_row=layer.first_row)


def squared_norms(layer: Layer) -> tuple[Diagonal, Diagonal]:
    """Per row ‖a‖² and ‖a⊥‖²; their difference is the null-space part, as the two parts are orthogonal."""
    parts = factors(layer)
    whole = _squared(layer.alpha)
    if parts is not None:
        return whole, _squared(parts.coefficients).flatten(1, 2)
    reached = ATTENTION["effective"](layer)
    return whole, whole if reached is layer.alpha else _squared(reached)


def _squared(rows: Float[Tensor, "*rows number"]) -> Float[Tensor, "*rows"]:
    """‖row‖², in one reading: the squares are not written down, which takes seven times as long."""
    return torch.linalg.vector_norm(rows, dim=-1).square()


def _raw_sums(layer: Layer, weights: Weights) -> Sums:
    return layer.alpha @ weights[:, None]


def _norm_sums(layer: Layer, weights: Weights) -> Sums:
    if layer.gate is not None:
        return ATTENTION["norm"](layer) @ weights[:, None]
    return layer.alpha @ (sent_norm(layer)[..., None] * weights[:, None])


def _effective_sums(layer: Layer, weights: Weights) -> Sums:
    parts = factors(layer)
    if parts is None:
        return ATTENTION["effective"](layer) @ weights[:, None]
    return (parts.coefficients @ (parts.basis.mT @ weights[:, None])[:, :, None]).flatten(1, 2)


def _null_sums(layer: Layer, weights: Weights) -> Sums:
    return _raw_sums(layer, weights) - _effective_sums(layer, weights)


def _raw_diagonal(layer: Layer, offset: int) -> Diagonal:
    return at_offset(layer.alpha, offset, first_row=layer.first_row)


def _norm_diagonal(layer: Layer, offset: int) -> Diagonal:
    if layer.gate is not None:
        return at_offset(ATTENTION["norm"](layer), offset, first_row=layer.first_row)
    return _raw_diagonal(layer, offset) * _shifted(sent_norm(layer), layer, offset)


def _effective_diagonal(layer: Layer, offset: int) -> Diagonal:
    parts = factors(layer)
    if parts is None:
        return at_offset(ATTENTION["effective"](layer), offset, first_row=layer.first_row)
    basis = _shifted(parts.basis, layer, offset)[:, :, None]
    return (parts.coefficients * basis).sum(-1).flatten(1, 2)


def _shifted(
    keys: Float[Tensor, "batch head key *more"], layer: Layer, offset: int
) -> Float[Tensor, "batch head query *more"]:
    """What belongs to key q + offset at row q, NaN where there is none."""
    start, rows = layer.first_row + offset, layer.alpha.shape[2]
    kept = keys[:, :, max(0, start) : max(0, start + rows)]
    before = min(rows, max(0, -start))
    padding = (0, 0) * (keys.ndim - 3) + (before, rows - before - kept.shape[2])
    return torch.nn.functional.pad(kept, padding, value=torch.nan)


KEY_SUMS: Mapping[str, Callable[[Layer, Weights], Sums]] = {
    "raw": _raw_sums,
    "norm": _norm_sums,
    "effective": _effective_sums,
    "null": _null_sums,
}
DIAGONALS: Mapping[str, Callable[[Layer, int], Diagonal]] = {
    "raw": _raw_diagonal,
    "norm": _norm_diagonal,
    "effective": _effective_diagonal,
}


@once
def row_entropy(layer: Layer) -> Diagonal:
    """The entropy of every row, in nats, shared by the studies of a run."""
    return entropy(layer.alpha)

r"""Which part of the attention reaches the output: effective attention and the null space (Brunner et al. 2020, §3).

A head's output for a query with weights a (over the n keys it sees) is a T, T = V W_O. Any ã with ã T = 0 may be added
to a and nothing changes: the weights have a part in the left null space LN(T), which does nothing, and a part
orthogonal to it, the effective attention

    a⊥ = a − Proj_LN(T) a = (a Q) Qᵀ,   Q an orthonormal basis of the columns of T.

W_O,h has full row rank (checked, see `Circuit.reader`), so LN(T) = LN(V), and Q comes from the n × d_v values: with
the Gram matrix G = VᵀV and any B for which Bᵀ G B = 1, Q = V B. G is small (d_v × d_v) and taken in float64.
Under a causal or a window mask every query sees other keys, and row i has its own G_i.

subtle: a⊥ is signed and its rows need not sum to 1. Never renormalise it.

Which singular values count is said in whitening.py, what is done where every row sees other keys in rowwise.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from headwise.measures.independence import independent, independent_rows
from headwise.measures.rowwise import Ranks, project_rowwise, rowwise_ranks
from headwise.measures.runs import row_grams
from headwise.measures.whitening import Whitener, svd_basis, whiten
from headwise.quantities import ATTENTION, WEIGHT
from headwise.types import Layer, once, once_per_text


@ATTENTION.add(
    "effective",
    "The part of the weights that reaches the head's output; what the values cannot tell apart is removed.",
    label="Effective attention",
    rows="Signed; rows need not add up to 1 and are not rescaled.",
    unit=WEIGHT,
    signed=True,
    quick=True,
    cost="a factorisation of the values a head, n·d_v² and n²·d_v",
    paper="https://arxiv.org/abs/1908.04211",
    order=20,
)
def effective(layer: Layer) -> Float[Tensor, "batch head query key"]:
    """a⊥, the least-norm weights that give the head's own output."""
    return _decomposed(layer)[0]


@ATTENTION.add(
    "null",
    "Raw minus effective: the part of the weights that cancels and leaves the head's output unchanged.",
    label="Null-space part",
    rows="Signed; multiplied with the head's values every row gives zero.",
    unit=WEIGHT,
    signed=True,
    quick=True,
    cost="as effective",
    paper="https://arxiv.org/abs/1908.04211",
    order=30,
)
def null(layer: Layer) -> Float[Tensor, "batch head query key"]:
    """a∥, the projection of the weights onto LN(T)."""
    return layer.alpha - effective(layer)


def rank(layer: Layer) -> Int[Tensor, "batch head query"]:
    """rank(T) over the keys that each query sees."""
    return _per_head(layer, _decomposed(layer)[1])


@once
def simplex_rank(layer: Layer) -> Int[Tensor, "batch head query"]:
    """rank([T, 1]): with it, distributions with the same output have n − rank([T, 1]) free directions."""
    values = seen_values(layer)
    length = values.norm(dim=(-2, -1), keepdim=True) / layer.key_mask.sum(-1).sqrt()[:, None, None, None]
    ones = layer.key_mask[:, None, :, None] * length.clamp(min=torch.finfo(values.dtype).tiny)
    augmented = torch.cat([values, ones.to(values)], dim=-1)
    return _per_head(layer, _ranks(layer, augmented.double()))


def edge(layer: Layer, query: int) -> tuple[Float64[Tensor, " head"], Float64[Tensor, " head"]]:
    """The smallest singular value that counts and the largest that does not (0: none), over the largest of all, of
    the values that a query of the first text sees: how sharp the rank is."""
    seen = exact_values(layer)[0][:, layer.visible[0, query]]
    singular = torch.linalg.svdvals(seen).repeat_interleave(layer.alpha.shape[1] // len(seen), dim=0)
    padded = torch.nn.functional.pad(singular, (0, 1)) / singular[:, :1].clamp(min=torch.finfo(singular.dtype).tiny)
    ranks = rank(layer)[0, :, query, None].clamp(max=singular.shape[1])
    return padded.gather(1, (ranks - 1).clamp(min=0))[:, 0], padded.gather(1, ranks)[:, 0]


def keys_seen(layer: Layer) -> Int[Tensor, "batch query"]:
    """How many keys each query sees."""
    return layer.visible.sum(-1)


@once_per_text
def seen_values(layer: Layer) -> Float[Tensor, "batch kv_head key d_head"]:
    """The value vectors as W_O reads them; grouped heads stay grouped unless their W_O differ in what they read."""
    reader = layer.circuit.reader
    return layer.value if reader is None else torch.einsum("bhkd,hdf->bhkf", layer.head_value, reader.to(layer.value))


@once_per_text
def exact_values(layer: Layer) -> Float64[Tensor, "batch kv_head key d_head"]:
    return seen_values(layer).to(torch.float64, memory_format=torch.contiguous_format)


class Factors(NamedTuple):
    """Effective attention as a product that is never formed: a⊥ = (a Q) Qᵀ."""

    coefficients: Float[Tensor, "batch kv_head group query d_head"]  # a Q
    basis: Float[Tensor, "batch kv_head key d_head"]  # Q; columns beyond the rank are zero
    rank: Int[Tensor, "batch kv_head"]


@once
def factors(layer: Layer) -> Factors | None:
    """The factors where all queries of a text see the same keys and some null space is there; None elsewhere."""
    found = _shared_basis(layer)
    if found is None or _is_whole(layer, found.rank):
        return None
    basis = found.matrix.to(layer.alpha.dtype)
    return Factors(_grouped(layer) @ basis[:, :, None], basis, found.rank)


@once
def _shared_basis(layer: Layer) -> Whitener | None:
    """Q and the rank of each text's values where its queries all see the same keys."""
    if not _is_shared(layer.visible):
        return None
    seen = layer.visible[:, 0]
    exact = exact_values(layer)
    if not bool(seen.all()):
        exact = exact * seen[:, None, :, None]
    count = seen.sum(-1)[:, None].expand(exact.shape[:2])
    if exact.shape[2] <= exact.shape[3] and bool(independent(exact, seen[:, None]).all()):
        return Whitener(exact, count)  # every direction counts: no projection will be made
    if layer.value.dtype == torch.float64:
        return Whitener(*svd_basis(exact, count))
    whitener = whiten(exact.mT @ exact, count)
    return Whitener(exact @ whitener.matrix, whitener.rank)


def _is_shared(visible: Bool[Tensor, "batch query key"]) -> bool:
    return bool((visible == visible[:, :1]).all())


def _is_whole(layer: Layer, rank: Int[Tensor, "batch kv_head"]) -> bool:
    """No more keys than the rank, in every text: the weights have no null-space part."""
    return bool((rank == layer.visible[:, 0].sum(-1)[:, None]).all())


def _grouped(layer: Layer) -> Float[Tensor, "batch kv_head group query key"]:
    return layer.alpha.unflatten(1, (seen_values(layer).shape[1], -1))


@once
def _decomposed(layer: Layer) -> tuple[Float[Tensor, "batch head query key"], Int[Tensor, "batch kv_head query"]]:
    shared = _shared_basis(layer)
    if shared is None:
        projected, ranks = project_rowwise(layer, _grouped(layer), exact_values(layer))
        return projected.flatten(1, 2), ranks
    ranks = shared.rank[:, :, None].expand(-1, -1, layer.alpha.shape[2])
    parts = factors(layer)
    if parts is None:
        return layer.alpha, ranks
    projected = parts.coefficients @ parts.basis[:, :, None].mT
    whole = parts.rank == layer.visible[:, 0].sum(-1)[:, None]
    if bool(whole.any()):  # short texts beside longer ones: their weights have no null-space part
        projected = torch.where(whole[:, :, None, None, None], _grouped(layer), projected)
    return projected.flatten(1, 2), ranks


def _per_head(layer: Layer, ranks: Int[Tensor, "batch kv_head query"]) -> Int[Tensor, "batch head query"]:
    return ranks.repeat_interleave(layer.alpha.shape[1] // ranks.shape[1], dim=1)


def _ranks(layer: Layer, values: Float64[Tensor, "batch kv_head key d"]) -> Ranks:
    """The rank of the values that each query sees."""
    if not _is_shared(layer.visible):
        return rowwise_ranks(layer, values)
    seen = layer.visible[:, :1]
    if layer.value.dtype == torch.float64:
        ranks = svd_basis(values * seen[:, :, :, None], seen.sum(-1))[1][..., None]
        return ranks.expand(-1, -1, layer.visible.shape[1])
    _, grams, counts = next(row_grams(values, seen))
    return whiten(grams, counts, independent=independent_rows(values, seen)).rank.expand(-1, -1, layer.visible.shape[1])

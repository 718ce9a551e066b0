r"""Which part of the attention reaches the output: effective attention and the null space (Brunner et al. 2020, §3).

A head's output for a query with weights a (over the n keys it sees) is a T, T = V W_O. Any ã with ã T = 0 may be added
to a and nothing changes: the weights have a part in the left null space LN(T), which does nothing, and a part
orthogonal to it, the effective attention

    a⊥ = a − Proj_LN(T) a = (a Q) Qᵀ,   Q an orthonormal basis of the columns of T.

W_O,h has full row rank (checked, see `Circuit.reader`), so LN(T) = LN(V), and Q comes from the n × d_v values: with
the Gram matrix G = VᵀV and any B for which Bᵀ G B = 1, Q = V B. G is small (d_v × d_v) and taken in float64.
Under a causal or a window mask every query sees other keys: row i has its own G_i, a running sum over its keys.

subtle: a⊥ is signed and its rows need not sum to 1. Never renormalise it.

Rank: float32 noise makes V look full-rank, which would silently turn effective attention back into the raw one. A
singular value counts where S > S_max · max(n, d_v) · eps(float32). A Cholesky factor certifies the usual case (all
count) at a fraction of the cost of an eigen-decomposition, which decides the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.errors import ModelError
from headwise.quantities import ATTENTION, WEIGHT
from headwise.types import Layer, once, once_per_text

EPS = torch.finfo(torch.float32).eps
CHUNK_BYTES = 2**26  # of float64 Gram matrices held at once under a row-wise mask


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
    return _per_head(layer, _ranks(augmented, layer.visible))


def keys_seen(layer: Layer) -> Int[Tensor, "batch query"]:
    """How many keys each query sees."""
    return layer.visible.sum(-1)


@once_per_text
def seen_values(layer: Layer) -> Float[Tensor, "batch kv_head key d_head"]:
    """The value vectors as W_O reads them; grouped heads stay grouped unless their W_O differ in what they read."""
    reader = layer.circuit.reader
    return layer.value if reader is None else torch.einsum("bhkd,hdf->bhkf", layer.head_value, reader.to(layer.value))


class Whitener(NamedTuple):
    """B with Bᵀ G B = 1 on the range of G (or the basis Q = V B itself), and the rank of G."""

    matrix: Float[Tensor, "*many rows d_head"]
    rank: Int[Tensor, "*many"]


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
    exact = seen_values(layer).to(torch.float64, memory_format=torch.contiguous_format)
    if not bool(seen.all()):
        exact = exact * seen[:, None, :, None]
    count = seen.sum(-1)[:, None].expand(exact.shape[:2])
    if exact.shape[2] <= exact.shape[3] and bool(_independent(exact, seen[:, None]).all()):
        return Whitener(exact, count)  # every direction counts: no projection will be made
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
        projected, ranks = _project_rowwise(_grouped(layer), seen_values(layer), layer.visible)
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


def _project_rowwise(
    alpha: Float[Tensor, "batch kv_head group query key"],
    values: Float[Tensor, "batch kv_head key d_head"],
    visible: Bool[Tensor, "batch query key"],
) -> tuple[Float[Tensor, "batch kv_head group query key"], Int[Tensor, "batch kv_head query"]]:
    """Every query sees its own keys: row i is o_i G_i⁺ V_iᵀ, and unchanged where it sees no more keys than the rank."""
    reach = int(visible.any(1).any(0).nonzero().max()) + 1  # no query of this block sees a key beyond
    exact, visible = values[:, :, :reach].double(), visible[:, :, :reach]
    independent = _independent_rows(exact, visible)
    start = _first_doubtful(independent)
    result, ranks = alpha.clone(), visible.sum(-1)[:, None].repeat(1, values.shape[1], 1)
    for rows, grams, counts in _row_grams(exact, visible[:, start:]):
        rows = slice(rows.start + start, rows.stop + start)
        weights = alpha[:, :, :, rows, :reach]
        whitener = whiten(grams, counts, independent=independent[:, :, rows])
        out = (weights.double() @ exact[:, :, None]).transpose(2, 3)  # batch kv_head query group d_head
        solved = (out @ whitener.matrix @ whitener.matrix.mT).transpose(2, 3)
        projected = (solved @ exact[:, :, None].mT).to(alpha.dtype) * visible[:, None, None, rows]
        whole = (whitener.rank == counts)[:, :, None, :, None]
        result[:, :, :, rows, :reach] = torch.where(whole, weights, projected)
        ranks[:, :, rows] = whitener.rank
    return result, ranks


def _first_doubtful(independent: Bool[Tensor, "batch kv_head query"]) -> int:
    """The first row that is not certified in every text and head; the rows before it stay as they are."""
    doubtful = ~independent.all(0).all(0)
    return int(doubtful.int().argmax()) if bool(doubtful.any()) else len(doubtful)


def _ranks(
    values: Float[Tensor, "batch kv_head key d"], visible: Bool[Tensor, "batch query key"]
) -> Int[Tensor, "batch kv_head query"]:
    """The rank of the values that each query sees."""
    exact, queries = values.double(), visible.shape[1]
    distinct = visible[:, :1] if _is_shared(visible) else visible
    ranks = [
        whiten(grams, counts, independent=_independent_rows(exact, distinct[:, rows])).rank
        for rows, grams, counts in _row_grams(exact, distinct)
    ]
    whole = torch.cat(ranks, dim=2)
    return whole.expand(-1, -1, queries) if distinct.shape[1] < queries else whole


def _row_grams(
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


def whiten(
    gram: Float[Tensor, "*many d_head d_head"],
    count: Int[Tensor, "*many"],
    independent: Bool[Tensor, "*many"] | None = None,
) -> Whitener:
    """The whitener of each Gram matrix of `count` vectors; those of `independent` vectors are not looked at."""
    size = gram.shape[-1]
    tolerance = count.clamp(min=size).to(gram) * EPS
    inverse, certain = _certify(gram, tolerance)
    matrix = inverse.mT.clone()
    found = torch.full(gram.shape[:-2], size, device=gram.device)
    if independent is not None:
        found = torch.where(independent, count, found)
        certain = certain | independent
    doubtful = ~certain
    if bool(doubtful.any()):
        matrix[doubtful], found[doubtful] = _whiten_by_eigenvalues(gram[doubtful], tolerance[doubtful])
    return Whitener(matrix, found)


def _certify(
    gram: Float[Tensor, "*many size size"], tolerance: Float[Tensor, "*#many"]
) -> tuple[Float[Tensor, "*many size size"], Bool[Tensor, "*many"]]:
    """The inverse Cholesky factor, and whether it proves that every singular value is above the tolerance."""
    factor, info = torch.linalg.cholesky_ex(gram)
    unit = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device).expand_as(gram)
    if bool(info.any()):
        factor = torch.where((info == 0)[..., None, None], factor, unit)
    inverse = torch.linalg.solve_triangular(factor, unit, upper=False)
    # λ_min ≥ 1 / ‖L⁻¹‖_F² and λ_max ≤ tr G, so this is enough:
    largest = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return inverse, (info == 0) & (inverse.square().sum((-2, -1)) * largest * tolerance**2 < 1)


def _whiten_by_eigenvalues(
    gram: Float[Tensor, "many d_head d_head"], tolerance: Float[Tensor, " many"]
) -> tuple[Float[Tensor, "many d_head d_head"], Int[Tensor, " many"]]:
    values, vectors = torch.linalg.eigh(gram)
    counts = (values > values[:, -1:].clamp(min=0) * tolerance[:, None] ** 2) & (values > 0)
    scale = torch.where(counts, values.clamp(min=torch.finfo(values.dtype).tiny).rsqrt(), 0.0)
    return vectors * scale[:, None, :], counts.sum(-1)


def _independent(vectors: Float[Tensor, "*many key d_head"], seen: Bool[Tensor, "*#many key"]) -> Bool[Tensor, "*many"]:
    """Certify that the seen vectors (no more than their dimension) are linearly independent."""
    gram = vectors @ vectors.mT
    size = gram.diagonal(dim1=-2, dim2=-1)
    padding = torch.where(seen, 0.0, size.amax(-1, keepdim=True))
    tolerance = torch.tensor(EPS * vectors.shape[-1], dtype=gram.dtype, device=gram.device)
    return _certify(gram + torch.diag_embed(padding), tolerance)[1]


def _independent_rows(
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
    return _independent(chosen * shown[..., None], shown) & (seen.sum(-1) <= values.shape[3])[:, None]

"""Every registered quantity the slow way: float64, a loop over texts, heads and queries, every vector formed.

Written from the papers (Brunner et al. 2020, §3; Kobayashi et al. 2020 eq. 3, 4, and 2021), not from headwise. A twin
takes a Layer and gives an array of the same shape as the measure; rows of padding queries are left NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from headwise.types import Layer, Norm

EPS32 = 2.0**-23


def numbers(tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().astype(np.float64)


def rows_of(layer: Layer) -> Iterator[tuple[int, int, np.ndarray]]:
    """Every real query: its text, its row, and the keys that it sees."""
    visible, counted = layer.visible.numpy(), layer.query_mask.numpy()
    for text in range(len(visible)):
        for row in np.flatnonzero(counted[text]):
            yield text, int(row), np.flatnonzero(visible[text, row])


def head_values(layer: Layer, text: int, head: int) -> np.ndarray:
    """V of one query head; head h of H reads key/value head h // (H / K)."""
    heads, kv_heads = layer.alpha.shape[1], layer.value.shape[1]
    return numbers(layer.value)[text, head * kv_heads // heads]


def sent(layer: Layer, text: int) -> list[np.ndarray]:
    """T = V W_O of every head, whose row j is f_h(x_j)."""
    w_o = numbers(layer.circuit.w_o)
    return [head_values(layer, text, head) @ w_o[head] for head in range(len(w_o))]


def rank_by_svd(matrix: np.ndarray, d_head: int, eps: float = EPS32) -> int:
    return count_above(np.linalg.svd(matrix, compute_uv=False), max(len(matrix), d_head), eps)


def count_above(singular: np.ndarray, size: int, eps: float = EPS32) -> int:
    """How many singular values count: S > S_max · size · eps."""
    return int((singular > singular.max(initial=0.0) * size * eps).sum())


def precision(layer: Layer) -> float:
    """eps of the layer's own numbers."""
    return float(np.finfo(np.float64).eps) if "64" in str(layer.value.dtype) else EPS32


def raw(layer: Layer) -> np.ndarray:
    alpha, result = numbers(layer.alpha), np.full(layer.alpha.shape, np.nan)
    for text, row, _ in rows_of(layer):
        result[text, :, row] = alpha[text, :, row]
    return result


def null(layer: Layer) -> np.ndarray:
    """The projection onto LN(T): the left singular vectors of T beyond its rank, per head and row over its keys."""
    alpha, result = numbers(layer.alpha), np.full(layer.alpha.shape, np.nan)
    vectors = [sent(layer, text) for text in range(len(alpha))]
    for head in range(alpha.shape[1]):
        for text, row, seen in rows_of(layer):
            t = vectors[text][head][seen]
            left, singular, _ = np.linalg.svd(t, full_matrices=t.shape[0] > t.shape[1])  # `left` is square
            basis = left[:, count_above(singular, max(len(t), layer.value.shape[-1]), precision(layer)) :]
            result[text, head, row] = 0.0
            result[text, head, row, seen] = (alpha[text, head, row, seen] @ basis) @ basis.T
    return result


def effective(layer: Layer) -> np.ndarray:
    return raw(layer) - null(layer)


def rank(layer: Layer) -> np.ndarray:
    """rank(T) of every row, over the keys that it sees; −1 at padding."""
    return _ranks(layer, ones=False)


def simplex_rank(layer: Layer) -> np.ndarray:
    """rank([T, 1]), T scaled to the size of the ones; −1 at padding."""
    return _ranks(layer, ones=True)


def _ranks(layer: Layer, *, ones: bool) -> np.ndarray:
    result = np.full(layer.alpha.shape[:3], -1)
    vectors = [sent(layer, text) for text in range(len(layer.alpha))]
    for head in range(layer.alpha.shape[1]):
        for text, row, seen in rows_of(layer):
            t = vectors[text][head][seen]
            t = t / (np.abs(t).max(initial=0.0) or 1.0)
            matrix = np.column_stack([t, np.ones(len(t))]) if ones else t
            result[text, head, row] = rank_by_svd(matrix, layer.value.shape[-1] + ones, precision(layer))
    return result


def norm(layer: Layer) -> np.ndarray:
    alpha, result = numbers(layer.alpha), np.full(layer.alpha.shape, np.nan)
    vectors = [sent(layer, text) for text in range(len(alpha))]
    for head in range(alpha.shape[1]):
        for text, row, _ in rows_of(layer):
            moved = alpha[text, head, row][:, None] * vectors[text][head]
            result[text, head, row] = np.linalg.norm(moved, axis=-1)
    return result


def raw_mean(layer: Layer) -> np.ndarray:
    return raw(layer).mean(axis=1)


def moved_vectors(layer: Layer) -> np.ndarray:
    """Σ_h α_h,ij f_h(x_j) for every pair, formed in full: [batch query key d_model]."""
    alpha = numbers(layer.alpha)
    vectors = np.stack([sent(layer, text) for text in range(len(alpha))])
    return sum(alpha[:, head, :, :, None] * vectors[:, head, None] for head in range(alpha.shape[1]))


def norm_sum(layer: Layer) -> np.ndarray:
    return _norms(layer, moved_vectors(layer))


def norm_residual(layer: Layer) -> np.ndarray:
    return _norms(layer, with_residual(layer))


def norm_residual_ln(layer: Layer) -> np.ndarray:
    """Every vector through the norm that reads the sum, divided by the σ of the true sum of all of them."""
    vectors, inner, outer = with_residual(layer), layer.circuit.inner, layer.circuit.outer
    for text, row, _ in rows_of(layer):
        out, residual = numbers(layer.out)[text, row], numbers(layer.residual)[text, row]
        branch = out if inner is None else through(inner, out, sigma(inner, out)) + numbers(inner.bias)
        total = residual + layer.circuit.scale * branch
        vectors[text, row] = through(outer, vectors[text, row], sigma(outer, total))
    return _norms(layer, vectors)


def globenc(layer: Layer) -> np.ndarray:
    """Every vector through the norms on its way, each divided by one number a row, which shares do not see."""
    vectors, circuit = with_residual(layer), layer.circuit
    if circuit.post:
        vectors = through(circuit.outer, vectors, 1.0)
    lengths = _norms(layer, through(circuit.last, vectors, 1.0))
    return lengths / lengths.sum(-1, keepdims=True)


def alti(layer: Layer) -> np.ndarray:
    """max(0, ‖y‖₁ − ‖y − u‖₁) pair by pair."""
    vectors, inner, outer = with_residual(layer), layer.circuit.inner, layer.circuit.outer
    result = np.full(vectors.shape[:-1], np.nan)
    for text, row, _ in rows_of(layer):
        out, y = numbers(layer.out)[text, row], numbers(layer.residual)[text, row]
        branch = out if inner is None else through(inner, out, sigma(inner, out)) + numbers(inner.bias)
        y, u = y + layer.circuit.scale * branch, vectors[text, row]
        if layer.circuit.post:
            by = sigma(outer, y)
            y, u = through(outer, y, by) + numbers(outer.bias), through(outer, u, by)
        near = [max(0.0, np.abs(y).sum() - np.abs(y - each).sum()) for each in u]
        result[text, row] = np.array(near) / (sum(near) or np.nan)
    return result


def with_residual(layer: Layer) -> np.ndarray:
    """What each key adds to the residual stream of each query; its own key also carries the residual itself."""
    vectors, inner = moved_vectors(layer), layer.circuit.inner
    for text, row, _ in rows_of(layer):
        if inner is not None:
            vectors[text, row] = through(inner, vectors[text, row], sigma(inner, numbers(layer.out)[text, row]))
        vectors[text, row] *= layer.circuit.scale
        vectors[text, row, row + layer.first_row] += numbers(layer.residual)[text, row]
    return vectors


def through(norm: Norm, x: np.ndarray, by: float) -> np.ndarray:
    """The part of a norm layer that is linear once its divisor is known; no bias."""
    centred = x - x.mean(axis=-1, keepdims=True) if norm.centred else x
    return centred * numbers(norm.gain) / by


def sigma(norm: Norm, x: np.ndarray) -> float:
    return float(np.sqrt((x.var() if norm.centred else (x**2).mean()) + norm.eps))


def _norms(layer: Layer, vectors: np.ndarray) -> np.ndarray:
    """Their lengths; NaN in the rows of padding."""
    return np.where(layer.query_mask.numpy()[..., None], np.linalg.norm(vectors, axis=-1), np.nan)


ATTENTION: Mapping[str, Callable[[Layer], np.ndarray]] = {
    "raw": raw,
    "effective": effective,
    "null": null,
    "norm": norm,
}
MIXING: Mapping[str, Callable[[Layer], np.ndarray]] = {
    "raw-mean": raw_mean,
    "norm-sum": norm_sum,
    "norm-residual": norm_residual,
    "norm-residual-ln": norm_residual_ln,
    "globenc": globenc,
    "alti": alti,
}

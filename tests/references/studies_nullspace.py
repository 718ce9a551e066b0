"""The `nullspace` study written out: dense projections, ranks by SVD, correlations by NumPy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

EPS = np.finfo(np.float32).eps


def naive_rank(matrix: np.ndarray) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > values[0] * max(matrix.shape) * EPS).sum())


def naive_rows(value: np.ndarray, w_o: np.ndarray, visible: np.ndarray) -> list[tuple[int, int, bool]]:
    """For every query of one head: keys seen, rank(T), whether n = rank([T, 1])."""
    found = []
    for seen in visible:
        t = value[seen] @ w_o
        n = int(seen.sum())
        size = np.linalg.norm(t) / np.sqrt(n)
        found.append((n, naive_rank(t), naive_rank(np.concatenate([t, np.full((n, 1), size)], axis=1)) == n))
    return found


def naive_projection(alpha: np.ndarray, value: np.ndarray, w_o: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """a T T⁺ of every row over the keys it sees."""
    result = np.zeros_like(alpha)
    for row, seen in enumerate(visible):
        t = value[seen] @ w_o
        result[row, seen] = alpha[row, seen] @ t @ np.linalg.pinv(t, rcond=max(t.shape) * EPS)
    return result


def naive_pearson(a: np.ndarray, b: np.ndarray, visible: np.ndarray) -> float:
    return float(np.corrcoef(a[visible], b[visible])[0, 1])


def naive_share(alpha: np.ndarray, effective: np.ndarray) -> float:
    return float(((alpha - effective) ** 2).sum() / (alpha**2).sum())


def naive_width(alpha: np.ndarray, value: np.ndarray, key: int) -> float:
    """The largest less the smallest b_key of all b ≥ 0 with b V = a V, Σ b = 1, V scaled to 1 and nothing left out."""
    fixed = np.column_stack([value / np.abs(value).max(), np.ones(len(value))]).T
    cost = np.eye(len(alpha))[key]
    low, high = (linprog(sign * cost, A_eq=fixed, b_eq=fixed @ alpha, bounds=(0, 1)) for sign in (1, -1))
    return float(high.x[key] - low.x[key])

"""A sparse linear model: the lasso by coordinate descent, each weight with a penalty of its own.

    min_w,b  ½/n Σ (y − b − X w)²  +  λ Σ_j c_j |w_j|

For an X of independent columns the weights are the least-squares ones, moved towards zero by λ c_j over the column's
variance.
"""

from __future__ import annotations

import numpy as np

ROUNDS = 500


def lasso(x: np.ndarray, y: np.ndarray, penalty: float, costs: np.ndarray | None = None) -> np.ndarray:
    """The weights w [column]; x [row column] and y [row] are centred here."""
    x, y = x - x.mean(0), y - y.mean()
    costs = np.ones(x.shape[1]) if costs is None else costs
    sizes = (x**2).mean(0)
    w, rest = np.zeros(x.shape[1]), y.copy()
    for _ in range(ROUNDS):
        before = w.copy()
        for j in np.flatnonzero(sizes):
            rho = (x[:, j] * rest).mean() + sizes[j] * w[j]
            new = np.sign(rho) * max(abs(rho) - penalty * costs[j], 0.0) / sizes[j]
            rest += x[:, j] * (w[j] - new)
            w[j] = new
        if np.abs(w - before).max() <= 1e-10 * max(1.0, np.abs(w).max()):
            break
    return w

"""The surrogate of citations by definition: products over sources in loops, means over all sets of sources."""

from __future__ import annotations

from itertools import product

import numpy as np


def kernel(a: np.ndarray, b: np.ndarray, r: np.ndarray) -> np.ndarray:
    found, total = np.empty((len(a), len(b))), np.prod([1 + x for x in r]) - 1
    for i, s in enumerate(a):
        for j, t in enumerate(b):
            value = 1.0
            for source in range(len(r)):
                value *= 1 + r[source] * s[source] * t[source]
            found[i, j] = (value - 1) / total
    return found


def cube(sources: int) -> np.ndarray:
    return np.array(list(product((-1.0, 1.0), repeat=sources)))


def differences(sources: int) -> np.ndarray:
    """[source set]: what makes of values on all sets the mean of with less without."""
    return cube(sources).T / 2 ** (sources - 1)


def posterior(
    signs: np.ndarray, y: np.ndarray, r: np.ndarray, *, noise: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """(mean on all sets, covariance there with a scale of one)."""
    every = cube(signs.shape[1])
    seen = kernel(signs, signs, r) + level + noise * np.eye(len(y))
    across = kernel(every, signs, r) + level
    mean = y.mean() + across @ np.linalg.solve(seen, y - y.mean())
    return mean, kernel(every, every, r) + level - across @ np.linalg.solve(seen, across.T)

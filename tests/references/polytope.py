"""The set {b ≥ 0, bV = aV, Σb = Σa} by the enumeration of its vertices, for a handful of keys."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def vertices(alpha: np.ndarray, values: np.ndarray) -> np.ndarray:
    """All basic feasible solutions: as many keys as there are constraints carry all the weight."""
    fixed = np.column_stack([values, np.ones(len(values))]).T
    target = fixed @ alpha
    rank = np.linalg.matrix_rank(fixed)
    found = []
    for keys in combinations(range(len(alpha)), rank):
        columns = fixed[:, keys]
        if np.linalg.matrix_rank(columns) < rank:
            continue
        weights = np.linalg.lstsq(columns, target, rcond=None)[0]
        if weights.min() > -1e-9 and np.abs(columns @ weights - target).max() < 1e-9:
            vertex = np.zeros(len(alpha))
            vertex[list(keys)] = weights
            found.append(vertex)
    return np.array(found)


def interval(alpha: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A linear function on a polytope is least and largest at a vertex."""
    corners = vertices(alpha, values)
    return corners.min(axis=0), corners.max(axis=0)

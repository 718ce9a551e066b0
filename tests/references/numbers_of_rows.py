"""Entropy, mass, offsets, agreement and word maps, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def entropy(row: Sequence[float]) -> float:
    return -sum(p * math.log(p) for p in row if p > 0)


def js_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m the mean of the two."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        mean = (a + b) / 2
        total += sum(x * math.log(x / mean) / 2 for x in (a, b) if x > 0)
    return total


def pearson(a: np.ndarray, b: np.ndarray, pairs: np.ndarray) -> float:
    x, y = a[pairs].astype(np.float64), b[pairs].astype(np.float64)
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / math.sqrt((x @ x) * (y @ y)))


def mass(row: Sequence[float], keys: Sequence[bool]) -> float:
    return sum(weight for weight, counts in zip(row, keys, strict=True) if counts)


def at_offset(map_: np.ndarray, query: int, offset: int) -> float:
    key = query + offset
    return float(map_[query, key]) if 0 <= key < map_.shape[1] else math.nan


def words(map_: np.ndarray, rows: Sequence[int], columns: Sequence[int], to: str, from_: str) -> np.ndarray:
    """A token map to a word map: `rows[t]` and `columns[t]` number the word of token t."""
    result = np.zeros((max(rows) + 1, max(columns) + 1))
    for word in range(len(result)):
        members = [query for query, owner in enumerate(rows) if owner == word]
        for other in range(result.shape[1]):
            keys = [key for key, owner in enumerate(columns) if owner == other]
            got = [sum(map_[q, k] for k in keys) / (len(keys) if to == "mean" else 1) for q in members]
            result[word, other] = {"mean": sum(got) / len(got), "sum": sum(got), "first": got[0]}[from_]
    return result

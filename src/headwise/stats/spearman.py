"""Spearman's rank correlation along the last axis, of as many samples at once as there are.

    ρ = Σ (R − R̄)(S − S̄) / √(Σ (R − R̄)² Σ (S − S̄)²),   R and S the ranks, ties sharing their mean rank

(A bootstrap asks for thousands: one by one, `scipy.stats.rankdata` spends more on its checks than on the ranks.)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

Sample = Float[np.ndarray, "*some each"]


def mean_ranks(values: Sample) -> Float64[np.ndarray, "*some each"]:
    """1 for the least; equal values share the mean of their ranks; all NaN where one is.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0, 2.0]))
    array([3.5, 1. , 3.5, 2. ])
    """
    order = values.argsort(-1)
    ordered = np.take_along_axis(values, order, -1)
    place = np.broadcast_to(np.arange(1.0, values.shape[-1] + 1), values.shape)
    new = np.ones(values.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    last = np.ones(values.shape, dtype=bool)
    last[..., :-1] = new[..., 1:]
    lowest = np.maximum.accumulate(np.where(new, place, 0.0), -1)
    highest = np.minimum.accumulate(np.where(last, place, np.inf)[..., ::-1], -1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (lowest + highest) / 2, -1)
    return np.where(np.isnan(values).any(-1, keepdims=True), np.nan, ranks)


def spearman(x: Sample, y: Sample) -> Float64[np.ndarray, "*some"]:
    """ρ of each sample; NaN where either side is constant, or has a NaN."""
    a, b = (mean_ranks(side) - (side.shape[-1] + 1) / 2 for side in (x, y))
    size = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.divide((a * b).sum(-1), size, out=np.full(np.shape(size), np.nan), where=size > 0)

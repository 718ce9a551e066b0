r"""Differences between heads with intervals, and which head of one model is which of the other.

x_id is number i (a head's entropy, say) in document d. Where both sides read the same documents, what is resampled is
d ↦ y_id − x_id; else the documents of each side on their own. With D_i the difference of means and D_i^r that of
resample r (documents drawn with replacement, the same draw for all i; Efron 1979),

    low, high = the 2.5 and 97.5 percent quantiles of D_i^r                       one number at a time
    clear     ⇔ t_i = D_i / s_i is too large for chance at 5 percent for all numbers together: the two-sided p of a
                t-test (paired, or Welch's), corrected by Holm (1979)

so where nothing differs, at most one in twenty comparisons has any clear number at all. The largest t of the resamples
(max-t) would use that heads go together, but was tried and left: a few numbers that vary in few documents set its limit
for all the others. With few documents intervals are too narrow; `FEWEST` is where we refuse.

Heads are matched by the assignment that costs least in total (Kuhn 1955): Jensen-Shannon distances between their rows
on the same tokens, or Euclidean distances between their profiles, each number divided by its spread over all heads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.optimize import linear_sum_assignment
from scipy.special import stdtr

from headwise.errors import InputError

FEWEST = 10  # documents
RESAMPLES = 2000
BLOCK = 200  # resamples at a time
ROUNDING = 1e-6  # shares and nats of float32 maps: what is smaller is no difference

Values = Float[ndarray, "document number"]  # NaN where a document has no such number


class Difference(NamedTuple):
    """Of every number: its mean on either side, b − a, the 95 percent interval, and whether it is clear of chance."""

    a: Float[ndarray, " number"]
    b: Float[ndarray, " number"]
    change: Float[ndarray, " number"]
    low: Float[ndarray, " number"]
    high: Float[ndarray, " number"]
    clear: Bool[ndarray, " number"]


def paired(a: Values, b: Values, *, resamples: int = RESAMPLES, seed: int = 0) -> Difference:
    """Row d of both sides is the same document."""
    both = b - a
    a, b = np.where(np.isnan(both), np.nan, a), np.where(np.isnan(both), np.nan, b)
    draws = resampled(both, resamples, np.random.default_rng(seed))
    return _with_intervals(mean(a), mean(b), draws, square_error(both), count(both) - 1)


def unpaired(
    a: Float[ndarray, "first number"], b: Float[ndarray, "second number"], *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """The two sides are different documents."""
    first, second = (resampled(side, resamples, np.random.default_rng([seed, n])) for n, side in enumerate((a, b)))
    e_a, e_b = square_error(a), square_error(b)
    # Welch and Satterthwaite: (e_a + e_b)² / (e_a² / (n_a − 1) + e_b² / (n_b − 1))
    freedom = _share((e_a + e_b) ** 2, _share(e_a**2, count(a) - 1) + _share(e_b**2, count(b) - 1))
    return _with_intervals(mean(a), mean(b), second - first, e_a + e_b, freedom)


def count(values: Values) -> Float[ndarray, " number"]:
    """The documents that have the number."""
    return (~np.isnan(values)).sum(0).astype(float)


def mean(values: Values) -> Float[ndarray, " number"]:
    """Over the documents that have the number; NaN where none has."""
    return _share(np.nan_to_num(values).sum(0), count(values))


def square_error(values: Values) -> Float[ndarray, " number"]:
    """The squared standard error of that mean: variance / (n − 1)."""
    return _share(mean((values - mean(values)) ** 2), count(values) - 1)


def check_enough(documents: int) -> None:
    if documents < FEWEST:
        raise InputError(
            f"Intervals need at least {FEWEST} documents, but there are {documents}; give a larger corpus."
        )


def resampled(values: Values, resamples: int, rng: np.random.Generator) -> Float[ndarray, "draw number"]:
    """How far the mean over documents drawn with replacement is from the mean over all of them."""
    documents = len(values)
    check_enough(documents)
    there, centred = (~np.isnan(values)).astype(float), np.nan_to_num(values - mean(values))
    blocks = []
    for start in range(0, resamples, BLOCK):
        draws = min(BLOCK, resamples - start)
        times = rng.multinomial(documents, np.full(documents, 1 / documents), size=draws).astype(float)
        blocks.append(_share(times @ centred, times @ there))
    return np.concatenate(blocks)


def _share(total: ndarray, whole: ndarray) -> ndarray:
    return np.where(whole > 0, total / np.maximum(whole, 1e-300), np.nan)


def _with_intervals(
    a: ndarray, b: ndarray, draws: Float[ndarray, "draw number"], square_error: ndarray, freedom: ndarray
) -> Difference:
    change = b - a
    low, high = np.full_like(change, np.nan), np.full_like(change, np.nan)
    known = np.isfinite(change) & np.isfinite(draws).all(0) & np.isfinite(square_error)
    low[known], high[known] = change[known] + np.quantile(draws[:, known], [0.025, 0.975], axis=0)
    error = np.sqrt(np.nan_to_num(square_error))
    # subtle: a number that moves by the same in every document has no spread but rounding's, and is certain
    moving = known & (error > ROUNDING)
    p = np.where(np.abs(change) > 10 * ROUNDING, 0.0, 1.0)
    p[moving] = 2 * stdtr(freedom[moving], -np.abs(change[moving]) / error[moving])
    clear = np.zeros(len(change), dtype=bool)
    clear[known] = holm(p[known])
    return Difference(a, b, change, low, high, clear)


def holm(p: Float[ndarray, " number"], level: float = 0.05) -> Bool[ndarray, " number"]:
    """Which hypotheses fall, at `level` for all together: the k-th smallest p (from 0) must be ≤ level / (m − k)."""
    order = np.argsort(p)
    falls = np.minimum.accumulate(p[order] <= level / (len(p) - np.arange(len(p))))
    found = np.zeros(len(p), dtype=bool)
    found[order] = falls
    return found


def matched(cost: Float[ndarray, "a b"]) -> Int[ndarray, " a"]:
    """Which b each a goes to, each b at most once, at the least total cost; −1 for an a that is left over."""
    rows, columns = linear_sum_assignment(cost)
    found = np.full(cost.shape[0], -1)
    found[rows] = columns
    return found


def kept(
    sums: Float[ndarray, "document a b"], tokens: Float[ndarray, " document"], *, resamples: int = 200, seed: int = 0
) -> Float[ndarray, " a"]:
    """The share of resamples of the documents in which each head is matched as it is with all of them."""
    whole, rng = matched(sums.sum(0) / tokens.sum()), np.random.default_rng(seed)
    times = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=resamples).astype(float)
    again = [matched(np.einsum("d,dab->ab", draw, sums) / (draw @ tokens)) for draw in times]
    return (np.stack(again) == whole).mean(0)


def profile_distances(a: Float[ndarray, "a number"], b: Float[ndarray, "b number"]) -> Float[ndarray, "a b"]:
    """Euclidean distance of profiles, each number divided by its standard deviation over the heads of both sides."""
    both = np.concatenate([a, b])
    used = np.isfinite(both).all(0) & (both.std(0) > 1e-12)
    scale = both[:, used].std(0)
    return np.linalg.norm((a[:, None, used] - b[None, :, used]) / scale, axis=-1)

"""A surrogate of an answer as a function of the sources that are there: a Gaussian process on the cube {−1, 1}ᵏ.

With s_i = 1 where source i is there and −1 where it is gone, and r_i ≥ 0 small,

    k(s, s')  =  (Π_i (1 + r_i s_i s'_i) − 1) / d,      d = Π_i (1 + r_i) − 1.

Multiplied out, r_i s_i s'_i is the effect of one source, r_i r_j s_i s_j s'_i s'_j what two do only together, and so
on, each order rarer than the one before: a linear model whose rest is no noise but structure that can be learnt. The
effect of a source, f with it less f without it, mean over all sets of the others (its Banzhaf value, and the weight
that a linear model of endless ablations would have), is

    effect_i  =  2 r_i/d Σ_n α_n s_ni,   α = C⁻¹ y,   variance  4 v (r_i/d − (r_i/d)² s_i·C⁻¹ s_i).

How much there is beyond single sources, how much noise, and how far the first guess of the sources is to be trusted is
what makes the values seen likeliest (marginal likelihood, Rasmussen & Williams 2006, chapter 5).
Banzhaf values of data: https://arxiv.org/abs/2205.15466.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ORDERS = (0.25, 0.5, 0.9, 1.4, 2.0, 3.0, 5.0)  # Σ r_i: the higher, the more is said by sources together
NOISES = (0.003, 0.03, 0.1, 0.3, 1.0)  # variance of what no source explains, of the rest's
TRUSTS = (0.0, 0.7, 0.9)  # of the guess: how much less a source may do that it gives nothing
MOST = 0.99  # of an r_i, so that a product is never zero
LEVEL = 1.0  # variance of the mean, of the rest's
WIDTH = 1.96  # standard deviations of a 95 % interval


@dataclass(frozen=True)
class Surrogate:
    """`signs` [pass source] are the sets that were seen; `solved` is C⁻¹, `alpha` C⁻¹ y, `scale` v."""

    signs: np.ndarray
    mean: float
    r: np.ndarray
    alpha: np.ndarray
    solved: np.ndarray
    scale: float

    def __call__(self, there: np.ndarray) -> np.ndarray:
        """What the answer's number would be with these sources [set source], 1 there and 0 gone."""
        return self.mean + (_kernel(2 * there - 1.0, self.signs, self.r) + LEVEL) @ self.alpha

    def effects(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(effect of each source, low, high): a 95 % interval."""
        share = self.r / _total(self.r)
        known = np.einsum("ni,nm,mi->i", self.signs, self.solved, self.signs)
        deviation = 2 * np.sqrt(self.scale * np.maximum(share - share**2 * known, 0.0))
        effect = 2 * share * (self.signs.T @ self.alpha)
        return effect, effect - WIDTH * deviation, effect + WIDTH * deviation

    def fit(self) -> float:
        """R² of each pass said from all the others: 1 − Σ (α_n / C⁻¹_nn)² / Σ (y_n − mean)²."""
        missed = self.alpha / np.diag(self.solved)
        values = np.linalg.solve(self.solved, self.alpha)
        return 1 - float(np.square(missed).sum() / np.square(values - values.mean()).sum())


def surrogate(there: np.ndarray, y: np.ndarray, guess: np.ndarray | None = None) -> Surrogate:
    """The likeliest surrogate of values y [pass] with sources there [pass source]; `guess` ≥ 0 of each source's part.

    y must not be constant.
    """
    signs, mean = 2 * there - 1.0, float(y.mean())
    found = (_fitted(signs, y - mean, mean, r, noise) for r in _weights(there.shape[1], guess) for noise in NOISES)
    return max(found, key=lambda pair: pair[0])[1]


def _weights(count: int, guess: np.ndarray | None) -> Iterator[np.ndarray]:
    share = np.ones(count) if guess is None or guess.max() <= 0 else np.sqrt(guess / guess.max())
    for trust in TRUSTS if share.min() < 1 else TRUSTS[:1]:
        for order in ORDERS:
            yield np.minimum(order / count * (1 - trust + trust * share), MOST)


def _fitted(signs: np.ndarray, y: np.ndarray, mean: float, r: np.ndarray, noise: float) -> tuple[float, Surrogate]:
    """(log marginal likelihood at the likeliest scale, the surrogate)."""
    covariance = _kernel(signs, signs, r) + LEVEL + noise * np.eye(len(y))
    solved = np.linalg.inv(covariance)
    alpha = solved @ y
    scale = float(y @ alpha) / len(y)
    likelihood = -(len(y) * np.log(scale) + np.linalg.slogdet(covariance)[1]) / 2
    return float(likelihood), Surrogate(signs, mean, r, alpha, solved, scale)


def _kernel(a: np.ndarray, b: np.ndarray, r: np.ndarray) -> np.ndarray:
    """k of every row of a with every row of b; log(1 + r s s') is the mean of log(1 ± r) ± half their gap."""
    same, other = np.log1p(r), np.log1p(-r)
    return np.expm1(((same + other).sum() + (a * (same - other)) @ b.T) / 2) / _total(r)


def _total(r: np.ndarray) -> float:
    return float(np.expm1(np.log1p(r).sum()))

"""Where a curve of prediction loss against attention divergence turns: the knee, by one stated rule, with its interval.

The points of a curve are put in the order of their divergence, both axes are scaled so that the first point is (0, 0)
and the last one (1, 1), and the knee is the point farthest below the straight line between them: up to there attention
may move and little is lost. A curve with no point below the line has no knee.

The curve is the mean over seeds. Its interval: seeds are drawn with replacement, as many as there are, the knee of each
such mean is found, and the middle 95 % of them are taken; `found` is the share of draws that had one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Curve = Float[ndarray, "lambda seed"]


@dataclass(frozen=True)
class Knee:
    """The number of the λ at the knee, its divergence with the 95 % interval, and the share of draws with a knee."""

    at: int
    divergence: float
    low: float
    high: float
    found: float


def knee(divergence: Float[ndarray, " point"], loss: Float[ndarray, " point"]) -> int | None:
    """The number of the point at the knee of one curve, or None.

    >>> knee(np.array([0.0, 0.5, 0.9, 1.0]), np.array([0.0, 0.02, 0.1, 1.0]))
    2
    """
    order = np.argsort(divergence, kind="stable")
    x, y = divergence[order], loss[order]
    if len(x) < 3 or x[-1] <= x[0] or y[-1] <= y[0]:
        return None
    below = (x - x[0]) / (x[-1] - x[0]) - (y - y[0]) / (y[-1] - y[0])
    best = int(below.argmax())
    return int(order[best]) if below[best] > 1e-9 else None


def knee_of_seeds(divergence: Curve, loss: Curve, *, draws: int = 2000, seed: int = 0) -> Knee | None:
    """The knee of the mean over seeds, and how it varies with the seeds."""
    at = knee(divergence.mean(1), loss.mean(1))
    if at is None:
        return None
    generator, seeds = np.random.default_rng(seed), divergence.shape[1]
    found = []
    for chosen in generator.integers(seeds, size=(draws, seeds)):
        x, y = divergence[:, chosen].mean(1), loss[:, chosen].mean(1)
        if (one := knee(x, y)) is not None:
            found.append(x[one])
    low, high = np.quantile(found, [0.025, 0.975]) if found else (np.nan, np.nan)
    return Knee(at, float(divergence[at].mean()), float(low), float(high), len(found) / draws)

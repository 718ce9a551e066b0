"""Where a curve of prediction loss against attention divergence turns: the knee, by one stated rule, with its interval.

The points of a curve are put in the order of their divergence, both axes are scaled so that the first point is (0, 0)
and the last one (1, 1), and the knee is the point farthest below the straight line between them: up to there attention
may move and little is lost. A curve with no point below the line has no knee.

The curve is the mean over seeds. Its interval: seeds are drawn with replacement, as many as there are, the knee of each
such mean is found, and the middle 95 % of them are taken; `found` is the share of draws that had one.

Seeds differ, so that a straight line has a point below it too. How much of a knee there is says its depth, the share of
the divergence less the share of the loss; beside it stands the depth that a straight line with the same spread of the
seeds gives (97.5 % of draws are below).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Curve = Float[ndarray, "lambda seed"]
Points = Float[ndarray, " point"]
MIDDLE = (0.025, 0.975)


@dataclass(frozen=True)
class Knee:
    """The number of the λ at the knee, its divergence and depth with 95 % intervals, the share of draws with a knee.

    `straight`: the depth of a straight line with the same spread.
    """

    at: int
    divergence: float
    low: float
    high: float
    found: float
    depth: float
    shallow: float
    deep: float
    straight: float


def knee(divergence: Points, loss: Points) -> int | None:
    """The number of the point at the knee of one curve, or None.

    >>> knee(np.array([0.0, 0.5, 0.9, 1.0]), np.array([0.0, 0.02, 0.1, 1.0]))
    2
    """
    return deepest(divergence, loss)[0]


def deepest(divergence: Points, loss: Points) -> tuple[int | None, float]:
    """The knee and its depth below the line: the share of the divergence that is had less that of the loss.

    >>> deepest(np.array([0.0, 3.0, 4.0]), np.array([0.0, 1.0, 4.0]))
    (1, 0.5)
    """
    order = np.argsort(divergence, kind="stable")
    x, y = divergence[order], loss[order]
    if len(x) < 3 or x[-1] <= x[0] or y[-1] <= y[0]:
        return None, 0.0
    below = (x - x[0]) / (x[-1] - x[0]) - (y - y[0]) / (y[-1] - y[0])
    best = int(below.argmax())
    return (int(order[best]), float(below[best])) if below[best] > 1e-9 else (None, 0.0)


def straightened(divergence: Curve, loss: Curve) -> Curve:
    """The losses that lie on the line between the ends of the mean curve, with each seed's distance from that mean."""
    x, y = divergence.mean(1), loss.mean(1)
    first, last = x.argmin(), x.argmax()
    line = y[first] + (x - x[first]) * (y[last] - y[first]) / (x[last] - x[first])
    return line[:, None] + loss - y[:, None]


def knee_of_seeds(divergence: Curve, loss: Curve, *, draws: int = 2000, seed: int = 0) -> Knee | None:
    """The knee of the mean over seeds, and how it varies with the seeds."""
    at, depth = deepest(divergence.mean(1), loss.mean(1))
    if at is None:
        return None
    generator, seeds = np.random.default_rng(seed), divergence.shape[1]
    line, found, depths, straight = straightened(divergence, loss), [], [], []
    for chosen in generator.integers(seeds, size=(draws, seeds)):
        x = divergence[:, chosen].mean(1)
        one, deep = deepest(x, loss[:, chosen].mean(1))
        depths.append(deep)
        straight.append(deepest(x, line[:, chosen].mean(1))[1])
        if one is not None:
            found.append(x[one])
    low, high = np.quantile(found, MIDDLE) if found else (np.nan, np.nan)
    ends = map(float, (*np.quantile(depths, MIDDLE), np.quantile(straight, MIDDLE[1])))
    return Knee(at, float(divergence[at].mean()), float(low), float(high), len(found) / draws, depth, *ends)

"""Other attention with the same output, inside the probability simplex (Brunner et al. 2020, §3.3).

For a query with weights a over the values V it sees, every b with

    b V = a V,   Σ b = 1,   b ≥ 0

is a distribution that gives the head exactly the same output. They form a polytope around a: `random_alternative` walks
from a along a random direction of LN([V, 1]) to the wall, `far_alternative` finds the vertex with the least inner
product with a (a linear programme), and `interval` gives, key by key, the least and the largest weight that any of them
has: what the map pins down, and what it does not. `ends` gives, for one key, the two distributions themselves; whatever
lies between one of them and a has the same output too.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are imported by it where they are first used: most pages need none
from jaxtyping import Float
from numpy import ndarray

from headwise.errors import HeadwiseError

Row = Float[ndarray, " key"]
Values = Float[ndarray, "key d_head"]


def constraints(values: Values) -> Float[ndarray, "rows key"]:
    """C with C b = C a ⇔ same output and same sum: an orthonormal basis of the columns of [V, 1], as rows.

    Orthonormal rows keep the linear programme well scaled, and directions below the rank tolerance are left out.
    """
    size = np.abs(values).max(initial=0.0) or 1.0
    augmented = np.column_stack([values / size, np.ones(len(values))])
    left, singular, _ = np.linalg.svd(augmented, full_matrices=False)
    tolerance = singular[0] * max(augmented.shape) * np.finfo(np.float32).eps
    return left[:, singular > tolerance].T


def random_alternative(alpha: Row, values: Values, *, generator: np.random.Generator) -> Row:
    """a + λ_max ã with ã a random direction of LN([V, 1]) and λ_max = min over its negative entries of a / −ã."""
    free = scipy.linalg.null_space(constraints(values))
    if free.shape[1] == 0:
        return alpha
    direction = free @ generator.standard_normal(free.shape[1])
    falls = direction < 0
    step = (alpha[falls] / -direction[falls]).min(initial=np.inf)
    moved = np.clip(alpha + (step if np.isfinite(step) else 0.0) * direction, 0, None)
    return moved / moved.sum() * alpha.sum()


def far_alternative(alpha: Row, values: Values) -> Row:
    """The distribution with the same output that has the least inner product with a."""
    fixed = constraints(values)
    if len(fixed) >= len(alpha):
        return alpha
    return _solve(alpha, fixed, alpha)


def interval(alpha: Row, values: Values) -> tuple[Row, Row]:
    """For every key the smallest and the largest weight among all distributions with the same output."""
    fixed = constraints(values)
    if len(fixed) >= len(alpha):
        return alpha, alpha
    units = np.eye(len(alpha))
    low = np.array([_solve(unit, fixed, alpha)[key] for key, unit in enumerate(units)])
    high = np.array([_solve(-unit, fixed, alpha)[key] for key, unit in enumerate(units)])
    return np.minimum(low, alpha), np.maximum(high, alpha)


def ends(alpha: Row, values: Values, key: int) -> tuple[Row, Row]:
    """The distributions with the same output that give `key` the least and the largest weight."""
    fixed = constraints(values)
    if len(fixed) >= len(alpha):
        return alpha, alpha
    unit = np.eye(len(alpha))[key]
    low, high = _solve(unit, fixed, alpha), _solve(-unit, fixed, alpha)
    return (low if low[key] < alpha[key] else alpha), (high if high[key] > alpha[key] else alpha)


def _solve(cost: Row, fixed: Float[ndarray, "rows key"], alpha: Row) -> Row:
    """argmin over b of cost·b with C b = C a, b ≥ 0."""
    found = scipy.optimize.linprog(cost, A_eq=fixed, b_eq=fixed @ alpha, bounds=(0, None), method="highs")
    if found.x is None:
        raise HeadwiseError(f"The linear programme for other attention weights found no answer: {found.message}")
    return np.clip(found.x, 0, None)

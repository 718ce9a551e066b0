"""Other attention with the same output, and what the output pins down, against all vertices of the polytope."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.measures.simplex import constraints, ends, far_alternative, interval, random_alternative
from references import polytope


def row_and_values(seed: int, keys: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(keys, 0.7)), generator.standard_normal((keys, size))


cases = st.builds(row_and_values, st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 3))


def test_by_hand() -> None:
    """Values 0, 1, 2 and a = (¼, ½, ¼): the output is 1, and b = (t, 1 − 2t, t) with 0 ≤ t ≤ ½ gives it too.

    a·b = ½ t + ½ (1 − 2t) = ½ − ½ t is least at t = ½.
    """
    alpha, values = np.array([0.25, 0.5, 0.25]), np.array([[0.0], [1.0], [2.0]])
    low, high = interval(alpha, values)
    np.testing.assert_allclose(low, [0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(high, [0.5, 1, 0.5], atol=1e-9)
    np.testing.assert_allclose(far_alternative(alpha, values), [0.5, 0, 0.5], atol=1e-9)
    moved = random_alternative(alpha, values, generator=np.random.default_rng(0))
    assert np.allclose(moved, [0.5, 0, 0.5]) or np.allclose(moved, [0, 1, 0])


@given(case=cases, seed=st.integers(0, 99))
def test_alternatives_are_distributions_with_the_same_output(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    alpha, values = case
    low, high = interval(alpha, values)
    far = far_alternative(alpha, values)
    moved = random_alternative(alpha, values, generator=np.random.default_rng(seed))
    for other in (far, moved):
        assert other.min() >= 0
        assert other.sum() == pytest.approx(1, abs=1e-6)
        np.testing.assert_allclose(other @ values, alpha @ values, atol=1e-6)
        assert (low - 1e-6 <= other).all()
        assert (other <= high + 1e-6).all()
    assert far @ alpha <= alpha @ alpha + 1e-7
    assert far @ alpha <= moved @ alpha + 1e-7
    assert (low <= alpha).all()
    assert (alpha <= high).all()


@given(case=cases)
def test_interval_and_far_equal_the_enumeration_of_vertices(case: tuple[np.ndarray, np.ndarray]) -> None:
    alpha, values = case
    corners = polytope.vertices(alpha, values)
    low, high = interval(alpha, values)
    np.testing.assert_allclose(low, corners.min(axis=0), atol=1e-6)
    np.testing.assert_allclose(high, corners.max(axis=0), atol=1e-6)
    assert far_alternative(alpha, values) @ alpha == pytest.approx((corners @ alpha).min(), abs=1e-6)


@given(case=cases, seed=st.integers(0, 99))
def test_random_walks_to_the_wall(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    """λ_max: where there is freedom, some key's weight has come to zero."""
    alpha, values = case
    moved = random_alternative(alpha, values, generator=np.random.default_rng(seed))
    if len(alpha) > values.shape[1] + 1:
        assert moved.min() == pytest.approx(0, abs=1e-9)
        assert np.abs(moved - alpha).max() > 0
    else:
        assert np.array_equal(moved, alpha)


@given(case=cases)
def test_no_freedom_without_more_keys_than_dimensions(case: tuple[np.ndarray, np.ndarray]) -> None:
    """n ≤ d_v + 1 in general position: the weights are pinned down, exactly."""
    alpha, values = case
    freedom = len(alpha) - len(constraints(values))
    assert freedom == max(0, len(alpha) - values.shape[1] - 1)
    if freedom == 0:
        low, high = interval(alpha, values)
        assert np.array_equal(low, alpha)
        assert np.array_equal(high, alpha)
        assert np.array_equal(far_alternative(alpha, values), alpha)


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_the_size_of_the_values_does_not_matter(size: float) -> None:
    alpha, values = row_and_values(3, 7, 3)
    np.testing.assert_allclose(interval(alpha, size * values), interval(alpha, values), atol=1e-6)


def test_copies_of_a_key_share_one_interval() -> None:
    """Two keys with the same value are told apart by nothing: each may take all that both have."""
    alpha, values = np.array([0.2, 0.3, 0.5]), np.array([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0]])
    low, high = interval(alpha, values)
    np.testing.assert_allclose(low, [0, 0, 0.5], atol=1e-9)
    np.testing.assert_allclose(high, [0.5, 0.5, 0.5], atol=1e-9)


def test_all_values_equal_leave_everything_open() -> None:
    low, high = interval(np.full(4, 0.25), np.ones((4, 3)))
    np.testing.assert_allclose(low, 0, atol=1e-9)
    np.testing.assert_allclose(high, 1, atol=1e-9)


def test_a_row_that_does_not_sum_to_one_keeps_its_sum() -> None:
    """Learned sinks take part of each row."""
    alpha, values = row_and_values(5, 7, 3)
    alpha = 0.6 * alpha
    assert far_alternative(alpha, values).sum() == pytest.approx(0.6, abs=1e-6)
    moved = random_alternative(alpha, values, generator=np.random.default_rng(0))
    assert moved.sum() == pytest.approx(0.6, abs=1e-9)


@given(case=cases, key=st.integers(0, 7))
def test_the_ends_of_an_interval_are_rows_of_the_polytope(case: tuple[np.ndarray, np.ndarray], key: int) -> None:
    alpha, values = case
    key = key % len(alpha)
    corners = polytope.vertices(alpha, values)
    low, high = ends(alpha, values, key)
    assert low[key] == pytest.approx(corners[:, key].min(), abs=1e-6)
    assert high[key] == pytest.approx(corners[:, key].max(), abs=1e-6)
    for row in (low, high):
        assert row.min() >= 0
        assert row.sum() == pytest.approx(1, abs=1e-6)
        np.testing.assert_allclose(row @ values, alpha @ values, atol=1e-6)

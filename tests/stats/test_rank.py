"""The binned rank correlation is within its bound of scipy's exact one."""

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.stats import NORMS, WEIGHTS, LinearBins, OctaveBins, RankHistogram

COARSE = (OctaveBins(-4, 2, 1), OctaveBins(-2, 3, 2))


def ranks(x: np.ndarray, y: np.ndarray, bins=COARSE) -> RankHistogram:
    mask = torch.ones(1, len(x), dtype=torch.bool)
    return RankHistogram.of(torch.tensor(x)[None], torch.tensor(y)[None], mask, *bins)


def within_bound(x: np.ndarray, y: np.ndarray, bins=COARSE) -> tuple[float, float]:
    """Assert the bound; return the error that there is and the bound."""
    histogram = ranks(x, y, bins)
    rho, bound = histogram.correlation().item(), histogram.error_bound().item()
    exact = float(np.asarray(scipy.stats.spearmanr(x, y))[0])
    assert abs(rho - exact) <= bound + 1e-9
    return abs(rho - exact), bound


def test_by_hand():
    """Bins [1, 2) and [2, 4): mid-ranks 1.5, 1.5, 3.5, 3.5 of x and 1.5, 3.5, 1.5, 3.5 of y."""
    bins = (OctaveBins(0, 2, 1),) * 2
    crossed = ranks(np.array([1.0, 1.5, 2.0, 3.0]), np.array([1.0, 2.0, 1.5, 3.0]), bins)
    assert crossed.correlation().item() == 0.0
    alike = ranks(np.array([1.0, 1.5, 2.0, 3.0]), np.array([1.0, 1.5, 2.0, 3.0]), bins)
    assert alike.correlation().item() == pytest.approx(1.0)


values = st.lists(st.tuples(*[st.floats(0, 8, width=32)] * 2), min_size=3, max_size=40)
few = st.sampled_from([0.0, 0.1, 0.11, 0.5, 0.6, 1.0, 3.0, 9.0])
tied = st.lists(st.tuples(few, few), min_size=3, max_size=40)


@settings(max_examples=300, deadline=None)
@given(values | tied)
def test_the_bound_holds(pairs: list[tuple[float, float]]):
    x, y = np.array(pairs).T
    if not np.isnan(ranks(x, y).correlation().item()):
        within_bound(x, y)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([-0.95, -0.3, 0.0, 0.6, 0.99]),
    st.integers(50, 2000),
    st.booleans(),
)
def test_the_bound_holds_on_correlated_samples(seed: int, r: float, n: int, zeros: bool):
    draw = np.random.default_rng(seed)
    a, b = draw.multivariate_normal([0, 0], [[1, r], [r, 1]], n).T
    x, y = np.exp(2 * a - 2), np.exp(b / 2)
    if zeros:
        x[draw.random(n) < 0.4] = 0
    within_bound(x, y)
    within_bound(x, np.round(y, 1))
    within_bound(x, y, (LinearBins(0, 1, 5), LinearBins(0, 3, 4)))


def test_sorting_against_the_bins_comes_near_the_bound():
    """Within each bin of x the order is that of y: the case the bound is made for."""
    n = 4000
    y = np.linspace(0.01, 0.99, n)
    x = np.tile(np.arange(10), n // 10) / 10 + y / 10  # bin independent of y, order within it that of y
    error, bound = within_bound(x, y, (LinearBins(0, 1, 10), LinearBins(0, 1, 500)))
    assert error > 0.8 * bound


def test_a_tie_at_zero_is_known_to_be_one():
    draw = np.random.default_rng(0)
    x = np.where(draw.random(500) < 0.5, 0.0, 2.0 ** -draw.integers(1, 4, 500))  # no value beside an edge
    y = draw.random(500)
    fine = OctaveBins(-12, 0, 64)
    only_y = ranks(x, y, (OctaveBins(-4, 0, 1), fine)).error_bound().item()
    shifted = ranks(np.where(x == 0, 1e-9, x), y, (OctaveBins(-4, 0, 1), fine)).error_bound().item()
    assert only_y < shifted / 1.5


def test_the_default_bins_tell_two_decimals():
    draw = np.random.default_rng(1)
    a, b = draw.multivariate_normal([0, 0], [[1, -0.5], [-0.5, 1]], 200_000).T
    alpha, norm = np.exp(2 * a - 6).clip(max=1), 3 * np.exp(0.35 * b)
    error, bound = within_bound(alpha, norm, (WEIGHTS, NORMS))
    assert bound < 0.02
    assert error < 2e-4


@pytest.mark.parametrize("x", [[0.0, 0.0, 0.0], [0.5, 0.51, 0.52]])
def test_a_single_bin_is_undefined(x: list[float]):
    histogram = ranks(np.array(x), np.array([0.1, 1.0, 3.0]))
    assert histogram.correlation().isnan().all()
    assert histogram.error_bound().isnan().all()


def test_a_table_that_is_too_large_is_refused():
    huge = OctaveBins(-100, 100, 1024)
    with pytest.raises(ValueError, match="Use fewer bins"):
        ranks(np.ones(2), np.ones(2), (huge, huge))

"""Ranks and their correlation are scipy's, one by one and many at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headwise.stats.spearman import mean_ranks, spearman

few = st.sampled_from([-1.0, 0.0, 0.5, 2.0])


@settings(max_examples=80, deadline=None)
@given(arrays(np.float64, (2, 3, 7), elements=few | st.floats(-5, 5)))
def test_ranks_are_scipys(values: np.ndarray) -> None:
    assert np.array_equal(mean_ranks(values), scipy.stats.rankdata(values, axis=-1))


def test_many_at_once_are_each_alone() -> None:
    x, y = np.random.default_rng(0).integers(0, 5, (2, 11, 13)).astype(float)
    both = spearman(x, y)
    assert both.shape == (11,)
    for at in range(11):
        assert both[at] == pytest.approx(float(np.asarray(scipy.stats.spearmanr(x[at], y[at]))[0]))


def test_by_hand() -> None:
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 3])) == pytest.approx(0.6)
    assert spearman(np.array([1.0, 2, 2, 4]), np.array([-1.0, -2, -2, -4])) == pytest.approx(-1)


@pytest.mark.parametrize("y", [np.ones(3), np.array([1.0, np.nan, 2.0])])
def test_what_does_not_vary_or_is_not_known_has_none(y: np.ndarray) -> None:
    assert np.isnan(spearman(y, np.arange(3.0)))
    assert np.isnan(spearman(np.arange(3.0), y))

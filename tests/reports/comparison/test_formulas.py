"""Differences, intervals and assignments against hand calculations, brute force and known coverage."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from headwise.errors import InputError
from headwise.reports.comparison.formulas import (
    FEWEST,
    holm,
    kept,
    matched,
    mean,
    paired,
    profile_distances,
    resampled,
    square_error,
    unpaired,
)

NAN = float("nan")


def test_means_leave_out_what_is_missing():
    values = np.array([[1.0, NAN, NAN], [3.0, 5.0, NAN]])
    np.testing.assert_array_equal(mean(values), [2.0, 5.0, NAN])


def test_a_constant_shift_is_certain_when_paired():
    """Every document is larger by one half: the difference has no spread, whatever is drawn."""
    a = np.random.default_rng(0).normal(size=(20, 3))
    found = paired(a, a + np.array([0.5, 0.0, -2.0]))
    np.testing.assert_allclose(found.change, [0.5, 0.0, -2.0], atol=1e-12)
    np.testing.assert_allclose(found.low, found.change, atol=1e-12)
    np.testing.assert_allclose(found.high, found.change, atol=1e-12)
    assert found.clear.tolist() == [True, False, True]


def test_pairing_takes_out_what_the_documents_share():
    rng = np.random.default_rng(1)
    shared, noise = rng.normal(size=(60, 1)) * 10, rng.normal(size=(60, 1)) * 0.1
    a, b = shared, shared + 0.3 + noise
    together, apart = paired(a, b), unpaired(a, b)
    np.testing.assert_allclose(together.change, apart.change)
    assert together.clear[0]
    assert not apart.clear[0]
    assert (apart.high - apart.low)[0] > 20 * (together.high - together.low)[0]


def test_a_document_without_the_number_on_one_side_is_left_out_of_both():
    a = np.concatenate([np.zeros((12, 1)), [[100.0]]])
    b = np.concatenate([np.ones((12, 1)), [[NAN]]])
    found = paired(a, b)
    assert (found.a[0], found.b[0], found.change[0]) == (0.0, 1.0, 1.0)


def test_a_number_that_no_document_has_is_not_told():
    a = np.random.default_rng(0).normal(size=(12, 2))
    a[:, 1] = NAN
    found = unpaired(a, a + 1)
    assert np.isnan([found.change[1], found.low[1], found.high[1]]).all()
    assert not found.clear[1]


def test_resampled_means_against_drawing_by_hand():
    """The mean over draws is the mean, and their variance is σ²/n: that of a mean of n draws with replacement."""
    values = np.random.default_rng(3).normal(size=(15, 4))
    draws = resampled(values, 20_000, np.random.default_rng(0))
    assert draws.shape == (20_000, 4)
    np.testing.assert_allclose(draws.mean(0), 0, atol=0.01)
    np.testing.assert_allclose(draws.var(0), values.var(0) / 15, rtol=0.06)


@pytest.mark.parametrize("pairing", [paired, unpaired])
def test_where_nothing_differs_hardly_any_comparison_is_clear_and_intervals_cover(pairing):
    """40 numbers in 60 documents, 60 times: about 5 % of comparisons may have a clear number, 5 % of intervals miss."""
    rng, false, missed = np.random.default_rng(7), 0, 0
    for seed in range(60):
        a, b = rng.normal(size=(2, 60, 40))
        found = pairing(a, b, resamples=400, seed=seed)
        false += bool(found.clear.any())
        missed += int(((found.low > 0) | (found.high < 0)).sum())
    assert false <= 8  # binomial(60, 0.05) is above 8 with probability 0.002
    assert 0.03 < missed / (60 * 40) < 0.09


def test_a_real_difference_is_found_among_many():
    a, b = np.random.default_rng(5).normal(size=(2, 80, 50))
    b[:, 17] += 1.0
    assert np.flatnonzero(paired(a, b).clear).tolist() == [17]


def test_the_seed_decides():
    a, b = np.random.default_rng(0).normal(size=(2, 12, 2))
    assert paired(a, b, seed=1).low.tolist() == paired(a, b, seed=1).low.tolist()
    assert paired(a, b, seed=1).low.tolist() != paired(a, b, seed=2).low.tolist()


def test_the_standard_error_by_hand():
    """1, 2, 3 and one missing: variance 2/3, over n − 1 = 2."""
    np.testing.assert_allclose(square_error(np.array([[1.0], [2.0], [NAN], [3.0]])), [1 / 3])


def test_holm_by_hand():
    """Limits 0.05/4, 0.05/3, 0.05/2, 0.05/1: the third smallest fails, so the fourth does too, though 0.04 ≤ 0.05."""
    assert holm(np.array([0.04, 0.001, 0.03, 0.015])).tolist() == [False, True, False, True]


def test_clear_agrees_with_scipy_where_there_is_one_number():
    rng = np.random.default_rng(11)
    for shift in (0.2, 0.5, 0.8):
        a, b = rng.normal(size=(20, 1)), shift + 2 * rng.normal(size=(35, 1))
        assert unpaired(a, b).clear[0] == (stats.ttest_ind(a, b, equal_var=False).pvalue[0] <= 0.05)
        assert paired(a, b[:20]).clear[0] == (stats.ttest_rel(a, b[:20]).pvalue[0] <= 0.05)


def test_too_few_documents_are_refused():
    few = np.zeros((FEWEST - 1, 1))
    with pytest.raises(InputError, match=f"at least {FEWEST} documents, but there are {FEWEST - 1}"):
        paired(few, few)


def test_the_assignment_is_the_cheapest_of_all():
    cost = np.random.default_rng(2).random((5, 5))
    cheapest = min(permutations(range(5)), key=lambda order: sum(cost[row, at] for row, at in enumerate(order)))
    assert matched(cost).tolist() == list(cheapest)


def test_heads_without_a_partner_are_told():
    """Three heads, two partners: by hand, the first takes 1, the last takes 0."""
    assert matched(np.array([[9.0, 1.0], [5.0, 5.0], [1.0, 9.0]])).tolist() == [1, -1, 0]


def test_a_match_is_kept_where_every_document_agrees_and_not_where_they_quarrel():
    sure = np.tile(np.array([[0.0, 1.0], [1.0, 0.0]]), (20, 1, 1))
    assert kept(sure, np.ones(20)).tolist() == [1.0, 1.0]
    quarrel = sure.copy()
    quarrel[::2] = 1 - quarrel[::2]
    quarrel[0] *= 1.01
    assert 0.2 < kept(quarrel, np.ones(20))[0] < 0.8


def test_profile_distances_by_hand():
    """Over all four heads the first number has standard deviation 1, the second 10, the third none."""
    a = np.array([[0.0, 0.0, 3.0], [2.0, 20.0, 3.0]])
    found = profile_distances(a, a[::-1])
    np.testing.assert_allclose(found, [[8**0.5, 0.0], [0.0, 8**0.5]])

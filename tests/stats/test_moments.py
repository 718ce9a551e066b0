"""Hand-worked moments, and the cancellation that a sum of squares would suffer."""

import pytest
import torch

from headwise.stats import Covariance, Moments, Sums


def test_by_hand():
    moments = Moments.of(torch.tensor([[1.0, 3.0, 100.0]]), torch.tensor([[1.0, 3.0, 0.0]]))
    assert moments.mean.tolist() == [2.5]
    assert moments.count.tolist() == [4.0]
    assert moments.m2.tolist() == [3.0]
    assert (moments.low.item(), moments.high.item()) == (1.0, 3.0)


def test_a_small_spread_around_a_large_mean_survives():
    x = 1e9 + torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)
    merged = Moments.of(x[:, :2], torch.ones(2)) + Moments.of(x[:, 2:], torch.ones(2))
    assert merged.m2.item() == 5.0


def test_an_empty_cell_is_undefined():
    empty = Moments.empty((2,))
    assert all(bool(value.isnan().all()) for value in (empty.mean, empty.sd, empty.cv, empty.low, empty.high))
    assert bool(Sums.empty((2,)).mean.isnan().all())


def test_a_constant_has_no_correlation_and_a_line_has_one():
    x, one = torch.arange(5.0)[None], torch.ones(1, 5)
    assert Covariance.of(x, one, one).pearson.isnan().all()
    line = Covariance.of(x, 3 - 2 * x, one)
    assert (line.pearson.item(), line.slope.item(), line.intercept.item()) == pytest.approx((-1.0, -2.0, 3.0))

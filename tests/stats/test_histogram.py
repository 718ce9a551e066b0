"""Bins, and quantiles whose stated error holds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.stats import Histogram, LinearBins, OctaveBins

FLOATS = st.floats(-4, 20, width=32)
BINS = (LinearBins(-2.0, 9.0, 37), OctaveBins(-6, 3, 8))


def test_octaves_by_hand():
    bins = OctaveBins(-1, 1, 2)
    inf = math.inf
    assert bins.edges.tolist() == [-inf, 0, 2.0**-149, 0.5, 0.75, 1.0, 1.5, 2.0, inf]
    x = torch.tensor([-3.0, -0.0, 0.0, 1e-40, 0.49, 0.5, 0.74, 0.75, 1.0, 1.5, 1.99, 2.0, inf])
    assert bins.index(x).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 7]


@pytest.mark.parametrize("bins", [*BINS, OctaveBins(-40, 0, 16), OctaveBins(-8, 8, 64)])
def test_every_bin_holds_what_lies_between_its_edges(bins: LinearBins | OctaveBins):
    edges = bins.edges[1:-1]
    inside = (edges[:-1] + edges[1:]) / 2 if isinstance(bins, LinearBins) else edges[:-1]
    assert bins.index(inside).tolist() == list(range(1, len(edges)))


@given(st.lists(FLOATS, min_size=2, max_size=20))
def test_the_bin_never_falls_as_the_value_grows(values: list[float]):
    for bins in BINS:
        index = bins.index(torch.tensor(sorted(values), dtype=torch.float64))
        assert bool((index.diff() >= 0).all())
        assert index[0] >= 0
        assert index[-1] < len(bins.edges) - 1


@given(st.lists(FLOATS, min_size=1, max_size=60), st.floats(0, 1))
def test_the_quantile_is_within_its_stated_error(values: list[float], q: float):
    x = torch.tensor([values], dtype=torch.float64)
    exact = np.quantile(values, q, method="inverted_cdf")
    for bins in BINS:
        value, error = Histogram.of(x, torch.ones(1), bins).quantile(q)
        assert abs(value.item() - exact) <= error.item() + 1e-12


def test_quantiles_by_hand():
    histogram = Histogram.of(torch.tensor([[0.5, 1.5, 1.6, 7.0], [0.0] * 4]), torch.ones(4), LinearBins(0, 4, 4))
    value, error = histogram.quantile(0.5)
    assert value.tolist() == pytest.approx([1.5, 0.5])
    assert error.tolist() == pytest.approx([0.5, 0.5])
    value, error = histogram.quantile(1.0)
    assert value[0] == 4.0
    assert error[0] == math.inf
    wide = Histogram.of(torch.tensor([[1.0, 5.0, 6.0, 7.0]]), torch.ones(4), LinearBins(0, 8, 2))
    value, error = wide.quantile(0.5)  # the first of the three in 4 … 8
    assert value.item() == pytest.approx(4 + 4 / 3)
    assert error.item() == pytest.approx(4 - 4 / 3)
    assert Histogram.empty((1,), BINS[0]).quantile(0.5)[0].isnan().all()


def test_the_density_integrates_to_the_part_inside():
    bins = LinearBins(0.0, 4.0, 4)
    histogram = Histogram.of(torch.tensor([[0.5, 1.5, 1.6, 7.0]]), torch.ones(4), bins)
    inside = histogram.density * bins.edges.diff()
    assert inside[0, 1:-1].sum() == pytest.approx(0.75)
    assert histogram.density[0, -1].isnan()
    assert histogram.share.sum() == 1


def test_other_bins_do_not_add_up():
    with pytest.raises(ValueError, match="same bins"):
        _ = Histogram.empty((1,), BINS[0]) + Histogram.empty((1,), BINS[1])


@pytest.mark.parametrize(
    "make", [lambda: OctaveBins(0, 1, 3), lambda: OctaveBins(2, 1, 4), lambda: LinearBins(1, 1, 4)]
)
def test_bins_that_cannot_be(make):
    with pytest.raises(ValueError, match="Bins need"):
        make()

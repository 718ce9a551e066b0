"""The laws that every statistic obeys, and its naive float64 twin. A new statistic is one more Case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from safetensors.torch import load, save

from headwise.stats import (
    Covariance,
    Groups,
    Histogram,
    LinearBins,
    Moments,
    OctaveBins,
    RankHistogram,
    Reservoir,
    Sums,
    Top,
    merge,
    pack,
    unpack,
)
from headwise.stats.reservoir import hashed

CELLS, SAMPLE = 3, 101
LINEAR = LinearBins(-1.0, 2.0, 13)
OCTAVES = OctaveBins(-9, 3, 8)


@dataclass(frozen=True)
class Data:
    """A sample with two values, a weight, a mask and an id an element."""

    x: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor
    mask: torch.Tensor
    ids: torch.Tensor

    def __getitem__(self, part: slice | torch.Tensor) -> Data:
        return Data(*(t[:, part] for t in (self.x, self.y, self.weight, self.mask, self.ids)))

    def columns(self, cell: int, weighted: bool = False) -> list[np.ndarray]:
        """x, y, weight of one cell as a twin sees them: masked and NaN elements are gone."""
        weight = self.weight if weighted else self.mask.double()
        keep = (weight[cell] != 0) & ~self.x[cell].isnan() & ~self.y[cell].isnan()
        return [t[cell][keep].numpy() for t in (self.x, self.y, weight)]


def sample(seed: int, n: int = SAMPLE) -> Data:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(CELLS, n, generator=draw, dtype=torch.float64)
    y = (x + torch.randn(CELLS, n, generator=draw, dtype=torch.float64)).abs()
    x[:, ::7], y[:, ::11] = 0.5, 0.0  # ties
    mask = torch.rand(CELLS, n, generator=draw) > 0.2
    weight = torch.rand(CELLS, n, generator=draw, dtype=torch.float64) * mask
    return Data(x, y, weight, mask, torch.arange(CELLS * n).view(CELLS, n) + seed * 10_000)


@dataclass(frozen=True)
class Case:
    kind: Any
    of: Callable[[Data], Any]
    empty: Callable[[], Any]
    facts: Callable[[Any], dict[str, Any]]
    twin: Callable[[Data, int], dict[str, Any]]  # the facts of one cell
    exact: bool = False  # sums of whole counts: the same bits in any order


def moments_twin(data: Data, cell: int) -> dict[str, Any]:
    x, _, w = Data(data.x, data.x, data.weight, data.mask, data.ids).columns(cell, weighted=True)
    mean = np.average(x, weights=w)
    sd = np.sqrt(np.average((x - mean) ** 2, weights=w))
    return {"count": w.sum(), "mean": mean, "sd": sd, "cv": sd / mean, "low": x.min(), "high": x.max()}


def sums_twin(data: Data, cell: int) -> dict[str, Any]:
    x, _, w = Data(data.x, data.x, data.weight, data.mask, data.ids).columns(cell, weighted=True)
    return {"total": (w * x).sum(), "mean": np.average(x, weights=w)}


def covariance_twin(data: Data, cell: int) -> dict[str, Any]:
    x, y, _ = data.columns(cell)
    slope, intercept = np.polyfit(x, y, 1)
    return {"pearson": scipy.stats.pearsonr(x, y)[0], "slope": slope, "intercept": intercept}


def histogram_twin(bins: Any) -> Callable[[Data, int], dict[str, Any]]:
    def twin(data: Data, cell: int) -> dict[str, Any]:
        x, _, _ = Data(data.x, data.x, data.weight, data.mask, data.ids).columns(cell)
        return {"counts": np.histogram(x, bins.edges.numpy())[0]}

    return twin


def rank_twin(data: Data, cell: int) -> dict[str, Any]:
    """Spearman of the bin numbers: within a bin all is tied."""
    x, y, _ = data.columns(cell)
    edges = (LINEAR.edges.numpy(), OCTAVES.edges.numpy())
    return {"rho": scipy.stats.spearmanr(np.digitize(x, edges[0]), np.digitize(y, edges[1]))[0], "n": len(x)}


def reservoir_of(data: Data) -> Reservoir:
    return Reservoir.of((data.x, data.y), data.ids, data.mask, size=29, seed=5, fraction=0.7)


def reservoir_twin(data: Data, _cell: int) -> dict[str, Any]:
    """Every row with its hash, sorted, in Python."""
    hashes = hashed(data.ids, 5).tolist()
    limit = int(0.7 * 2**64) - 2**63
    rows = [
        (h, a, b)
        for line in zip(hashes, data.x.tolist(), data.y.tolist(), data.mask.tolist(), strict=True)
        for h, a, b, kept in zip(*line, strict=True)
        if kept and a == a and b == b and h < limit
    ]
    return {"rows": np.array([row[1:] for row in sorted(rows)[:29]])}


def top_of(data: Data) -> Top:
    known = torch.where(data.mask, data.x.double(), torch.nan)
    return Top.of(known.T, data.ids[0], size=7)


def top_twin(data: Data, cell: int) -> dict[str, Any]:
    """Every element, sorted in Python: the largest first, the earlier one among equals."""
    line = zip(data.x[cell].tolist(), data.ids[0].tolist(), data.mask[cell].tolist(), strict=True)
    first = sorted((-x, number) for x, number, kept in line if kept and x == x)[:7]
    return {"values": [-x for x, _ in first], "documents": [number for _, number in first]}


CASES = {
    "top": Case(
        Top,
        top_of,
        lambda: Top.of(torch.zeros(0, CELLS, dtype=torch.float64), torch.zeros(0, dtype=torch.int64), size=7),
        lambda s: {"values": s.values, "documents": s.documents},
        top_twin,
        exact=True,
    ),
    "moments": Case(
        Moments,
        lambda d: Moments.of(d.x, d.weight),
        lambda: Moments.empty((CELLS,)),
        lambda s: {name: getattr(s, name) for name in ("count", "mean", "sd", "cv", "low", "high")},
        moments_twin,
    ),
    "moments by group": Case(
        Moments,
        lambda d: Moments.of(d.x, d.weight, over=Groups(torch.arange(CELLS)[:, None], (CELLS,))),
        lambda: Moments.empty((CELLS,)),
        lambda s: {name: getattr(s, name) for name in ("count", "mean", "sd", "cv", "low", "high")},
        moments_twin,
    ),
    "sums": Case(
        Sums,
        lambda d: Sums.of(d.x, d.weight),
        lambda: Sums.empty((CELLS,)),
        lambda s: {"total": s.total, "mean": s.mean},
        sums_twin,
    ),
    "covariance": Case(
        Covariance,
        lambda d: Covariance.of(d.x, d.y, d.mask),
        lambda: Covariance.empty((CELLS,)),
        lambda s: {"pearson": s.pearson, "slope": s.slope, "intercept": s.intercept},
        covariance_twin,
    ),
    "linear histogram": Case(
        Histogram,
        lambda d: Histogram.of(d.x, d.mask, LINEAR),
        lambda: Histogram.empty((CELLS,), LINEAR),
        lambda s: {"counts": s.counts},
        histogram_twin(LINEAR),
        exact=True,
    ),
    "octave histogram": Case(
        Histogram,
        lambda d: Histogram.of(d.x, d.mask, OCTAVES),
        lambda: Histogram.empty((CELLS,), OCTAVES),
        lambda s: {"counts": s.counts},
        histogram_twin(OCTAVES),
        exact=True,
    ),
    "ranks": Case(
        RankHistogram,
        lambda d: RankHistogram.of(d.x, d.y, d.mask, LINEAR, OCTAVES),
        lambda: RankHistogram.empty((CELLS,), LINEAR, OCTAVES),
        lambda s: {"rho": s.correlation(), "n": s.count},
        rank_twin,
        exact=True,
    ),
    "reservoir": Case(
        Reservoir,
        reservoir_of,
        lambda: Reservoir.empty(29, 2),
        lambda s: {"rows": s.rows[None].expand(CELLS, -1, -1)},
        reservoir_twin,
        exact=True,
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def same_bits(a: Any, b: Any) -> None:
    a, b = a.to_state(), b.to_state()
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].shape == b[name].shape
        assert torch.equal(a[name], b[name]), name


def close(a: Any, b: Any, exact: bool) -> None:
    if exact:
        same_bits(a, b)
        return
    a, b = a.to_state(), b.to_state()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cut", [0, 1, 17, SAMPLE])
def test_the_statistic_of_a_concatenation_is_the_sum(case: Case, cut: int):
    data = sample(1)
    close(case.of(data), case.of(data[:cut]) + case.of(data[cut:]), case.exact)


def test_the_sum_is_associative(case: Case):
    a, b, c = (case.of(sample(seed, n)) for seed, n in ((1, 5), (2, 31), (3, 17)))
    close((a + b) + c, a + (b + c), case.exact)


def test_order_matters_at_most_in_rounding_and_the_same_order_gives_the_same_bits(case: Case):
    parts = [case.of(sample(seed, 10 + seed)) for seed in range(5)]
    close(merge(parts), merge(parts[::-1]), case.exact)
    same_bits(merge(parts), merge([case.of(sample(seed, 10 + seed)) for seed in range(5)]))


def test_elements_may_come_in_any_order(case: Case):
    data = sample(4)
    order = torch.randperm(SAMPLE, generator=torch.Generator().manual_seed(0))
    close(case.of(data), case.of(data[order]), case.exact)


def test_empty_is_the_identity_in_bits(case: Case):
    full = case.of(sample(2))
    same_bits(case.empty() + full, full)
    same_bits(full + case.empty(), full)
    same_bits(case.of(sample(2)[:0]), case.empty())


def test_a_state_survives_safetensors(case: Case):
    full, other = case.of(sample(3)), case.of(sample(4))
    state = load(save(pack({"a": full, "b/c": other})))
    assert {t.dtype for t in state.values()} <= {torch.float64, torch.int64}
    back = [case.kind.from_state(unpack(state, name)) for name in ("a", "b/c")]
    same_bits(merge(back), full + other)


def test_masked_and_undefined_elements_do_not_exist(case: Case):
    data = sample(5)
    bare = data[torch.arange(SAMPLE) % 3 != 0]
    x, weight, mask = data.x.clone(), data.weight.clone(), data.mask.clone()
    x[:, ::6] = torch.nan  # undefined
    weight[:, 3::6], mask[:, 3::6] = 0, False  # masked, the value itself is rubbish
    x[:, 3::6] = 1e300
    x[:, 3::12] = torch.nan
    close(case.of(Data(x, data.y, weight, mask, data.ids)), case.of(bare), case.exact)


def test_the_facts_are_those_of_the_naive_twin(case: Case):
    data = sample(6)
    facts = case.facts(merge([case.of(data[:40]), case.of(data[40:41]), case.of(data[41:])]))
    for cell in range(CELLS):
        for name, expected in case.twin(data, cell).items():
            np.testing.assert_allclose(facts[name][cell].numpy(), expected, rtol=1e-10, err_msg=name)


def test_float32_values_are_accumulated_in_float64(case: Case):
    data = sample(7)
    rounded = Data(data.x.float(), data.y.float(), data.weight, data.mask, data.ids)
    exact = Data(rounded.x.double(), rounded.y.double(), data.weight, data.mask, data.ids)
    same_bits(case.of(rounded), case.of(exact))


def test_unpack_names_what_is_missing():
    with pytest.raises(ValueError, match=r"no statistic 'b'; it holds a\."):
        unpack(pack({"a": Sums.empty((2,))}), "b")

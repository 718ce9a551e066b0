"""All-pairs Jensen-Shannon sums, the plane and the clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headwise.measures import distance
from headwise.measures.agreement import js_divergence
from headwise.measures.distance import Smoothed, clusters, plane, silhouette, smoothed, stress, summed_js
from references.compare import assert_close
from references.studies_distances import all_pairs

LN2 = math.log(2)


def some_rows(heads: int, rows: int, keys: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(heads, rows, keys, generator=draw, dtype=dtype)).softmax(-1)


def flat(p: torch.Tensor) -> Smoothed:
    return Smoothed.of(p.flatten(1))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("block", [1 << 18, 64])
def test_equal_to_two_logarithms_a_pair(monkeypatch, dtype: torch.dtype, tolerance: float, block: int) -> None:
    monkeypatch.setattr(distance, "BLOCK", block)
    groups = [some_rows(heads, 11, 7, seed, dtype) for seed, heads in enumerate((3, 5, 2))]
    everyone = torch.cat([*groups[:2], groups[2]])
    expected = sum(all_pairs(everyone[:, row].numpy()) for row in range(11))
    got = summed_js(flat(groups[2]), [flat(group) for group in groups[:2]])
    assert got.shape == (2, 10)
    np.testing.assert_allclose(got.numpy(), expected[-2:], rtol=tolerance, atol=1e-12)


def test_symmetric_bounded_and_zero_on_itself() -> None:
    rows = some_rows(6, 13, 5, dtype=torch.float32)
    js = summed_js(flat(rows), [])
    assert torch.equal(js, js.mT)
    assert not js.diagonal().any()
    assert bool((js <= 13 * LN2).all())
    again = summed_js(flat(rows), [flat(rows)])
    assert float(again[:, :6].diagonal().max()) < 13e-7, "the same head twice"
    assert_close(again[:, :6], js, 1e-6)


def test_agrees_with_the_divergence_of_two_maps() -> None:
    rows = some_rows(2, 13, 5)
    assert_close(summed_js(flat(rows), [])[0, 1], js_divergence(rows[0], rows[1]).sum(), 1e-12)


def test_threads_change_no_bit_and_are_left_as_they_were() -> None:
    groups = [flat(some_rows(4, 17, 19, seed, torch.float32)) for seed in range(3)]
    alone = summed_js(groups[2], groups[:2])
    torch.set_num_threads(3)
    try:
        together = summed_js(groups[2], groups[:2])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert torch.equal(alone, together)


def test_smoothing_by_hand() -> None:
    """Two keys of three count; row (1, 0) becomes 0.999 + 0.0005 and 0.0005. A row's sum does not matter."""
    map_ = torch.tensor([[[[2.0, 0.0, 7.0]]], [[[0.5, 0.5, 7.0]]]])
    pairs = torch.tensor([[[True, True, False]], [[True, True, False]]])
    assert_close(smoothed(map_, pairs).rows, torch.tensor([[0.9995, 0.0005, 0.5, 0.5]]), 1e-7)


def test_opposite_rows_are_ln_2_apart() -> None:
    rows = Smoothed.of(torch.tensor([[1.0, 1e-30], [1e-30, 1.0]]))
    assert_close(summed_js(rows, []), torch.tensor([[0.0, LN2], [LN2, 0.0]]), 1e-7)


def test_plane_recovers_points_of_a_plane() -> None:
    points = np.random.default_rng(3).normal(size=(17, 2)) * (2, 1)
    wanted = np.linalg.norm(points[:, None] - points, axis=-1)
    found, how_well = plane(wanted, seed=0)
    assert how_well < 1e-4
    assert_close(np.linalg.norm(found[:, None] - found, axis=-1), wanted, 1e-4)
    assert found[:, 0].std() > found[:, 1].std(), "the wider axis first"
    again, _ = plane(wanted, seed=1)
    assert_close(found, again, 1e-2)


def test_plane_is_better_than_classical_scaling() -> None:
    points = np.random.default_rng(5).normal(size=(23, 9))
    wanted = np.linalg.norm(points[:, None] - points, axis=-1) ** 2
    found, how_well = plane(wanted, seed=0)
    assert how_well == pytest.approx(stress(wanted, found))
    assert how_well < stress(wanted, distance._classical(wanted))


@pytest.mark.parametrize("heads", [1, 2])
def test_plane_of_hardly_any_heads(heads: int) -> None:
    found, how_well = plane(1.0 - np.eye(heads), seed=0)
    assert found.shape == (heads, 2)
    assert how_well < 1e-6
    assert clusters(1.0 - np.eye(heads)).tolist() == [0] * heads


def test_clusters_are_found_and_numbered_by_their_first_head() -> None:
    centres = np.array([[0, 0], [9, 0], [0, 9], [9, 9], [20, 20]])
    draw = np.random.default_rng(0)
    order = draw.permutation(np.repeat(np.arange(5), 4))
    points = centres[order] + draw.normal(size=(20, 2)) / 5
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    labels = clusters(apart)
    first = {kind: number for number, kind in enumerate(dict.fromkeys(order.tolist()))}
    assert labels.tolist() == [first[kind] for kind in order.tolist()]
    assert len(set(clusters(apart, count=2).tolist())) == 2


def test_silhouette_by_hand() -> None:
    """Points 0, 1 and 5 on a line, the last alone: a = 1, b = 5 and 4, and 0 for the lone one."""
    line = np.abs(np.subtract.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0]))
    assert silhouette(line, np.array([0, 0, 1])) == pytest.approx((4 / 5 + 3 / 4 + 0) / 3)


def test_classical_scaling_gives_the_points_of_a_plane_back_and_the_plane_is_centred() -> None:
    points = np.random.default_rng(4).normal(size=(7, 2)) * [3.0, 1.0] + 5
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found = distance._classical(apart)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=-1), apart, atol=1e-9)
    assert found[:, 0].var() > found[:, 1].var(), "the widest axis first"
    turned = distance._main_axes(points)
    np.testing.assert_allclose(turned.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(turned.T @ turned, np.diag(np.diag(turned.T @ turned)), atol=1e-9)

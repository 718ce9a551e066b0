"""Entropy, mass, offsets, Pearson and Jensen-Shannon, against one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.measures import agreement, rows
from headwise.measures.nullspace import effective
from headwise.measures.weights import raw, raw_mean
from references import numbers_of_rows as twins
from references import synthetic

weights = st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda row: sum(row) > 0.01)


def distribution(row: list[float]) -> torch.Tensor:
    return torch.tensor(row, dtype=torch.float64) / sum(row)


def test_by_hand() -> None:
    half = torch.tensor([0.5, 0.5, 0.0]).reshape(1, 1, 1, 3)
    assert rows.entropy(half).item() == pytest.approx(math.log(2))
    assert rows.mass(half, torch.tensor([[True, False, True]])).item() == 0.5
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert agreement.js_divergence(one, other).item() == pytest.approx(math.log(2))
    assert agreement.js_divergence(one, one).item() == 0


@given(p=weights, q=weights)
def test_entropy_and_js_equal_their_twins(p: list[float], q: list[float]) -> None:
    size = min(len(p), len(q))
    if sum(p[:size]) < 0.01 or sum(q[:size]) < 0.01:
        return
    first, second = distribution(p[:size]), distribution(q[:size])
    assert rows.entropy(first.reshape(1, 1, 1, -1)).item() == pytest.approx(twins.entropy(first.tolist()), abs=1e-9)
    js = agreement.js_divergence(first, second).item()
    assert js == pytest.approx(twins.js_divergence(first.tolist(), second.tolist()), abs=1e-9)
    assert 0 <= js <= math.log(2) + 1e-12
    assert js == agreement.js_divergence(second, first).item()


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
def test_pearson_and_shares_count_visible_pairs_only(kind: str) -> None:
    layer = synthetic.layer(kind)
    pairs = layer.visible & layer.query_mask[..., None]
    a, b = layer.alpha, effective(layer)
    got, share = agreement.pearson(a, b, pairs), agreement.squared_share(a - b, a, pairs)
    for text in range(2):
        for head in range(3):
            x, y, seen = a[text, head].numpy(), b[text, head].numpy(), pairs[text].numpy()
            assert got[text, head].item() == pytest.approx(twins.pearson(x, y, seen), abs=1e-6)
            assert got[text, head].item() == pytest.approx(np.corrcoef(x[seen], y[seen])[0, 1], abs=1e-6)
            lost = ((x - y)[seen] ** 2).sum() / (x[seen] ** 2).sum()
            assert share[text, head].item() == pytest.approx(lost, abs=1e-6)


def test_pearson_of_a_constant_map_is_undefined() -> None:
    flat, pairs = torch.full((1, 1, 3, 3), 1 / 3), torch.ones(1, 3, 3, dtype=torch.bool)
    assert agreement.pearson(flat, flat, pairs).isnan().all()


@pytest.mark.parametrize("first_row", [0, 4])
@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 5])
def test_at_offset(offset: int, first_row: int) -> None:
    whole = synthetic.layer().alpha
    got = rows.at_offset(whole[:, :, first_row : first_row + 6], offset, first_row=first_row)
    for text, head, row in np.ndindex(*got.shape):
        expected = twins.at_offset(whole[text, head].numpy(), first_row + row, offset)
        assert got[text, head, row].item() == pytest.approx(expected, nan_ok=True)


def test_mass_and_means_over_rows_that_count() -> None:
    layer = synthetic.layer()
    keys = torch.arange(13).expand(2, -1) % 3 == 0
    mass = rows.mass(layer.alpha, keys)
    assert mass[1, 2, 4].item() == pytest.approx(twins.mass(layer.alpha[1, 2, 4].tolist(), keys[1].tolist()), abs=1e-6)
    mean = rows.mean_rows(mass, layer.query_mask)
    assert mean[1, 2].item() == pytest.approx(mass[1, 2, :7].mean().item())
    previous = rows.mean_rows(rows.at_offset(layer.alpha, -1), layer.query_mask)
    expected = np.mean([layer.alpha[1, 2, row, row - 1].item() for row in range(1, 7)])
    assert previous[1, 2].item() == pytest.approx(expected, abs=1e-6)
    nothing = rows.mean_rows(mass, torch.zeros_like(layer.query_mask))
    assert nothing.isnan().all()


def test_raw_and_its_mean() -> None:
    layer = synthetic.layer()
    assert raw(layer) is layer.alpha
    assert raw_mean(layer)[1, 3, 2].item() == pytest.approx(sum(layer.alpha[1, h, 3, 2].item() for h in range(3)) / 3)

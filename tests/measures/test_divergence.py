"""Divergences against scipy and by hand; bounds, symmetry, hidden entries; per-instance adversaries keep to ε."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from headwise.errors import InputError
from headwise.measures import divergence
from headwise.measures.rivals import HIDDEN, Search, rivals

seeds = st.integers(0, 2**31)


def rows(seed: int, *, keys: int = 7, sharp: float = 4.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(5, keys, generator=generator, dtype=torch.float64)).log_softmax(-1)


@given(seeds, seeds)
def test_equal_to_scipy(one: int, two: int) -> None:
    p, q = rows(one), rows(two)
    np.testing.assert_allclose(divergence.kl(p, q), entropy(p.exp(), q.exp(), axis=-1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        divergence.js(p, q), jensenshannon(p.exp(), q.exp(), axis=-1) ** 2, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(divergence.tvd(p, q), (p.exp() - q.exp()).clamp(min=0).sum(-1), rtol=1e-9, atol=1e-12)


@given(seeds, seeds, st.floats(0.1, 300))
def test_bounds_and_symmetry(one: int, two: int, sharp: float) -> None:
    """Far apart to underflow: JS stays at most ln 2 and TVD at most 1."""
    p, q = rows(one, sharp=sharp), rows(two, sharp=sharp)
    js, tvd = divergence.js(p, q), divergence.tvd(p, q)
    assert (js >= -1e-12).all()
    assert (js <= math.log(2) + 1e-12).all()
    assert ((tvd >= 0) & (tvd <= 1 + 1e-12)).all()
    assert (divergence.kl(p, q) >= -1e-12).all()
    torch.testing.assert_close(js, divergence.js(q, p))
    torch.testing.assert_close(tvd, divergence.tvd(q, p))
    assert (divergence.js(p, p).abs() < 1e-12).all()


def test_by_hand() -> None:
    sure, torn = (torch.tensor(row, dtype=torch.float64).log() for row in ([1.0, 1e-300], [0.5, 0.5]))
    assert float(divergence.kl(sure, torn)) == pytest.approx(math.log(2))
    assert float(divergence.tvd(sure, torn)) == pytest.approx(0.5)
    assert float(divergence.js(sure, sure.flip(0))) == pytest.approx(math.log(2))
    assert float(divergence.nll(torn[None], torch.tensor([1]))) == pytest.approx(math.log(2))
    mask = torch.tensor([[True, False], [True, True]])
    assert float(divergence.mean_rows(torch.tensor([[1.0, torch.nan], [2.0, 6.0]]), mask)) == 3.0


def test_hidden_entries_have_no_weight_and_no_gradient() -> None:
    scores = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    hidden = torch.tensor([[False, False, True]])
    p = scores.masked_fill(hidden, HIDDEN).log_softmax(-1)
    q = torch.tensor([[0.0, 1.0, HIDDEN]]).double().log_softmax(-1)
    (gradient,) = torch.autograd.grad((divergence.js(p, q) + divergence.kl(p, q)).sum(), scores)
    assert gradient[0, 2] == 0
    assert gradient.isfinite().all()
    torch.testing.assert_close(divergence.js(p, q), divergence.js(p[:, :2], q[:, :2]))


# --- per-instance adversaries ---


def problem(seed: int = 0):
    """Two texts of 6 and 4 words, three heads; place i is a softmax of what row i of every head fetches."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    visible = mask[:, :, None] & mask[:, None, :]
    scores = torch.randn(2, 3, 6, 6, generator=generator, dtype=torch.float64)
    alpha = torch.where(visible[:, None], scores, HIDDEN).softmax(-1) * mask[:, None, :, None]
    values = torch.randn(2, 3, 6, 4, generator=generator, dtype=torch.float64)
    return alpha, lambda a: (a @ values).sum(1).log_softmax(-1), visible, mask


@pytest.mark.parametrize("rowwise", [True, False])
def test_every_rival_keeps_the_prediction_and_is_a_distribution(rowwise: bool) -> None:
    alpha, predict, visible, mask = problem()
    search = Search(epsilon=0.05, steps=40)
    found = rivals(alpha, predict, visible=visible, queries=mask, places=mask, search=search, rowwise=rowwise)
    changed = divergence.tvd(predict(found.alpha), predict(alpha))
    assert (changed[mask] <= 0.05 + 1e-9).all()
    torch.testing.assert_close(found.tvd[mask], changed[mask])
    assert (found.alpha >= 0).all()
    assert (found.alpha[~visible[:, None].expand_as(alpha)] == 0).all()
    torch.testing.assert_close(found.alpha.sum(-1), mask[:, None].expand(-1, 3, -1).double())
    far = [float(jensenshannon(a, b) ** 2) for a, b in zip(alpha[0, 0], found.alpha[0, 0], strict=True)]
    np.testing.assert_allclose(found.js[0, 0], far, atol=1e-9)
    assert found.js[0].mean() > 0.05  # nothing to speak of is kept: six words, four dimensions, three heads
    assert (found.js[1, :, 4:] == 0).all()


def test_where_the_prediction_cannot_see_attention_rivals_are_as_far_as_can_be() -> None:
    """A sharp row and a model that ignores it: JS comes near ln 2."""
    alpha = torch.tensor([[[[0.97, 0.01, 0.01, 0.01]]]]).double()
    one = torch.ones(1, 1, dtype=torch.bool)
    search = Search(steps=200, noise=2.0)
    said = torch.tensor([[[0.5, 0.5]]]).double().log()
    found = rivals(
        alpha, lambda a: said + 0 * a.sum(), visible=torch.ones(1, 1, 4, dtype=torch.bool), queries=one, places=one,
        search=search,
    )  # fmt: skip
    assert float(found.js) > 0.6
    assert float(found.js) <= math.log(2)


def test_more_is_allowed_with_a_larger_epsilon() -> None:
    alpha, predict, visible, mask = problem(3)
    options = {"visible": visible, "queries": mask, "places": mask, "rowwise": True}
    small, large = (
        rivals(alpha, predict, search=Search(epsilon=e, steps=60), **options).js.mean() for e in (0.005, 0.4)
    )
    assert large > small > 0


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"epsilon": 1.5}, {"steps": 0}, {"rate": -1.0}])
def test_searches_that_cannot_be(change) -> None:
    with pytest.raises(InputError, match="was asked for"):
        Search(**change)

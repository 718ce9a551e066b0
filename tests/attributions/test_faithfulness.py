"""Comprehensiveness, sufficiency, AOPC and rank correlations: by hand, against loops, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import headwise as hw
from headwise.attributions.explain import explain
from headwise.attributions.faithfulness import (
    FRACTIONS,
    aopc,
    check_fractions,
    drops,
    kendall,
    removals,
    spearman,
    top,
)
from headwise.attributions.prediction import Removal, outputs_without, predicted, removable
from headwise.errors import InputError
from references import explain as twin

TEXTS = ("The old dog and the cat, so it was.", "the sea", "It was the end of it.")
YES = torch.ones(1, 5, dtype=torch.bool)


def test_the_named_tokens_by_hand() -> None:
    scores, may = torch.tensor([[0.9, 0.2, 0.5, 0.5, 0.1]]), torch.tensor([[False, True, True, True, True]])
    assert top(scores, may, 0.01).tolist() == [[False, False, True, False, False]]  # ⌈0.04⌉ = 1; of equals the earlier
    assert top(scores, may, 0.5).tolist() == [[False, False, True, True, False]]
    assert top(scores, may, 1.0).tolist() == may.tolist()
    both = removals(scores, may, [0.5])
    assert both[1, 0].tolist() == [[False, True, False, False, True]]


def test_sizes_are_not_those_of_rounding_errors() -> None:
    many = torch.ones(1, 100, dtype=torch.bool)
    for percent in range(1, 101):
        assert int(top(torch.rand(1, 100), many, percent / 100).sum()) == percent


def test_drops_and_their_mean_by_hand() -> None:
    whole = torch.tensor([0.8], dtype=torch.float64).log()
    without = torch.tensor([[[0.7], [0.4]], [[0.1], [0.8]]], dtype=torch.float64).log()
    torch.testing.assert_close(aopc(drops(whole, without)), torch.tensor([[0.25], [0.35]], dtype=torch.float64))


@pytest.mark.parametrize("removal", ["mask", "pad", "delete"])
@pytest.mark.parametrize(("family", "task"), [("bert", "classification"), ("gpt2", "causal-lm")])
def test_aopc_against_a_loop(family: str, task: str, removal: str) -> None:
    model = hw.load(f"tiny:{family}", task=task, dtype="float64")
    batch = model.batch([model.encode(text) for text in TEXTS])
    target, may = predicted(model, batch), removable(batch)
    scores = explain(model, batch, "gradient-input").scores
    fractions = (0.05, 0.2, 0.5)
    asked = removals(scores, may, fractions)
    sets = torch.cat([torch.zeros_like(may)[None], asked.flatten(0, 1)])
    whole, *rest = outputs_without(model, batch, sets, target, Removal.of(model, removal))
    got = aopc(drops(whole, torch.stack(rest).unflatten(0, (2, 3))))
    for at, text in enumerate(TEXTS):
        if not torch.isfinite(got[:, at]).all():
            continue
        expected = twin.aopc(model, text, scores[at].tolist(), fractions, removal, int(target[at]))
        np.testing.assert_allclose(got[:, at], expected, atol=1e-9)
    assert torch.isfinite(got).sum() >= 4


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=2, max_size=9))
def test_rank_correlations_are_scipys(rows: list[tuple[int, int, bool]]) -> None:
    x, y = (torch.tensor([[float(row[at]) for row in rows]]) for at in (0, 1))
    may = torch.tensor([[row[2] for row in rows]])
    a, b = x[may].numpy(), y[may].numpy()
    varied = len(set(a)) > 1 and len(set(b)) > 1
    for ours, theirs in ((kendall, stats.kendalltau), (spearman, stats.spearmanr)):
        got = float(ours(x, y, may)[0])
        assert got == pytest.approx(theirs(a, b).statistic, abs=1e-12) if varied else np.isnan(got)


def test_undefined_scores_have_no_correlation() -> None:
    x, y = torch.full((1, 5), torch.nan), torch.arange(5.0)[None]
    assert kendall(x, y, YES).isnan().all()
    assert spearman(x, y, YES).isnan().all()


@pytest.mark.parametrize("fractions", [(), (0.0,), (0.1, 1.5)])
def test_bad_fractions(fractions: tuple[float, ...]) -> None:
    check_fractions(FRACTIONS)
    with pytest.raises(InputError, match="must be above 0 and at most 1"):
        check_fractions(fractions)

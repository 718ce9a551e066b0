"""The faithfulness study: against loops over texts, in any batches and shards, on a model whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.attributions.asked import asked_by_lot
from headwise.attributions.explain import explain
from headwise.attributions.prediction import removable
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.stats import Moments
from headwise.studies.faithfulness import Faithfulness, interval
from headwise.studies.study import State
from references import explain as twin
from references.studies_folding import TEXTS, assert_drawable, assert_same, folded, setting

METHODS = ("random", "raw-attention", "gradient-input", "integrated-gradients", "leave-one-out")
FRACTIONS = (0.05, 0.2, 0.5)
STUDY = Faithfulness(methods=METHODS, fractions=FRACTIONS, steps=3)


@pytest.fixture(scope="module")
def model() -> hw.Model:
    return hw.load("tiny:bert", task="classification", dtype="float64")


@pytest.fixture(scope="module")
def tagger() -> hw.Model:
    return hw.load("tiny:bert", task="token-classification", dtype="float64")


@pytest.fixture(scope="module")
def state(model) -> State:
    return folded(model, STUDY)


def test_equal_to_loops_over_single_texts(model, monkeypatch) -> None:
    """On single texts, as the twins read those; every method's AOPC and its gain over random."""
    texts = [text for text, _ in TEXTS]
    monkeypatch.setattr("references.studies_folding.TEXTS", tuple((text, None) for text in texts))
    table = STUDY.table(folded(model, STUDY), setting(model))
    means = {}
    for method in METHODS:
        both = []
        for text in texts:
            batch = model.batch([model.encode(text)])
            found = explain(model, batch, method, **({"steps": 3} if method == "integrated-gradients" else {}))
            scores, target = found.scores[0].tolist(), int(found.target[0])
            both.append(twin.aopc(model, text, scores, FRACTIONS, "mask", target))
        means[method] = np.array(both)
    for row in table.iter_rows(named=True):
        expected = means[row["method"]]
        np.testing.assert_allclose([row["comprehensiveness"], row["sufficiency"]], expected.mean(0), atol=1e-9)
        gains = expected - means["random"]
        np.testing.assert_allclose([row["comprehensiveness_gain"], row["sufficiency_gain"]], gains.mean(0), atol=1e-9)
        error = 1.96 * expected[:, 0].std(ddof=1) / np.sqrt(len(texts))
        assert row["comprehensiveness_high"] - row["comprehensiveness"] == pytest.approx(error, abs=1e-9)
        assert row["texts"] == len(texts)


@pytest.mark.parametrize("removal", ["mask", "pad"])
def test_a_token_classifier_is_asked_about_one_token_of_each_text(tagger, monkeypatch, removal: str) -> None:
    """The same loops, for the label of the token that was drawn; which it is depends on seed and document alone."""
    texts, study = [text for text, _ in TEXTS], replace(STUDY, removal=removal)
    monkeypatch.setattr("references.studies_folding.TEXTS", tuple((text, None) for text in texts))
    table = study.table(folded(tagger, study), setting(tagger))
    means: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for number, text in enumerate(texts):
        batch = tagger.batch([tagger.encode(text)])
        asked = asked_by_lot(batch, torch.tensor([number]), removable(batch), STUDY.seed)
        place = int(asked.asked[0].int().argmax())
        assert not tagger.encode(text).special[place]
        with torch.no_grad():
            target = int(tagger.hf(**batch.inputs).logits[0, place].argmax())
        for method, both in means.items():
            more = {"integrated-gradients": {"steps": 3}, "leave-one-out": {"removal": removal}}.get(method, {})
            found = explain(tagger, asked, method, **more)
            assert int(found.target[0]) == target
            both.append(twin.aopc(tagger, text, found.scores[0].tolist(), FRACTIONS, removal, target, place))
    for row in table.iter_rows(named=True):
        expected = np.mean(means[row["method"]], axis=0)
        np.testing.assert_allclose([row["comprehensiveness"], row["sufficiency"]], expected, atol=1e-9)


def test_which_token_is_asked_about_is_drawn_by_seed_and_document(tagger) -> None:
    batch = tagger.batch([tagger.encode(text) for text, _ in TEXTS * 4])
    places = [
        asked_by_lot(batch, torch.arange(len(batch.texts)), removable(batch), seed).asked.int().argmax(-1).tolist()
        for seed in (0, 0, 1)
    ]
    assert places[0] == places[1] != places[2]
    assert len(set(places[0][::5])) > 1  # the same text as another document


def test_a_token_classifier_says_what_it_cannot_be_asked(tagger) -> None:
    with pytest.raises(InputError, match="keep their places, but removal='delete' was asked for; use mask"):
        Faithfulness(removal="delete").check(tagger)
    with pytest.raises(InputError, match="labels every token, so say about which one"):
        explain(tagger, tagger.batch([tagger.encode("the sea")]), "gradient-input")


@pytest.mark.parametrize("kind", ["model", "tagger"])
def test_batches_order_and_shards_change_nothing(kind: str, request) -> None:
    found = request.getfixturevalue(kind)
    whole = request.getfixturevalue("state") if kind == "model" else folded(found, STUDY)
    assert_same(folded(found, STUDY, batch_tokens=1), whole, near=1e-9)
    assert_same(folded(found, STUDY, order=[3, 0, 4, 2, 1]), whole, near=1e-9)


def test_leave_one_out_agrees_with_itself_and_random_gains_nothing(model, state) -> None:
    rows = {row["method"]: row for row in STUDY.table(state, setting(model)).iter_rows(named=True)}
    assert rows["leave-one-out"]["kendall"] == pytest.approx(1.0)
    assert rows["leave-one-out"]["spearman"] == pytest.approx(1.0)
    assert rows["random"]["comprehensiveness_gain"] == rows["random"]["sufficiency_gain"] == 0.0
    assert rows["integrated-gradients"]["completeness_error"] > 0
    assert rows["random"]["completeness_error"] is None


def test_removing_one_token_no_method_beats_leave_one_out(model) -> None:
    study = Faithfulness(methods=METHODS, fractions=(0.001,), of="log-probability", steps=3)
    table = study.table(folded(model, study), setting(model))
    best = table.filter(table["method"] == "leave-one-out")["comprehensiveness"][0]
    assert table["comprehensiveness"].max() == best


def test_interval_by_hand() -> None:
    moments = Moments.of(torch.tensor([[1.0, 3.0], [2.0, torch.nan]]), torch.ones(2))
    mean, half = interval(moments)
    assert mean == [2.0, 2.0]
    assert half[0] == pytest.approx(1.96 * 1.0)  # sd √2, over √2
    assert np.isnan(half[1])


def test_figures(model, state) -> None:
    charts = STUDY.figures(state, setting(model))
    assert_drawable(charts, ["aopc", "curves"])
    spec = charts["aopc"].to_dict()
    shown = {(row["what"], row["name"]): row["value"] for data in spec["datasets"].values() for row in data}
    for row in STUDY.table(state, setting(model)).iter_rows(named=True):
        assert shown["comprehensiveness_gain", row["method"]] == pytest.approx(row["comprehensiveness_gain"])
    assert ("kendall", "leave-one-out") not in shown  # it is the measure there
    assert "random" in " ".join(spec["title"]["subtitle"])


def test_bad_input(load) -> None:
    with pytest.raises(ModelError, match=r"has no head for it; load a fine-tuned folder .* \(--task classification\)"):
        Faithfulness().check(load("tiny:bert"))
    with pytest.raises(UnknownNameError, match="There is no explanation 'magic'"):
        Faithfulness(methods=("magic",))
    with pytest.raises(InputError, match="at least one method, each once"):
        Faithfulness(methods=("random", "random"))
    with pytest.raises(InputError, match="above 0 and up to 1"):
        Faithfulness(fractions=(2.0,))
    with pytest.raises(InputError, match="one of logit, log-probability"):
        Faithfulness(of="loss")
    with pytest.raises(InputError, match="baseline of study faithfulness must be one of"):
        Faithfulness(baseline="noise")
    with pytest.raises(InputError, match="removed by mask, pad, delete"):
        Faithfulness(removal="forget").check(load("tiny:bert", "classification"))

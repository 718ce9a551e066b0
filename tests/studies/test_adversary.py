"""The adversary study on tiny classifiers: what it keeps, what it finds, batches, bad input, the command line."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.attributions.asked import asked_at
from headwise.attributions.explain import explain
from headwise.attributions.substitution import log_probabilities, own_attention
from headwise.cli import main
from headwise.errors import InputError, ModelError
from headwise.models.tiny import tiny_model
from headwise.studies import STUDIES
from headwise.studies.adversary import Adversary, exact_rows
from headwise.studies.study import State
from references.studies_folding import TEXTS, assert_drawable, assert_same, folded, setting

STUDY = Adversary(steps=8, rows=1)


@pytest.fixture(scope="module")
def model() -> hw.Model:
    return hw.load("tiny:bert", task="classification", dtype="float64")


@pytest.fixture(scope="module")
def tagger() -> hw.Model:
    return hw.load("tiny:bert", task="token-classification", dtype="float64")


@pytest.fixture(scope="module")
def state(model) -> State:
    return folded(model, STUDY)


@pytest.mark.parametrize("name", ["tiny:bert", "tiny:llama", "tiny:modernbert"])
def test_the_models_own_attention_given_back_changes_nothing(name: str, load) -> None:
    """Grouped heads and windows included."""
    found = load(name, "classification")
    batch = found.batch([found.encode(*pair) for pair in TEXTS[:3]])
    alpha, _ = own_attention(found, batch)
    with torch.no_grad():
        own, _ = log_probabilities(found, batch)
        given, _ = log_probabilities(found, batch, alpha)
        other, _ = log_probabilities(found, batch, alpha.roll(1, dims=-1))
    torch.testing.assert_close(given, own, atol=1e-5, rtol=0)
    assert (other - own).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["model", "tagger"])
def test_facts_hold(kind: str, request) -> None:
    found = request.getfixturevalue(kind)
    table = STUDY.table(folded(found, STUDY), setting(found))
    whole = {row["what"]: row for row in table.filter(table["head"].is_null()).iter_rows(named=True)}
    assert 0 < whole["js"]["value"] <= math.log(2)
    assert 0 <= whole["tvd"]["value"] <= 0.05 + 1e-9
    assert {"gradient-input", "leave-one-out", "random"} <= set(whole)
    exact = table.filter(table["form"] == "exact")
    changes = exact.filter(exact["what"] == "output_change")["value"]
    assert len(changes)
    assert changes.max() < 1e-5  # the head's output is kept
    assert exact.filter(exact["what"] == "js")["value"].min() > 0
    assert_drawable(STUDY.figures(folded(found, STUDY), setting(found)), ["divergence", "importance"])


def test_batches_and_order_change_nothing(model, state) -> None:
    assert_same(folded(model, STUDY, batch_tokens=1), state, near=1e-6)
    assert_same(folded(model, STUDY, order=[3, 0, 4, 2, 1]), state, near=1e-6)


def test_exact_rows_by_substitution(model) -> None:
    """A far distribution of one row put into the model: the head's output is as before, and so is the prediction."""
    batch = model.batch([model.encode(*TEXTS[0])])
    layers: list = []
    with torch.no_grad():
        model.run(batch, layers.append, rows=0)
    js, change = exact_rows(layers[0], 0, 3)
    assert (js > 0).all()  # many more tokens than the head size of 6
    assert (change < 1e-5).all()
    few = model.batch([model.encode("the sea")])
    layers.clear()
    with torch.no_grad():
        model.run(few, layers.append, rows=0)
    assert exact_rows(layers[0], 0, 1)[0].isnan().all()  # four tokens: no other distribution


def test_importance_of_a_token_classifier_by_hand(tagger) -> None:
    """Gradient × input by moving along x; leave-one-out by masking, one token at a time."""
    encoding = tagger.encode(*TEXTS[1])
    batch, place = tagger.batch([encoding]), torch.tensor([2])
    asked = asked_at(batch, place)
    scores = explain(tagger, asked, "leave-one-out").scores[0]
    with torch.no_grad():
        logits = tagger.hf(**batch.inputs).logits[0, 2]
        target, expected = int(logits.argmax()), []
        for token, special in enumerate(encoding.special):
            ids = batch.inputs["input_ids"].clone()
            ids[0, token] = tagger.tokenizer.mask_token_id
            left = tagger.hf(**{**batch.inputs, "input_ids": ids}).logits[0, 2, target]
            expected.append(0.0 if special else float(logits[target] - left))
    np.testing.assert_allclose(scores.numpy(), expected, atol=1e-9)
    hf = tagger.hf
    x = hf.bert.embeddings(batch.inputs["input_ids"], token_type_ids=batch.inputs["token_type_ids"]).detach()
    said = lambda x: float(hf.classifier(hf.bert.encoder(x).last_hidden_state)[0, 2, target].detach())  # noqa: E731
    moved = []
    for token in range(len(encoding)):
        step = torch.zeros_like(x)
        step[0, token] = 1e-6 * x[0, token]
        moved.append((said(x + step) - said(x - step)) / 2e-6)
    found = explain(tagger, asked, "gradient-input").scores[0]
    np.testing.assert_allclose(found.numpy(), moved, atol=1e-6)
    attention = tagger.trace(*TEXTS[1]).attention("raw")[-1, :, 2].mean(0)
    np.testing.assert_allclose(explain(tagger, asked, "raw-attention").scores[0].numpy(), attention.numpy(), atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_only": False}, "head_only must hold"),
        ({"epsilon": 0.0}, "above 0 and up to 1"),
        ({"rows": -1}, "0 or more"),
        ({"steps": 0}, "1 or more"),
    ],
)
def test_settings_that_cannot_be(change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(STUDY, **change)


def test_what_it_asks_is_told_in_words() -> None:
    """The list of studies said "attention against τ"."""
    told = STUDIES.entry("adversary").about
    assert told == (
        "how far weights can be moved while the answer stays, and whether attention ranks tokens as importance does"
    )


def test_a_model_without_a_head_is_refused(load) -> None:
    with pytest.raises(ModelError, match="needs a model that predicts"):
        STUDY.check(load("tiny:bert"))


def test_head_only_at_the_command_line(tmp_path, capsys, monkeypatch) -> None:
    hf, tokenizer = tiny_model("bert", task="classification")
    hf.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("The old dog sat in the sun and it was big.\nThe sea.\n")
    command = f"headwise run adversary --model {tmp_path}/model --task classification --head-only"
    command += f" --corpus {tmp_path}/texts.txt --out {tmp_path}/out --set steps=3"
    monkeypatch.setattr("sys.argv", command.split())
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert hw.open(tmp_path / "out").manifest["study"] == "adversary"
    assert "2 texts" in capsys.readouterr().out

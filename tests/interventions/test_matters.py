"""One text, all heads: exact by plain passes, to first order by their slope; and what cannot be asked."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.changes import zero
from headwise.cli.inspect import inspect
from headwise.errors import InputError
from headwise.interventions import effects as effects_module
from headwise.interventions import matters as asked
from headwise.interventions.effects import Variant, effects, first_order, replaced, slopes
from headwise.interventions.matters import matters, matters_of
from headwise.interventions.outcomes import ask, ask_far
from headwise.types import Encoding
from references.captures import TARGETS, TEXTS
from references.compare import assert_close


def test_exactly_it_is_what_plain_passes_give(load) -> None:
    """Of a decoder the divergence of its answer, or in the mean of what it says within the text, whichever is more."""
    model = load("tiny:llama", "causal-lm")
    for text in (TEXTS[0], "The city was"):
        found = matters(model, text, exact=True)
        assert found.shape == (3, 4)
        for layer, head in ((0, 1), (1, 2), (2, 3)):
            apart = divergences(model, text, f"L{layer}.H{head}")
            assert_close(found[layer, head], max(apart[:-1].mean(), apart[-1]), 1e-5)
        assert torch.isfinite(matters(model, text)).all()
        assert (matters(model, text) >= 0).all()


def divergences(model: hw.Model, text: str, head: str, target: str | None = None) -> Tensor:
    """KL of what a model says at every place, in float64, from plain passes."""
    inputs = model.batch([model.encode(text)], [] if target is None else [model.encode_target(target)]).inputs
    with torch.no_grad():
        own = model.hf(**inputs).logits[0].double().softmax(-1)
        with model.changed(zero(head, stack=None if target is None else "cross")):
            other = model.hf(**inputs).logits[0].double().softmax(-1)
    return (own * (own / other).log()).sum(-1)


def test_what_cancels_in_the_mean_loss_counts(load) -> None:
    """“moves by .009 nats for the better” stood beside an answer that fell from 77 % to 14 %."""
    question = ask_far(load("tiny:llama", "causal-lm"), load("tiny:llama", "causal-lm").encode(TEXTS[0]))
    assert question is not None
    own = torch.tensor([[[0.5, 0.5], [0.5, 0.5], [0.77, 0.23]]]).log()
    ups_and_downs = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.77, 0.23]]).log()
    answer = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.14, 0.86]]).log()
    found = question.moved(own, torch.stack([own[0], ups_and_downs, answer]))[:, 0]
    expected = [0.0, 0.5 * math.log(0.25 / 0.09), 0.77 * math.log(0.77 / 0.14) + 0.23 * math.log(0.23 / 0.86)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_of_one_token_the_answer_is_asked(load) -> None:
    model = load("tiny:llama", "causal-lm")
    text = one_token(model)
    found = matters_of(model, text, exact=True)
    assert (found > 0).any()
    assert torch.isfinite(matters_of(model, text)).all()


def one_token(model: hw.Model) -> Encoding:
    whole = model.encode("the")
    return replace(whole, **{f.name: getattr(whole, f.name)[:1] for f in fields(whole) if f.name != "given"})


@pytest.mark.parametrize(("name", "task"), [("tiny:bert", "masked-lm"), ("tiny:bert", "token-classification")])
def test_of_other_heads_the_places_that_are_asked(load, name: str, task: str) -> None:
    model = load(name, task)
    found = matters(model, TEXTS[0], exact=True)
    question = ask(model, model.encode(TEXTS[0]))
    assert question is not None
    asked_at = question.labels >= 0
    with torch.no_grad():
        own = model.hf(**question.inputs).logits[0, asked_at].double().softmax(-1)
        with model.changed(zero("L1.H2")):
            other = model.hf(**question.inputs).logits[0, asked_at].double().softmax(-1)
    assert_close(found[1, 2], (own * (own / other).log()).sum(-1).mean(), 1e-5)


def test_of_a_label_its_loss(load) -> None:
    model = load("tiny:bert", "classification")
    question = ask(model, model.encode(TEXTS[0]))
    assert question is not None
    with torch.no_grad():
        own = question.read(model.hf(**question.inputs))[0, 0]
        with model.changed(zero("L1.H2")):
            other = question.read(model.hf(**question.inputs))[0, 0]
    assert_close(matters(model, TEXTS[0], exact=True)[1, 2], (other - own).abs(), 1e-5)


def test_the_first_order_of_a_divergence_is_its_curvature(load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects_module, "PROBES", 600)
    for name, task in (("tiny:llama", "causal-lm"), ("tiny:bert", "masked-lm")):
        model, step = load(name, task), 3e-2
        question = ask_far(model, model.encode(TEXTS[0]))
        assert question is not None
        x, slope = slopes(model, question)
        new = {place: (1 - step) * own for place, own in x.items()}
        guess = torch.cat(list(first_order(question, x, slope, new).values()))
        variants = [Variant(reads={place: replaced([head], new[place])}) for place in x for head in range(4)]
        exact = effects(model, question, variants, signed=False)[:, 0]
        assert ((guess / exact) - 1).abs().median() < 0.15


def test_inspect_has_a_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    inspect(TEXTS[0], model="tiny:llama", task="causal-lm", matters=True, json_="-", layer=1, head="2")
    (row,) = json.loads(capsys.readouterr().out)["heads"]
    model = hw.load("tiny:llama", task="causal-lm")
    taken = float(matters(model, TEXTS[0], exact=True)[1, 2])
    assert row["matters"] == pytest.approx(taken, rel=1e-5), "of a short text every head is taken away"
    monkeypatch.setattr(asked, "QUICK", 0)
    inspect(TEXTS[0], model="tiny:llama", task="causal-lm", matters=True, json_="-", layer=1, head="2")
    (row,) = json.loads(capsys.readouterr().out)["heads"]
    assert row["matters"] == pytest.approx(float(matters(model, TEXTS[0])[1, 2]), rel=1e-5)
    inspect(TEXTS[0], model="tiny:llama", task="causal-lm", exact=True, json_="-", layer=1, head="2")
    (row,) = json.loads(capsys.readouterr().out)["heads"]
    assert row["matters"] == pytest.approx(taken, rel=1e-5)
    inspect(TEXTS[0], model="tiny:bert", matters=True)
    assert "matters" in capsys.readouterr().out
    with pytest.raises(InputError, match="Heads matter, but mixing and origins have none"):
        inspect(TEXTS[0], model="tiny:bert", quantity="globenc", matters=True)


def test_stacks_and_pairs(load) -> None:
    model = load("tiny:marian", "translation")
    found = matters(model, TEXTS[0], TARGETS[0], stack="cross", exact=True)
    assert found.shape == (3, 4)
    apart = divergences(model, TEXTS[0], "L1.H2", TARGETS[0])
    assert_close(found[1, 2], apart[:-1].mean(), 1e-5)
    with pytest.raises(InputError, match="reads a source and a target"):
        matters(model, TEXTS[0])
    with pytest.raises(InputError, match="There is no stack 'self' in tiny:marian"):
        matters(model, TEXTS[0], TARGETS[0], stack="self")

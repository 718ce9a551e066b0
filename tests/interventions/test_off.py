"""A head switched off: what moves is what plain changed passes give, below it nothing moves, and names are checked."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from headwise.changes import zero
from headwise.errors import InputError
from headwise.interventions import matters as asked
from headwise.interventions.matters import matters, matters_of, quick
from headwise.interventions.off import head_named, most_needed, name_of, said, switched_off
from references.captures import TARGETS, TEXTS
from references.compare import assert_close


def test_maps_effect_and_answer_are_those_of_the_changed_model(load) -> None:
    model = load("tiny:llama", "causal-lm")
    (off,) = switched_off(model, model.encode(TEXTS[0]), None, [("self", 1, 2)])
    changed, own = model.trace(TEXTS[0], change=zero("L1.H2")), model.trace(TEXTS[0])
    assert_close(off.maps["self"], changed.attention(), 1e-6)
    assert_close(off.moved["self"], (changed.attention() - own.attention()).abs().sum(-1).mean(-1) / 2, 1e-6)
    assert_close(torch.tensor(off.effect), matters(model, TEXTS[0], exact=True)[1, 2])
    assert (off.moved["self"][:2] == 0).all(), "its own layer and those below are decided before it"
    assert (off.moved["self"][2] > 0).all()
    assert off.answers.startswith("Next comes: “")
    assert f"by {abs(off.effect):.2g} nats" in off.says
    assert_close(model.trace(TEXTS[0]).attention(), own.attention(), 1e-7)  # and it is on again


def test_an_encoder_moves_the_decoder_too(load) -> None:
    model = load("tiny:marian", "translation")
    text, target = model.encode(TEXTS[0]), model.encode_target(TARGETS[0])
    (off,) = switched_off(model, text, target, [("encoder", 2, 1)])
    assert (off.moved["encoder"] == 0).all()
    assert (off.moved["cross"] > 0).all()
    assert off.answers.startswith("The target read here: ")


def test_the_heads_that_matter_most_do_so_when_they_are_taken_away(load) -> None:
    model = load("tiny:llama", "causal-lm")
    taken = matters(model, TEXTS[0], exact=True).abs()
    found = most_needed(model, model.encode(TEXTS[0]), None, 3)
    assert [float(taken[layer, head]) for _, layer, head in found] == pytest.approx(
        sorted(taken.flatten().tolist())[:-4:-1]
    )
    guessed = matters(model, TEXTS[0]).abs()
    assert [float(guessed[layer, head]) for _, layer, head in found] != sorted(guessed.flatten().tolist())[:-4:-1]


@pytest.mark.parametrize("only", [(1, None), (None, 2), (1, 2)])
def test_only_some_heads_are_taken_away(load, only: tuple[int | None, int | None]) -> None:
    model = load("tiny:llama", "causal-lm")
    text = model.encode(TEXTS[0])
    every, some = matters_of(model, text, exact=True), matters_of(model, text, exact=True, only=only)
    asked_for = torch.zeros_like(every, dtype=torch.bool)
    asked_for[slice(None) if only[0] is None else only[0], slice(None) if only[1] is None else only[1]] = True
    assert torch.equal(~some.isnan(), asked_for)
    assert_close(some[asked_for], every[asked_for], 1e-6)


@pytest.mark.parametrize(("less", "takes"), [(0, True), (1, False)])
def test_every_head_is_taken_away_where_that_takes_seconds(
    load, monkeypatch: pytest.MonkeyPatch, less: int, takes: bool
) -> None:
    model = load("tiny:llama", "causal-lm")
    heads, text = model.layers("self") * model.heads("self"), model.encode(TEXTS[0])
    weights = sum(weight.numel() for name, weight in model.hf.named_parameters() if "embed" not in name)
    monkeypatch.setattr(asked, "QUICK", heads * weights * len(text) / 2 - less)
    assert quick(model, text) is takes


def test_names_and_words(load) -> None:
    model = load("tiny:marian", "translation")
    assert head_named(model, "L1.H2") == ("encoder", 1, 2)
    assert head_named(model, "cross L1.H2") == ("cross", 1, 2)
    assert name_of(("cross", 1, 2), model.stacks) == "cross L1.H2"
    assert name_of(("self", 1, 2), ["self"]) == "L1.H2"
    assert said("label", 0.5) == "The loss of the label moves by 0.5 nats."
    for name, words in {
        "L1": "A head is named L5.H3, or cross L1.H2 where there are several stacks, but got 'L1'.",
        "L9.H0": "Layers of tiny:marian go from 0 to 2, but 9 was asked for.",
        "self L0.H0": "There is no stack 'self' in tiny:marian; there are encoder, decoder, cross.",
    }.items():
        with pytest.raises(InputError) as error:
            head_named(model, name)
        assert str(error.value) == words
    alone = model.encode_target("the")
    short = replace(alone, **{f.name: getattr(alone, f.name)[:1] for f in fields(alone) if f.name != "given"})
    with pytest.raises(InputError, match="something to foretell"):
        most_needed(model, model.encode("the"), short, 1)

"""One text, all heads: exact by plain passes, to first order by their slope; and what cannot be asked."""

from __future__ import annotations

import json

import pytest
import torch

import headwise as hw
from headwise.changes import zero
from headwise.cli.inspect import inspect
from headwise.errors import InputError
from headwise.interventions import matters as asked
from headwise.interventions.matters import matters
from headwise.interventions.outcomes import ask
from references.captures import TARGETS, TEXTS
from references.compare import assert_close


def test_exactly_it_is_what_plain_passes_give(load) -> None:
    model = load("tiny:llama", "causal-lm")
    found = matters(model, TEXTS[0], exact=True)
    question = ask(model, model.encode(TEXTS[0]))
    assert question is not None
    with torch.no_grad():
        clean = question.read(model.hf(**question.inputs)).mean()
        with model.changed(zero("L1.H2")):
            assert_close(found[1, 2], question.read(model.hf(**question.inputs)).mean() - clean, 1e-5)
    assert found.shape == (3, 4)
    assert torch.isfinite(matters(model, TEXTS[0])).all()


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
    assert matters(model, TEXTS[0], TARGETS[0], stack="cross").shape == (3, 4)
    with pytest.raises(InputError, match="reads a source and a target"):
        matters(model, TEXTS[0])
    with pytest.raises(InputError, match="There is no stack 'self' in tiny:marian"):
        matters(model, TEXTS[0], TARGETS[0], stack="self")

"""The model's own answer beside a target that somebody else chose: against the model asked, for every kind of model."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import headwise as hw
from headwise.cli import app
from headwise.errors import InputError
from headwise.explanations import asking
from headwise.explanations.asking import Wish, ask
from headwise.explanations.question import Question
from headwise.explanations.said import says, sure
from headwise.explanations.targets import Target
from headwise.interventions.answered import short

TEXT = "the old dog"


def said(model: hw.Model, text: str = TEXT, pair: str | None = None, **wish) -> str:
    wished = Wish(**wish)
    return says(ask(model, text, pair, wish=wished), wished)


@pytest.fixture(scope="module")
def classifier() -> hw.Model:
    return hw.load("tiny:bert", task="classification", dtype="float64")


def test_a_classifier_says_another_label(classifier) -> None:
    z = classifier.hf(**classifier.batch([classifier.encode(TEXT)]).inputs).logits[0].detach().softmax(-1)
    own, other = int(z.argmax()), int(z.argmin())
    names = classifier.hf.config.id2label
    assert said(classifier, target=other) == f"The model itself says: {names[own]} ({sure(float(z[own]))})"
    assert said(classifier, target=own) == said(classifier, target=own, rather=other) == ""
    assert said(classifier, target=other, rather=own).startswith(f"The model itself says: {names[own]} (")


@pytest.mark.parametrize(("logits", "told"), [
    ((2.0, -1.0, 0.5), "The model itself says: a (88 %), c (62 %)"),
    ((-2.0, -6.0, -1.0), "The model itself says: none of its labels; the likeliest is c (27 %)"),
    ((-2.0, 0.0, -1.0), ""),
])  # fmt: skip
def test_labels_that_are_said_each_by_itself(logits: tuple[float, ...], told: str) -> None:
    model = hw.load("tiny:bert", task="classification")
    model.hf.config.problem_type = "multi_label_classification"
    model.hf.config.id2label = dict(enumerate("abc"))
    head = model.hf.classifier = torch.nn.Linear(model.hf.config.hidden_size, 3)
    head.weight.data.zero_()
    head.bias.data = torch.tensor(logits)
    assert said(model, target="b") == told


def test_the_label_of_a_word() -> None:
    model = hw.load("tiny:bert", task="token-classification", dtype="float64")
    text = model.encode(TEXT)
    names, place = model.hf.config.id2label, text.unit.index(text.words.index("dog"))
    z = model.hf(**model.batch([text]).inputs).logits[0, place].detach().softmax(-1)
    told = f"The model itself says: {names[int(z.argmax())]} ({sure(float(z.max()))})"
    assert said(model, target=int(z.argmin()), at="dog") == told
    assert said(model, target=int(z.argmax()), at="dog") == ""


@pytest.fixture(scope="module")
def writer() -> hw.Model:
    return hw.load("tiny:gpt2", task="causal-lm", dtype="float64")


def test_a_language_model_goes_on_otherwise(writer) -> None:
    """A target that begins as the model itself would and then goes on with another token."""
    ids, p = list(writer.encode(TEXT).ids), []
    for _ in range(2):
        row = writer.hf(torch.tensor([ids])).logits[0, -1].detach().softmax(-1)
        ids.append(int(row.argmax()))
        p.append(float(row.max()))
    own = ids[-2:]
    asked = ask(writer, TEXT, wish=Wish(target=own[0]))
    assert says(asked, Wish(target=own[0])) == ""
    other = own[0] - 1
    word = short(f"“{writer.tokenizer.decode([own[0]])}”")
    assert said(writer, target=other) == f"The model itself says: {word} ({sure(p[0])})"

    def continued(*chosen: int) -> str:
        prompt = writer.encode(TEXT)
        whole = replace(
            prompt, ids=(*prompt.ids, chosen[0]), tokens=(*prompt.tokens, "x"), special=(*prompt.special, False),
            segment=(*prompt.segment, 0), offsets=(*prompt.offsets, (0, 0)), unit=(*prompt.unit, 99),
        )  # fmt: skip
        rows = (len(prompt) - 1, len(prompt))
        target = Target("continuation", "log-probability", "x", (0, 1), chosen)
        return says(Question(writer, whole, None, (True,) * len(whole), rows, (target,)), Wish(target="x"))

    both = short(f"“{writer.tokenizer.decode(own).strip()}”")
    mean = sure(math.sqrt(p[0] * p[1]))
    assert continued(own[0], own[1] - 1) == f"The model itself says: {both} ({mean} a token, geometric mean)"
    assert continued(*own) == ""
    assert continued(other, own[1]) == f"The model itself says: {word} ({sure(p[0])})"


def test_a_mask_is_one_token_however_many_the_target_has() -> None:
    model = hw.load("tiny:bert", task="masked-lm", dtype="float64")
    text = model.encode("the [MASK] dog")
    row = model.hf(**model.batch([text]).inputs).logits[0, text.tokens.index("[MASK]")].detach().softmax(-1)
    own = model.tokenizer.decode([int(row.argmax())])
    told = f"The model itself says: {short(f'“{own}”')} ({sure(float(row.max()))})"
    several = next(word for word in ("unbelievable", "sleeplessness") if len(model.tokenizer.tokenize(word)) > 1)
    assert said(model, "the [MASK] dog", target=several) == told
    assert said(model, "the [MASK] dog", target=int(row.argmin())) == told
    assert said(model, "the [MASK] dog", target=int(row.argmax())) == ""


def test_a_translation_of_its_own() -> None:
    model = hw.load("demo-nmt", task="translation")
    own = ask(model, "Der Hund bellt.")
    sentence, p = own.targets[0].name, float(own.answers[0, 1].exp())
    told = f"The model itself says: “{sentence}” ({sure(p)} a token, geometric mean)"
    assert said(model, "Der Hund bellt.", "The cat barks.") == told
    assert said(model, "Der Hund bellt.", target="The cat barks.") == told
    assert said(model, "Der Hund bellt.", sentence) == ""


def test_a_translation_model_may_write_nothing(load, monkeypatch) -> None:
    model, wish = load("tiny:marian", "translation"), Wish()
    asked = ask(model, TEXT, "the sea", wish=wish)
    assert says(asked, wish) != ""
    monkeypatch.setattr(asking, "_translation", lambda *_: (_ for _ in ()).throw(InputError("It wrote nothing.")))
    assert says(asked, wish) == "The model itself says: nothing"


def test_the_shell_the_page_and_the_figures_of_a_program_have_it(classifier, tmp_path) -> None:
    other = int(classifier.hf(**classifier.batch([classifier.encode(TEXT)]).inputs).logits[0].detach().argmin())
    found = classifier.explain(TEXT, target=other, tests=False, beside=())
    assert found.says.startswith("The model itself says: ")
    assert json.loads(re.findall(r'id="data">(.*?)</script>', found.page())[0])["says"] == found.says
    assert classifier.explain(TEXT, tests=False, beside=()).says == ""
    words = ["explain", TEXT, "--model", "tiny:bert", "--task", "classification", "--no-tests", "--target", str(other)]
    run = CliRunner().invoke(app, words)
    assert found.says in run.output.splitlines(), run.output
    run = CliRunner().invoke(app, [*words, "--json", str(tmp_path / "out.json")])
    assert json.loads((tmp_path / "out.json").read_text())["says"] == found.says

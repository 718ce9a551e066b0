"""`model.explain` from end to end on tiny models: every task, every method, the page, the command."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch
from typer.testing import CliRunner

import headwise as hw
from headwise.cli import app
from headwise.errors import InputError, UnknownNameError
from headwise.explanations import explain as explain_module
from headwise.explanations import frozen, methods
from headwise.explanations.asking import Wish, ask
from headwise.explanations.methods import METHODS

NASTY = "</script><b>the old dog</b> & the sea"


@pytest.fixture(scope="module")
def found(load):
    return load("tiny:bert", "classification").explain("the old dog and it was late", method="paths")


def test_the_parts_add_up_with_what_else_there_is(found) -> None:
    assert found.adds is not None
    total = found.scores.sum(-1) + sum(found.adds.values())
    torch.testing.assert_close(total, found.value, rtol=1e-4, atol=1e-4)
    assert found.method == "paths"
    assert found.passes == 3
    assert found.targets[0].of == "log-odds"


def test_the_table_has_the_strongest_first_and_the_other_methods(found) -> None:
    table = found.table
    assert table["score"].abs().is_sorted(descending=True)
    assert {"unit", "score", "removable", "gradient-input", "raw-attention", "leave-one-out"} == set(table.columns)
    assert len(table) == len(found.units)
    with pytest.raises(InputError, match="Targets go from 0 to 0, but 1 was asked for"):
        found.table_of(1)


def test_the_default_is_leave_one_out_of_whole_units_and_paths_for_long_texts(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    short = model.explain("the old dog", tests=False, beside=())
    assert (short.method, short.passes, short.adds) == ("leave-one-out", 4, None)
    question = ask(model, "the old dog")
    for at, unit in enumerate(short.units):
        sets = torch.zeros(1, len(question.text), dtype=torch.bool)
        sets[0, list(unit.tokens)] = unit.given
        rest = float(question.without(sets, removal="block")[0, 0, 0])
        assert float(short.scores[0, at]) == pytest.approx(float(question.answers[0, 0]) - rest, abs=1e-5)
    most = explain_module.ALONE_UNITS
    at_edge, above = (model.explain("the " * n, tests=False, beside=()).method for n in (most, most + 1))
    assert (at_edge, above) == ("leave-one-out", "paths")


@pytest.mark.parametrize("method", ["leave-one-out", "paths"])
def test_leave_one_out_removes_as_it_is_asked_to(load, method: str) -> None:
    """It blocked attention whatever was asked for, so that the table spoke against the sentence above it."""
    model, columns = load("tiny:bert", "classification"), []
    for removal in ("mask", "delete", "block"):
        found = model.explain("the old dog and", of="logit", removal=removal, method=method, beside=())
        assert found.trial is not None
        assert found.trial.removal == removal
        assert "Scores:" not in found.note
        question, units = ask(model, "the old dog and", wish=Wish(of="logit")), found.units
        alone = found.scores if method == "leave-one-out" else found.others["leave-one-out"]
        for at, unit in enumerate(units):
            sets = torch.zeros(1, len(question.text), dtype=torch.bool)
            sets[0, list(unit.tokens)] = unit.given
            rest = float(question.without(sets, removal=found.trial.removal)[0, 0, 0])
            assert float(alone[0, at]) == pytest.approx(float(question.answers[0, 0]) - rest, abs=1e-5)
        columns.append(tuple(round(x, 6) for x in alone[0].tolist()))
    assert len(set(columns)) == 3


def test_where_nobody_asks_the_scores_say_that_they_are_made_in_another_way(load) -> None:
    found = load("tiny:bert", "classification").explain("the old dog and", beside=())
    assert found.trial is not None
    assert found.trial.removal == "mask"
    assert found.note.endswith("Scores: nobody attends to the word; tests: words are masked (--removal mask: both).")


def test_the_first_word_that_is_tried_is_the_first_of_the_table(load) -> None:
    """What the table says of one word is what the sentence says of its removal: log-odds of the same probability."""
    found = load("tiny:gpt2", "causal-lm").explain("the old dog and", beside=(), removal="delete")
    assert found.trial is not None
    whole, without = found.trial.deletion[:2]
    score = max(x for x, unit in zip(found.scores[0].tolist(), found.units, strict=True) if unit.given)
    assert score == pytest.approx(math.log(whole / (1 - whole)) - math.log(without / (1 - without)), abs=1e-5)


def test_the_only_word_of_a_text_that_is_deleted_has_no_score(load) -> None:
    """Nothing would be left to read, not even a special token; 0 would say that the word does nothing."""
    model = load("demo-llm", "causal-lm")
    found = model.explain("Cat", tests=False, beside=(), removal="delete")
    assert bool(found.scores.isnan().all())
    assert "NaN" not in found.page()
    assert bool(model.explain("Cat", tests=False, beside=()).scores.isfinite().all())


def test_a_contrast_with_itself_is_refused(load) -> None:
    with pytest.raises(InputError, match="A contrast is between two things, but both are 1"):
        load("tiny:bert", "classification").explain("the old dog and", target=1, rather=1)


def test_the_sentence_on_a_contrast_says_so(load) -> None:
    found = load("tiny:bert", "classification").explain("the old dog and", target=0, rather=1, beside=())
    assert found.verdict is not None
    assert "nswer's probability (of the two) " in found.verdict.sentence


def test_words_are_the_sums_of_their_tokens(load) -> None:
    model = load("tiny:bert", "classification")
    words, tokens = (
        model.explain("unbelievable dog", units=u, tests=False, method="paths") for u in ("words", "tokens")
    )
    torch.testing.assert_close(words.scores.sum(-1), tokens.scores.sum(-1))
    assert len(words.units) < len(tokens.units)
    assert words.trial is None
    assert words.verdict is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["tiny:bert", "tiny:llama"])
def test_every_method_scores_every_token(load, name: str, method: str) -> None:
    model = load(name, "classification" if name == "tiny:bert" else "causal-lm")
    made = model.explain("the old dog", method=method, tests=False, beside=())
    assert made.scores.shape == (1, len(made.units))
    assert bool(made.scores.isfinite().all())
    assert (made.adds is not None) == (method == "paths")


def test_gradient_input_is_that_of_a_longer_word() -> None:
    """Against the logit with one word's embedding a little longer, in a classifier, where no row is read twice."""
    model = hw.load("tiny:bert", task="classification", dtype="float64")
    question = ask(model, "the old dog", wish=Wish(of="logit"))
    scores = METHODS["gradient-input"](question).tokens[0]
    table, place, step, values = model.hf.get_input_embeddings().weight, 2, 1e-6, []
    row = table.data[question.text.ids[place]].clone()
    for sign in (1, -1):
        table.data[question.text.ids[place]] = row * (1 + sign * step)
        with torch.no_grad(), question.running():
            values.append(float(question.targets[0].value(question.logits())))
    table.data[question.text.ids[place]] = row
    assert float(scores[place]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_integrated_gradients_add_up_to_the_difference_from_the_baseline(load) -> None:
    model = load("tiny:bert", "classification")
    question = ask(model, "the old dog", wish=Wish(of="logit"))
    scores = METHODS["integrated-gradients"](question, steps=48).tokens[0]
    pads = model.tokenizer.pad_token_id
    ids = [pads if given else i for i, given in zip(question.text.ids, question.given, strict=True)]
    inputs = {**question.inputs, "input_ids": torch.tensor([ids])}
    with torch.no_grad(), question.running():
        blank = float(question.targets[0].value(question.logits(inputs).double()))
    assert float(scores.sum()) == pytest.approx(float(question.answers[0, 0]) - blank, rel=2e-2)


@pytest.mark.parametrize(("name", "task"), [("tiny:bert", "classification"), ("tiny:marian", "translation")])
def test_integrated_gradients_several_steps_a_pass_are_those_of_one_a_pass(load, monkeypatch, name, task) -> None:
    question = ask(load(name, task), "the old dog", "the sea" if task == "translation" else None)
    several = METHODS["integrated-gradients"](question, steps=5).tokens
    monkeypatch.setattr(methods, "PASS_TOKENS", 2 * len(question))
    torch.testing.assert_close(METHODS["integrated-gradients"](question, steps=5).tokens, several, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(methods, "PASS_TOKENS", 1)
    torch.testing.assert_close(METHODS["integrated-gradients"](question, steps=5).tokens, several, rtol=1e-4, atol=1e-6)


def test_leave_one_out_is_the_model_asked_again(load) -> None:
    question = ask(load("tiny:bert", "classification"), "the old dog", wish=Wish(of="logit"))
    scores = METHODS["leave-one-out"](question).tokens[0]
    for at, given in enumerate(question.given):
        sets = torch.zeros(1, len(question.text), dtype=torch.bool)
        sets[0, at] = given
        rest = float(question.without(sets, removal="mask")[0, 0, 0])
        assert float(scores[at]) == pytest.approx(float(question.answers[0, 0]) - rest, abs=1e-5)


def test_heads_add_up_and_tell_direct_from_indirect(load) -> None:
    made = load("tiny:gpt2", "causal-lm").explain("the old dog", units="heads")
    assert made.adds is not None
    torch.testing.assert_close(made.scores.sum(-1) + sum(made.adds.values()), made.value, rtol=1e-4, atol=1e-4)
    assert [u.name for u in made.units][:5] == ["L0.H0", "L0.H1", "L0.H2", "L0.H3", "L1.H0"]
    assert [u.name for u in made.units][-3:] == [f"feed-forward L{n}" for n in range(3)]
    heads = made.columns["total"][:, :12] - made.scores[:, :12]
    torch.testing.assert_close(made.columns["indirect"][:, :12], heads)
    with pytest.raises(InputError, match="those of paths"):
        load("tiny:gpt2", "causal-lm").explain("the dog", units="heads", method="rollout")


@pytest.mark.parametrize(
    ("name", "task", "pair"),
    [
        ("tiny:gpt2", "causal-lm", None),
        ("tiny:bert", "classification", None),
        ("tiny:marian", "translation", "the sea"),
    ],
)
def test_a_trace_says_which_head_brought_what(load, name: str, task: str, pair: str | None) -> None:
    model = load(name, task)
    text = "The old dog and the cat"
    found = model.trace(text, pair).brought()
    asked = model.explain(text, pair, units="heads")
    assert found.table.equals(asked.table)
    total = float(found.scores.sum()) + sum(float(part.sum()) for part in found.adds.values())
    assert total == pytest.approx(float(found.value[0]), abs=1e-3)


def test_an_answer_is_explained_as_a_whole_and_token_by_token(load) -> None:
    made = load("tiny:llama", "causal-lm").explain("the old dog", generate=3, tests=False, method="paths")
    assert len(made.targets) >= 1
    if len(made.targets) > 1:
        torch.testing.assert_close(made.scores[0], made.scores[1:].sum(0))


def test_where_paths_do_not_add_up_another_method_is_shown_and_says_so(load, monkeypatch) -> None:
    monkeypatch.setitem(frozen.RULES, "layer_norm", lambda _m, func, args, kwargs: func(*args, **kwargs))
    made = load("tiny:gpt2", "causal-lm").explain("the " * 41, tests=False)
    assert made.method == explain_module.FALL_BACK
    assert made.note.startswith("Exact paths must add up")
    assert made.note.endswith(f"Here {explain_module.FALL_BACK} is shown.")


def test_bad_choices_are_one_line(load) -> None:
    model = load("tiny:bert", "classification")
    with pytest.raises(UnknownNameError, match=r"no explanation method 'path'.*Did you mean 'paths'"):
        model.explain("the dog", method="path")
    with pytest.raises(InputError, match="Units are tokens, words, sentences, passages or heads"):
        model.explain("the dog", units="letters")
    with pytest.raises(InputError, match="Options of paths are attention, gate, but 'steps' was given"):
        model.explain("the dog", method="paths", steps=3)
    with pytest.raises(InputError, match="A token is removed by mask, delete, block"):
        model.explain("the dog", removal="burn")


# The page and the command.


def test_the_page_escapes_everything_and_needs_no_network(load) -> None:
    page = load("tiny:bert", "classification").explain(NASTY).page()
    assert page.isascii()
    assert page.lower().count("</script>") == 2
    assert "<b>the" not in page
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?https?:", page)
    data = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    assert any(unit["name"] == "<" for unit in data["units"])
    assert data["verdict"]["sentence"].endswith(".")


def test_what_the_page_shows_is_what_was_found(found) -> None:
    data = json.loads(re.findall(r'id="data">(.*?)</script>', found.page())[0])
    assert data["scores"]["paths"][0] == pytest.approx(found.scores[0].tolist(), rel=1e-5)
    assert len(data["curves"]) == 2 * len(found.trial.steps)
    assert data["tests"]["aopc"] == pytest.approx(found.trial.aopc, rel=1e-5)
    assert data["tests"]["orders"] == 19


def test_the_figure_has_bars_and_both_curves(found) -> None:
    spec = found.figure().to_dict()
    text = json.dumps(spec, ensure_ascii=False)
    assert "kept alone" in text
    assert "removed" in text
    assert found.verdict.sentence in text


def test_the_command_writes_a_page_or_a_table(tmp_path) -> None:
    run = CliRunner().invoke(app, ["explain", "the old dog", "--model", "tiny:gpt2", "--task", "causal-lm"])
    assert run.exit_code == 0, run.output
    assert "next-token" in run.output
    assert "leave-one-out" in run.output
    page = tmp_path / "out.html"
    asked = [
        "explain",
        "the [MASK] dog",
        "--model",
        "tiny:bert",
        "--task",
        "masked-lm",
        "--target",
        "old",
        "-o",
        str(page),
    ]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    assert page.read_text("ascii").startswith("<!doctype html>")


def test_hw_explain_loads_the_model_with_its_own_head() -> None:
    made = hw.explain("Der Hund schläft.", "The dog sleeps.", model="demo-nmt", tests=False)
    assert made.targets[0].kind == "translation"
    assert made.targets[0].name == "The dog sleeps."

"""The first page's verdict: the worst vote decides, the sentence says whose, and what was given is not asked for."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

from typing import Any

import pytest

from headwise.reports import make
from headwise.reports.answers import Card, card, cards, verdict
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, DOING, MIXING, NOISE, Answer, Vote, graded

UNIQUE = Vote("unique", "yes", "weights are unique")
SHORT = Vote("carries", "no", "the weight is on short vectors")
MIXED = Vote("words", "with care", "tokens are mixed")
MATTERS = Vote("matters", "yes", "the prediction falls")


@pytest.mark.parametrize(
    ("votes", "said"),
    [
        ([("nullspace", UNIQUE)],
         "In the mean over heads, yes: weights are unique. Decided by nullspace, its one test."),
        ([("nullspace", UNIQUE), ("faithfulness", MATTERS)],
         "Yes, as far as was measured: weights are unique; the prediction falls. Decided by nullspace, faithfulness, of 2 "
         "tests."),
        ([("nullspace", UNIQUE), ("mixing", MIXED), ("faithfulness", MATTERS)],
         "With care: tokens are mixed. Decided by mixing, of 3 tests."),
        ([("nullspace", UNIQUE), ("norms", SHORT), ("mixing", MIXED)],
         "No, not the raw weights: the weight is on short vectors. Decided by norms, of 3 tests."),
        ([("mixing", MIXED), ("norms", SHORT), ("ablation", SHORT)],
         "No, not the raw weights: the weight is on short vectors; the weight is on short vectors. Decided by norms, "
         "ablation, of 3 tests."),
        ([], "Nothing that was run decides this."),
    ],
)  # fmt: skip
def test_the_worst_vote_decides_and_is_named(votes: Any, said: str) -> None:
    assert verdict(votes) == said


HEADLESS = "A model with a classification head is needed: --task classification."
LEFT_OUT = {"probe": "it is run where it is named.", "faithfulness": HEADLESS, "adversary": HEADLESS}


def believed(*votes: Vote, left_out: dict[str, str]) -> Card:
    return card(BELIEVE, [("nullspace", Answer(BELIEVE, "r = 0.95.", vote=vote)) for vote in votes], left_out)


def test_what_kept_the_answer_from_being_tested_is_told_once() -> None:
    found = believed(UNIQUE, left_out=LEFT_OUT)
    assert found.because == (
        ("r = 0.95.", "nullspace"),
        (f"Whether what attention names matters to the model's answer was not measured. {HEADLESS}", "faithfulness"),
    )
    assert len(believed(UNIQUE, MATTERS, left_out=LEFT_OUT).because) == 2
    assert len(believed(UNIQUE, left_out={}).because) == 1


def test_labels_that_nobody_reads_are_not_asked_for() -> None:
    """A prediction is explained, not a label: with none the answer of a classifier is tested all the same."""
    asking = [name for name in STUDIES if "matters" in STUDIES[name].votes_on]
    assert asking == ["faithfulness", "adversary"]
    assert [STUDIES[name].needs.corpus for name in asking] == [None, None]


@pytest.mark.parametrize(
    ("question", "fallback"),
    [
        (DOING, "Each head's attention by position and by kind of token is in the section on where heads look."),
        (MIXING, "Where a hidden token's word can still be told is in the sections below."),
        (NOISE, "Heads that repeat each other or park their attention."),
        ("What else?", ""),
    ],
)
def test_the_first_headline_answers_and_else_a_pointer(question: str, fallback: str) -> None:
    plain = Answer(question, "One thing.")
    assert card(question, [("a", plain)], {}).short == fallback
    both = [("a", plain), ("b", Answer(question, "Two.", headline="In short.")), ("c", Answer(question, "3.", "Late."))]
    assert card(question, both, {}) == Card(question, "In short.", (("One thing.", "a"), ("Two.", "b"), ("3.", "c")))


def test_grades_include_their_thresholds() -> None:
    assert [graded(value, care=0.5, yes=0.9) for value in (0.9, 0.899, 0.5, 0.499)] == [
        "yes",
        "with care",
        "with care",
        "no",
    ]


@pytest.mark.parametrize(
    ("studies", "told"),
    [
        (["lamps"], [("Of 2 maps 1 …", "lamps"), ("Whether the heads matter was not asked (ablation asks).", "ablation")]),
        (["lamps", "ablation"], [("Of 2 maps 1 …", "lamps"), ("1 of 2 heads …", "ablation")]),
        (["ablation"], [("1 of 2 heads …", "ablation")]),
    ],
)  # fmt: skip
def test_what_the_lamps_did_not_ask_is_said_where_no_other_study_asked_it(monkeypatch, studies: Any, told: Any) -> None:
    """“Whether the heads matter was not asked” stood above “31 of 72 heads clearly change the answer”."""
    says = {"lamps": "Of 2 maps 1 …", "ablation": "1 of 2 heads …"}
    monkeypatch.setattr("headwise.reports.answers.answers_of", lambda name, _: [Answer(BELIEVE, says[name])])
    (found,) = cards(dict.fromkeys(studies))  # type: ignore[arg-type]
    assert list(found.because) == told


@pytest.mark.parametrize(("task", "own", "loaded"), [(None, "causal-lm", "causal-lm"), ("base", "causal-lm", "base"),
                                                     (None, "classification", "classification"), (None, None, None)])  # fmt: skip
def test_a_model_is_loaded_with_its_own_head_as_inspect_and_run_load_it(
    monkeypatch, task: str | None, own: str | None, loaded: str | None
) -> None:
    """A report said how far a vector of a language model moved, and `inspect` of the same model spoke of nats."""
    monkeypatch.setattr(make, "own_task", lambda _: own)
    monkeypatch.setattr(make, "load", lambda name, **given: (name, given["task"]))
    assert make._loaded("m", task, "cpu") == ("m", loaded)

"""The one page: which sentences may be written follows from the votes, numbers carry interval and n, CI gets a code."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import polars as pl
import pytest
from jsonschema import Draft202012Validator

from headwise.cli import main
from headwise.models.packaged import real_name
from headwise.reports.intervals import of_enough
from headwise.reports.onepage import TESTED, TESTED_BY, amount, card, html, interval, markdown, percent, without_lead
from headwise.reports.sentences import OF_WEIGHTS, SENTENCES, sentences
from headwise.reports.verdict import (
    NAMES,
    Judgement,
    accuracy_of,
    deciding,
    numbers_of,
    outcomes,
    pinned,
    plain,
)
from headwise.studies.answers import VERDICTS, Number, Tested, Vote

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "verdict.json"
FACTS = {
    "model": "all-MiniLM-L6-v2", "called": "demo", "type": "bert", "stacks": "self 6 × 12", "corpus": "<dev>.tsv",
    "documents": 1200, "skipped": {"empty": 1}, "tokens": 30000, "proof": 1e-6, "weights": "abc123", "revision": None, "heads": 72,
    "fingerprint": "f00d", "versions": {"headwise": "0.1", "torch": None}, "time": "2026-11-17T00:00:00+00:00",
    "studies": ["lamps", "norms"],
}  # fmt: skip
FOUND = Judgement(
    verdict="no", short="No, not the raw weights: b. Decided by norms, of 2 tests.", decided_by=("norms",),
    votes=(("lamps", "unique", "yes", "a"), ("norms", "parked", "no", "b")),
    numbers=(Number("carried", "of what is sent follows the weights", 0.456, 0.4, 0.5, 1200),
             Number("sink_share", "of the heads are sinks", 0.5, None, None, 1200)),
    may=("this.",), may_not=("<b>that</b>.",), not_tested=("words", "matters"), instead="<i>That</i>.", facts=FACTS,
)  # fmt: skip


def test_there_is_a_sentence_for_every_outcome() -> None:
    assert set(SENTENCES) == {*product(get_args(Tested), VERDICTS), ("matters", None)}
    assert all(may_not for _, may_not in SENTENCES.values())


def test_of_several_votes_on_one_question_the_worst_counts_and_what_nobody_asked_is_told() -> None:
    votes = [Vote("unique", "yes", ""), Vote("unique", "with care", ""), Vote("carries", "no", "")]
    assert outcomes(votes) == {
        "unique": "with care", "alike": None, "carries": "no", "parked": None, "words": None, "heads": None, "matters": None,
    }  # fmt: skip


def test_what_was_not_tested_says_who_would_and_ablation_is_a_test_of_heads() -> None:
    assert set(TESTED) == set(TESTED_BY) == set(get_args(Tested))
    assert outcomes([Vote("heads", "with care", "")])["heads"] == "with care"


def row(name: str, value: float, show: str, sink: bool) -> dict[str, object]:
    """Of the table of lamps."""
    numbers = ("null_share", "unique_rows", "carried", "parked", "sent")
    ends = {f"{n}{end}": value + by for n in numbers for end, by in (("", 0), ("_low", -0.1), ("_high", 0.1))}
    return {"stack": "self", "name": name, "texts": 9, **ends, "show": show, "sink": sink}


def test_numbers_are_the_means_over_heads_and_shares_of_heads() -> None:
    found = numbers_of(pl.DataFrame([row("all", 0.4, "no", True), row("L0.H0", 0, "yes", False), row("L0.H1", 0, "no", True),
                                     row("L0.H2", 0, "yes", False), row("L0.H3", 0, "no", False)]))  # fmt: skip
    by_name = {one.name: one for one in found}
    assert (by_name["carried"].value, by_name["carried"].low, by_name["carried"].n) == (0.4, pytest.approx(0.3), 9)
    assert (by_name["sink_share"].value, by_name["shown_share"].value) == (0.25, 0.5)
    assert (
        by_name["sink_share"].says == "of the heads are sinks: 50\u00a0% of their weight or more is parked on no word"
    )
    assert set(by_name) <= set(NAMES)


@pytest.mark.parametrize(("alike", "told"), [(0.05, True), (0.049, False), (None, False)])
def test_weight_that_may_go_to_tokens_that_send_nearly_the_same_is_told_where_it_lights_the_lamp(
    alike: float | None, told: bool
) -> None:
    table = pl.DataFrame([row("all", 0.4, "no", True), row("L0.H0", 0, "yes", False)])
    same = {} if alike is None else {f"loose{end}": alike for end in ("", "_low", "_high")}
    names = [one.name for one in numbers_of(table.with_columns(**{name: pl.lit(of) for name, of in same.items()}))]
    assert ("loose" in names) == told


@pytest.mark.parametrize(
    ("show", "needed", "said"),
    [
        ("yes", None, " so far (L0.H0, L0.H1); whether they matter was not asked (ablation asks)"),
        ("no", None, " so far; whether they matter was not asked (ablation asks)"),
        ("yes", ["L0.H1", "L3.H3"], " (L0.H0, L0.H1), by what is unique and what is carried; 1 of these 2 clearly matter when taken away alone"),
        ("yes", [], " (L0.H0, L0.H1), by what is unique and what is carried; 0 of these 2 clearly matter when taken away alone"),
        ("no", ["L0.H1"], ", by what is unique and what is carried"),
    ],
)  # fmt: skip
def test_whether_heads_matter_is_not_said_to_be_unasked_where_it_was_asked(show: str, needed: Any, said: str) -> None:
    """The lamps do not ask it; ablation, on the same page, may have."""
    table = pl.DataFrame([row("all", 0.4, "no", True), row("L0.H0", 0, show, False), row("L0.H1", 0, show, False)])
    (*_, shown) = numbers_of(table, needed)
    assert shown.says == f"of the heads have maps that may be shown{said}"


def test_ablation_on_the_same_page_is_what_asked() -> None:
    table = pl.DataFrame([row("all", 0.4, "no", True), row("L0.H0", 0, "yes", False)])
    results: Any = {"lamps": SimpleNamespace(table=table), "ablation": SimpleNamespace()}
    lit, cut = ("lamps", Vote("unique", "no", "")), ("ablation", Vote("heads", "no", "", (), ("L0.H0",), 1))
    end = "; 1 of these 1 clearly matter when taken away alone"
    assert deciding([lit, cut], "no", results)[-1].says.endswith(end)
    assert deciding([lit], "no", {"lamps": results["lamps"]})[-1].says.endswith("was not asked (ablation asks)")
    # “0 of these 10 clearly matter” stood beside “undecided: n = 5, and a head's own interval takes 6 texts”
    assert deciding([lit], "no", results)[-1].says.endswith(" so far (L0.H0); whether they matter is undecided")


def test_the_numbers_that_decided_come_first_whichever_study_has_them() -> None:
    first, other = Number("a", "", 0.48, None, None, 8), Number("r", "is r", 0.999, None, None, 8, share=False)
    votes = [("nullspace", Vote("alike", "yes", "", (other,))), ("norms", Vote("parked", "no", "", (first,)))]
    assert deciding(votes, "no", {}) == (first, other)
    assert deciding(votes, "yes", {}) == (other, first)
    assert [amount(one) for one in (first, other)] == ["48\u00a0%", "1.00"]
    small = Number("null_share", "change nothing", 0.000279, 0.0000887, 0.000468, 5)
    assert (amount(small), interval(small)) == ("0.03\u00a0%", "0.01\u00a0% to 0.05\u00a0%"), "not 0.0 % outside it"
    assert interval(Number("g", "", 0.1, 0.04, 0.153, 8, share=False)) == "0.04 to 0.15"


UNIQUE, CARRIED, COUNTS = "null_share unique_rows", "carried parked sent", "sink_share shown_share"


@pytest.mark.parametrize(
    ("unique", "carries", "places"),
    [
        ("yes", "no", f"a {CARRIED} {UNIQUE} {COUNTS} r"),
        ("no", "yes", f"a {UNIQUE} {CARRIED} {COUNTS} r"),
        ("no", "no", f"a {UNIQUE} {CARRIED} {COUNTS} r"),
        ("yes", "yes", f"a {UNIQUE} {CARRIED} {COUNTS} r"),
        (None, None, f"a {UNIQUE} {CARRIED} {COUNTS} r"),
    ],
)
def test_of_the_lamps_only_the_numbers_of_the_vote_that_decided_stand_first(
    unique: Any, carries: Any, places: str
) -> None:
    """The vote on vectors decided, and the numbers on uniqueness stood first."""
    table = pl.DataFrame([row("all", 0.4, "no", True), row("L0.H0", 0, "no", False)])
    first, other = Number("a", "", 0.48, None, None, 8), Number("r", "", 0.9, None, None, 8)
    votes = [("norms", Vote("parked", "no", "", (first,))), ("nullspace", Vote("alike", "yes", "", (other,)))]
    votes += [("lamps", Vote("unique", unique, "")), ("lamps", Vote("carries", carries, ""))] if unique else []
    found = deciding(votes, "no", {"lamps": SimpleNamespace(table=table)})  # type: ignore[arg-type]
    assert [one.name for one in found] == places.split()


@pytest.mark.parametrize(
    ("value", "low", "high", "n", "so"),
    [(1.0, 1.0, 1.0, 4, True), (1.0, 1.0, 1.0, 3, False), (1.0, 0.999, 1.0, 4, False), (0.999, 0.998, 1.0, 4, False)],
)
def test_weights_are_pinned_where_every_row_of_every_text_is(
    value: float, low: float, high: float, n: int, so: bool
) -> None:
    rows = Number("unique_rows", "", value, low, high, n)
    assert pinned([of_enough(rows)]) == so
    assert not pinned([replace(rows, name="null_share")])


@pytest.mark.parametrize(
    ("short", "verdict", "said"),
    [("No, not the raw weights: b.", "no", "Not the raw weights: b."), ("With care: 4 of 5.", "with care", "4 of 5."),
     ("With care: tokens are mixed.", "with care", "Tokens are mixed."),
     ("Yes, as far as was measured: a.", "yes", "As far as was measured: a."),
     ("In the mean over heads, yes: a.", "yes", "In the mean over heads, yes: a.")],
)  # fmt: skip
def test_the_answer_is_not_said_twice(short: str, verdict: Any, said: str) -> None:
    assert without_lead(replace(FOUND, short=short, verdict=verdict)) == said


def test_two_tests_have_two_names_and_sentences_stand_alone() -> None:
    """What follows the weights and what first tokens carry may come out apart; no line speaks of another."""
    assert len(set(TESTED.values())) == len(TESTED)
    lines = [line for pair in SENTENCES.values() for line in pair]
    assert not [line for line in lines if line.startswith("the same")]
    assert not [line for line in lines if "L4.H7" in line], "a head of another model, or not of that kind"
    norms, lamps = Vote("parked", "no", ""), Vote("carries", "with care", "")
    assert sentences(outcomes([norms, lamps]), {})[1] == (
        "“head h passes on token k”: what is sent goes elsewhere in part, or another lamp holds them back.",
        "“the model attends to the first token” (or a separator): its weight is not what it carries.",
        "“the model decided because of token k”: that was not tested.",
    )


@pytest.mark.parametrize("apart", [False, True])
def test_two_studies_that_test_the_same_ask_it_in_their_own_words(apart: bool) -> None:
    """The page asked "Does what they name matter to the answer?" twice, and answered yes and no."""
    votes: Any = (("faithfulness", "matters", "yes", "a"), ("adversary", "matters", "no", "b"))
    few: Any = tuple((study, tested, because) for study, tested, _, because in votes)
    found = replace(FOUND, not_tested=(), votes=() if apart else votes, undecided=few if apart else ())
    for said in (html(found), markdown(found)):
        assert said.count("Does what they name matter to the answer?") == 1
        assert said.count("Would other weights have given another answer?") == 1
    came = ("undecided", "undecided") if apart else ("yes", "no")
    assert f"| Would other weights have given another answer? | {came[1]} | b | `adversary` |" in markdown(found)
    assert f"| Does what they name matter to the answer? | {came[0]} | a | `faithfulness` |" in markdown(found)


def test_accuracy_comes_with_its_interval_and_n() -> None:
    assert accuracy_of([]) == ()
    (found,) = accuracy_of([True] * 5 + [False] * 5)
    assert (found.name, found.value, found.n) == ("accuracy", 0.5, 10)
    assert (found.low, found.high) == (pytest.approx(0.237, abs=1e-3), pytest.approx(0.763, abs=1e-3))


def test_markdown_and_card_say_it_all() -> None:
    said = markdown(FOUND)
    for line in ("# May a heatmap of this model's attention be shown as an explanation?",
                 "**No.** Not the raw weights: b. Decided by norms, of 2 tests.",
                 "| 46\u00a0% of what is sent follows the weights | 40\u00a0% to 50\u00a0% | 1,200 texts |",
                 "| 50\u00a0% of the heads are sinks | – | 1,200 texts |",
                 "| Do first tokens and separators carry what they get? | no | b | `norms` |",
                 "| Does what they name matter to the answer? | not tested | what would test it stands under “What may be shown of its answer?” | |",
                 "## What may be shown of its answer?", "<i>That</i>.", "- this.", "## You may not write"):  # fmt: skip
        assert line in said.splitlines()
    assert "Model all-MiniLM-L6-v2 (headwise calls it demo), weights abc123; corpus <dev>.tsv, fingerprint f00d" in said
    assert "headwise 0.1." in said
    assert card(FOUND).startswith("## May its attention be shown as an explanation?\n")


def test_the_page_escapes_what_comes_from_outside() -> None:
    page = html(FOUND)
    assert "&lt;b&gt;that&lt;/b&gt;." in page
    assert "<p>&lt;i&gt;That&lt;/i&gt;.</p>" in page
    assert "<p>Nothing, by what was tested.</p>" in html(replace(FOUND, may=()))
    assert "<dev>" not in page
    assert '<p class="answer no">No</p>' in page
    assert "<script" not in page


def test_numbers_as_people_write_them() -> None:
    assert [percent(x) for x in (0.0, 0.004, 0.456, float("nan"))] == [
        "0\u00a0%",
        "0.4\u00a0%",
        "46\u00a0%",
        "undefined",
    ]
    assert (
        interval(Number("x", "", 0.5, None, None, 3, without="too few texts (3)")) == "no interval: too few texts (3)"
    )
    assert plain({"a": (float("nan"), 1)}) == {"a": [None, 1]}
    assert [real_name(name) for name in ("demo", "./mine")] == ["all-MiniLM-L6-v2", "./mine"]


def test_lamps_and_nullspace_make_two_tests() -> None:
    """Both were called "Are the weights unique?"; one may say yes and the other no."""
    came = outcomes([Vote("unique", "yes", ""), Vote("alike", "no", "")])
    assert (came["unique"], came["alike"]) == ("yes", "no")


TEXTS = "The old man went to the city.\n\nThe dog saw him, and it ran.\n\nShe was there.\n"


def test_the_verb_writes_the_page_and_gives_pipelines_a_code(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(TEXTS)

    def headwise(*more: str) -> tuple[int, str, str]:
        usual = ["tiny:bert", "--corpus", str(tmp_path / "c.txt"), "--studies", "lamps", "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["headwise", "verdict", *usual, *more])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), *capsys.readouterr()

    code, out, _ = headwise("--json")
    found = json.loads(out)
    assert code == 0
    Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(found)
    assert found == json.loads((tmp_path / "out" / "verdict.json").read_text("utf-8"))
    assert (found["schema"], found["facts"]["documents"]) == ("headwise-verdict-2", 3)
    assert all(one["low"] is None or one["low"] <= one["value"] <= one["high"] for one in found["numbers"])
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "verdict.html",
        "verdict.md",
        "verdict.json",
        "card.md",
    }
    assert headwise("--card")[1].startswith("## May its attention")
    code, _, err = headwise("--fail-if", "texts<4")
    assert (code, err.splitlines()[-1]) == (1, 'headwise: failed: texts is 3 (--fail-if "texts<4")')
    assert headwise("--fail-if", "texts<3")[0] == 0
    assert headwise("--fail-if", "sinks>3")[0] == 2


@pytest.mark.parametrize("each", OF_WEIGHTS)
@pytest.mark.parametrize(("unique", "told"), [("no", False), ("with care", True), ("yes", True)])
def test_no_single_weight_may_be_written_where_weights_are_not_unique(each, unique, told: bool) -> None:
    """“nothing of single weights” stood above “head h puts x % of its weight on token k”."""
    tested, came = each
    may, may_not = sentences(outcomes([Vote("unique", unique, ""), Vote(tested, came, "")]), {})
    assert (SENTENCES[each][0] in may) == told
    assert SENTENCES[each][1].format(others="") in may_not

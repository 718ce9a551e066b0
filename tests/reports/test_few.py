"""Votes of too few texts: undecided, told apart, and without a say in the headline; numbers without an interval say so."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from headwise.reports import answers
from headwise.reports import verdict as judge
from headwise.reports.answers import card, verdict
from headwise.reports.intervals import of_enough
from headwise.reports.onepage import html, interval, markdown
from headwise.reports.verdict import judged
from headwise.studies.answers import BELIEVE, Answer, Number, Vote, counting
from references.answers import NB, answered

NAN = float("nan")
FEW = "n = 1, and it takes 4 texts"
FACTS = {
    "model": "m", "called": "m", "type": "bert", "stacks": "self 6 × 12", "corpus": "c.csv", "documents": 60, "skipped": {},
    "tokens": 3198, "proof": 1e-6, "weights": "a", "revision": None, "heads": 72, "fingerprint": "f", "versions": {},
    "time": "now", "studies": [], "task": "classification", "kind": "encoder",
}  # fmt: skip


def found(tested: Any, cast: Any, n: int, name: str = "x") -> Answer:
    number = Number(name, f"of {name}", 0.5, NAN, NAN, n)
    return Answer(BELIEVE, f"{name} is so.", vote=Vote(tested, cast, f"{name} is {cast}", (number,)))


@pytest.mark.parametrize("n", [3, 4])
def test_a_vote_takes_four_texts(n: int) -> None:
    answer = found("matters", "no", n)
    after = counting(answer, 60)
    if n == 4:
        assert after == answer
        return
    assert (after.vote, after.says) == (None, "x is so. Undecided: n = 3, and it takes 4 texts.")
    assert after.undecided == Vote("matters", "no", "n = 3, and it takes 4 texts")


@pytest.mark.parametrize(("read", "counts"), [(3, False), (4, True)])
def test_a_vote_without_numbers_is_of_the_texts_that_were_read(read: int, counts: bool) -> None:
    answer = Answer(BELIEVE, "a.", vote=Vote("unique", "no", "a"))
    assert (counting(answer, read).vote is not None) == counts


def test_the_headline_is_made_of_the_votes_that_count() -> None:
    votes = [("lamps", Vote("unique", "with care", "a")), ("norms", Vote("parked", "yes", "b"))]
    apart = [("faithfulness", Vote("matters", "no", FEW)), ("adversary", Vote("matters", "no", FEW)),
             ("mixing", Vote("words", "no", "n = 3, and it takes 4 texts"))]  # fmt: skip
    assert verdict(votes, apart) == (
        "With care: a. Decided by lamps, of 2 tests; undecided: faithfulness, adversary (n = 1, and it takes 4 texts); mixing "
        "(n = 3, and it takes 4 texts)."
    )
    assert verdict([], apart[:2]) == "Undecided: faithfulness, adversary (n = 1, and it takes 4 texts)."
    assert verdict([], []) == "Nothing that was run decides this."


def test_the_card_does_not_say_that_what_is_undecided_was_not_measured() -> None:
    drawn = card(
        BELIEVE, [("faithfulness", counting(found("matters", "no", 1), 60))], {"adversary": "it needs a task."}
    )
    assert drawn.short == "Undecided: faithfulness (n = 1, and it takes 4 texts)."
    assert drawn.because == (("x is so. Undecided: n = 1, and it takes 4 texts.", "faithfulness"),)


def of(monkeypatch: pytest.MonkeyPatch, said: dict[str, list[Answer]]) -> Any:
    """The verdict of studies that say so, of 60 texts."""
    for module in (answers, judge):
        monkeypatch.setattr(module, "said_of", lambda name, *_: said[name])
    monkeypatch.setattr(judge, "facts_of", lambda _: FACTS)
    result = type("Result", (), {"manifest": {"documents": 60}, "table": pl.DataFrame(), "parts": []})()
    return judged(dict.fromkeys(said, result))


def test_one_text_decides_nothing_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"norms": [found("parked", "with care", 60, "norms")], "faithfulness": [found("matters", "no", 1, "gain")]}
    page = of(monkeypatch, said)
    assert (page.verdict, page.decided_by) == ("with care", ("norms",))
    assert page.short == (
        "With care: norms is with care. Decided by norms, its one test; undecided: faithfulness (n = 1, and it takes 4 texts)."
    )
    assert page.undecided == (("faithfulness", "matters", FEW),)
    assert "matters" not in page.not_tested
    assert page.instead == "Which tokens it rests on is undecided: n = 1, and it takes 4 texts."
    assert page.may_not[-1] == "“the model decided because of token k”: that is undecided, of too few texts."
    lines = markdown(page).splitlines()
    assert (
        "| Does what they name matter to the answer? | undecided | n = 1, and it takes 4 texts | `faithfulness` |"
        in lines
    )
    assert f"| 50{NB}% of gain | no interval: too few texts (1) | 1 of 60 texts |" in lines
    assert "<td class='n muted'>undecided</td><td>n = 1, and it takes 4 texts" in html(page)
    said["faithfulness"] = [found("matters", "no", 4, "gain")]
    page = of(monkeypatch, said)
    assert (page.verdict, page.decided_by, page.undecided) == ("no", ("faithfulness",), ())


def test_a_page_on_which_nothing_counts_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    page = of(monkeypatch, {"faithfulness": [found("matters", "no", 1, "gain")]})
    assert "**Undecided.** Faithfulness (n = 1, and it takes 4 texts)." in markdown(page)
    assert (page.verdict, page.found()["verdict"], page.decided_by) == ("undecided", "undecided", ())
    assert '<p class="answer muted">Undecided</p>' in html(page)
    nothing = of(monkeypatch, {"surface": []})
    assert (nothing.verdict, nothing.short) == ("undecided", "Nothing that was run decides this.")


@pytest.mark.parametrize(("low", "so"), [(1.0, True), (0.99, False)])
def test_the_page_s_own_number_tells_whether_a_weight_could_be_another(
    monkeypatch: pytest.MonkeyPatch, low: float, so: bool
) -> None:
    said = Answer(BELIEVE, "a.", vote=Vote("unique", "with care", "a", (Number("unique_rows", "", 1.0, low, 1.0, 60),)))
    page = of(monkeypatch, {"x": [said]})
    assert ("“no other weights (none negative, sum 1)" in page.may[0]) == so
    assert ("as if it could be no other" in page.may_not[0]) != so


def test_one_order_whoever_ran_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict said "Decided by nullspace, norms", the report of the same corpus "by norms, nullspace"."""
    said = {"nullspace": [found("alike", "no", 60, "a")], "norms": [found("parked", "no", 60, "b")]}
    one, other = of(monkeypatch, said), of(monkeypatch, dict(reversed(said.items())))
    assert one == other
    assert one.decided_by == ("norms", "nullspace")


def test_who_decided_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    page = of(monkeypatch, {"norms": [found("parked", "no", 60, "a"), found("carries", "no", 60, "b")]})
    assert page.decided_by == ("norms",)
    assert page.short.endswith("Decided by norms, of 2 tests.")


@pytest.mark.parametrize(("n", "said"), [(3, "no interval: too few texts (3)"), (4, f"50{NB}% to 50{NB}%")])
def test_resampling_three_texts_makes_no_interval(n: int, said: str) -> None:
    assert interval(of_enough(Number("a", "", 0.5, 0.5, 0.5, n))) == said
    assert of_enough(Number("a", "", 0.5, None, None, n, without="a count")).without == "a count"


# --- the sentences of studies ---

GAIN = "comprehensiveness_gain"


@pytest.mark.parametrize(
    ("texts", "ends", "said"),
    [
        (1, (NAN, NAN), "a +0.118 (no interval); raw-attention +0.002 (no interval), over 1 text."),
        (3, (0.0, 0.2), f"a +0.118 (+0.000 to +0.200); raw-attention +0.002 (+0.000 to +0.200), over 3 texts (95{NB}% intervals)."),
        (4, (0.0, 0.2), f"a +0.118 (+0.000 to +0.200); raw-attention +0.002 (+0.000 to +0.200), over 4 texts (95{NB}% intervals); a is the best of 2 here."),
    ],
)  # fmt: skip
def test_no_method_is_the_best_of_three_texts(texts: int, ends: tuple[float, float], said: str) -> None:
    table = pl.DataFrame([("a", texts, 0.118, *ends), ("raw-attention", texts, 0.002, *ends)], orient="row",
                         schema=["method", "texts", GAIN, f"{GAIN}_low", f"{GAIN}_high"])  # fmt: skip
    (answer,) = answered("faithfulness", table, BELIEVE)
    start = (
        "How far the prediction's probability falls without the tokens that an explanation names (mean over "
        f"1{NB}% to 50{NB}% of the tokens taken away), beyond random ones: "
    )
    assert answer.says == start + said


def test_the_adversary_of_one_text_has_no_interval() -> None:
    rows = [("per-instance", None, "js", 0.66, NAN, NAN, 1), ("per-instance", None, "tvd", 0.017, NAN, NAN, 1)]
    table = pl.DataFrame(rows, schema=["form", "head", "what", "value", "low", "high", "count"], orient="row")
    (answer,) = answered("adversary", table, BELIEVE)
    assert answer.says == (
        "For one text at a time, attention can be moved by 0.66 nats of Jensen–Shannon divergence (no interval; at most "
        "0.69) while the prediction moves by 0.017 (total variation), in the mean over 1 text."
    )
    assert replace(answer, vote=None) != counting(answer, 60)
    assert counting(answer, 60).vote is None

"""A number that is not finite is never said, and never decides: every study's sentences, captions, cells."""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest

from headwise.interventions.answered import Answered
from headwise.papers.claim import Seen
from headwise.papers.clark2019 import parking
from headwise.plots.theme import themed
from headwise.reports.comparison.page import _cell
from headwise.results.shown import finite, number, worded
from headwise.studies import STUDIES
from headwise.studies.ablation.facts import SCHEMA as ABLATION
from headwise.studies.edges import SCHEMA as EDGES
from headwise.studies.roles.atlas import SCHEMA as ROLES
from headwise.studies.study import Setting, Study
from references.undefined import NOT_FINITE, nothing_undefined_is_said, undefined

SETTING = Setting("m", {"self": (2, 2, 4)}, False, {"documents": 7, "tokens": 70})
HEAD = {"part": "head", "stack": "self", "layer": 0, "texts": 7}
TRIAL = {"part": "trial", "task": "repeat", "heads": "L0.H1", "value": 1.5, "control": 0.1, "gain": 1.4, "texts": 6}
SHARES = dict.fromkeys(("null_share", "unique_rows", "carried", "parked", "sent"), 0.6)
ENDS = {f"{name}_{end}": value for name, value in SHARES.items() for end in ("low", "high")}


def lamps() -> pl.DataFrame:
    rows = [{"stack": "self", "layer": None, "head": None, "name": "all"}]
    rows += [{"stack": "self", "layer": 0, "head": head, "name": f"L0.H{head}"} for head in range(2)]
    return pl.DataFrame([{**row, "texts": 7, **SHARES, **ENDS, "sink": True} for row in rows])


def ablation(lows: tuple[Any, Any] = (0.5, -0.5)) -> pl.DataFrame:
    heads = [{**HEAD, "head": head, "name": f"L0.H{head}", "way": "mean", "number": "effect", "value": 1.0, "low": low}
             for head, low in enumerate(lows)]  # fmt: skip
    told = [{"part": "correlation", "name": name, "value": 0.6, "low": 0.4, "high": 0.8, "texts": 7}
            for name in ("estimate", "entropy")]  # fmt: skip
    return pl.DataFrame([*heads, *told], schema=ABLATION)


def edges(gain: float = 0.1) -> pl.DataFrame:
    rows = [("raw", 0.5, 0.0), ("effective", 0.7, gain)]
    same = {"stack": "self", "part": "head", "over": "all", "texts": 9}
    return pl.DataFrame([same | {"quantity": name, "value": value, "gain_low": low} for name, value, low in rows],
                        schema=EDGES)  # fmt: skip


def roles() -> pl.DataFrame:
    head = {**HEAD, "head": 1, "name": "L0.H1", "value": 0.9, "looks": True, "role": "induction"}
    return pl.DataFrame([head, {**TRIAL, "role": "induction", "verdict": "role"}], schema=ROLES)


def reasons() -> pl.DataFrame:
    row = {"texts": 8, "deletion": 0.1, "deletion_low": 0.05, "deletion_high": 0.15, "half": 0.25}
    shares = {"yes": 0.5, "partly": 0.25, "no": 0.25, "nothing": 0.0}
    return pl.DataFrame([{"method": name, **row, **shares} for name in ("leave-one-out", "paths")])


def strongest() -> pl.DataFrame:
    row = {"stack": "self", "layer": 0, "head": 1, "name": "L0.H1", "place": 1, "document": 4, "text": "A dog, a cat."}
    return pl.DataFrame([{**row, "pattern": pattern, "value": 0.75} for pattern in ("previous", "next")])


TABLES = {
    "strongest": strongest,
    "reasons": reasons,
    "lamps": lamps,
    "ablation": ablation,
    "edges": edges,
    "roles": roles,
}


@pytest.mark.parametrize("study", TABLES)
def test_nothing_is_said_of_what_is_not_finite(study: str) -> None:
    table = TABLES[study]()
    assert list(STUDIES[study]().answers(table, SETTING)), "a table that says nothing would prove nothing"
    nothing_undefined_is_said(study, table, SETTING)


def test_every_study_that_speaks_is_asked() -> None:
    """Here or by the helper of tests/references/answers.py, which reads every table with such numbers too."""
    tests = Path(__file__).parents[1]
    there = "".join(file.read_text("utf-8") for file in (tests / "studies").glob("test_answers*.py"))
    asked = {
        *re.findall(r'(?:said|answered)\(\s*"(\w+)"', there),
        *re.findall(r'\("(\w+)", "(?:relation|type)"\)', there),
    }
    speaking = {name for name in STUDIES if STUDIES[name].answers is not Study.answers}
    assert "nothing_undefined_is_said(" in (tests / "references" / "answers.py").read_text("utf-8")
    assert there.count("from references.answers import") == 2
    assert speaking - {*TABLES, *asked} == set()


def test_what_is_not_finite_is_no_evidence() -> None:
    """To polars NaN is above every threshold: without care an undefined interval would be clear of zero."""
    (first, *_) = STUDIES["ablation"]().answers(ablation((nan, 0.5)), SETTING)
    assert "1 of 2 heads clearly change what the model does" in first.says
    *_, voted = STUDIES["ablation"]().answers(ablation((nan, 0.5)), SETTING)
    assert voted.vote is not None
    assert voted.vote.because.startswith("1 of 2 heads clearly move")
    (first, *_) = STUDIES["ablation"]().answers(ablation((nan, nan)), SETTING)
    assert "are too few for intervals" in first.says
    (told,) = STUDIES["edges"]().answers(edges(nan), SETTING)
    assert "no quantity tells it better for sure" in told.says
    rows = pl.DataFrame({"stack": "self", "quantity": "raw", "name": ["L0.H0", "L0.H1"], "entropy": [nan, 1.0],
                         "to_first": [nan, 0.6], "to_separator": [0.1, nan]})  # fmt: skip
    sharp, parked = STUDIES["surface"]().answers(rows, SETTING)
    assert sharp.says.startswith("The sharpest head is L0.H1 (entropy 1.00 nats), the broadest L0.H1 (1.00)")
    assert parked.says.endswith("1 of 2: L0.H1.")
    assert parking(rows).words == "over half: L0.H1"


@pytest.mark.parametrize("value", [nan, inf, -inf, None])
def test_cells_and_words(value: float | None) -> None:
    assert number(value) == "undefined"
    assert not NOT_FINITE.search(_cell(value, "head"))
    if value is not None:
        assert Answered("label", (("positive", value),)).says == "The model says: positive (undefined)"
        assert Seen(0.5, f"ρ {value:.2f} for x, {value:.0%} of them").words == "ρ undefined for x, undefined% of them"
        chart = themed(alt.Chart(pl.DataFrame({"x": [1.0]})).mark_point(), "title", f"Mean loss: {value:.2f} nats.")
        assert chart.to_dict()["title"]["subtitle"] == ["Mean loss: undefined nats."]


def test_words_of_people_are_left() -> None:
    for text in ("nanotubes of information", "Nan says", "infinite", "the inferno", "L0.inf-1"):
        assert worded(text) == text


def test_rows_with_a_number() -> None:
    table = pl.DataFrame({"x": [nan, 1.0, inf, None, -inf]})
    assert finite(table, "x")["x"].to_list() == [1.0]
    kinds = [what for what, _ in undefined(table)]
    assert kinds == [f"{what} {gone}" for gone in (nan, inf, -inf) for what in ("all", "x", "first x")] + ["no row"]

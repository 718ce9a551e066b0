"""What is not finite is never shown as a number."""

from __future__ import annotations

from math import inf, nan

import polars as pl
import pytest

from headwise.cli.inspect import _cell, _plain
from headwise.papers.claim import shown as told
from headwise.results.shown import number, shown
from headwise.studies.tables import percent

TABLE = pl.DataFrame({"name": ["a", "b", "c", "d"], "n": [1, 2, 3, 4], "x": [0.5, nan, inf, -inf]})


def test_a_table_has_empty_places() -> None:
    assert shown(TABLE)["x"].to_list() == [0.5, None, None, None]
    assert shown(TABLE).drop("x").equals(TABLE.drop("x"))
    assert shown(TABLE).write_csv() == "name,n,x\na,1,0.5\nb,2,\nc,3,\nd,4,\n"
    assert _plain(TABLE)[2] == {"name": "c", "n": 3, "x": None}


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(0.25, ".0%", "25\u00a0%"), (nan, ".0%", "undefined"), (inf, ".2f", "undefined"), (-inf, ".1e", "undefined")],
)
def test_a_number_in_words(value: float, form: str, text: str) -> None:
    assert number(value, form) == text


def test_cells_of_the_terminal() -> None:
    assert [_cell(value) for value in (True, 0.125, nan, None, 3)] == ["yes", "0.12", "undefined", "", "3"]


def test_shares_in_sentences() -> None:
    assert percent(0.381) == "38\u00a0%"
    for each in (
        percent,
        lambda value: told(value, "share"),
        lambda value: told(value, "points"),
        lambda value: told(value, "number"),
    ):
        assert [each(value) for value in (nan, inf)] == ["undefined", "undefined"]

"""What `--fail-if` of a comparison may ask for, by a table of two heads made by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest

from headwise.reports.comparison.gate import gauges

ROWS = [  # stack, name, what, change, clear
    ("self", "L0.H0", "to_first", 0.25, True),
    ("self", "L0.H1", "to_first", -0.75, False),
    ("self", "L0.H0", "to_separator", 0.5, True),
    ("self", "L0.H1", "to_separator", 0.125, False),
    ("self", "L0.H0", "entropy", 1.0, False),
    ("self", "L0.H1", "entropy", None, False),
    ("self", "L0.H0", "to other", None, False),
]
NAMES = ("stack", "name", "what", "change", "clear")


def table(rows: list[tuple]) -> pl.DataFrame:
    kinds = (pl.String, pl.String, pl.String, pl.Float64, pl.Boolean)
    return pl.DataFrame(rows, schema=dict(zip(NAMES, kinds, strict=True)), orient="row")


def test_every_number_by_head_by_size_and_as_a_mean() -> None:
    found = gauges(table(ROWS), texts=7)
    assert (found["clear"], found["texts"]) == (2, 7)
    assert found["to_first"] == {"L0.H0": 0.25, "L0.H1": -0.75}
    assert found["to_first.size"] == {"L0.H0": 0.25, "L0.H1": 0.75}
    assert found["to_first.mean"] == -0.25
    assert found["sink_share"] == {"L0.H0": 0.75, "L0.H1": -0.625}
    assert found["sink_share.mean"] == 0.0625


def test_what_was_not_measured_is_not_counted() -> None:
    found = gauges(table(ROWS), texts=7)
    assert found["entropy.mean"] == 1.0
    assert math.isnan(found["entropy"]["L0.H1"])
    assert math.isnan(found["to.other.mean"])  # a condition has no blanks in its names


def test_heads_of_several_stacks_keep_apart() -> None:
    found = gauges(table([*ROWS, ("cross", "L0.H0", "to_first", 0.5, True)]), texts=7)
    assert found["to_first"] == {"self L0.H0": 0.25, "self L0.H1": -0.75, "cross L0.H0": 0.5}
    assert found["to_first.mean"] == pytest.approx(0)

"""The page of experiments/matter: signs on each side of the line, and tables that are those of the stored results."""

from __future__ import annotations

import pytest

from references.scripts import script


@pytest.fixture(scope="module")
def tables():
    return script("experiments/matter/tables.py")


@pytest.mark.parametrize(
    ("low", "high", "line", "said"),
    [(0.01, 0.2, 0.0, "✅"), (0.0, 0.2, 0.0, "❔"), (-0.2, -0.01, 0.0, "❌"), (-0.2, 0.0, 0.0, "❔"),
     (0.61, 0.9, 0.6, "✅"), (0.4, 0.59, 0.6, "❌"), (None, None, 0.0, "❔"), (float("nan"), 1.0, 0.0, "❔")],
)  # fmt: skip
def test_a_sign_needs_the_whole_interval(tables, low, high, line, said) -> None:
    assert tables.sign(low, high, line) == said


def test_numbers_have_their_intervals(tables) -> None:
    assert tables.interval({"value": 0.523, "low": 0.311, "high": 0.7}) == "0.52 [0.31, 0.70]"
    assert tables.interval({"value": 0.523, "low": None, "high": None}) == "0.52"
    assert tables.interval({"value": float("nan"), "low": None, "high": None}) == "–"


def test_the_page_is_up_to_date(tables) -> None:
    page = tables.PAGE.read_text("utf-8")
    assert tables.between(page, tables.MARK, tables.content()) == page

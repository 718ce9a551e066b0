"""Sinks on both sides of a comparison, by the rule of the lamps; hand-made tables."""

from __future__ import annotations

import polars as pl

from headwise.reports.comparison.page import sinks

PARTS = ("to_first", "to_separator", "to_punctuation")


def table(heads: list[tuple[float, float]]) -> pl.DataFrame:
    """Heads by what is parked in a and b, in three parts."""
    rows = [("self", f"L0.H{at}", what, a / 3, b / 3) for at, (a, b) in enumerate(heads) for what in PARTS]
    return pl.DataFrame(rows, schema=["stack", "name", "what", "a", "b"], orient="row")


def test_sinks_are_counted_and_named() -> None:
    said = "Sinks (half of the weight or more on no word): 1 of 3 heads in A, 2 in B. New: L0.H1, L0.H2. Gone: L0.H0."
    assert sinks(table([(0.5, 0.49), (0.2, 0.6), (0.1, 0.5)]), "A", "B") == [said]
    assert sinks(table([(0.6, 0.7)]), "A", "B")[0].endswith("1 of 1 heads in A, 1 in B. New: none. Gone: none.")
    assert sinks(table([(0.1, 0.9)] * 5), "A", "B")[0].endswith("New: L0.H0, L0.H1, L0.H2 and 2 more. Gone: none.")


def test_other_studies_say_nothing_of_sinks() -> None:
    assert sinks(table([(0.5, 0.5)]).filter(pl.col("what") == "to_first"), "A", "B") == []

"""Sinks on both sides of a comparison, by the rule of the lamps; hand-made tables."""

from __future__ import annotations

import polars as pl

from headwise.reports.comparison.page import findings, sinks, sized

PARTS = ("to_first", "to_separator", "to_punctuation")


def table(heads: list[tuple[float, float]]) -> pl.DataFrame:
    """Heads by what is parked in a and b, in three parts."""
    rows = [("self", f"L0.H{at}", what, a / 3, b / 3) for at, (a, b) in enumerate(heads) for what in PARTS]
    return pl.DataFrame(rows, schema=["stack", "name", "what", "a", "b"], orient="row")


def test_sinks_are_counted_and_named() -> None:
    said = (
        "Sinks (half of the weight or more on no word): 1 of 3 heads of A, and 2 of the heads of B that are compared "
        "with them. By the names in A, new in B: L0.H1, L0.H2; gone: L0.H0."
    )
    assert sinks(table([(0.5, 0.49), (0.2, 0.6), (0.1, 0.5)]), "A", "B") == [said]
    assert sinks(table([(0.6, 0.7)]), "A", "B")[0].endswith("with them. By the names in A, new in B: none; gone: none.")
    assert sinks(table([(0.1, 0.9)] * 5), "A", "B")[0].endswith("new in B: L0.H0, L0.H1, L0.H2 and 2 more; gone: none.")


def test_other_studies_say_nothing_of_sinks() -> None:
    assert sinks(table([(0.5, 0.5)]).filter(pl.col("what") == "to_first"), "A", "B") == []


def test_the_largest_that_is_named_is_the_first_clear_one_of_the_table() -> None:
    """Spreads are those of all heads: of the clear ones alone `next` would look the larger by far."""
    rows = [
        ("L0.H0", "next", 0.9, 0.5, False), ("L0.H1", "next", 0.10, 0.11, True), ("L0.H2", "next", 0.10, 0.11, True),
        ("L0.H0", "previous", 0.9, 0.1, True), ("L0.H1", "previous", 0.5, 0.5, False),
        ("L0.H2", "previous", 0.5, 0.5, False),
    ]  # fmt: skip
    found = pl.DataFrame(
        [{"stack": "self", "name": name, "matched": name, "what": what, "a": a, "b": b, "change": b - a, "low": b - a,
          "high": b - a, "clear": clear} for name, what, a, b, clear in rows]
    )  # fmt: skip
    said = findings(found, "A", "B", {"intervals": True, "documents": 9, "paired": True, "match": "position"})[-1]
    assert said.startswith("The largest: L0.H0 of A and L0.H0 of B, to the previous token: 0.900 against 0.100")
    assert sized(found).filter("clear").row(0, named=True)["what"] == "previous"

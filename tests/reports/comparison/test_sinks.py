"""Sinks on both sides of a comparison, by the rule of the lamps; hand-made tables."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import polars as pl

from headwise.reports.comparison.page import figures_of, findings, page_of, sinks, sized

PARTS = ("to_first", "to_separator", "to_punctuation")


def table(heads: list[tuple[float, float]]) -> pl.DataFrame:
    """Heads by what is parked in a and b, in three parts."""
    rows = [("self", f"L0.H{at}", f"L0.H{at}", what, a / 3, b / 3) for at, (a, b) in enumerate(heads) for what in PARTS]
    return pl.DataFrame(rows, schema=["stack", "name", "matched", "what", "a", "b"], orient="row")


def test_sinks_are_counted_and_named() -> None:
    said = (
        "Sinks (half of the weight or more on no word): 1 of 3 heads of m on a.txt, and 2 of m on b.txt. From m on a.txt "
        "to m on b.txt, new: L0.H1, L0.H2; gone: L0.H0."
    )
    heads = table([(0.5, 0.49), (0.2, 0.6), (0.1, 0.5)])
    assert sinks(heads, "m on a.txt", "m on b.txt") == [said]
    assert sinks(table([(0.6, 0.7)]), "A", "B")[0].endswith("1 of B. From A to B, new: none; gone: none.")
    assert sinks(table([(0.1, 0.9)] * 5), "A", "B")[0].endswith("new: L0.H0, L0.H1, L0.H2 and 2 more; gone: none.")
    elsewhere = heads.with_columns(matched=pl.lit("L1.H1"))
    assert sinks(elsewhere, "A", "B")[0].endswith(
        "1 of 3 heads of A, and 2 of the heads of B that are compared with them. By the names of the heads of A, new: "
        "L0.H1, L0.H2; gone: L0.H0."
    )


def test_the_figure_says_how_many_heads_are_not_compared() -> None:
    """“White at zero” was also the colour of heads that were not compared."""
    rows = differences([("L0.H0", "next", 0.5, 0.4, True), ("L0.H1", "next", 0.5, 0.5, False)])
    rows = rows.with_columns(layer=pl.lit(0), head=pl.Series([0, 1]), matched_layer=pl.lit(0), cost=pl.lit(0.1))
    for heads, said in ((2, []), (3, ["Grey: not compared, 1 of 3 heads of A that have no partner."])):
        charts = figures_of(rows, "A", "B", {**CHOSEN, "match": "profile"}, {"self": [1, heads, 8]})
        caption = charts["changes"].to_dict()["title"]["subtitle"]
        assert caption[1:] == ["Rows and columns are the heads of A.", *said]


def test_other_studies_say_nothing_of_sinks() -> None:
    assert sinks(table([(0.5, 0.5)]).filter(pl.col("what") == "to_first"), "A", "B") == []


def differences(rows: list[tuple[str, str, float, float, bool]]) -> pl.DataFrame:
    """Head, number, a, b, whether it is clear."""
    return pl.DataFrame(
        [{"stack": "self", "name": name, "matched": name, "what": what, "a": a, "b": b, "change": b - a, "low": b - a,
          "high": b - a, "clear": clear} for name, what, a, b, clear in rows]
    )  # fmt: skip


def test_every_largest_says_by_what_it_is_the_largest() -> None:
    """“The largest” was that beside the spread, under a table with a larger one; entropy is no share."""
    table = differences(
        [("L0.H0", "to_first", 0.9, 0.5, True), ("L0.H1", "to_first", 0.1, 0.1, False),
         ("L0.H2", "to_first", 0.9, 0.2, False), ("L0.H0", "next", 0.2, 0.0, True), ("L0.H1", "next", 0.1, 0.1, False),
         ("L0.H2", "next", 0.1, 0.1, False), ("L0.H0", "entropy", 1.0, 3.0, True), ("L0.H1", "entropy", 9.0, 9.0, False)]
    )  # fmt: skip
    told = findings(table, "A", "B", {"intervals": True, "documents": 9, "paired": True, "match": "position"})[-3:]
    assert told == [
        "The largest clear difference of a share of the weight: L0.H0 of A and L0.H0 of B, to the first token: 0.900 "
        "against 0.500 (difference -0.400, 95 % -0.400 to -0.400).",
        "The largest clear difference of entropy (nats): L0.H0 of A and L0.H0 of B, entropy (nats): 1.000 against 3.000 "
        "(difference +2.000, 95 % +2.000 to +2.000).",
        "The largest clear difference beside what heads differ by anyway (3.2 times the spread of its number over the "
        "heads): L0.H0 of A and L0.H0 of B, to the next token: 0.200 against 0.000 (difference -0.200, "
        "95 % -0.200 to -0.200).",
    ]
    assert sized(table).row(0, named=True)["what"] == "next"


def test_spreads_are_those_of_all_heads() -> None:
    """Of the clear ones alone `next` would look the larger by far."""
    table = differences(
        [("L0.H0", "next", 0.9, 0.5, False), ("L0.H1", "next", 0.10, 0.11, True), ("L0.H2", "next", 0.10, 0.11, True),
         ("L0.H0", "previous", 0.9, 0.1, True), ("L0.H1", "previous", 0.5, 0.5, False),
         ("L0.H2", "previous", 0.5, 0.5, False)]
    )  # fmt: skip
    said = findings(table, "A", "B", {"intervals": True, "documents": 9, "paired": True, "match": "position"})[-1]
    assert "): L0.H0 of A and L0.H0 of B, to the previous token: 0.900 against 0.100" in said
    assert sized(table).filter("clear").row(0, named=True)["what"] == "previous"


CHOSEN = {"intervals": True, "documents": 9, "paired": True, "match": "position"}


def test_the_largest_named_is_clear_where_the_tables_first_row_is_not() -> None:
    table = differences(
        [
            ("L3.H11", "to_other", 0.9, 0.1, False),
            ("L3.H8", "to_other", 0.2, 0.5, True),
            ("L3.H9", "to_other", 0.3, 0.3, False),
        ]
    )
    assert sized(table)["name"][0] == "L3.H11"
    said = findings(table, "A", "B", CHOSEN)[-1]
    assert said.startswith("The largest clear difference beside what heads differ by anyway (")
    assert "): L3.H8 of A" in said


def test_differences_are_those_of_the_numbers_as_printed_and_sides_have_names() -> None:
    """0.4686 - 0.5434 is -0.0748, but 0.469 - 0.543 is -0.074."""
    table = differences([("L0.H0", "next", 0.5434, 0.4686, True), ("L0.H1", "next", 0.5, 0.5, False)])
    assert "0.543 against 0.469 (difference -0.074," in findings(table, "A", "B", CHOSEN)[-1]
    facts = {"settings": CHOSEN, "sides": {}, "versions": {}, "platform": "", "time": 0, "seed": 0}
    page = page_of(facts, table, {}, "old", "new").replace("&#8722;", "−")
    assert '<p class="muted">a is old, b is new; a difference is b − a.</p>' in page
    assert '"n" data-head="b − a">-0.074<' in page
    assert 'data-head="largest b − a">-0.074<' in page

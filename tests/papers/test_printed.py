"""Tables in the columns of the papers, from tables by hand."""

from __future__ import annotations

import polars as pl
import pytest

from headwise.papers.printed import antecedents_by_type, best_of_relations, by_guide, correlations, parsers


def test_table1_has_a_row_a_relation_with_its_head_and_the_best_offset() -> None:
    names = ["quantity", "relation", "direction", "name", "best", "accuracy", "low", "high", "count"]
    rows = [
        ("raw", "det", "from-dependent", "L1.H2", True, 0.8, 0.7, 0.9, 60),
        ("raw", "det", "from-dependent", "L0.H0", False, 0.9, 0.8, 1.0, 60),  # was not chosen
        ("norm", "det", "from-dependent", "L0.H1", True, 0.9, 0.8, 1.0, 60),
        ("offset", "det", "from-dependent", "+1", True, 0.5, 0.4, 0.6, 60),
        ("raw", "obj", "to-dependent", "L2.H0", True, 0.3, 0.2, 0.4, 90),
        ("raw", "iobj", "to-dependent", "L2.H0", True, 1.0, 1.0, 1.0, 49),  # too few
    ]
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(stack=pl.lit("self"))
    found = best_of_relations(table, 50)
    assert found.columns == ["relation", "direction", "head", "accuracy", "from", "to", "baseline", "offset", "pairs"]
    assert found.rows() == [
        ("obj", "to-dependent", "L2.H0", 30.0, 20.0, 40.0, None, None, 90),
        ("det", "from-dependent", "L1.H2", 80.0, pytest.approx(70.0), 90.0, 50.0, "+1", 60),
    ]


def test_table2_has_the_rules_and_the_head_chosen_on_all_mentions() -> None:
    names = ["quantity", "type", "reading", "name", "best", "accuracy"]
    rows = [
        ("raw", "all", "mentions", "L1.H2", True, 0.6), ("raw", "all", "words", "L0.H0", True, 0.5),
        ("raw", "proper", "mentions", "L1.H2", False, 0.7), ("raw", "proper", "mentions", "L3.H3", True, 0.8),
        ("rules", "proper", "mentions", "nearest", False, 0.2), ("rules", "all", "mentions", "nearest", False, 0.3),
    ]  # fmt: skip
    found = antecedents_by_type(pl.DataFrame(rows, schema=names, orient="row").with_columns(stack=pl.lit("self")))
    assert found.columns == ["model", "all", "proper"]
    assert found.rows() == [("nearest", 30.0, 20.0), ("head L1.H2", 60.0, 70.0)]


def test_table3_has_the_probes_and_the_best_layer_of_the_structural_one() -> None:
    names = ["what", "probe", "quantity", "decoder", "layer", "value"]
    rows = [
        ("uas", "right-branching", None, "argmax", None, 30.0), ("uas", "attention", "raw", "argmax", None, 50.0),
        ("uas", "attention", "raw", "tree", None, 99.0), ("weight", "attention", "raw", None, 0, 1.0),
        ("uuas", "structural", None, "tree", 1, 55.0), ("uuas", "structural", None, "tree", 2, 57.0),
    ]  # fmt: skip
    more = {name: pl.lit(value) for name, value in (("low", 1.0), ("high", 2.0), ("control", 3.0), ("paper", 61.0))}
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(**more, selectivity=pl.lit(4.0))
    found = parsers(table)
    assert found.columns == ["model", "uas", "from", "to", "control task", "selectivity", "paper"]
    assert found.select("model", "uas").rows() == [
        ("structural, layer 2 (UUAS)", 57.0), ("right-branching", 30.0), ("attention, raw", 50.0),
    ]  # fmt: skip
    assert parsers(table.filter(pl.col("what") == "uas"))["model"].to_list() == ["right-branching", "attention, raw"]


def test_correlations_by_category_and_f1_by_guide() -> None:
    rows = [("table2", "first", "rho", -0.5), ("table2", "other", "rho", 0.1), ("table2", "first", "pairs", 8.0),
            ("table2", "first", "error_bound", 0.02), ("fig3", "first", "alpha", 0.3)]  # fmt: skip
    table = pl.DataFrame(rows, schema=["paper", "category", "what", "value"], orient="row")
    assert correlations(table.with_columns(stack=pl.lit("self"))).rows() == [("first", -0.5, 8), ("other", 0.1, None)]
    guides = [
        ("values", "base", 0, 0.8),
        ("values", "base", 1, 0.9),
        ("mlp", "base", 0, 0.7),
        ("mlp", "random", 0, 0.6),
    ]
    found = by_guide(pl.DataFrame(guides, schema=["form", "guide", "seed", "f1"], orient="row"))
    assert found.columns == ["guide", "values", "mlp"]
    assert found.rows() == [("base", pytest.approx(0.85), 0.7), ("random", None, 0.6)]

"""Tables in the columns that the papers print, from the tables of the runs; shares are in percent."""

from __future__ import annotations

import polars as pl

from headwise.papers.claim import Table, first_stack

TYPES = ("all", "pronoun", "proper", "nominal")  # Clark et al. 2019 table2


def best_of_relations(table: Table, fewest: int) -> Table:
    """Clark et al. table1: a row a relation of `fewest` pairs, the commonest first: head, accuracy, baseline."""
    best = first_stack(table).filter(pl.col("best") & (pl.col("count") >= fewest))
    head = best.filter(pl.col("quantity") == "raw")
    offset = best.filter(pl.col("quantity") == "offset").select(
        "relation", baseline=100 * pl.col("accuracy"), offset="name"
    )
    both = head.join(offset, on="relation", how="left").sort("count", "relation", descending=[True, False])
    interval = {"from": 100 * pl.col("low"), "to": 100 * pl.col("high")}
    return both.select("relation", "direction", head="name", accuracy=100 * pl.col("accuracy"), **interval,
                       baseline="baseline", offset="offset", pairs="count")  # fmt: skip


def antecedents_by_type(table: Table) -> Table:
    """Clark et al. table2: a row a rule, then the head that was chosen on all mentions, under the types of mentions."""
    rows = first_stack(table).filter(pl.col("reading") == "mentions")
    chosen = rows.filter((pl.col("quantity") == "raw") & pl.col("best") & (pl.col("type") == "all"))["name"].to_list()
    of_head = (pl.col("quantity") == "raw") & pl.col("name").is_in(chosen)
    told = pl.concat([rows.filter(pl.col("quantity") == "rules"), rows.filter(of_head)])
    model = pl.when(pl.col("quantity") == "raw").then(pl.format("head {}", "name")).otherwise("name")
    wide = told.select("type", model=model, value=100 * pl.col("accuracy")).pivot("type", index="model", values="value")
    return wide.select("model", *(name for name in TYPES if name in wide.columns))


def parsers(table: Table) -> Table:
    """Clark et al. table3: UAS of each probe beside the control task's; UUAS of the structural probe's best layer."""
    uas = table.filter((pl.col("what") == "uas") & (pl.col("decoder") == "argmax"))
    uuas = table.filter((pl.col("what") == "uuas") & pl.col("value").is_finite()).sort("value", descending=True).head(1)
    name = pl.when(pl.col("quantity").is_null()).then("probe").otherwise(pl.format("{}, {}", "probe", "quantity"))
    layer = pl.format("{}, layer {} (UUAS)", "probe", "layer")
    numbers = ("value", "low", "high", "control", "selectivity", "paper")
    return pl.concat([uuas.select(layer.alias("model"), *numbers), uas.select(name.alias("model"), *numbers)]).rename(
        {"value": "uas", "low": "from", "high": "to", "control": "control task"}
    )


def correlations(table: Table) -> Table:
    """Kobayashi et al. table2: Spearman's ρ of α and ‖f(x)‖ by category."""
    rows = first_stack(table).filter((pl.col("paper") == "table2") & pl.col("what").is_in(["rho", "pairs"]))
    wide = rows.pivot("what", index="category", values="value", aggregate_function="first")
    return wide.with_columns(pl.col("^pairs$").cast(pl.Int64))


def by_guide(table: Table) -> Table:
    """Yang table2: test F1 of the fresh model, mean over seeds, by what guided it and by its form."""
    means = table.group_by("guide", "form", maintain_order=True).agg(pl.col("f1").mean())
    return means.pivot("form", index="guide", values="f1")

"""The figures of the study `syntax`: the best head of each relation, and every head by relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headwise.plots.relations import best_of_each, heads_by_label
from headwise.plots.theme import themed
from headwise.studies.study import Setting
from headwise.studies.syntax.pairs import ALL, NO_PUNCTUATION, STANFORD

SHOWN = 30  # relations of the heat map, by count
FEWEST = 20  # scored pairs of a relation that is drawn


def figures(table: pl.DataFrame, setting: Setting, quantities: Sequence[str], untold: int) -> Mapping[str, Any]:
    """table1 and, a quantity each, heads-QUANTITY; those of stacks after the first end in the stack's name."""
    charts: dict[str, Any] = {}
    for stack in table["stack"].unique(maintain_order=True):
        rows, tail = table.filter(stack=stack), f"-{stack}" if charts else ""
        where = setting.model if stack == "self" else f"{setting.model}, {stack}"
        charts[f"table1{tail}"] = table1(rows, where, quantities, untold)
        for quantity in quantities:
            charts[f"heads-{quantity}{tail}"] = heat_map(rows.filter(quantity=quantity), where, quantity)
    return charts


def table1(table: pl.DataFrame, where: str, quantities: Sequence[str], untold: int) -> Any:
    """The paper's relations under their UD names, the most common first."""
    wanted = [ALL, NO_PUNCTUATION, *STANFORD.values()]
    rows = table.filter(pl.col("best"), pl.col("relation").is_in(wanted), pl.col("count") > 0)
    rows = rows.filter(pl.col("quantity").is_in(list(quantities)) | (pl.col("quantity") == "offset"))
    rows = rows.with_columns(
        quantity=pl.col("quantity").replace("offset", "baseline"),
        relation=_titled(),
    )
    order = rows.sort("count", descending=True)["relation"].unique(maintain_order=True).to_list()
    missing = [relation for relation in STANFORD.values() if relation not in set(table["relation"])]
    chart = best_of_each(rows, order=order, quantities=quantities, what="relation")
    return themed(
        chart,
        f"{where}: the best head of each relation",
        "Chosen on one part of the sentences, scored on the other; bars are 95 % bootstrap intervals over sentences.",
        "Black ticks: the best fixed offset, chosen in the same way. A head says more than word order where its bar",
        f"stays clear of the tick. {_left_out(missing, untold)}",
    )


def heat_map(table: pl.DataFrame, where: str, quantity: str) -> Any:
    """Every head under one quantity, in its better direction."""
    counts = table.filter(pl.col("count") > 0).group_by("relation").agg(pl.col("count").max())
    fewest = FEWEST if counts["count"].max() >= FEWEST else 1  # type: ignore[operator] - there is something to score
    common = counts.filter(pl.col("count") >= fewest).sort("count", "relation", descending=[True, False])
    order = common["relation"].head(SHOWN).to_list()
    shown = table.filter(pl.col("relation").is_in(order)).sort("accuracy", descending=True, nulls_last=True)
    cells = shown.group_by("relation", "name", maintain_order=True).agg(
        pl.col("layer", "head", "direction", "accuracy").first(), pl.col("best").any()
    )
    return themed(
        heads_by_label(cells, order=order, what="relation"),
        f"{where}: accuracy of every head on every relation, {quantity} attention",
        f"In each head’s better direction; the {len(order)} most common relations of at least {fewest} scored pairs.",
        "Rings: the head that was chosen on the other part of the sentences. sd: Stanford relations made from UD.",
    )


def _titled() -> pl.Expr:
    """UD name with the paper's: `obj (dobj)`."""
    named = pl.format("{} ({})", "relation", "stanford")
    return (
        pl.when(pl.col("stanford").is_null() | (pl.col("stanford") == pl.col("relation")))
        .then("relation")
        .otherwise(named)
    )


def _left_out(missing: Sequence[str], untold: int) -> str:
    parts = [f"No examples of {', '.join(missing)}."] if missing else []
    parts += [f"Left out, as a word has no token of its own: {untold:,} pairs."] if untold else []
    return " ".join(parts)

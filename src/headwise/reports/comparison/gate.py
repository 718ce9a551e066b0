"""A comparison for programs: what `--fail-if` may ask for, and the comparison as JSON (docs/schemas/compare.json).

NAME         b − a of every head, where NAME is a number of the table (to_first, entropy …)
NAME.size    |b − a| of every head
NAME.mean    the mean over heads of b − a
sink_share   to_first + to_separator: what a head parks on tokens that say nothing (profile only)
clear        how many differences are clear of chance; texts: how many texts were read
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from headwise.results import Result
from headwise.results.shown import shown

SINKS = ("to_first", "to_separator")
SCHEMA = "headwise-compare-1"


def gauges(table: pl.DataFrame, *, texts: int) -> dict[str, int | float | Mapping[str, float]]:
    """Every name that a condition may use, and what was found under it."""
    several = table["stack"].n_unique() > 1
    heads = table.with_columns(
        head_name=pl.concat_str(["stack", "name"], separator=" ") if several else pl.col("name"),
        what=pl.col("what").str.replace_all(" ", "."),
    )
    sinks = heads.filter(pl.col("what").is_in(SINKS)).group_by("head_name", maintain_order=True)
    heads = pl.concat(
        [
            heads.select("head_name", "what", "change"),
            sinks.agg(pl.col("change").sum()).select("head_name", pl.lit("sink_share").alias("what"), "change"),
        ]
    )
    found: dict[str, int | float | Mapping[str, float]] = {"clear": int(table["clear"].sum()), "texts": texts}
    for (what,), rows in heads.group_by("what", maintain_order=True):
        change = dict(zip(rows["head_name"], rows["change"].cast(pl.Float64).fill_null(math.nan), strict=True))
        known = [value for value in change.values() if not math.isnan(value)]
        found[str(what)] = change
        found[f"{what}.size"] = {name: abs(value) for name, value in change.items()}
        found[f"{what}.mean"] = sum(known) / len(known) if known else math.nan
    return found


def document(result: Result, failed: list[str]) -> dict[str, Any]:
    """The comparison as JSON has it: no number that is not finite."""
    manifest = result.manifest
    table = result.table.with_columns(pl.col("clear").fill_null(False))  # null: nobody asked
    return {
        "schema": SCHEMA,
        "a": manifest["names"][0],
        "b": manifest["names"][1],
        "settings": manifest["settings"],
        "documents": manifest["documents"],
        "tokens": manifest["tokens"],
        "differences": shown(table).to_dicts(),
        "failed": failed,
    }

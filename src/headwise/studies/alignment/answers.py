"""Which map aligns words best, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from headwise.studies.tables import counted, ends, percent

DIAGONAL = "the diagonal"


def aligned(table: pl.DataFrame, pairs: int) -> str:
    """The best map of all heads together, by its error where gold links are, else by the agreement of both sides."""
    together = table.filter(pl.col("head").is_null() & pl.col("layer").is_not_null())
    if together.is_empty():
        return "Single heads were scored, and no map of all heads together; they are in the section."
    scored = together.filter(pl.col("aer").is_finite() & pl.col("best")).sort("chosen_aer")
    if len(scored):
        row = scored.row(0, named=True)
        error = f"alignment error {percent(row['aer'])} ({ends(row['low'], row['high'])})"
    else:
        row = together.sort("agreement", descending=True, nulls_last=True).row(0, named=True)
        error = f"{percent(row['agreement'])} of its links are found from both sides"
    where = f"{row['quantity']} of decoder layer {row['layer']}, {row['position']} position"
    return f"Words are aligned best by {where}: {error}, over {counted(pairs, 'pair')}.{warned(table, row)}"


def warned(table: pl.DataFrame, best: Mapping[str, Any]) -> str:
    """A sentence where words aligned by their places alone do no worse than the best map."""
    place = table.filter(pl.col("quantity").eq(DIAGONAL) & pl.col("aer").is_finite())["aer"].to_list()
    if not place or best["aer"] is None or not best["aer"] >= min(place):
        return ""
    return (
        f" That is no better than the diagonal, words aligned by their places alone ({percent(min(place))}): was the "
        "model trained for these languages, in this direction?"
    )

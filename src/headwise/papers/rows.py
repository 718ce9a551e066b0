"""Verdicts as a table: what people read, and the numbers from which the verdict can be taken again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from headwise.papers.claim import Claim, Item, Judged, Paper, settled
from headwise.papers.verdict import Numbers

SCHEMA = {
    "paper": pl.String, "item": pl.String, "claim": pl.String, "theirs": pl.String, "ours": pl.String, "n": pl.String,
    "control": pl.String, "verdict": pl.String, "why": pl.String, "rule": pl.String,
    "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "count": pl.Int64,
    "controls": pl.List(pl.Float64), "shuffled": pl.List(pl.Float64),
    "words": pl.String, "instead": pl.String,
}  # fmt: skip
TOLD = list(SCHEMA)[:10]  # the rest is for programs


def row_of(
    paper: Paper, item: Item, claim: Claim | None = None, judged: Judged | None = None, *, ours: str = ""
) -> tuple[Any, ...]:
    """A row of SCHEMA; without a claim, what the item shows and where it is or why it is not."""
    if claim is None or judged is None:
        return (paper.name, item.id, item.shows, "", ours, *[""] * 5, *[None] * 6, "", "")
    told = (claim.says, claim.theirs, judged.ours, judged.n, judged.control, judged.verdict, judged.why, claim.rule)
    found = judged.numbers
    if found is None:
        return (paper.name, item.id, *told, *[None] * 6, judged.words, "")
    controls = None if found.controls is None else list(found.controls)
    return (paper.name, item.id, *told, found.value, found.low, found.high, found.n, controls, list(found.shuffled),
            judged.words, judged.instead)  # fmt: skip


def judged_again(claim: Claim, row: Mapping[str, Any]) -> Judged:
    """The verdict by today's rule on the numbers of a stored row."""
    if row["value"] is None:
        return Judged("not comparable", row["why"], row["words"], form=claim.form)
    controls = None if row["controls"] is None else _numbers(row["controls"])
    low, high = (math.nan if row[end] is None else row[end] for end in ("low", "high"))
    found = Numbers(
        row["value"], low, high, row["count"], claim.unit, controls, _numbers(row["shuffled"]), claim.control
    )
    return settled(claim, found, row["words"], row.get("instead") or "")  # older tables have none


def _numbers(stored: list[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else value for value in stored)

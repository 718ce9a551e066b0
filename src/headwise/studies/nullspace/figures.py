"""Figures by the paper's numbers: rank by length, raw beside effective attention, and what changes nothing."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from headwise.plots import scatter
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.lines import band, line_by
from headwise.plots.theme import themed
from headwise.stats import Moments, Reservoir, merge
from headwise.studies.freedom import drawn_freedom
from headwise.studies.nullspace.facts import pooled_heads
from headwise.studies.study import State

LABELS = {"first": "[CLS] / first", "separator": "[SEP]", "punctuation": ". and ,"}
FROM_TO = {"separator": "[SEP] → [SEP]", "other": "all others → [SEP]"}


def drawn(state: State, table: pl.DataFrame, stack: str, where: str, size: int) -> dict[str, Any]:
    return {
        "rank": _rank(table, where, size),
        "fig1a": _fig1a(state, stack, where, size),
        "fig1b": _to_kinds(table, "fig1b", where),
        "fig1c": _to_kinds(table, "fig1c", where),
        "fig5": _fig5(table, where),
        **({"mass": _mass(table, where)} if _some_mass(table) else {}),
        **drawn_freedom(table, where, size),
    }


def _rank(table: pl.DataFrame, where: str, size: int) -> Any:
    rows = table.filter((pl.col("paper") == "rank") & pl.col("length").is_not_null()).sort("layer", "length")
    longest = max(float(rows["length"].max() or 1), 1.0)  # type: ignore[arg-type]
    ends = sorted({1.0, min(float(size), longest), longest})
    panels = [
        ("rank", "rank of T", {n: min(n, float(size)) for n in ends}),
        ("null_dim", "dim LN(T), free directions", {n: max(n - size, 0.0) for n in ends}),
        ("identifiable_rows", "share of rows whose weights are unique", None),
    ]
    charts = [
        line_by(rows.filter(pl.col("what") == what).select("layer", "length", "value"), "length",
                titles=("keys seen (tokens)", title), colour="layer", dashed=dashed,
                ends=None if dashed else (0.0, 1.0))
        for what, title, dashed in panels
    ]  # fmt: skip
    return themed(
        alt.hconcat(*charts),
        f"{where}: rank and null space by length (head size {size})",
        "Mean over heads, one line a layer; dashed is what full rank gives. Past the head size every further token is",
        "a direction in which the weights may change and the output does not.",
    )


def _fig1a(state: State, stack: str, where: str, size: int) -> Any:
    kept = state.of(Reservoir, f"points@{stack}")
    points = pl.DataFrame(kept.rows.numpy(), schema=["length", "pearson", "layer", "head"])
    merged: Moments = merge([pooled_heads(moments) for moments in state.by_layer(Moments, "pearson", stack)])
    lengths: Moments = merge([pooled_heads(moments) for moments in state.by_layer(Moments, "length", stack)])
    spread = pl.DataFrame(
        {"length": lengths.mean.tolist(), "value": merged.mean.tolist(), "low": (merged.mean - merged.sd).tolist(),
         "high": (merged.mean + merged.sd).clamp(max=1).tolist()}
    ).filter(pl.all_horizontal(pl.all().is_finite()))  # fmt: skip
    titles = ("length (tokens)", "Pearson's r of raw and effective")
    dots = cloud(points, "length", "pearson", titles=titles, tooltip=["layer:Q", "head:Q"])
    # from 0 to 1, so that short texts, all near 1, have an axis that can be read
    at_size = alt.Chart(pl.DataFrame({"x": [size], "y": [0.0], "end": [1.0]}))
    rule = at_size.mark_rule(strokeDash=[6, 4], color="#666").encode(x="x:Q", y="y:Q", y2="end:Q")
    return themed(
        alt.layer(rule, dots, band(spread, "length", unit=titles[1])).properties(width=480, height=300),
        f"{where}: how alike raw and effective attention are",
        "One point a text and head; the line is the mean of a bucket of lengths, the band ± one standard deviation.",
        "Up to the head size (dashed) the two are one; after it, the lower, the more of the map changes nothing.",
    )


def _to_kinds(table: pl.DataFrame, paper: str, where: str) -> Any:
    quantity = {"fig1b": "raw", "fig1c": "effective"}[paper]
    wide = table.filter(pl.col("paper") == paper).pivot("category", index=["layer", "name"], values="value")
    chart = scatter.by_layer(wide, LABELS, f"{quantity} attention, mean over rows")
    return themed(
        chart,
        f"{where}: {quantity} attention to special tokens and punctuation",
        "One point a head; lines are layer means. See fig1b (raw) beside fig1c (effective):",
        "a peak that only the raw weights have lies in the null space and changes nothing.",
    )


def _fig5(table: pl.DataFrame, where: str) -> Any:
    rows = table.filter((pl.col("paper") == "fig5") & (pl.col("what") != "null_to_separator"))
    named = rows.with_columns(quantity=pl.col("what").str.replace("_to_separator", ""))
    wide = named.pivot("category", index=["layer", "name", "quantity"], values="value")
    chart = scatter.by_layer(wide, FROM_TO, "attention to separators", facet="quantity")
    return themed(
        chart,
        f"{where}: who attends to separators, and what of it arrives",
        "One point a head; lines are layer means. Each panel has its scale.",
    )


def _some_mass(table: pl.DataFrame) -> bool:
    """Whether anything changes nothing: a grid of zeros would say no more than its caption."""
    return not table.filter(paper="mass", what="null_share").filter(pl.col("value") > 0).is_empty()


def _mass(table: pl.DataFrame, where: str) -> Any:
    heads = table.filter((pl.col("paper") == "mass") & pl.col("head").is_not_null())
    shares = heads.filter(pl.col("what") == "null_share")
    grid = head_grid(shares, {"null_share": "share of the squared weights in the null space"}, tops={"null_share": 1.0})
    wide = heads.filter(pl.col("what") == "null").pivot("category", index=["layer", "name"], values="value")
    kinds = scatter.by_layer(wide, {**LABELS, "other": "other"}, "null-space attention (raw − effective)")
    return themed(
        alt.hconcat(grid, kinds, spacing=40).resolve_scale(color="independent"),
        f"{where}: attention that changes nothing",
        "The grid: mean over texts, per head. The points: to which tokens it goes, one a head; lines are layer means.",
        "Above 0: those tokens look more attended to than they are.",
    )

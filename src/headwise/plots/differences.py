"""Two sides compared head by head: how much each differs, as a grid, and one side against the other, as points."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.grid import CELL
from headwise.plots.intervals import AXIS
from headwise.plots.theme import CATEGORIES, DIVERGING

ACROSS = 3  # panels in a row
NOBODY = "#c4c8cf"  # a head that is not compared
SIZE = 250


def change_grids(table: pl.DataFrame, panels: Mapping[str, str], *, layers: int, heads: int) -> Any:
    """Columns layer, head, name, what, change, clear: one grid of all heads a `what`, white at zero.

    Heads that the table does not have are grey; clear cells have a dot.
    """
    charts = [_changes(table.filter(pl.col("what") == what), title, layers, heads) for what, title in panels.items()]
    return alt.concat(*charts, columns=ACROSS, spacing=26).resolve_scale(color="independent")


def _changes(table: pl.DataFrame, title: str, layers: int, heads: int) -> Any:
    top = max((abs(value) for value in table["change"]), default=0.0) or 1.0
    axis = alt.Axis(labelAngle=0, ticks=False, labelOverlap=True)
    places = {
        "x": alt.X("head:O", title="head", axis=axis, scale=alt.Scale(domain=list(range(heads)))),
        "y": alt.Y("layer:O", title="layer", axis=axis, scale=alt.Scale(domain=list(range(layers)))),
    }
    base = alt.Chart(table).encode(**places)
    there = set(table.select("layer", "head").iter_rows())
    gaps = [place for place in product(range(layers), range(heads)) if place not in there]
    missing = alt.Chart(pl.DataFrame(gaps, schema={"layer": pl.Int64, "head": pl.Int64}, orient="row")).encode(**places)
    scale = alt.Scale(range=DIVERGING, domain=[-top, top], interpolate="rgb")
    height = max(CELL * layers, 80)
    shown = ["name:N", "matched:N", *(alt.Tooltip(f"{name}:Q", format=".3g") for name in ("a", "b", "change"))]
    cells = base.mark_rect(stroke="#e4e4e4", strokeWidth=1).encode(
        color=alt.Color("change:Q", scale=scale, title=None, legend=alt.Legend(gradientLength=height)), tooltip=shown
    )
    dots = base.transform_filter(alt.datum.clear).mark_circle(size=18, color="black", opacity=1)
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    grey = [missing.mark_rect(color=NOBODY, stroke="#e4e4e4", strokeWidth=1)] if gaps else []
    return alt.layer(*grey, cells, dots).properties(width=CELL * heads, height=height, title=heading)


def against(table: pl.DataFrame, panels: Mapping[str, str], *, a: str, b: str) -> Any:
    """The same table with a and b: one panel a `what`, a point a head, its interval, and the line of no change."""
    charts = [_points(table.filter(pl.col("what") == what), title, a, b) for what, title in panels.items()]
    return alt.concat(*charts, columns=ACROSS, spacing=26)


def _points(table: pl.DataFrame, title: str, a: str, b: str) -> Any:
    table = table.with_columns(bottom=pl.col("a") + pl.col("low"), top=pl.col("a") + pl.col("high"))
    ends = [value for name in ("a", "b", "bottom", "top") for value in table[name].drop_nulls()]
    least, most = min(ends, default=0.0), max(ends, default=1.0)
    if not table["a"].is_empty() and min(*table["a"], *table["b"]) >= 0:
        least = max(0.0, least)  # what is nowhere below zero, as a share, has no axis there
    scale = alt.Scale(domain=[least, most if most > least else least + 1], nice=True, zero=False, clamp=True)
    line = alt.Chart(pl.DataFrame({"x": [least, most]})).mark_line(strokeDash=[5, 4], color="#999")
    colour = alt.Color(
        "clear:N", title=None, scale=alt.Scale(domain=[True, False], range=[CATEGORIES[1], "#9a9a9a"]),
        legend=alt.Legend(labelExpr="datum.value ? 'clear of chance' : 'not clear'", orient="top"),
    ) if table["low"].count() else alt.value("#9a9a9a")  # fmt: skip
    base = alt.Chart(table).encode(x=alt.X("a:Q", title=a, scale=scale, axis=AXIS), color=colour)
    bars = base.mark_rule(opacity=0.6).encode(y=alt.Y("bottom:Q", title=b, scale=scale, axis=AXIS), y2="top:Q")
    points = base.mark_circle(size=34, opacity=0.85).encode(
        y=alt.Y("b:Q", title=b, scale=scale, axis=AXIS),
        tooltip=["name:N", "matched:N", *(alt.Tooltip(f"{n}:Q", format=".3g") for n in ("a", "b", "low", "high"))],
    )
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(line.encode(x="x:Q", y="x:Q"), bars, points).properties(width=SIZE, height=SIZE, title=heading)


def matching(table: pl.DataFrame, *, a: str, b: str, unit: str) -> Any:
    """Columns layer, matched_layer, cost, name, matched: how many heads of each layer go to which layer."""
    layers = sorted({*table["layer"], *table["matched_layer"]})
    axis = alt.Axis(labelAngle=0, ticks=False)
    counts = table.group_by("layer", "matched_layer").agg(pl.len().alias("heads"), pl.col("cost").mean())
    base = alt.Chart(counts).encode(
        x=alt.X("layer:O", title=f"layer of {a}", axis=axis, scale=alt.Scale(domain=layers)),
        y=alt.Y("matched_layer:O", title=f"layer of {b}", axis=axis, scale=alt.Scale(domain=layers)),
    )
    circles = base.mark_circle(opacity=0.9).encode(
        size=alt.Size("heads:Q", legend=None, scale=alt.Scale(range=[220, 640])),
        color=alt.Color("cost:Q", title=unit, scale=alt.Scale(scheme="viridis", reverse=True)),
        tooltip=["layer:O", "matched_layer:O", "heads:Q", alt.Tooltip("cost:Q", format=".3f")],
    )
    counted = base.mark_text(color="white", stroke="black", strokeWidth=0.25, fontSize=11).encode(text="heads:Q")
    return alt.layer(circles, counted).properties(width=36 * max(len(layers), 4), height=36 * max(len(layers), 4))

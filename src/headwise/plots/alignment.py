"""Soft alignments with the reference framed (fig8), error rates by layer (fig7) and of methods (table3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.maps import SHOWN, map_table
from headwise.plots.theme import CATEGORIES, SEQUENTIAL

CELL = 22  # points
FRAMES = {"sure": (2.0, [1, 0]), "possible": (1.5, [3, 2])}  # width and dashes
GREY = "#9a9a9a"


def soft_alignment(
    matrix: np.ndarray, source: Sequence[str], target: Sequence[str], gold: Mapping[str, np.ndarray], *, title: str
) -> Any:
    """One map [target source]; `gold` holds matrices of sure and possible links; a dot is a row's highest word."""
    cells = map_table(matrix, target, source, "")
    axis = alt.Axis(labelExpr=SHOWN, labelLimit=110, labelAngle=-60, ticks=False, labelOverlap=False, orient="top")
    names = alt.Axis(labelExpr=SHOWN, labelLimit=110, ticks=False, labelOverlap=False)
    base = alt.Chart(cells).encode(
        x=alt.X("to:N", sort=None, title=None, axis=axis), y=alt.Y("from:N", sort=None, title=None, axis=names)
    )
    top = float(matrix.max())
    heat = base.mark_rect().encode(
        color=alt.Color("value:Q", legend=None, scale=alt.Scale(range=SEQUENTIAL, domain=[0, top], clamp=True)),
        tooltip=["from:N", "to:N", alt.Tooltip("value:Q", format=".3f")],
    )
    highest = np.zeros_like(matrix, dtype=bool)
    highest[np.arange(len(matrix)), matrix.argmax(1)] = True
    layers = [heat, _marked(base, cells, highest).mark_circle(size=34, color=CATEGORIES[1], opacity=1)]
    for kind, links in gold.items():
        width, dashes = FRAMES[kind]
        frame = _marked(base, cells, links).mark_rect(
            filled=False, stroke=CATEGORIES[0], strokeWidth=width, strokeDash=dashes
        )
        layers.append(frame)
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(*layers).properties(width=CELL * len(source), height=CELL * len(target), title=heading)


def _marked(base: Any, cells: pl.DataFrame, where: np.ndarray) -> Any:
    chart = base.copy()
    chart.data = cells.filter(pl.Series(where.ravel()))
    return chart


def rates_by_layer(table: pl.DataFrame, colours: Mapping[str, str], *, panels: Mapping[str, str]) -> Any:
    """Columns `position`, `layer`, `quantity`, `aer`, `low`, `high`: a line a quantity, a panel a position."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    charts = []
    for position, title in panels.items():
        part = table.filter(pl.col("position") == position)
        base = alt.Chart(part).encode(
            x=alt.X("layer:O", title="decoder layer (from 0)", axis=alt.Axis(labelAngle=0)),
            color=alt.Color("quantity:N", title=None, sort=list(colours), scale=scale),
            tooltip=["quantity:N", "layer:O", *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("aer", "low", "high"))],
        )
        unit = alt.Y("aer:Q", title="AER", scale=alt.Scale(domain=[0, 1]))
        lines = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=44)).encode(y=unit)
        bars = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q")
        heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
        charts.append(alt.layer(bars, lines).properties(width=300, height=260, title=heading))
    return alt.hconcat(*charts, spacing=24)


def rates_of_methods(table: pl.DataFrame, *, controls: Sequence[str]) -> Any:
    """Columns `name`, `aer`, `low`, `high`: a dot with its interval a method, the lowest first; `controls` are grey."""
    order = table.sort("aer")["name"].to_list()
    grey = table.with_columns(shade=pl.col("name").is_in(list(controls)))
    colour = alt.condition("datum.shade", alt.value(GREY), alt.value(CATEGORIES[0]))
    base = alt.Chart(grey).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=340)), color=colour
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="AER, 95 % interval"), x2="high:Q")
    dots = base.mark_circle(size=70, opacity=1).encode(
        x=alt.X("aer:Q", scale=alt.Scale(zero=True)),
        tooltip=["name:N", *(alt.Tooltip(f"{column}:Q", format=".3f") for column in ("aer", "low", "high"))],
    )
    numbers = base.mark_text(align="left", dx=8, fontSize=11).encode(x="high:Q", text=alt.Text("aer:Q", format=".1%"))
    return alt.layer(bars, dots, numbers).properties(width=420, height=24 * len(order))

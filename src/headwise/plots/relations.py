"""Heads as classifiers: the best of each relation against its baseline, and every head × relation as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES, SEQUENTIAL

GREYS = ["#000000", "#666666", "#aaaaaa"]
LINE = 13  # height of a dot's line in pixels
WIDTH = 1000  # of a heat map


def best_of_each(
    table: pl.DataFrame, *, order: Sequence[str], quantities: Sequence[str], what: str, plain: Sequence[str] = ()
) -> Any:
    """Dots with intervals, a line a quantity within each label, and a black tick for the label's baseline.

    `table` has the columns `what`, quantity, name, direction, accuracy, low, high (shares), one row a dot; rows whose
    quantity is "baseline" are the ticks. Labels come in `order` from the top; the last `plain` lines of each are grey.
    """
    colours = CATEGORIES[: len(quantities)]
    quantities, colours = [*quantities, *plain], [*colours, *GREYS[: len(plain)]]
    lines = len(quantities) + 1  # one left free between labels
    place = {(label, quantity): lines * i + j for i, label in enumerate(order) for j, quantity in enumerate(quantities)}
    middle = {label: lines * i + (len(quantities) - 1) / 2 for i, label in enumerate(order)}
    rows = [
        {**row, "place": place.get((row[what], row["quantity"]), middle[row[what]])}
        for row in table.select(what, "quantity", "name", "direction", "accuracy", "low", "high").iter_rows(named=True)
    ]
    placed = pl.DataFrame(rows, infer_schema_length=None)
    labels = " : ".join(f"datum.value == {at} ? {label!r}" for label, at in middle.items()) + " : ''"
    axis = alt.Axis(values=list(middle.values()), labelExpr=labels, labelLimit=260, ticks=False, domain=False)
    y = alt.Y("place:Q", title=None, axis=axis, scale=alt.Scale(domain=[lines * len(order) - 1, -1], nice=False))
    x = alt.X("accuracy:Q", title="accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    tooltip = [f"{what}:N", "quantity:N", "name:N", "direction:N", *(_percent(c) for c in ("accuracy", "low", "high"))]
    colour = alt.Color(
        "quantity:N",
        title=None,
        scale=alt.Scale(domain=quantities, range=colours),
        legend=alt.Legend(orient="top", symbolOpacity=1, columns=3, labelLimit=260),
    )
    heads = alt.Chart(placed.filter(pl.col("quantity") != "baseline")).encode(y=y, color=colour)
    bars = heads.mark_rule(strokeWidth=2, opacity=0.6).encode(x="low:Q", x2="high:Q")
    dots = heads.mark_circle(size=50, opacity=1).encode(x=x, tooltip=tooltip)
    names = heads.mark_text(align="left", dx=7, fontSize=9).encode(x="high:Q", text="name:N", color=alt.value("#444"))
    layers = [bars, dots, names]
    baselines = placed.filter(pl.col("quantity") == "baseline")
    if not baselines.is_empty():
        ticks = alt.Chart(baselines).mark_tick(
            thickness=3, size=LINE * len(quantities), color="black", orient="vertical"
        )
        layers.insert(0, ticks.encode(y=y, x=x, tooltip=tooltip))
    return alt.layer(*layers).properties(width=560, height=LINE * lines * len(order))


def heads_by_label(table: pl.DataFrame, *, order: Sequence[str], what: str) -> Any:
    """A heat map with a row a label and a column a head; a ring marks the best head of the label.

    `table` has `what`, layer, head, name, accuracy and best.
    """
    heads = table.select("layer", "head", "name").unique(maintain_order=True).sort("layer", "head")
    names = heads["name"].to_list()
    firsts = heads.filter(pl.col("head") == 0)["name"].to_list()
    width = min(WIDTH, 16 * len(names))
    x = alt.X(
        "name:N",
        sort=names,
        title="head, layer by layer",
        axis=alt.Axis(
            values=firsts, labelExpr="split(datum.label, '.')[0]", labelAngle=0, ticks=False, labelOverlap=True
        ),
    )
    y = alt.Y(f"{what}:N", sort=list(order), title=None, axis=alt.Axis(ticks=False, labelLimit=240))
    colour = alt.Color(
        "accuracy:Q",
        title="accuracy",
        scale=alt.Scale(range=SEQUENTIAL, domain=[0, 1], interpolate="rgb"),
        legend=alt.Legend(format="%"),
    )
    tooltip = [f"{what}:N", "name:N", "direction:N", _percent("accuracy")]
    cells = alt.Chart(table).mark_rect().encode(x=x, y=y, color=colour, tooltip=tooltip)
    rings = (
        alt.Chart(table.filter(pl.col("best")))
        .mark_point(shape="circle", size=70, strokeWidth=2, color=CATEGORIES[1], filled=False)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    return alt.layer(cells, rings).properties(width=width, height=alt.Step(18))


def _percent(column: str) -> alt.Tooltip:
    return alt.Tooltip(f"{column}:Q", format=".1%")

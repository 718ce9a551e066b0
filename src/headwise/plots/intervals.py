"""Things compared: a dot with its interval for each, in panels; and a line for each along a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES

MANY = [*CATEGORIES, "#882255", "#44AA99", "#999933", "#AA4499", "#661100"]  # Okabe and Ito, then Tol
CONTROL = "#9a9a9a"
AXIS = alt.Axis(tickCount=4, labelFlush=False)  # so few that the numbers do not touch


def dots(table: pl.DataFrame, panels: Mapping[str, str], *, order: Sequence[str], control: str) -> Any:
    """Columns `what`, `name`, `value`, `low`, `high`; `panels` gives the title of each `what`.

    The things stand below each other in the same `order` in every panel; the one called `control` is grey, with a
    dashed line through it.
    """
    charts = [
        _dots(table.filter(pl.col("what") == what), title, order, control, named=at == 0)
        for at, (what, title) in enumerate(panels.items())
    ]
    return alt.hconcat(*charts, spacing=24)


def _dots(table: pl.DataFrame, title: str, order: Sequence[str], control: str, *, named: bool) -> Any:
    colour = alt.condition(alt.datum.name == control, alt.value(CONTROL), alt.value(CATEGORIES[0]))
    axis = alt.Axis(title=None, labelLimit=220, labels=named, ticks=named)
    place = alt.Y("name:N", sort=list(order), scale=alt.Scale(domain=list(order)), axis=axis)
    base = alt.Chart(table).encode(y=place, color=colour)
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title, axis=AXIS), x2="high:Q")
    points = base.mark_circle(size=60, opacity=1).encode(
        x=alt.X("value:Q", title=title, axis=AXIS),
        tooltip=["name:N", *(alt.Tooltip(f"{column}:Q", format=".3f") for column in ("value", "low", "high"))],
    )
    layers, still = [bars, points], table.filter(pl.col("name") == control)
    if still.height:
        rule = alt.Chart(still).mark_rule(strokeDash=[5, 4], color=CONTROL).encode(x="value:Q")
        layers.insert(0, rule)
    return alt.layer(*layers).properties(width=240, height=22 * len(order))


def curves(
    table: pl.DataFrame, panels: Mapping[str, str], *, order: Sequence[str], control: str, x: str, unit: str
) -> Any:
    """Column `value` along the column `x` (of a logarithmic axis), a line for each `name`, in a panel a `what`."""
    colours = iter(MANY * (len(order) // len(MANY) + 1))
    shades = [CONTROL if name == control else next(colours) for name in order]
    colour = alt.Color("name:N", title=None, sort=list(order), scale=alt.Scale(domain=list(order), range=shades))
    ticks = sorted(set(table[x].to_list()))
    across = alt.X(f"{x}:Q", title=unit, scale=alt.Scale(type="log"), axis=alt.Axis(values=ticks, format="~g"))
    charts = []
    for what, title in panels.items():
        base = alt.Chart(table.filter(pl.col("what") == what)).encode(
            x=across, y=alt.Y("value:Q", title=title), color=colour,
            tooltip=["name:N", f"{x}:Q", alt.Tooltip("value:Q", format=".3f")],
        )  # fmt: skip
        charts.append(
            base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=26)).properties(width=320, height=260)
        )
    return alt.hconcat(*charts, spacing=24)

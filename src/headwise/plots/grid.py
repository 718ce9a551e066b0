"""Layers × heads as a grid of coloured cells, several side by side on scales of their own (D fig4, fig10–12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import SEQUENTIAL

CELL = 24
FAINT = 0.1  # of a fixed scale; below it the largest value would be drawn nearly white


def head_grid(
    table: pl.DataFrame,
    panels: Mapping[str, str],
    *,
    tops: Mapping[str, float] | None = None,
    told: Sequence[str] = (),
) -> Any:
    """One grid for each value of column `what`; `panels` gives its title, `tops` where its colours end.

    `told` are columns that the pointer shows besides name and value. A panel without a number is not drawn, unless
    none has one; one that is 0 everywhere is named under the title of the first instead, unless all are.
    """
    tops = tops or {}
    numbers = table.filter(pl.col("value").is_finite())["what"].unique().to_list()
    panels = {what: title for what, title in panels.items() if what in numbers} or panels
    some = table.filter(pl.col("value").is_finite() & (pl.col("value") != 0))["what"].unique().to_list()
    drawn = {what: title for what, title in panels.items() if what in some} or panels
    zero = [f"{title}: 0 everywhere" for what, title in panels.items() if what not in drawn]
    charts = [
        _grid(table.filter(pl.col("what") == what), title, tops.get(what), told, () if at else zero)
        for at, (what, title) in enumerate(drawn.items())
    ]
    return alt.hconcat(*charts, spacing=30).resolve_scale(color="independent")


def _grid(table: pl.DataFrame, title: str, top: float | None, told: Sequence[str], under: Sequence[str]) -> Any:
    height = max(CELL * table["layer"].n_unique(), 80)
    heads = table["head"].n_unique()
    largest = max(table["value"].to_list(), default=1.0)
    faint = top is not None and 0 < largest < FAINT * top
    most = largest if top is None or faint else top
    marked = {"values": [0, most], "format": ".2g"} if faint else {}  # else the bar's top reads as another number
    legend = alt.Legend(gradientLength=height, title=f"up to {largest:.2g}" if faint else None, **marked)
    title = f"{title} (0 everywhere)" if largest == 0 else title
    scale = alt.Scale(range=SEQUENTIAL, domain=[0, most or 1], interpolate="rgb", clamp=True)
    axis = alt.Axis(labelAngle=0, ticks=False)
    below = {"subtitle": list(under), "subtitleFontSize": 11} if under else {}
    return (
        alt.Chart(table.select("layer", "head", "name", "value", *told))
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("head:O", title="head", axis=axis),
            y=alt.Y("layer:O", title="layer", axis=axis),
            color=alt.Color("value:Q", scale=scale, legend=legend),
            tooltip=["name:N", alt.Tooltip("value:Q", format=".4g"), *(f"{column}:N" for column in told)],
        )
        .properties(
            width=CELL * heads,
            height=height,
            title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal", **below),
        )
    )

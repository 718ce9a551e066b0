"""Layers × heads as a grid of coloured cells, several side by side on scales of their own (D fig4, fig10–12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import SEQUENTIAL

CELL = 24


def head_grid(
    table: pl.DataFrame,
    panels: Mapping[str, str],
    *,
    tops: Mapping[str, float] | None = None,
    told: Sequence[str] = (),
) -> Any:
    """One grid for each value of column `what`; `panels` gives its title, `tops` where its colours end.

    `told` are columns that the pointer shows besides name and value. A panel without a number is not drawn, unless
    none has one.
    """
    tops = tops or {}
    numbers = table.filter(pl.col("value").is_finite())["what"].unique().to_list()
    panels = {what: title for what, title in panels.items() if what in numbers} or panels
    charts = [
        _grid(table.filter(pl.col("what") == what), title, tops.get(what), told) for what, title in panels.items()
    ]
    return alt.hconcat(*charts, spacing=30).resolve_scale(color="independent")


def _grid(table: pl.DataFrame, title: str, top: float | None, told: Sequence[str]) -> Any:
    layers, heads = table["layer"].n_unique(), table["head"].n_unique()
    largest = max(table["value"].to_list(), default=1.0)
    most = largest if top is None else top
    title = f"{title} (0 everywhere)" if largest == 0 else title
    scale = alt.Scale(range=SEQUENTIAL, domain=[0, most or 1], interpolate="rgb", clamp=True)
    axis = alt.Axis(labelAngle=0, ticks=False)
    height = max(CELL * layers, 80)
    return (
        alt.Chart(table.select("layer", "head", "name", "value", *told))
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("head:O", title="head", axis=axis),
            y=alt.Y("layer:O", title="layer", axis=axis),
            color=alt.Color("value:Q", scale=scale, title=None, legend=alt.Legend(gradientLength=height)),
            tooltip=["name:N", alt.Tooltip("value:Q", format=".4g"), *(f"{column}:N" for column in told)],
        )
        .properties(
            width=CELL * heads,
            height=height,
            title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal"),
        )
    )

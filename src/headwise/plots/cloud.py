"""Many single points: one panel for each pair of columns, coloured by kind (D fig5, fig6; C fig1a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES


def cloud(
    table: pl.DataFrame,
    x: str,
    y: str,
    *,
    titles: tuple[str, str],
    kinds: Sequence[str] = (),
    logarithmic: tuple[bool, bool] = (False, False),
    title: str = "",
    tooltip: Sequence[str] = (),
) -> Any:
    """Points (x, y), coloured by the column `kind` if `kinds` lists its values; a logarithm drops what is ≤ 0."""
    for column, is_log in zip((x, y), logarithmic, strict=True):
        table = table.filter(pl.col(column).is_finite() & (pl.col(column) > 0 if is_log else True))
    axes = [alt.Scale(type="log", nice=False) if is_log else alt.Scale(zero=False, nice=True) for is_log in logarithmic]
    ticks = [alt.Axis(tickCount=6, format="~g") if is_log else alt.Axis(tickCount=6) for is_log in logarithmic]
    chart = (
        alt.Chart(table)
        .mark_circle(size=9, opacity=0.45, color=CATEGORIES[0])
        .encode(
            x=alt.X(f"{x}:Q", title=titles[0], scale=axes[0], axis=ticks[0]),
            y=alt.Y(f"{y}:Q", title=titles[1], scale=axes[1], axis=ticks[1]),
            tooltip=[*tooltip, alt.Tooltip(f"{x}:Q", format=".4g"), alt.Tooltip(f"{y}:Q", format=".4g")],
        )
    )
    if kinds:
        scale = alt.Scale(domain=list(kinds), range=CATEGORIES[: len(kinds)])
        legend = alt.Legend(orient="top", symbolOpacity=1, symbolSize=60)
        chart = chart.encode(color=alt.Color("kind:N", title=None, scale=scale, legend=legend))
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return chart.properties(width=300, height=240, title=heading)

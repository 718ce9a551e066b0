"""One explanation: its strongest units, and what is left of the answer when these are removed or kept alone."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES, themed

MOST = 20


def explained(scores: pl.DataFrame, curves: pl.DataFrame | None, *, title: str, caption: list[str], unit: str) -> Any:
    """`scores`: unit, score. `curves`: what, k, value, low, high (the band of random orders)."""
    shown = scores.with_row_index("place").sort(pl.col("score").abs(), descending=True).head(MOST)
    colour = alt.condition("datum.score < 0", alt.value(CATEGORIES[1]), alt.value(CATEGORIES[0]))
    bars = (
        alt.Chart(shown)
        .mark_bar()
        .encode(
            y=alt.Y("place:O", sort=None, title=unit, axis=None),
            x=alt.X("score:Q", title="part of the answer"),
            color=colour,
            tooltip=["unit:N", alt.Tooltip("score:Q", format=".4g")],
        )
        .properties(width=320)
    )
    names = bars.mark_text(align="left", dx=4, baseline="middle", color="#333").encode(
        text="unit:N", color=alt.value("#333"), x=alt.value(324)
    )
    chart = bars + names
    if curves is None:
        return themed(chart, title, *caption)
    base = alt.Chart(curves).encode(x=alt.X("k:Q", title=f"{unit} removed, or kept alone"))
    band = base.mark_area(opacity=0.25, color="#888").encode(
        y=alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1])), y2="high:Q"
    )
    line = base.mark_line(point=True, color=CATEGORIES[0]).encode(y="value:Q")
    both = (band + line).properties(width=260, height=200).facet(row=alt.Row("what:N", title=None, sort=None))
    return themed(alt.hconcat(chart, both, spacing=90), title, *caption)

"""Attention maps of one head side by side (C fig6), and how far each weight is pinned down (whiskers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.theme import CATEGORIES, DIVERGING, SEQUENTIAL

MARK = "␟"  # parts the number of a token, which keeps equal tokens apart, from its text
SHOWN = "split(datum.label, '␟')[1]"


def numbered(tokens: Sequence[str]) -> list[str]:
    """Unique names that sort as the text runs: `007␟fox`."""
    return [f"{number:04d}{MARK}{token}" for number, token in enumerate(tokens)]


def map_table(matrix: np.ndarray, queries: Sequence[str], keys: Sequence[str], quantity: str) -> pl.DataFrame:
    """A map as rows: from, to, value."""
    froms, tos = numbered(queries), numbered(keys)
    return pl.DataFrame(
        {
            "quantity": quantity,
            "from": np.repeat(froms, len(tos)),
            "to": np.tile(tos, len(froms)),
            "value": matrix.astype(float).ravel(),
        }
    )


def heat_map(table: pl.DataFrame, *, title: str, top: float, signed: bool, size: int, unit: str | None = None) -> Any:
    """One map: rows attend, columns are attended to. Signed maps have a scale that is white at zero.

    `unit` names the colours in a legend; None leaves the legend to a neighbour with the same scale.
    """
    font = float(np.clip(0.85 * size / max(table["to"].n_unique(), table["from"].n_unique()), 5, 11))
    labels = alt.Axis(labelExpr=SHOWN, labelLimit=90, labelFontSize=font, labelOverlap=font <= 5, ticks=False)
    beyond = table.height and float(table["value"].abs().max() or 0) > top  # type: ignore[arg-type]
    colour = alt.Scale(
        range=DIVERGING if signed else SEQUENTIAL, domain=[-top if signed else 0, top], interpolate="rgb",
        clamp=True if beyond else alt.Undefined,
    )  # fmt: skip
    legend = None if unit is None else alt.Legend(orient="right", gradientLength=size)
    return (
        alt.Chart(table, title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal"))
        .mark_rect()
        .encode(
            x=alt.X("to:N", sort=None, title="to", axis=labels),
            y=alt.Y("from:N", sort=None, title="from", axis=labels),
            color=alt.Color("value:Q", scale=colour, title=unit, legend=legend),
            tooltip=[alt.Tooltip("from:N"), alt.Tooltip("to:N"), alt.Tooltip("value:Q", format=".4f")],
        )
        .properties(width=size, height=size)
    )


def whiskers(table: pl.DataFrame, *, title: str, width: int) -> Any:
    """For every key of one query: the weight, its effective part, and the interval of all weights that would do.

    `table` has key, raw, effective, low, high.
    """
    font = float(np.clip(0.85 * width / len(table), 5, 11))
    axis = alt.Axis(labelExpr=SHOWN, labelLimit=90, labelAngle=-90, labelFontSize=font, labelOverlap=False)
    base = alt.Chart(table).encode(x=alt.X("key:N", sort=None, title="to", axis=axis))
    ends = base.mark_rule(strokeWidth=8, color="#bbb", strokeCap="round").encode(
        y=alt.Y("low:Q", title="weight (probability)"), y2="high:Q"
    )
    long = table.select("key", weights="raw", effective="effective").unpivot(index="key", variable_name="shown")
    dots = (
        alt.Chart(long)
        .mark_point(filled=True, size=36, opacity=1)
        .encode(
            x=alt.X("key:N", sort=None),
            y="value:Q",
            color=alt.Color(
                "shown:N",
                title="dots",
                scale=alt.Scale(domain=["weights", "effective"], range=[CATEGORIES[1], CATEGORIES[0]]),
                legend=alt.Legend(orient="right"),
            ),
            shape=alt.Shape("shown:N", scale=alt.Scale(range=["circle", "diamond"]), legend=None),
        )
    )
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(ends, dots).properties(width=width, height=170, title=heading)

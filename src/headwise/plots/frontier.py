"""How much one thing costs in another: points with intervals both ways, one kind joined to a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]


def frontier(
    points: pl.DataFrame,
    *,
    titles: tuple[str, str],
    curve: str,
    kinds: Sequence[str],
    marked: tuple[float, float, float, str] | None = None,
    limit: tuple[float, str] | None = None,
    size: tuple[int, int] = (520, 340),
) -> Any:
    """Columns `kind`, `label`, `x`, `x_low`, `x_high`, `y`, `y_low`, `y_high`.

    Points of kind `curve` are joined in the order of the table and show their label. `marked`: x, its interval and a
    name for a band (a knee); `limit`: x and a name for a dashed line.
    """
    axis = alt.Axis(tickCount=8)
    x = alt.X("x:Q", title=titles[0], scale=alt.Scale(nice=True, zero=True), axis=axis)
    y = alt.Y("y:Q", title=titles[1], scale=alt.Scale(nice=True, zero=True))
    colour = alt.Color(
        "kind:N", title=None, sort=list(kinds), scale=alt.Scale(domain=list(kinds), range=CATEGORIES[: len(kinds)]),
        legend=alt.Legend(orient="right", labelLimit=260),
    )  # fmt: skip
    shape = alt.Shape(
        "kind:N", title=None, sort=list(kinds), scale=alt.Scale(domain=list(kinds), range=SHAPES[: len(kinds)])
    )
    joined = points.filter(pl.col("kind") == curve).with_row_index("place")
    base = alt.Chart(points)
    layers = [
        alt.Chart(joined)
        .mark_line(strokeWidth=2, color=CATEGORIES[list(kinds).index(curve)])
        .encode(x=x, y=y, order="place:Q"),
        base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(x=alt.X("x_low:Q"), x2="x_high:Q", y=y, color=colour),
        base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q", color=colour),
        base.mark_point(size=70, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape,
            tooltip=["kind:N", "label:N", alt.Tooltip("x:Q", format=".3f"), alt.Tooltip("y:Q", format=".3f")],
        ),
        alt.Chart(joined).mark_text(align="right", dx=-7, dy=-7, fontSize=10).encode(x=x, y=y, text="label:N"),
    ]  # fmt: skip
    if marked is not None:
        band = pl.DataFrame({"x": [marked[0]], "low": [marked[1]], "high": [marked[2]], "name": [marked[3]]})
        layers.insert(0, alt.Chart(band).mark_rect(opacity=0.12, color="#000").encode(x="low:Q", x2="high:Q"))
        layers += _rule(band, "#444", 4)
    if limit is not None:
        layers += _rule(pl.DataFrame({"x": [limit[0]], "name": [limit[1]]}), "#999", size[1] - 16)
    return alt.layer(*layers).properties(width=size[0], height=size[1])


def _rule(place: pl.DataFrame, colour: str, down: int) -> list[Any]:
    """A dashed line with its name, so many pixels from the top."""
    base = alt.Chart(place).encode(x="x:Q")
    text = base.mark_text(align="right", dx=-4, baseline="top", color=colour, fontSize=10)
    return [base.mark_rule(strokeDash=[5, 4], color=colour), text.encode(text="name:N", y=alt.value(down))]

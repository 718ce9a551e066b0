"""Heads as points of a plane, the same points coloured in several ways side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES

SIZE = 300
LINE, WORDS = 0.04, 0.4  # of half the plane: the height of a line, and how near words may not stand
Colours = Mapping[Any, str]


def panels(heads: pl.DataFrame, by: Mapping[str, Colours | None], unit: str) -> Any:
    """One panel a column of `by`, of heads with x, y and name; a column without colours is a quantity from low to high.

    Both axes have one scale: what is measured is the distance between two points.
    """
    reach = 1.08 * max(float(heads[axis].abs().max()) for axis in ("x", "y")) or 1.0  # type: ignore[arg-type]
    charts = [_panel(heads, column, colours, unit, reach) for column, colours in by.items()]
    return alt.hconcat(*charts, spacing=28).resolve_scale(color="independent")


def _panel(heads: pl.DataFrame, column: str, colours: Colours | None, unit: str, reach: float) -> Any:
    scale, ticks = alt.Scale(domain=[-reach, reach], nice=False), alt.Axis(tickCount=5)
    x = alt.X("x:Q", scale=scale, axis=ticks, title=unit)
    y = alt.Y("y:Q", scale=scale, axis=ticks, title=None)
    tooltip = ["name:N", *(f"{name}:N" for name in heads.columns if name not in ("x", "y", "name"))]
    points = alt.Chart(heads).mark_circle(size=64, opacity=0.85, stroke="white", strokeWidth=0.5)
    return points.encode(x=x, y=y, color=_colour(heads, column, colours), tooltip=tooltip).properties(
        width=SIZE, height=SIZE, title=alt.TitleParams(f"by {column}", anchor="start", fontSize=13, fontWeight="normal")
    )


def named(heads: pl.DataFrame, unit: str) -> Any:
    """Heads with x, y and name; those with `does` are coloured by their `kind` and have it written beside them.

    Words of points that are far to the right stand to their left, where they end inside; those of near points stand
    below each other.
    """
    reach = 1.08 * max(float(heads[axis].abs().max()) for axis in ("x", "y")) or 1.0  # type: ignore[arg-type]
    scale, ticks = alt.Scale(domain=[-reach, reach], nice=False), alt.Axis(tickCount=5)
    x, y = alt.X("x:Q", scale=scale, axis=ticks, title=unit), alt.Y("y:Q", scale=scale, axis=ticks, title=None)
    kinds = heads["kind"].drop_nulls().unique().sort().to_list()
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=CATEGORIES[: len(kinds)]),
                       legend=alt.Legend(title=None, orient="top"))  # fmt: skip
    known = heads.filter(pl.col("does").is_not_null()).with_columns(told=pl.format("{} {}", "name", "does"))
    known = known.with_columns(at=pl.Series(spread(known.select("x", "y").rows(), reach), dtype=pl.Float64))
    rest = alt.Chart(heads.filter(pl.col("does").is_null())).mark_circle(size=40, color="#c8c8c8")
    points = alt.Chart(known).mark_circle(size=64, opacity=1).encode(x=x, y=y, color=colour, tooltip=["told:N"])
    far, height = pl.col("x") > reach / 2, alt.Y("at:Q", scale=scale, axis=ticks, title=None)
    near = alt.Chart(known.filter(~far)).mark_text(align="left", dx=6, fontSize=10)
    beyond = alt.Chart(known.filter(far)).mark_text(align="right", dx=-6, fontSize=10)
    words = [chart.encode(x=x, y=height, text="told:N") for chart in (near, beyond)]
    return alt.layer(rest.encode(x=x, y=y, tooltip=["name:N"]), points, *words).properties(
        width=2 * SIZE, height=2 * SIZE
    )


def spread(places: Sequence[tuple[float, float]], reach: float) -> list[float]:
    """Heights of words beside points: from the top down each at its own point's, or a line below one that is near.

    >>> spread([(0.0, 0.50), (0.1, 0.51), (0.1, 0.1), (-0.9, 0.5)], reach=1.0)
    [0.47, 0.51, 0.1, 0.5]
    """
    heights, done = [0.0] * len(places), list[tuple[float, float]]()
    for number in sorted(range(len(places)), key=lambda number: -places[number][1]):
        x, y = places[number]
        for left, above in sorted(done, key=lambda place: -place[1]):
            if abs(x - left) < WORDS * reach and abs(y - above) < LINE * reach:
                y = round(above - LINE * reach, 9)
        heights[number] = y
        done.append((x, y))
    return heights


def _colour(heads: pl.DataFrame, column: str, colours: Colours | None) -> alt.Color:
    if colours is None:
        return alt.Color(f"{column}:Q", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(tickMinStep=1, title=None))
    present = [value for value in colours if value in set(heads[column])]
    scale = alt.Scale(domain=present, range=[colours[value] for value in present])
    return alt.Color(f"{column}:N", scale=scale, sort=present, legend=alt.Legend(title=None))

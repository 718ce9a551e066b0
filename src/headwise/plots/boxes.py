"""Box plots from quantiles: whiskers from 5 % to 95 %, box from 25 % to 75 %, a line at the median.

A corpus is folded into histograms, so that single values are gone and outliers cannot be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES

BOX, MEDIAN = "#9cc9e3", CATEGORIES[1]
WIDEST = 60  # pixels from box to box
LEAST_WIDTH = 400
QUANTILES = ("q05", "q25", "median", "q75", "q95")


def boxes(
    table: pl.DataFrame,
    x: str,
    *,
    titles: tuple[str, str],
    order: Sequence[Any],
    percent: bool = False,
    title: str = "",
    top: float | None = None,
    rule: pl.DataFrame | None = None,
    step: int = 26,
    angle: int = 0,
) -> Any:
    """A box for each value of column `x`, in `order`; `table` has q05, q25, median, q75, q95, and count for tooltips.

    `top` is where the axis ends; `rule` (columns `x` and value) is a black tick for comparison.
    """
    axis = alt.Axis(labelAngle=angle, labelOverlap=False, ticks=False)
    value = alt.Y(
        "q05:Q",
        title=titles[1],
        axis=alt.Axis(format="%") if percent else alt.Axis(tickMinStep=1),
        scale=alt.Scale(zero=True) if top is None else alt.Scale(domain=[0, top]),
    )
    shown = ".1%" if percent else ".0f"
    base = alt.Chart(table).encode(
        x=alt.X(f"{x}:O", title=titles[0], sort=list(order), axis=axis),
        tooltip=[f"{x}:O", *(alt.Tooltip(f"{name}:Q", format=shown) for name in QUANTILES), "count:Q"],
    )
    step = max(step, min(LEAST_WIDTH // max(len(order), 1), WIDEST))
    width = step - min(12, step // 3)
    layers = [
        base.mark_rule(color="#777", clip=True).encode(y=value, y2="q95:Q"),
        base.mark_bar(size=width, color=BOX, opacity=1, clip=True).encode(y=alt.Y("q25:Q"), y2="q75:Q"),
        base.mark_tick(size=width, thickness=2.5, color=MEDIAN, opacity=1, clip=True).encode(y="median:Q"),
    ]
    if rule is not None:
        even = alt.Chart(rule).mark_tick(size=width + 6, thickness=1.5, color="#222", opacity=1)
        layers.append(even.encode(x=alt.X(f"{x}:O", sort=list(order)), y="value:Q"))
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(*layers).properties(width=alt.Step(step), height=220, title=heading)

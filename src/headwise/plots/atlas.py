"""Layers × heads, each cell in the colour of its kind, with a dot where a test was passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.intervals import MANY

CELL, NONE = 24, "#ececec"
MORE = ["#DDCC77", "#117733", "#332288", "#88CCEE", "#6699CC", "#CC6677", "#AA4466", "#4477AA", "#BBCC33"]


def atlas(table: pl.DataFrame, kinds: Sequence[str]) -> Any:
    """Columns `layer`, `head`, `name`, `role`, `value`, `tested`; `kinds` in the order of the legend, the last grey."""
    colours = dict(zip(kinds, [*MANY, *MORE], strict=False)) | {kinds[-1]: NONE}
    there = [kind for kind in kinds if kind in set(table["role"])]
    axis = alt.Axis(labelAngle=0, ticks=False)
    base = alt.Chart(table.select("layer", "head", "name", "role", "value", "tested")).encode(
        x=alt.X("head:O", title="head", axis=axis), y=alt.Y("layer:O", title="layer", axis=axis)
    )
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("role:N", title=None, sort=there,
                        scale=alt.Scale(domain=there, range=[colours[kind] for kind in there])),
        tooltip=["name:N", "role:N", alt.Tooltip("value:Q", format=".2f")],
    )  # fmt: skip
    dots = base.transform_filter("datum.tested").mark_circle(size=24, color="black", opacity=1)
    layers, heads = table["layer"].n_unique(), table["head"].n_unique()
    return alt.layer(cells, dots).properties(width=CELL * heads, height=max(CELL * layers, 80))

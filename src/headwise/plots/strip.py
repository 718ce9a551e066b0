"""Layers × tokens of one text as coloured cells: one hidden token's origins through the layers (C fig19–25)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from headwise.plots.maps import SHOWN
from headwise.plots.theme import CATEGORIES, SEQUENTIAL


def strip(table: pl.DataFrame, *, own: str, unit: str) -> Any:
    """`table` has layer, token (as of `plots.maps.numbered`) and value; the token `own` is framed.

    Its own column would drown the others: colours end at the greatest value among these; tooltips have the numbers.
    """
    tokens = table["token"].unique(maintain_order=True).to_list()
    others = table.filter(pl.col("token") != own)["value"]
    top = float(others.max() or 1.0)  # type: ignore[arg-type]
    axis = alt.Axis(labelExpr=SHOWN, labelAngle=-90, labelFontSize=10, labelOverlap=False, ticks=False)
    base = alt.Chart(table).encode(
        x=alt.X("token:N", sort=tokens, title="input token", axis=axis),
        y=alt.Y("layer:O", title="layer", axis=alt.Axis(labelAngle=0, ticks=False)),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=0.5).encode(
        color=alt.Color(
            "value:Q",
            title=unit,
            scale=alt.Scale(range=SEQUENTIAL, domain=[0, top], interpolate="rgb", clamp=True),
            legend=alt.Legend(format=".1%", gradientLength=130),
        ),
        tooltip=["layer:O", "token:N", alt.Tooltip("value:Q", format=".2%")],
    )
    frame = base.transform_filter(alt.datum.token == own).mark_rect(
        fillOpacity=0, stroke=CATEGORIES[1], strokeWidth=1.5
    )
    height = max(24 * table["layer"].n_unique(), 80)
    return alt.layer(cells, frame).properties(width=alt.Step(17), height=min(height, 480))

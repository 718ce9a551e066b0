"""A number along a number, one line for each of a few named kinds, in their own order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl


def series(
    table: pl.DataFrame,
    x: str,
    colours: Mapping[str, str],
    *,
    titles: tuple[str, str],
    legend: str | None,
    percent: bool = True,
    points: bool = False,
    marked: Mapping[float, str] | None = None,
    title: str = "",
    size: tuple[int, int] = (420, 230),
) -> Any:
    """Columns `x` (whole numbers) and value, a line for each `kind` in `colours`.

    `points` shows every x as a point and a tick; `marked` names places on the x axis.
    """
    few = sorted(set(table[x])) if points else None
    lines = (
        alt.Chart(table)
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=40) if points else False, opacity=0.9)
        .encode(
            x=alt.X(
                f"{x}:Q",
                title=titles[0],
                axis=alt.Axis(format="d") if few is None else alt.Axis(format="d", values=few, labelOverlap=True),
                scale=alt.Scale(zero=False, nice=False),
            ),
            y=alt.Y("value:Q", title=titles[1], axis=alt.Axis(format=".2~%" if percent else "~g")),
            color=alt.Color(
                "kind:N",
                sort=list(colours),
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=None if legend is None else alt.Legend(title=legend),
            ),
            tooltip=["kind:N", f"{x}:Q", alt.Tooltip("value:Q", format=".3%" if percent else ".4g")],
        )
    )
    layers = [lines]
    if marked:
        places = pl.DataFrame({x: list(marked), "name": list(marked.values())})
        base = alt.Chart(places).encode(x=f"{x}:Q")
        layers.append(base.mark_rule(strokeDash=[4, 4], color="#666"))
        layers.append(
            base.mark_text(align="left", dx=4, baseline="top", color="#444").encode(text="name:N", y=alt.value(4))
        )
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(*layers).properties(width=size[0], height=size[1], title=heading)

"""A number along a length, a line for each layer or head, with its spread as a band where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES


def line_by(
    table: pl.DataFrame,
    x: str,
    *,
    titles: tuple[str, str],
    colour: str,
    detail: str | None = None,
    logarithmic: bool = False,
    dashed: Mapping[float, float] | None = None,
    ends: tuple[float, float] | None = None,
) -> Any:
    """Column `value` along `x`, coloured by the ordered column `colour`; `dashed` (x → y) is for comparison."""
    scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
    if ends is not None:
        scale = alt.Scale(domain=list(ends))
    lines = (
        alt.Chart(table)
        .mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=14) if table.height < 400 else False, opacity=0.85)
        .encode(
            x=alt.X(f"{x}:Q", title=titles[0], scale=alt.Scale(zero=True)),
            y=alt.Y("value:Q", title=titles[1], scale=scale),
            color=alt.Color(f"{colour}:O", title=colour, scale=alt.Scale(scheme="viridis")),
            tooltip=[f"{colour}:O", f"{x}:Q", alt.Tooltip("value:Q", format=".4g")],
        )
    )
    lines = lines.encode(detail=f"{detail}:N") if detail else lines
    layers = [lines]
    if dashed:
        reference = pl.DataFrame({x: list(dashed), "value": list(dashed.values())})
        layers.append(alt.Chart(reference).mark_line(strokeDash=[6, 4], color="#666").encode(x=f"{x}:Q", y="value:Q"))
    return alt.layer(*layers).properties(width=300, height=240)


def band(table: pl.DataFrame, x: str, *, unit: str) -> Any:
    """Column `value` along `x` with `low` … `high` as a band, in the second colour; to be laid over a cloud."""
    base = alt.Chart(table).encode(x=f"{x}:Q")
    area = base.mark_area(opacity=0.2, color=CATEGORIES[1]).encode(y=alt.Y("low:Q", title=unit), y2="high:Q")
    dots = alt.OverlayMarkDef(color=CATEGORIES[1], size=40)
    line = base.mark_line(color=CATEGORIES[1], strokeWidth=2.5, point=dots).encode(y=alt.Y("value:Q", title=unit))
    return area + line

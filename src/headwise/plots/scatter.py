"""Points by layer, one a head, with the layer means as lines: the shape of most figures of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES


def by_layer(
    table: pl.DataFrame, columns: Mapping[str, str], unit: str, *, facet: str | None = None, rule: float | None = None
) -> Any:
    """`columns` (of a table with layer and name) as coloured points over layers, side by side per value of `facet`."""
    present = {column: label for column, label in columns.items() if column in table.columns}
    index = ["layer", "name", *([facet] if facet else [])]
    long = table.select(*index, *present).rename(present).unpivot(index=index, variable_name="what")
    long = long.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
    parts = (
        {"": long} if facet is None else {str(key[0]): part for key, part in long.group_by(facet, maintain_order=True)}
    )
    charts = [_panel(part, title, columns, unit, rule) for title, part in parts.items()]
    return alt.hconcat(*charts).resolve_scale(y="independent", color="shared")


def _panel(long: pl.DataFrame, title: str, names: Mapping[str, str], unit: str, rule: float | None) -> Any:
    colour = alt.Color(
        "what:N",
        title=None,
        sort=list(names.values()),
        scale=alt.Scale(domain=list(names.values()), range=CATEGORIES[: len(names)]),
        legend=alt.Legend(orient="top"),
    )
    base = alt.Chart(long).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0, labelOverlap=True)), color=colour
    )
    points = base.mark_circle(size=32, opacity=0.55).encode(
        y=alt.Y("value:Q", title=unit), tooltip=["name:N", "what:N", alt.Tooltip("value:Q", format=".3f")]
    )
    lines = base.mark_line(strokeWidth=2).encode(y=alt.Y("mean(value):Q", title=unit))
    layers = [points, lines]
    if rule is not None:
        layers.append(alt.Chart(pl.DataFrame({"y": [rule]})).mark_rule(strokeDash=[6, 4], color="#666").encode(y="y:Q"))
    heading = alt.TitleParams(title, anchor="start", fontSize=13, fontWeight="normal")
    return alt.layer(*layers).properties(width=260, height=220, title=heading)

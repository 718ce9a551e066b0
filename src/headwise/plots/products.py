"""The products of one query and one key, a bar a dimension (or a pair of them that positions turn together)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from headwise.plots.theme import CATEGORIES, themed

WIDTH = 760


def product_bars(products: pl.DataFrame, title: str, *caption: str) -> Any:
    """`products`: dimensions, product, in order."""
    colour = alt.condition("datum.product < 0", alt.value(CATEGORIES[1]), alt.value(CATEGORIES[0]))
    bars = (
        alt.Chart(products)
        .mark_bar()
        .encode(
            x=alt.X("dimensions:N", sort=None, title="dimension of the head", axis=alt.Axis(labelOverlap=True)),
            y=alt.Y("product:Q", title="query × key"),
            color=colour,
            tooltip=["dimensions:N", alt.Tooltip("product:Q", format=".4g")],
        )
        .properties(width=WIDTH, height=220)
    )
    return themed(bars, title, *caption)

"""One head of one text: maps side by side, and under them how far the weights of one query are pinned down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.maps import heat_map, map_table, whiskers
from headwise.plots.theme import themed


class Panel(NamedTuple):
    """One map of a head. `unit` names its colours in a legend; None leaves the legend to a panel of the same scale."""

    name: str
    title: str
    matrix: np.ndarray  # [query key]
    signed: bool
    top: float  # of the colour scale
    unit: str | None = None


class Row(NamedTuple):
    """One query's weights: a table of key, raw, effective, low, high."""

    title: str
    table: pl.DataFrame


def head_figure(
    panels: Sequence[Panel], froms: Sequence[str], tos: Sequence[str], *, title: str, caption: Sequence[str],
    row: Row | None = None,
) -> Any:  # fmt: skip
    """Maps two by two (C fig6 and beyond) and, for one query, the interval of every weight."""
    size = int(np.clip(15 * max(len(froms), len(tos)), 240, 520))
    maps = [
        heat_map(
            map_table(panel.matrix, froms, tos, panel.name), title=panel.title, unit=panel.unit, size=size,
            signed=panel.signed, top=panel.top,
        )
        for panel in panels
    ]  # fmt: skip
    pairs = [maps[start : start + 2] for start in range(0, len(maps), 2)]
    chart = alt.vconcat(*(alt.hconcat(*pair).resolve_scale(color="independent") for pair in pairs), spacing=24)
    if row is not None:
        chart = alt.vconcat(chart, whiskers(row.table, title=row.title, width=2 * size + 80), spacing=24)
    return themed(chart.resolve_scale(color="independent"), title, *caption)

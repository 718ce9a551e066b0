"""One head of one text as lines: who attends on the left, to whom on the right, darker for more (Clark et al. fig5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.theme import CATEGORIES

LINE, GAP, FAINTEST = 17, 130, 0.02


def lines_between(
    weights: np.ndarray, words: Sequence[str], *, title: str, marked: Collection[tuple[int, int]] = (), names: str = ""
) -> Any:
    """`weights[i, j]` from word i to word j, negative ones left out; the lines of `marked` pairs are coloured.

    `names` says in the legend what is marked. Lines are as dark as their share of the largest weight of their row.
    """
    top = np.maximum(weights.max(-1, keepdims=True), 1e-12)
    shares = np.clip(weights / top, 0, 1)
    kinds = ["other", names or "marked"]
    lines = [
        {
            "from": i,
            "to": j,
            "share": float(shares[i, j]),
            "weight": float(weights[i, j]),
            "kind": kinds[(i, j) in set(marked)],
        }
        for i in range(len(words))
        for j in range(len(words))
        if i != j and shares[i, j] > FAINTEST
    ]
    height = LINE * len(words)
    table = pl.DataFrame(
        lines, schema={"from": pl.Int64, "to": pl.Int64, "share": pl.Float64, "weight": pl.Float64, "kind": pl.String}
    )
    table = table.with_columns(left=pl.lit(0.0), right=pl.lit(1.0))
    y = alt.Scale(domain=[len(words) - 0.5, -0.5], nice=False)
    x = alt.Scale(domain=[-0.75, 1.75], nice=False)
    legend = alt.Legend(orient="top", title=None) if marked else None
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds[::-1], range=[CATEGORIES[1], "#333333"]), legend=legend)
    rules = (
        alt.Chart(table)
        .mark_rule(strokeWidth=1.6)
        .encode(
            x=alt.X("left:Q", scale=x, axis=None),
            x2="right:Q",
            y=alt.Y("from:Q", scale=y, axis=None),
            y2="to:Q",
            opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            color=colour,
            tooltip=["kind:N", alt.Tooltip("weight:Q", format=".3f")],
        )
    )
    spelled = pl.DataFrame(
        {"at": range(len(words)), "word": list(words), "left": [-0.04] * len(words), "right": [1.04] * len(words)}
    )
    texts = alt.Chart(spelled).encode(y=alt.Y("at:Q", scale=y, axis=None), text="word:N")
    left = texts.mark_text(align="right", fontSize=12).encode(x=alt.X("left:Q", scale=x, axis=None))
    right = texts.mark_text(align="left", fontSize=12).encode(x=alt.X("right:Q", scale=x, axis=None))
    heading = alt.TitleParams(title, anchor="middle", fontSize=13, fontWeight="normal")
    return alt.layer(rules, left, right).properties(width=2 * GAP, height=height, title=heading)

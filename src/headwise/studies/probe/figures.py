"""The figures of study `probe`: scores beside controls and the paper, weights of heads, hidden tokens by layer."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from headwise.plots.grid import CELL
from headwise.plots.theme import CATEGORIES, DIVERGING, themed

ORDER = ["right-branching", "untrained+vectors", "distances+vectors", "attention", "attention+vectors"]
WAYS = {"head_to_dependent": "head → dependent", "dependent_to_head": "dependent → head"}


def table3_figure(table: pl.DataFrame, where: str) -> Any:
    """UAS of every probe, its control and the paper's number."""
    rows = table.filter((pl.col("what") == "uas") & (pl.col("decoder") == "argmax")).with_columns(
        row=pl.concat_str(["probe", pl.col("quantity").fill_null("")], separator="  ").str.strip_chars_end()
    )
    order = [row for probe in ORDER for row in rows.filter(pl.col("probe") == probe)["row"]]
    kinds = {"value": "task", "control": "control task", "paper": "paper: BERT-base, PTB"}
    long = rows.select("row", "low", "high", **{label: pl.col(name) for name, label in kinds.items()}).unpivot(
        index=["row", "low", "high"], variable_name="kind", value_name="uas"
    )
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    x = alt.X(
        "uas:Q", title="UAS (% of words with the right head, punctuation aside)", scale=alt.Scale(domain=[0, 100])
    )
    labels = list(kinds.values())
    colour = alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=labels, range=[CATEGORIES[0], CATEGORIES[1], "#666"]),
        legend=alt.Legend(orient="top"),
    )  # fmt: skip
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=labels, range=["circle", "diamond", "cross"]))
    tips = ["row:N", "kind:N", alt.Tooltip("uas:Q", format=".1f")]
    points = alt.Chart(long).mark_point(filled=True, size=90, opacity=1)
    spread = alt.Chart(rows).mark_rule(color=CATEGORIES[0], strokeWidth=3).encode(y=y, x="low:Q", x2="high:Q")
    return themed(
        alt.layer(spread, points.encode(y=y, x=x, color=colour, shape=shape, tooltip=tips)).properties(
            width=460, height=30 * len(order)
        ),
        f"{where}: how much of a parse can be read from attention",
        "Mean over seeds; a line spans their range where it is wider than the point. The control task has random heads",
        "by word type: the gap between the two is the selectivity. The paper's treebank and model are others.",
    )


def weights_figure(table: pl.DataFrame, where: str) -> Any:
    """The learned weight of every head, both directions, a row of grids for each quantity."""
    rows = table.filter(pl.col("what") == "weight")
    quantities = rows["quantity"].unique(maintain_order=True).to_list()
    charts = [
        alt.hconcat(*[_signed_grid(rows.filter(quantity=quantity), quantity, way) for way in WAYS], spacing=30)
        for quantity in quantities
    ]
    return themed(
        alt.vconcat(*charts, spacing=20).resolve_scale(color="independent"),
        f"{where}: which heads the attention probe uses",
        "Weight of each head's map in units of its typical (root mean square) value, mean over seeds. Purple: whom the",
        "head attends to is taken for the syntactic head (in head → dependent: for the dependent); orange: against it.",
    )


def _signed_grid(rows: pl.DataFrame, quantity: str, way: str) -> Any:
    top = float(rows["value"].abs().max() or 1.0)  # type: ignore[arg-type] - one scale for both directions
    part = rows.filter(decoder=way).select("layer", "head", "name", "value")
    axis = alt.Axis(labelAngle=0, ticks=False)
    height = max(CELL * part["layer"].n_unique(), 80)
    scale = alt.Scale(range=DIVERGING, domain=[-top, top], interpolate="rgb")
    return (
        alt.Chart(part)
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("head:O", title="head", axis=axis),
            y=alt.Y("layer:O", title="layer", axis=axis),
            color=alt.Color("value:Q", scale=scale, title=None, legend=alt.Legend(gradientLength=height)),
            tooltip=["name:N", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(
            width=CELL * part["head"].n_unique(),
            height=height,
            title=alt.TitleParams(f"{quantity}: {WAYS[way]}", anchor="start", fontSize=13, fontWeight="normal"),
        )
    )


def structural_figure(table: pl.DataFrame, where: str) -> Any:
    """UUAS by layer, task beside control."""
    rows = table.filter(pl.col("what") == "uuas")
    long = rows.select("layer", task="value", control="control").unpivot(
        index="layer", variable_name="kind", value_name="uuas"
    )
    colour = alt.Color(
        "kind:N", title=None, scale=alt.Scale(domain=["task", "control"], range=CATEGORIES[:2]),
        legend=alt.Legend(orient="top"),
    )  # fmt: skip
    x = alt.X("layer:O", title="layer (0: the embeddings)", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    y = alt.Y("uuas:Q", title="UUAS (% of arcs)", scale=alt.Scale(domain=[0, 100]))
    tips = ["layer:O", "kind:N", alt.Tooltip("uuas:Q", format=".1f")]
    lines = alt.Chart(long).mark_line(point=True, strokeWidth=2).encode(x=x, y=y, color=colour, tooltip=tips)
    spread = alt.Chart(rows).mark_rule(color=CATEGORIES[0]).encode(x=x, y="low:Q", y2="high:Q")
    return themed(
        alt.layer(spread, lines).properties(width=max(300, 18 * rows.height), height=240),
        f"{where}: the parse in the distances of hidden tokens",
        "Structural probe: minimum spanning tree of learned distances, arcs without direction, mean over seeds.",
        "Where the two lines part, the layer tells the tree and not just the words.",
    )

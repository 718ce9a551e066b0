"""How far attention may go: per layer, both forms; and what its ranks have to do with importance."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from headwise.plots import intervals
from headwise.plots.theme import themed
from headwise.studies.study import Setting

PANELS = {
    "per-instance": "per instance: JS to the farthest found (nats)",
    "exact": "exact: JS to the farthest with the same output (nats)",
}


def drawn(table: pl.DataFrame, setting: Setting, *, epsilon: float) -> dict[str, Any]:
    """`divergence`: JS of every layer's heads; `importance`: Kendall's τ. What the texts do not give is not drawn."""
    charts: dict[str, Any] = {}
    heads = table.filter((pl.col("what") == "js") & pl.col("head").is_not_null())
    if not heads.is_empty():
        charts["divergence"] = _divergence(heads, table, setting.model, epsilon)
    ranks = table.filter(pl.col("form") == "importance")
    if not ranks.is_empty():
        charts["importance"] = _importance(ranks, setting.model)
    return charts


def _divergence(heads: pl.DataFrame, table: pl.DataFrame, model: str, epsilon: float) -> Any:
    layers = (
        heads.group_by("form", "layer")
        .agg(pl.col("value").mean(), low=pl.col("value").min(), high=pl.col("value").max())
        .sort("layer")
        .select("value", "low", "high", what=pl.col("form"), name=pl.format("L{}", pl.col("layer")))
    )
    whole = dict(
        table.filter((pl.col("form") == "per-instance") & pl.col("head").is_null()).select("what", "value").rows()
    )
    panels = {form: title for form, title in PANELS.items() if form in layers["what"].to_list()}
    moved = whole.get("tvd", math.nan)
    return themed(
        intervals.dots(layers, panels, order=sorted(layers["name"].unique(), key=lambda n: int(n[1:])), control=""),
        f"{model}: how far attention may go and the answer stays",
        f"Dots: mean over a layer's heads; bars: its least and its most free head. At most ln 2 = {math.log(2):.3f}.",
        f"Per instance, predictions may change by {epsilon:g} (and did by {moved:.3f}); exact, by nothing.",
    )


def _importance(ranks: pl.DataFrame, model: str) -> Any:
    rows = ranks.select("value", "low", "high", what=pl.lit("tau"), name=pl.col("what"))
    order = rows.sort("value", descending=True)["name"].to_list()
    return themed(
        intervals.dots(rows, {"tau": "Kendall's τ with attention"}, order=order, control="random"),
        f"{model}: does attention rank tokens as importance does?",
        "Last layer, mean of its heads, at the output, against the size of each importance score; mean over texts with",
        "its 95 % interval. Near the dashed line: no more agreement than with random scores.",
    )

"""Figures of `ablation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headwise.plots import cloud, intervals
from headwise.plots.grid import head_grid
from headwise.plots.theme import themed
from headwise.studies.ablation.answers import clear, least, unit_of
from headwise.studies.ablation.facts import STATISTICS
from headwise.studies.study import Setting, each_stack
from headwise.studies.tables import counted

WHAT = {
    "mean": "at its mean",
    "zero": "at zero",
    "resample": "from another text",
    "estimate": "first order, at its mean",
}
SAYS = {"estimate": "first-order estimate", **{name: said.label for name, said in STATISTICS.items()}}


def drawn(table: pl.DataFrame, setting: Setting, *, ways: Sequence[str]) -> Mapping[str, Any]:
    if table.is_empty():
        return {}
    heads = table.filter((pl.col("part") == "head") & (pl.col("number") == table["number"][0]))
    charts = each_stack(setting, lambda stack, where: _grid(heads.filter(stack=stack), where, ways))
    charts |= {"estimate": _estimate(heads, setting), "statistics": _statistics(table, setting)}
    curve = table.filter(part="curve")
    return {**charts, "removal": _removal(curve, setting)} if len(curve) else charts


def _grid(heads: pl.DataFrame, where: str, ways: Sequence[str]) -> dict[str, Any]:
    rows = [heads.filter(way=way).with_columns(what=pl.lit(way)) for way in ways]
    rows.append(heads.filter(way=ways[0]).with_columns(what=pl.lit("estimate"), value=pl.col("estimate")))
    first, unit = heads.filter(way=ways[0]), _in(heads)
    needed, _ = clear(first)
    panels = {way: f"each head {WHAT[way]}{unit}" for way in ways}
    panels["estimate"] = f"first order, {WHAT[ways[0]]}{unit}"
    return {
        "heads": themed(
            head_grid(pl.concat(rows), panels),
            f"{where}: what the model loses without each head",
            f"Change of what the model does, mean over {counted(heads['texts'][0], 'text')}; blank: none, or a gain.",
            f"{needed} of {first.height} heads clearly change it: interval beyond {least(first)} ({WHAT[ways[0]]}).",
            "First order: what one backward pass foretells.",
        )
    }


def _in(table: pl.DataFrame) -> str:
    """The unit after a title: `, nats`."""
    unit = unit_of(table)
    return f", {unit}" if unit else ""


def _estimate(heads: pl.DataFrame, setting: Setting) -> Any:
    rows = heads.filter(pl.col("estimate").is_not_null())
    titles = (f"first-order estimate{_in(rows)}", f"exact effect{_in(rows)}")
    return themed(
        cloud.cloud(rows, "estimate", "value", titles=titles, tooltip=["name:N"]),
        f"{setting.model}: one backward pass against taking each head away",
        "One point a head. Points on the diagonal: the estimate is right.",
    )


def _statistics(table: pl.DataFrame, setting: Setting) -> Any:
    rows = table.filter(part="correlation").with_columns(
        what=pl.lit("rho"), name=pl.col("name").replace_strict(SAYS)
    )  # fmt: skip
    chance = pl.DataFrame({"what": "rho", "name": "chance", "value": 0.0, "low": 0.0, "high": 0.0})
    rows = pl.concat([rows.select(chance.columns), chance])
    panel = {"rho": "rank correlation with the effect (Spearman's ρ over heads)"}
    return themed(
        intervals.dots(rows, panel, order=[*SAYS.values(), "chance"], control="chance"),
        f"{setting.model}: does a number of the attention tell which heads matter?",
        "Bars: 95 % bootstrap intervals over texts. Below 0: heads with more of it matter less.",
    )


def _removal(curve: pl.DataFrame, setting: Setting) -> Any:
    rows = curve.with_columns(what=pl.lit("lost"))
    order = curve["name"].unique(maintain_order=True).to_list()
    return themed(
        intervals.curves(
            rows,
            {"lost": f"lost without them{_in(curve)}"},
            order=order,
            control="random",
            x="removed",
            unit="heads removed",
        ),
        f"{setting.model}: heads taken away one after another",
        f"Mean over {counted(curve['texts'][0], 'text')}. The order by effect comes from other texts where there are "
        "any.",
        "A line below grey tells heads that do not matter better than chance does.",
    )

"""Figures 3–6 and 9–12 of the paper, and table2 drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import altair as alt
import polars as pl

from headwise.plots import scatter
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.lines import line_by
from headwise.plots.theme import themed
from headwise.stats import Reservoir, Sums
from headwise.studies.norms.facts import GRIDS
from headwise.studies.norms.frequencies import MARKED, by_vocabulary, occurrences
from headwise.studies.study import State
from headwise.text.categories import CATEGORIES

LABELS = {"first": "[CLS] / first", "separator": "[SEP]", "punctuation": ". and ,", "other": "other"}


def drawn(state: State, table: pl.DataFrame, stack: str, where: str) -> dict[str, Any]:
    """All figures of a stack, from the state and the stack's part of the table."""
    charts = {"fig3": _fig3(table, where), "table2": _table2(table, where)}
    for name, category in GRIDS.items():
        cells = table.filter((pl.col("paper") == name) & pl.col("what").is_in(["alpha", "f"]))
        if not cells.is_empty():
            charts[name] = _grid(cells, table, category, where)
    charts["fig5"] = _fig5(state, stack, where)
    charts["fig6"] = _fig6(state, table, stack, where)
    if state.by_layer(Sums, "singular", stack):
        charts["fig9"] = _fig9(state, stack, where)
    return charts


def _fig3(table: pl.DataFrame, where: str) -> Any:
    heads = table.filter(pl.col("paper").is_in(list(GRIDS)) & pl.col("what").is_in(["alpha", "norm"]))
    named = heads.with_columns(quantity=pl.col("what").replace({"alpha": "weight α", "norm": "norm ‖αf(x)‖"}))
    wide = named.pivot("category", index=["layer", "name", "quantity"], values="value")
    chart = scatter.by_layer(wide, LABELS, "sum over keys, mean over rows", facet="quantity")
    return themed(
        chart,
        f"{where}: what attention weighs and what it moves",
        "One point a head; lines are layer means. A row's weights sum to 1; norms are in units of the residual stream.",
        "A category that is high by weight and low by norm is weighed much and moves little.",
    )


def _table2(table: pl.DataFrame, where: str) -> Any:
    wide = table.filter(pl.col("paper") == "table2").pivot("what", index="category", values="value")
    if "rho" not in wide.columns:
        wide = wide.with_columns(rho=pl.lit(None, pl.Float64), error_bound=pl.lit(None, pl.Float64))
    rows = wide.drop_nulls("rho").with_columns(
        low=(pl.col("rho") - pl.col("error_bound")).clip(-1, 1),
        high=(pl.col("rho") + pl.col("error_bound")).clip(-1, 1),
    )
    order = alt.Y("category:N", sort=[*CATEGORIES, "all"], title=None)
    base = alt.Chart(rows).encode(y=order)
    axis = alt.X("rho:Q", title="Spearman's ρ of α and ‖f(x)‖", scale=alt.Scale(domain=[-1, 1]))
    tips = ["category:N", alt.Tooltip("rho:Q", format=".3f"), alt.Tooltip("error_bound:Q", format=".3f"), "pairs:Q"]
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=axis, tooltip=tips)
    whiskers = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    zero = alt.Chart(pl.DataFrame({"x": [0.0]})).mark_rule(strokeDash=[6, 4], color="#666").encode(x="x:Q")
    return themed(
        alt.layer(zero, whiskers, dots).properties(width=420, height=150),
        f"{where}: do weight and norm cancel?",
        "All pairs of all heads, by the kind of token attended to. Below 0: what is weighed much has little to give.",
        "Bars are the error bound of the binned ranks, within which the exact ρ lies.",
    )


def _grid(cells: pl.DataFrame, table: pl.DataFrame, category: str, where: str) -> Any:
    every = table.filter(pl.col("paper").is_in(list(GRIDS)) & (pl.col("what") == "f"))
    tops = {"f": float(every["value"].max())}  # type: ignore[arg-type] - one scale for all four figures
    panels = {"alpha": "weight α, sum over keys, mean over rows", "f": "‖f(x)‖, mean over tokens"}
    return themed(
        head_grid(cells, panels, tops=tops),
        f"{where}: every head on {LABELS[category]}",
        "Heads high by weight α and low by ‖f(x)‖: the weight and the length of the vector cancel.",
        "The scale of ‖f(x)‖ ends at the largest mean of any category.",
    )


def _fig5(state: State, stack: str, where: str) -> Any:
    table = sampled(state, stack).with_columns(alpha=pl.col("alpha").clip(1e-8, 1))
    chart = cloud(
        table, "alpha", "f", titles=("weight α (those below 1e-8 drawn there)", "‖f(x)‖"), kinds=list(LABELS.values()),
        logarithmic=(True, True),
    )  # fmt: skip
    return themed(
        chart.properties(width=460, height=320),
        f"{where}: weight against length of the vector",
        "Pairs drawn at random from all layers and heads, at most as many of one kind as of another.",
        "Points that fall to the right: large weights on short vectors.",
    )


def _fig6(state: State, table: pl.DataFrame, stack: str, where: str) -> Any:
    """By the vocabulary, as the paper has it, over by counts."""
    rho = {row["what"]: row["value"] for row in table.filter(pl.col("paper") == "fig6").iter_rows(named=True)}
    source = "given counts" if "given" in state else "counts of the corpus"
    rows = [
        (by_vocabulary(state, stack), "vocabulary", "rank by the vocabulary", [*MARKED[1:], MARKED[0]]),
        (occurrences(state, stack), "occurrences", f"rank by {source}", []),
    ]
    drawn = [_ranked(points.head(3000), rho, *how) for points, *how in rows if len(points)]
    return themed(
        alt.vconcat(*drawn).resolve_scale(color="independent"),
        f"{where}: frequency, weight and length of the vector",
        "One point an occurrence of a token, mean over all heads. By the vocabulary, as in the paper: without special "
        "tokens and single",
        "characters, but for commas, periods and the ends of a text, taken for the commonest. A ρ above 0 of "
        "‖f(x)‖: rare tokens send longer vectors.",
    )


def _ranked(points: pl.DataFrame, rho: Mapping[str, float], what: str, title: str, kinds: Sequence[str]) -> Any:
    """What tokens got, and the length of what they send, along the rank."""
    panels = [
        cloud(
            points, "rank", column, titles=(title, name), logarithmic=(True, column == "alpha"), kinds=kinds,
            title=_rho_title(rho.get(f"rho_{column}_{what}")), tooltip=["id:Q"],
        )
        for column, name in (("alpha", "mean α received"), ("f", "mean ‖f(x)‖"))
    ]  # fmt: skip
    return alt.hconcat(*panels)


def _rho_title(rho: float | None) -> str:
    return "" if rho is None else f"Spearman's ρ = {rho:.2f}"


def _fig9(state: State, stack: str, where: str) -> Any:
    layers: Sequence[Sums] = state.by_layer(Sums, "singular", stack)
    rows = [
        {"layer": layer, "name": f"L{layer}.H{head}", "number": number + 1, "value": value}
        for layer, sums in enumerate(layers)
        for head, values in enumerate(sums.mean.tolist())
        for number, value in enumerate(values)
        if value > 0
    ]
    chart = line_by(
        pl.DataFrame(rows), "number", titles=("number, largest first", "singular value"), colour="layer", detail="name",
        logarithmic=True,
    )  # fmt: skip
    ratio = reduce(min, (float((s.mean[:, 0] / s.mean[:, -1]).min()) for s in layers))
    return themed(
        chart.properties(width=460, height=320),
        f"{where}: how far each head stretches what it reads",
        "Singular values of f as a linear map of (x, 1), one line a head; the zeros beyond the head size are left out.",
        f"The largest is at least {ratio:.1f} times the smallest: the direction of x decides the length of f(x).",
    )


def sampled(state: State, stack: str) -> pl.DataFrame:
    """The pairs of fig5: kind, alpha, f."""
    rows = [
        (LABELS[name], alpha, f)
        for name in reversed(CATEGORIES)
        for alpha, f in state.of(Reservoir, f"pairs/{name}@{stack}").rows.tolist()
    ]
    return pl.DataFrame(rows, schema={"kind": pl.String, "alpha": pl.Float64, "f": pl.Float64}, orient="row")

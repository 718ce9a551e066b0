"""The figures of the experiment, from its tables: means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from headwise.papers.chunking.facts import EPSILON, NUMBERS
from headwise.plots import intervals
from headwise.plots.frontier import frontier
from headwise.plots.theme import themed

Tables = Mapping[str, pl.DataFrame]
NEAR = 0.1  # of an axis: too near for a label each
WIDE = 0.2  # of the axis: a label is wider than it is high


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over seeds with its 95 % t-interval."""
    x = np.asarray(values, dtype=float)
    half = stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / math.sqrt(len(x)) if len(x) > 1 else math.nan
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def over_seeds(table: pl.DataFrame, by: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    """Means over seeds with their intervals: columns NAME, NAME_low, NAME_high."""
    rows = []
    for key, group in table.group_by(by, maintain_order=True):
        row = dict(zip(by, key, strict=True))
        for name in numbers:
            value, low, high = mean_interval(group[name].to_list())
            row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pl.DataFrame(rows)


def figures(tables: Tables) -> dict[str, Any]:
    """Every figure that can be drawn from these tables, by name."""
    return {name: DRAWN[name](tables) for name, needed in DRAWN_FROM.items() if set(needed) <= tables.keys()}


def _means(tables: Tables) -> pl.DataFrame:
    return over_seeds(tables["curve"], ["kind", "lambda"], NUMBERS)


def _marked(knees: pl.DataFrame, divergence: str, loss: str) -> tuple[float, float, float, str] | None:
    rows = knees.filter((pl.col("divergence") == divergence) & (pl.col("loss") == loss))
    return (*rows.select("at", "low", "high").row(0), "knee") if len(rows) else None


def _of_bases(table: pl.DataFrame) -> pl.DataFrame:
    """Without what untrained taggers gave, where a table has it."""
    return table.filter(pl.col("kind") == "base") if "kind" in table.columns else table


def _summary(table: pl.DataFrame, by: str) -> dict[str, tuple[float, float, float]]:
    seeds = table.group_by(by, "seed", maintain_order=True).agg(pl.col("kendall").mean())
    return {
        str(key[0]): mean_interval(group["kendall"].to_list()) for key, group in seeds.group_by(by, maintain_order=True)
    }


def lambda_labels(places: Sequence[tuple[float | None, float, float]]) -> list[str]:
    """Of (λ, x, y) in their order: the label of each point; points too near to have one each share the first's.

    >>> lambda_labels([(0.0, 0.30, 0.2), (0.02, 0.31, 0.2), (3.0, 0.6, 0.5), (None, 0.3, 0.2)])
    ['λ=0–0.02', '', 'λ=3', '']
    >>> lambda_labels([(0.0, 0.51, 0.04), (0.01, 0.6, 0.05), (0.2, 0.69, 0.18)])
    ['λ=0–0.01', '', 'λ=0.2']
    """
    labels, first, began = [""] * len(places), 0, None
    wide = max((abs(x) for _, x, _ in places), default=0.0)
    high = max((abs(y) for _, _, y in places), default=0.0)
    for number, (lam, x, y) in enumerate(places):
        if lam is None:
            continue
        near = began is not None and abs(x - began[1]) < WIDE * wide and abs(y - began[2]) < NEAR * high
        if not near:
            first, began = number, (lam, x, y)
        labels[first] = f"λ={began[0]:g}–{lam:g}" if near and began else f"λ={lam:g}"
    return labels


def _points(table: pl.DataFrame, x: str, y: str) -> pl.DataFrame:
    names = {f"{a}{end}": f"{b}{end}" for a, b in ((x, "x"), (y, "y")) for end in ("", "_low", "_high")}
    label = pl.Series(lambda_labels(table.select("lambda", x, y).rows()), dtype=pl.String)
    kind = pl.when(pl.col("kind") == "adversary").then(pl.lit("trained adversaries")).otherwise(pl.col("kind"))
    return table.select(kind=kind, label=label, **{new: pl.col(old) for old, new in names.items()})


def _fig1(tables: Tables) -> Any:
    means, knees = _means(tables), tables["knees"]
    points = _points(means.filter(pl.col("kind").is_in(["adversary", "other seed"])), "kl", "nll")
    marked = _marked(knees, "kl", "nll")
    return themed(
        frontier(points, titles=("KL(adversary ‖ base) of attention (nats)", "NLL of the base's tags (nats)"),
                 curve="trained adversaries", kinds=["trained adversaries", "other seed"], marked=marked),
        "CoNLL-2000: what attending elsewhere costs (fig1)",
        "One point a λ, mean of five seeds, 95 % intervals, on the test part. Another seed of the base is far away",
        "with nothing asked of it: only what lies to its right is the adversary's doing. Grey: the knee's interval.",
    )  # fmt: skip


def _table1(tables: Tables) -> Any:
    means = over_seeds(tables["curve"].filter(pl.col("kind") == "adversary"), ["lambda"], ["f1", "kl"])
    name = pl.format("λ={}", pl.col("lambda").round(3)).str.replace(r"\.0$", "")
    rows = pl.concat([
        means.select(what=pl.lit(what), name=name, value=what, low=f"{what}_low", high=f"{what}_high")
        for what in ("f1", "kl")
    ])  # fmt: skip
    base = mean_interval(by_kind(tables["curve"], "base"))
    rows = pl.concat([
        rows,
        pl.DataFrame([("f1", "base", *base)], schema=rows.schema, orient="row"),
    ])  # fmt: skip
    panels = {"f1": "test F1 (share)", "kl": "KL from the base's attention (nats)"}
    return themed(
        intervals.dots(rows, panels, order=["base", *means.select(name=name)["name"].to_list()], control="base"),
        "CoNLL-2000: adversaries trained from scratch, by λ (table1)",
        "A larger λ drives attention farther from the base's; dashed: the base. Mean of the seeds, 95 % intervals.",
    )


def by_kind(curve: pl.DataFrame, kind: str) -> list[float]:
    return curve.filter(pl.col("kind") == kind)["f1"].to_list()


def _three_kinds(tables: Tables) -> Any:
    means, knees, rows = _means(tables), tables["knees"], []
    for name, kind in (("instances", f"per instance, TVD ≤ {EPSILON:g}"), ("exact", "exact (longer than the head)")):
        seeds = _of_bases(tables[name]).group_by("seed", maintain_order=True).agg(pl.col("js", "tvd").mean())
        if seeds.is_empty():
            continue
        row: dict[str, Any] = {"kind": kind, "label": ""}
        for column, axis in (("js", "x"), ("tvd", "y")):
            names = (axis, f"{axis}_low", f"{axis}_high")
            row |= dict(zip(names, mean_interval(seeds[column].to_list()), strict=True))
        rows.append(row)
    controls = ["other seed", "uniform put in", "random put in", "permuted put in"]
    points = pl.concat(
        [_points(means.filter(pl.col("kind").is_in(["adversary", *controls])), "js", "tvd"), pl.DataFrame(rows)],
        how="diagonal",
    )
    kinds = ["trained adversaries", *(row["kind"] for row in rows), *controls]
    marked = _marked(knees, "js", "tvd")
    return themed(
        frontier(points, titles=("JS divergence of attention from the base's (nats)", "TVD of predictions, mean"),
                 curve="trained adversaries", kinds=kinds, marked=marked, limit=(math.log(2), "ln 2")),
        "CoNLL-2000: three kinds of adversary, and controls",
        "Right is far, low is harmless. Trained from scratch (a point a λ); found for each word, the model as it is;",
        "exact (the head's output stays the same). Put in: the base with that attention. Five seeds, 95 % intervals.",
    )  # fmt: skip


def _matched(tables: Tables) -> Any:
    means, knees = _means(tables), tables["knees"]
    controls = ["other seed", "uniform put in", "random put in"]
    points = _points(means.filter(pl.col("kind").is_in(["adversary", *controls])), "matched", "tvd")
    marked = _marked(knees, "matched", "tvd")
    titles = ("JS divergence after heads were paired with the base's (nats)", "TVD of predictions, mean")
    return themed(
        frontier(points, titles=titles, curve="trained adversaries", kinds=["trained adversaries", *controls],
                 marked=marked, limit=(math.log(2), "ln 2")),
        "CoNLL-2000: the same when heads may change places",
        "Heads are paired with the base's so that the divergence is least. Much of what looks like other attention, in",
        "other seeds and in adversaries of small λ, is the same heads in another order. Five seeds, 95 % intervals.",
    )  # fmt: skip


def _ranks(tables: Tables) -> Any:
    rows = [
        {
            "what": "tau",
            "name": "other seed" if float(key) < 0 else f"λ={float(key):g}",
            "value": v,
            "low": low,
            "high": high,
        }
        for key, (v, low, high) in _summary(tables["ranks"], "lambda").items()
    ]
    order = [row["name"] for row in rows]
    return themed(
        intervals.dots(
            pl.DataFrame(rows), {"tau": "Kendall's τ with the base's rows"}, order=order, control="other seed"
        ),
        "Do adversaries rank words as the base does?",
        "Head by head, mean over rows of 48 test sentences; five seeds, 95 % intervals. Dashed: another seed.",
    )


def _importance(tables: Tables) -> Any:
    rows = [
        {"what": "tau", "name": key, "value": v, "low": low, "high": high}
        for key, (v, low, high) in _summary(_of_bases(tables["importance"]), "method").items()
    ]
    return themed(
        intervals.dots(
            pl.DataFrame(rows), {"tau": "Kendall's τ with attention"}, order=[r["name"] for r in rows], control=""
        ),
        "Base taggers: attention against importance",
        "Mean of the heads, over the rows of 32 test sentences; five seeds, 95 % intervals.",
    )


def _table2(tables: Tables) -> Any:
    table2 = over_seeds(tables["probes"], ["form", "guide"], ["f1"])
    rows = table2.select(what="form", name="guide", value="f1", low="f1_low", high="f1_high")
    order = table2.filter(pl.col("form") == "mlp").sort("f1", descending=True)["guide"].to_list()
    panels = {"values": "values and output learned: test F1", "mlp": "MLP on weighted words: test F1"}
    return themed(
        intervals.dots(rows, panels, order=order, control="uniform"),
        "CoNLL-2000: what frozen attention is worth to a fresh model (table2)",
        "Probes have no query and no key; attention is data. Five seeds, 95 % intervals; dashed: uniform attention.",
    )


DRAWN: Mapping[str, Callable[[Tables], Any]] = {
    "table1": _table1, "fig1": _fig1, "three-kinds": _three_kinds, "matched": _matched, "ranks": _ranks,
    "importance": _importance, "table2": _table2,
}  # fmt: skip
DRAWN_FROM: Mapping[str, tuple[str, ...]] = {
    "table1": ("curve",), "fig1": ("curve", "knees"),
    "three-kinds": ("curve", "knees", "instances", "exact"), "matched": ("curve", "knees"),
    "ranks": ("ranks",), "importance": ("importance",), "table2": ("probes",),
}  # fmt: skip

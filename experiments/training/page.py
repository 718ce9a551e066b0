"""The tables of README.md and the two figures, of the runs that are in tables/ (heads.py).

Two kinds of labels are compared seed by seed, where both runs of a seed are there, with an interval over seeds (t) from
two seeds on, and one over heads (bootstrap), which is of these runs and not of others. Ranks: over heads.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import altair as alt
import polars as pl
from scipy.stats import spearmanr, t

from headwise.callbacks import NUMBERS
from headwise.papers.evidence import between
from headwise.plots.theme import save_chart, themed
from headwise.results.files import write_files

HERE = Path(__file__).parent
LABELS = ("true", "shuffled")
RESAMPLES = 1000
Run = tuple[str, int]


def kept(folder: Path) -> tuple[dict[Run, pl.DataFrame], dict[Run, dict[str, Any]]]:
    """Heads of every look, and what the model then knew, of every run that has ended, seed by seed."""
    named = [path.stem.rpartition("-")[::2] for path in folder.glob("*.json")]
    runs = sorted(((label, int(seed)) for label, seed in named), key=lambda run: (run[1], LABELS.index(run[0])))
    heads = {run: pl.read_parquet(folder / f"{run[0]}-{run[1]}.parquet") for run in runs}
    return heads, {run: json.loads((folder / f"{run[0]}-{run[1]}.json").read_text()) for run in runs}


def mean_and_interval(values: Sequence[float]) -> str:
    """`0.30 [0.05, 0.55]`: the mean and Student's 95 % interval; without an interval where there is one value.

    >>> mean_and_interval([1.0, 2.0, 3.0])
    '2.000 [-0.484, 4.484]'
    """
    mean = fmean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"


def knowledge(known: Mapping[Run, Mapping[str, Any]]) -> list[str]:
    rows = ["| labels | seed | dev accuracy (majority) | MCC |", "|---|---|---|---|"]
    for (label, seed), one in known.items():
        rows.append(f"| {label} | {seed} | {one['accuracy']:.3f} ({one['majority']:.3f}) | {one['mcc']:.3f} |")
    return rows


def changes(heads: Mapping[Run, pl.DataFrame]) -> list[str]:
    """A row a number: where it began, its change in either kind of run, and the difference of the two, seed by seed."""
    seeds = sorted(seed for label, seed in heads if label == "true" and ("shuffled", seed) in heads)
    rows = [
        "| mean over heads | before | change, true labels | change, shuffled | "
        f"true − shuffled, {len(seeds)} seed{'s' if len(seeds) > 1 else ''} | the same, 95 % over heads |",
        "|---|---|---|---|---|---|",
    ]
    for name, said in NUMBERS.items():
        moved = {label: [moves(heads[label, seed], name) for seed in seeds] for label in LABELS}
        apart = [[a - b for a, b in zip(*both, strict=True)] for both in zip(*moved.values(), strict=True)]
        low, high = over_heads([fmean(head) for head in zip(*apart, strict=True)])
        before = fmean(at(heads["true", seeds[0]], name, "min"))
        told = [mean_and_interval([fmean(one) for one in some]) for some in (*moved.values(), apart)]
        rows.append(f"| {said} | {before:.3f} | {' | '.join(told)} | [{low:.3f}, {high:.3f}] |")
    return rows


def at(table: pl.DataFrame, name: str, look: str) -> list[float]:
    """A number of every head at the first look (min) or the last (max)."""
    return table.filter(pl.col("step") == getattr(table["step"], look)())[name].to_list()


def moves(table: pl.DataFrame, name: str) -> list[float]:
    return [last - first for first, last in zip(at(table, name, "min"), at(table, name, "max"), strict=True)]


def over_heads(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the mean by a bootstrap over heads."""
    rng = random.Random(seed)
    drawn = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def rank_agreement(a: Sequence[float], b: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Spearman's ρ over heads with the 95 % interval of a bootstrap over heads."""
    rng, size = random.Random(seed), len(a)
    drawn = []
    for _ in range(RESAMPLES):
        some = rng.choices(range(size), k=size)
        if len(set(some)) > 1:  # of a single head there is no rank
            drawn.append(float(spearmanr([a[i] for i in some], [b[i] for i in some]).statistic))
    drawn.sort()
    return float(spearmanr(a, b).statistic), drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn))]


def pairs_of(runs: Sequence[Run]) -> dict[str, list[tuple[Run, Run]]]:
    """Which runs are compared: the same labels and other seeds, the same seed and other labels, both others."""
    kinds: dict[str, list[tuple[Run, Run]]] = {}
    for a, b in combinations(runs, 2):
        same = "same seed, true and shuffled" if a[1] == b[1] else "other seeds, true and shuffled"
        kinds.setdefault(f"other seeds, {a[0]} labels" if a[0] == b[0] else same, []).append((a, b))
    return kinds


def ranks(heads: Mapping[Run, pl.DataFrame], name: str = "drift_js") -> list[str]:
    rows = ["| runs | pairs | ρ of the heads' drift, each [95 % over heads] |", "|---|---|---|"]
    for kind, pairs in pairs_of(list(heads)).items():
        found = [rank_agreement(*(at(heads[run], name, "max") for run in pair)) for pair in pairs]
        rows.append(f"| {kind} | {len(pairs)} | {'; '.join(f'{r:.2f} [{a:.2f}, {b:.2f}]' for r, a, b in found)} |")
    return rows


def by_layer(heads: Mapping[Run, pl.DataFrame]) -> list[str]:
    layers = sorted(set(next(iter(heads.values()))["layer"]))
    rows = [
        "| drift of rows (JS, nats), layer | " + " | ".join(map(str, layers)) + " |",
        "|---" * (len(layers) + 1) + "|",
    ]
    for label in LABELS:
        last = pl.concat([t.filter(pl.col("step") == t["step"].max()) for run, t in heads.items() if run[0] == label])
        means = dict(last.group_by("layer").agg(pl.col("drift_js").mean()).iter_rows())
        rows.append(f"| {label} labels | " + " | ".join(f"{means[layer]:.3f}" for layer in layers) + " |")
    return rows


def over_steps(heads: Mapping[Run, pl.DataFrame]) -> Any:
    long = pl.concat(
        [
            table.group_by("step")
            .agg(pl.col(list(NUMBERS)).mean())
            .with_columns(labels=pl.lit(label), seed=pl.lit(seed))
            for (label, seed), table in heads.items()
        ]
    )
    parts = [
        alt.Chart(long.select("step", "labels", "seed", value=name).sort("step"))
        .mark_line(point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("step:Q"), y=alt.Y("value:Q", title=said, scale=alt.Scale(zero=False)),
            color=alt.Color("labels:N", sort=list(LABELS)),
            strokeDash=alt.StrokeDash("labels:N", sort=list(LABELS), legend=None),
            detail="seed:N",
        ).properties(width=260, height=190)
        for name, said in NUMBERS.items()
    ]  # fmt: skip
    texts = "Mean over 72 heads and 16 dev pairs; a line a run; the same labels in another order teach nothing."
    return themed(
        alt.concat(*parts, columns=3), "Heads while the demo model learns MRPC, and while it learns nothing", texts
    )


def head_by_head(heads: Mapping[Run, pl.DataFrame]) -> Any:
    def means(label: str) -> pl.DataFrame:
        last = pl.concat([t.filter(pl.col("step") == t["step"].max()) for run, t in heads.items() if run[0] == label])
        return last.group_by("layer", "name").agg(pl.col("drift_js").mean().alias(label)).sort("layer", "name")

    table = means("true").join(means("shuffled"), on=["layer", "name"])
    most = float(max(table["true"].max(), table["shuffled"].max())) * 1.05  # type: ignore[type-var]
    scale, line = alt.Scale(domain=[0, most]), pl.DataFrame({"true": [0.0, most], "shuffled": [0.0, most]})
    dots = alt.Chart(table).mark_circle(size=60, opacity=0.85).encode(
        x=alt.X("shuffled:Q", scale=scale, title="drift with shuffled labels (JS, nats)"),
        y=alt.Y("true:Q", scale=scale, title="drift with true labels (JS, nats)"),
        color=alt.Color("layer:O", scale=alt.Scale(scheme="viridis")), tooltip=["name", "true", "shuffled"],
    )  # fmt: skip
    equal = alt.Chart(line).mark_line(strokeDash=[6, 4], color="#666").encode(x="shuffled:Q", y="true:Q")
    chart = alt.layer(equal, dots).properties(width=380, height=380)
    return themed(
        chart, "Every head's drift, on true and on shuffled labels", "A dot a head, mean over seeds; dashed: equal."
    )


def write_page() -> None:
    heads, known = kept(HERE / "tables")
    parts = [*knowledge(known), "", *changes(heads), "", *by_layer(heads), "", *ranks(heads)]
    page = HERE / "README.md"
    write_files(HERE, {page.name: between(page.read_text("utf-8"), "tables", "\n".join(parts)).encode()})
    save_chart(over_steps(heads), HERE / "over-steps.svg")
    save_chart(head_by_head(heads), HERE / "heads.svg")


if __name__ == "__main__":
    write_page()

"""The numbers, tables and figures of the experiment, from the members that run.py has trained."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy.stats import t as student
from torch import Tensor

from headwise.measures.rivals import Search
from headwise.plots import intervals
from headwise.plots.frontier import frontier
from headwise.plots.theme import save_chart, themed
from headwise.results.files import write_files
from headwise.results.provenance import provenance
from headwise.results.result import json_bytes, parquet_bytes
from headwise.studies.adversary.taggers import attention_ranks, importance_ranks, tagger_exact, tagger_rivals
from headwise.tagging.adversary import (
    Compared,
    Tagger,
    check_lambdas,
    chunk_counts,
    compared,
    permuted,
    random_attention,
    uniform,
    with_attention,
)
from headwise.tagging.ensemble import seeded
from headwise.tagging.features import Padded
from headwise.tagging.frozen import FORMS, guided
from headwise.tagging.knee import knee_of_seeds
from headwise.tagging.tagger import Tagged, tagged

NUMBERS = ("f1", "nll", "tvd", "kl", "js", "matched", "changed")
EPSILON = 0.05


def facts(run: Any) -> None:
    """Every stage writes its table and is not repeated; figures are drawn from the tables."""
    made = {"curve": curve, "ranks": ranks, "instances": instances, "exact": exact, "importance": importance}
    for name, make in made.items():
        stored(run, name, make)
    done = [
        guide
        for guide in run.guides
        if all((run.out / run.probe_name(f, guide) / "seconds.json").is_file() for f in FORMS)
    ]
    if done:
        stored(run, f"probes-{len(done)}", lambda run: probes(run, done))
    figures(run, f"probes-{len(done)}" if done else None)


def stored(run: Any, name: str, make: Callable[[Any], pl.DataFrame]) -> pl.DataFrame:
    path = run.out / "tables" / f"{name}.parquet"
    if not path.is_file():
        start = time.process_time()
        table = make(run)
        facts = {**provenance(seed=0), "plan": run.told, "cpu_seconds": time.process_time() - start}
        write_files(path.parent, {path.name: parquet_bytes(table), f"{name}.json": json_bytes(facts)})
        print(f"{name}: {table.height} rows, {facts['cpu_seconds']:.0f} s of one core", flush=True)
    return pl.read_parquet(path)


def part(members: Mapping[str, Tensor], chosen: slice) -> dict[str, Tensor]:
    return {name: value[chosen] for name, value in members.items()}


def own(run: Any, members: Mapping[str, Tensor]) -> Tagger:
    return lambda batch: tagged(members, batch, run.shape)


def curve(run: Any) -> pl.DataFrame:
    """One row a λ (or control) and seed: adversaries, other seeds, attention by rule put in.

    F1 is of the whole test part; divergences and distances are of every fourth batch, which has all lengths.
    """
    base, many, count = run.members("base"), run.members("adversaries"), len(run.plan.seeds)
    rows: list[dict[str, Any]] = []

    def add(kind: str, value: float | None, mine: Tagger) -> None:
        found = compared(mine, own(run, base), run.parts["test"][::4], run.scheme)
        f1 = chunk_counts(mine, run.parts["test"], run.scheme).f1
        rows.extend(_rows(found, f1, kind, value, run.plan.seeds))

    add("base", None, own(run, base))
    for at, value in enumerate(check_lambdas(run.plan.lambdas)):
        add("adversary", value, own(run, part(many, slice(at * count, (at + 1) * count))))
    rolled = {name: tensor.roll(1, 0) for name, tensor in base.items()}
    add("other seed", None, own(run, rolled))
    rules: dict[str, Callable[[Padded], Tensor]] = {
        "uniform put in": lambda b: uniform(b.mask, run.shape, count),
        "random put in": lambda b: random_attention(b.mask, run.shape, count, seeded(5, int(b.numbers[0]))),
        "permuted put in": lambda b: permuted(tagged(base, b, run.shape).alpha, b.mask, seeded(6, int(b.numbers[0]))),
        "other seed's put in": lambda b: tagged(rolled, b, run.shape).alpha,
    }
    for kind, attend in rules.items():
        add(kind, None, with_attention(base, run.shape, attend))
    return pl.DataFrame(rows, schema_overrides={"lambda": pl.Float64})


def _rows(found: Compared, f1: Tensor, kind: str, value: float | None, seeds: Sequence[int]) -> list[dict[str, Any]]:
    numbers = {"f1": f1, "matched": found.matched}
    numbers |= {name: found.number(name) for name in Compared.NUMBERS}
    return [
        {"kind": kind, "lambda": value, "seed": seed, **{name: float(numbers[name][at]) for name in NUMBERS}}
        for at, seed in enumerate(seeds)
    ]


def sample(run: Any, count: int, *, beyond: int = 0) -> list[Padded]:
    """`count` test sentences of more than `beyond` words, evenly over their lengths, in batches of 16."""
    long = [number for number, sentence in enumerate(run.test) if len(sentence) > max(beyond, 2)]
    long.sort(key=lambda number: (len(run.test[number]), number))
    chosen = [long[int(at)] for at in np.linspace(0, len(long) - 1, min(count, len(long)))]
    return [run.words.padded(run.test, chosen[start : start + 16]) for start in range(0, len(chosen), 16)]


def ranks(run: Any) -> pl.DataFrame:
    """Kendall's τ of attention rows with the base's, head by head, on 48 test sentences: by λ, and other seeds."""
    base, many, count = run.members("base"), run.members("adversaries"), len(run.plan.seeds)
    others = {
        value: part(many, slice(at * count, (at + 1) * count))
        for at, value in enumerate(check_lambdas(run.plan.lambdas))
    }
    others[-1.0] = {name: tensor.roll(1, 0) for name, tensor in base.items()}  # −1: another seed of the base
    rows = []
    for value, members in others.items():
        found = []
        for batch in sample(run, 48):
            with torch.no_grad():
                one, two = tagged(base, batch, run.shape).alpha, tagged(members, batch, run.shape).alpha
            found.append(attention_ranks(one, two, batch.mask).flatten(1))
        means = torch.cat(found, dim=1).nanmean(1).tolist()
        rows += [
            {"lambda": value, "seed": seed, "kendall": mean} for seed, mean in zip(run.plan.seeds, means, strict=True)
        ]
    return pl.DataFrame(rows)


def instances(run: Any) -> pl.DataFrame:
    """Per-instance adversaries of every base on 32 test sentences: one row a word."""
    rows = []
    for at, seed in enumerate(run.plan.seeds):
        member = part(run.members("base"), slice(at, at + 1))
        for batch in sample(run, 32):
            found = tagger_rivals(member, batch, run.shape, Search(epsilon=EPSILON, steps=60))
            rows.append(_words(found, batch, seed))
    return pl.concat(rows)


def exact(run: Any) -> pl.DataFrame:
    """The exact form of every base on 6 test sentences beyond head size + 1 words: one row a word."""
    rows = []
    for at, seed in enumerate(run.plan.seeds):
        member = part(run.members("base"), slice(at, at + 1))
        for batch in sample(run, 6, beyond=run.shape.d_head + 1):
            rows.append(_words(tagger_exact(member, batch, run.shape), batch, seed))
    return pl.concat(rows)


def _words(found: Any, batch: Padded, seed: int) -> pl.DataFrame:
    text, word = batch.mask.nonzero(as_tuple=True)
    return pl.DataFrame(
        {
            "seed": [seed] * len(text), "sentence": batch.numbers[text].tolist(), "word": word.tolist(),
            "length": batch.mask.sum(-1)[text].tolist(), "js": found.js.nanmean(1)[text, word].double().tolist(),
            "tvd": found.tvd[text, word].double().tolist(), "flipped": found.flipped[text, word].tolist(),
        }
    )  # fmt: skip


def importance(run: Any) -> pl.DataFrame:
    """Kendall's τ of attention with importance for every base on 32 test sentences: one row a word with a τ."""
    rows = []
    for at, seed in enumerate(run.plan.seeds):
        member = part(run.members("base"), slice(at, at + 1))
        for batch in sample(run, 32):
            for name, tau in importance_ranks(member, batch, run.shape).items():
                text, word = batch.mask.nonzero(as_tuple=True)
                rows.append(
                    pl.DataFrame(
                        {
                            "seed": seed,
                            "method": name,
                            "sentence": batch.numbers[text].tolist(),
                            "kendall": tau[text, word].tolist(),
                        }
                    )
                )
    return pl.concat(rows).filter(pl.col("kendall").is_finite())


def probes(run: Any, guides: Sequence[str]) -> pl.DataFrame:
    """Test F1 of every probe."""
    rows = []
    for guide in guides:
        attend = run.attention_of(guide)
        for form in FORMS:
            members = run.members(run.probe_name(form, guide))
            f1 = chunk_counts(_guided(run, members, attend, form), run.parts["test"], run.scheme).f1.tolist()
            rows += [
                {"form": form, "guide": guide, "seed": seed, "f1": value}
                for seed, value in zip(run.plan.seeds, f1, strict=True)
            ]
    return pl.DataFrame(rows)


def _guided(run: Any, members: Mapping[str, Tensor], attend: Callable[[Padded], Tensor], form: str) -> Tagger:
    def tag(batch: Padded) -> Tagged:
        return guided(members, batch, run.shape, attend(batch), form)

    return tag


# --- tables of means and figures ---


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over seeds with its 95 % t-interval."""
    x = np.asarray(values, dtype=float)
    half = student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)) if len(x) > 1 else math.nan
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


def figures(run: Any, probed: str | None) -> None:
    tables = run.out / "tables"
    read = lambda name: pl.read_parquet(tables / f"{name}.parquet")  # noqa: E731
    table = read("curve")
    table1 = over_seeds(table, ["kind", "lambda"], NUMBERS)
    knees = {
        f"{y} against {x}": _knee(table, x, y)
        for x, y in (("js", "tvd"), ("kl", "nll"), ("js", "nll"), ("matched", "tvd"))
    }
    per_seed = {
        name: read(name).group_by("seed", maintain_order=True).agg(pl.col("js", "tvd", "flipped").mean())
        for name in ("instances", "exact")
    }
    summary = {
        "knees": knees,
        **{name: {c: mean_interval(t[c].to_list()) for c in ("js", "tvd", "flipped")} for name, t in per_seed.items()},
        "exact_largest_tvd": float(read("exact")["tvd"].max()),  # type: ignore[arg-type]
        "importance": _summary(read("importance"), "method"),
        "ranks": _summary(read("ranks"), "lambda"),
        "seconds": {p.parent.name: json.loads(p.read_bytes()) for p in sorted(run.out.glob("*/seconds.json"))},
    }
    write_files(tables, {"table1.parquet": parquet_bytes(table1), "summary.json": json_bytes(summary)})
    charts = {"fig1": _fig1(table1, knees), "three-kinds": _three_kinds(table1, per_seed, knees),
              "matched": _matched(table1, knees), "ranks": _ranks(read("ranks")),
              "importance": _importance(read("importance"))}  # fmt: skip
    if probed:
        table2 = over_seeds(read(probed), ["form", "guide"], ["f1"])
        write_files(tables, {"table2.parquet": parquet_bytes(table2)})
        charts["table2"] = _table2(table2)
        print(table2)
    with pl.Config(tbl_rows=30, tbl_cols=30, tbl_width_chars=200, float_precision=3):
        print(table1)
    print(json.dumps(summary, indent=1))
    for name, chart in charts.items():
        save_chart(chart, run.out / "figures" / f"{name}.svg")
        save_chart(chart, run.out / "figures" / f"{name}.png")


def _knee(table: pl.DataFrame, x: str, y: str) -> dict[str, float] | None:
    adversaries = table.filter(pl.col("kind") == "adversary")
    wide = [adversaries.pivot("seed", index="lambda", values=name).sort("lambda") for name in (x, y)]
    found = knee_of_seeds(*(w.drop("lambda").to_numpy() for w in wide))
    return (
        None
        if found is None
        else {
            "lambda": wide[0]["lambda"][found.at],
            **{k: getattr(found, k) for k in ("divergence", "low", "high", "found")},
        }
    )


def _summary(table: pl.DataFrame, by: str) -> dict[str, tuple[float, float, float]]:
    seeds = table.group_by(by, "seed", maintain_order=True).agg(pl.col("kendall").mean())
    return {
        str(key[0]): mean_interval(group["kendall"].to_list()) for key, group in seeds.group_by(by, maintain_order=True)
    }


def _points(table: pl.DataFrame, x: str, y: str) -> pl.DataFrame:
    names = {f"{a}{end}": f"{b}{end}" for a, b in ((x, "x"), (y, "y")) for end in ("", "_low", "_high")}
    label = pl.when(pl.col("lambda").is_null()).then(pl.lit("")).otherwise(pl.format("λ={}", pl.col("lambda").round(3)))
    kind = pl.when(pl.col("kind") == "adversary").then(pl.lit("trained adversaries")).otherwise(pl.col("kind"))
    return table.select(kind=kind, label=label, **{new: pl.col(old) for old, new in names.items()})


def _fig1(table1: pl.DataFrame, knees: Mapping[str, Any]) -> Any:
    points = _points(table1.filter(pl.col("kind").is_in(["adversary", "other seed"])), "kl", "nll")
    found = knees["nll against kl"]
    marked = None if found is None else (found["divergence"], found["low"], found["high"], "knee")
    return themed(
        frontier(points, titles=("KL(adversary ‖ base) of attention (nats)", "NLL of the base's tags (nats)"),
                 curve="trained adversaries", kinds=["trained adversaries", "other seed"], marked=marked),
        "CoNLL-2000: what attending elsewhere costs (fig1)",
        "One point a λ, mean of five seeds, 95 % intervals, on the test part. Another seed of the base is far away",
        "with nothing asked of it: only what lies to its right is the adversary's doing. Grey: the knee's interval.",
    )  # fmt: skip


def _three_kinds(table1: pl.DataFrame, per_seed: Mapping[str, pl.DataFrame], knees: Mapping[str, Any]) -> Any:
    rows = []
    for name, kind in (("instances", f"per instance, TVD ≤ {EPSILON:g}"), ("exact", "exact (beyond 33 words)")):
        row: dict[str, Any] = {"kind": kind, "label": ""}
        for column, axis in (("js", "x"), ("tvd", "y")):
            row |= dict(
                zip((axis, f"{axis}_low", f"{axis}_high"), mean_interval(per_seed[name][column].to_list()), strict=True)
            )
        rows.append(row)
    controls = ["other seed", "uniform put in", "random put in", "permuted put in"]
    points = pl.concat(
        [_points(table1.filter(pl.col("kind").is_in(["adversary", *controls])), "js", "tvd"), pl.DataFrame(rows)],
        how="diagonal",
    )
    kinds = ["trained adversaries", *(row["kind"] for row in rows), *controls]
    found = knees["tvd against js"]
    marked = None if found is None else (found["divergence"], found["low"], found["high"], "knee")
    return themed(
        frontier(points, titles=("JS divergence of attention from the base's (nats)", "TVD of predictions, mean"),
                 curve="trained adversaries", kinds=kinds, marked=marked, limit=(math.log(2), "ln 2")),
        "CoNLL-2000: three kinds of adversary, and controls",
        "Right is far, low is harmless. Trained from scratch (a point a λ); found for each word, the model as it is;",
        "exact (the head's output stays the same). Put in: the base with that attention. Five seeds, 95 % intervals.",
    )  # fmt: skip


def _matched(table1: pl.DataFrame, knees: Mapping[str, Any]) -> Any:
    controls = ["other seed", "uniform put in", "random put in"]
    points = _points(table1.filter(pl.col("kind").is_in(["adversary", *controls])), "matched", "tvd")
    found = knees["tvd against matched"]
    marked = None if found is None else (found["divergence"], found["low"], found["high"], "knee")
    titles = ("JS divergence after heads were paired with the base's (nats)", "TVD of predictions, mean")
    return themed(
        frontier(points, titles=titles, curve="trained adversaries", kinds=["trained adversaries", *controls],
                 marked=marked, limit=(math.log(2), "ln 2")),
        "CoNLL-2000: the same when heads may change places",
        "Heads are paired with the base's so that the divergence is least. Much of what looks like other attention, in",
        "other seeds and in adversaries of small λ, is the same heads in another order. Five seeds, 95 % intervals.",
    )  # fmt: skip


def _ranks(table: pl.DataFrame) -> Any:
    rows = [
        {
            "what": "tau",
            "name": "other seed" if float(key) < 0 else f"λ={float(key):g}",
            "value": v,
            "low": low,
            "high": high,
        }
        for key, (v, low, high) in _summary(table, "lambda").items()
    ]
    order = [row["name"] for row in rows]
    return themed(
        intervals.dots(
            pl.DataFrame(rows), {"tau": "Kendall's τ with the base's rows"}, order=order, control="other seed"
        ),
        "Do adversaries rank words as the base does?",
        "Head by head, mean over rows of 48 test sentences; five seeds, 95 % intervals. Dashed: another seed.",
    )


def _importance(table: pl.DataFrame) -> Any:
    rows = [
        {"what": "tau", "name": key, "value": v, "low": low, "high": high}
        for key, (v, low, high) in _summary(table, "method").items()
    ]
    return themed(
        intervals.dots(
            pl.DataFrame(rows), {"tau": "Kendall's τ with attention"}, order=[r["name"] for r in rows], control=""
        ),
        "Base taggers: attention against importance",
        "Mean of the heads, over the rows of 32 test sentences; five seeds, 95 % intervals.",
    )


def _table2(table2: pl.DataFrame) -> Any:
    rows = table2.select(what="form", name="guide", value="f1", low="f1_low", high="f1_high")
    order = table2.filter(pl.col("form") == "mlp").sort("f1", descending=True)["guide"].to_list()
    panels = {"values": "values and output learned: test F1", "mlp": "MLP on weighted words: test F1"}
    return themed(
        intervals.dots(rows, panels, order=order, control="uniform"),
        "CoNLL-2000: what frozen attention is worth to a fresh model (table2)",
        "Probes have no query and no key; attention is data. Five seeds, 95 % intervals; dashed: uniform attention.",
    )

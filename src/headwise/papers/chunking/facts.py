"""The tables of the experiment, from the members that were trained; each is written once, with what it depends on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from headwise.measures.rivals import Search
from headwise.papers.chunking.experiment import Experiment
from headwise.papers.yang import UNTRAINED_SEEDS
from headwise.results.files import write_files
from headwise.results.provenance import provenance
from headwise.results.result import json_bytes, parquet_bytes
from headwise.studies.adversary.taggers import attention_ranks, importance_ranks, tagger_exact, tagger_rivals
from headwise.studies.adversary.tagging.adversary import (
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
from headwise.studies.adversary.tagging.ensemble import seeded
from headwise.studies.adversary.tagging.features import Padded
from headwise.studies.adversary.tagging.frozen import FORMS, guided
from headwise.studies.adversary.tagging.knee import knee_of_seeds
from headwise.studies.adversary.tagging.tagger import Tagged, initial, tagged

NUMBERS = ("f1", "nll", "tvd", "kl", "js", "matched", "changed")
EPSILON = 0.05
CURVES = (("js", "tvd"), ("kl", "nll"), ("js", "nll"), ("matched", "tvd"))  # of attention, of predictions
WORDS = {"seed": pl.Int64, "sentence": pl.Int64, "word": pl.Int64, "length": pl.Int64, "js": pl.Float64,
         "tvd": pl.Float64, "flipped": pl.Boolean}  # fmt: skip
KNEE = {"divergence": pl.String, "loss": pl.String, "lambda": pl.Float64, "at": pl.Float64, "low": pl.Float64,
        "high": pl.Float64, "found": pl.Float64, "depth": pl.Float64, "shallow": pl.Float64, "deep": pl.Float64,
        "straight": pl.Float64}  # fmt: skip


def stored(run: Experiment, name: str) -> pl.DataFrame:
    """A table by its name, computed where it is not there yet."""
    path = run.out / "tables" / f"{name}.parquet"
    if not path.is_file():
        start = time.process_time()
        table = TABLES[name](run)
        facts = {**provenance(seed=0), "plan": run.told, "cpu_seconds": time.process_time() - start}
        write_files(path.parent, {path.name: parquet_bytes(table), f"{name}.json": json_bytes(facts)})
        run.say(f"{name}: {table.height} rows, {facts['cpu_seconds']:.0f} s of one core")
    return pl.read_parquet(path)


def part(members: Mapping[str, Tensor], chosen: slice) -> dict[str, Tensor]:
    return {name: value[chosen] for name, value in members.items()}


def own(run: Experiment, members: Mapping[str, Tensor]) -> Tagger:
    return lambda batch: tagged(members, batch, run.shape)


def curve(run: Experiment) -> pl.DataFrame:
    """One row a λ (or control) and seed: adversaries, other seeds, attention by rule put in.

    F1 is of the whole test part; divergences and distances are of every fourth batch, which has all lengths.
    """
    base, many, count = run.members("base"), run.members("adversaries"), len(run.plan.seeds)
    rows: list[dict[str, Any]] = []

    def add(kind: str, value: float | None, mine: Tagger, beside: Mapping[str, Tensor] = base) -> None:
        found = compared(mine, own(run, beside), run.parts["test"][::4], run.scheme)
        f1 = chunk_counts(mine, run.parts["test"], run.scheme).f1
        rows.extend(_rows(found, f1, kind, value, run.plan.seeds))

    add("base", None, own(run, base))
    for at, value in enumerate(check_lambdas(run.plan.lambdas)):
        add("adversary", value, own(run, part(many, slice(at * count, (at + 1) * count))))
    rolled = _rolled(base)
    add("other seed", None, own(run, rolled))
    add(UNTRAINED_SEEDS, None, own(run, _rolled(untrained(run))), untrained(run))
    rules: dict[str, Callable[[Padded], Tensor]] = {
        "uniform put in": lambda b: uniform(b.mask, run.shape, count),
        "random put in": lambda b: random_attention(b.mask, run.shape, count, seeded(5, int(b.numbers[0]))),
        "permuted put in": lambda b: permuted(tagged(base, b, run.shape).alpha, b.mask, seeded(6, int(b.numbers[0]))),
        "other seed's put in": lambda b: tagged(rolled, b, run.shape).alpha,
    }
    for kind, attend in rules.items():
        add(kind, None, with_attention(base, run.shape, attend))
    return pl.DataFrame(rows, schema_overrides={"lambda": pl.Float64})


def _rolled(members: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tagger in the place of the one before it."""
    return {name: tensor.roll(1, 0) for name, tensor in members.items()}


def _rows(found: Compared, f1: Tensor, kind: str, value: float | None, seeds: Sequence[int]) -> list[dict[str, Any]]:
    numbers = {"f1": f1, "matched": found.matched}
    numbers |= {name: found.number(name) for name in Compared.NUMBERS}
    return [
        {"kind": kind, "lambda": value, "seed": seed, **{name: float(numbers[name][at]) for name in NUMBERS}}
        for at, seed in enumerate(seeds)
    ]


def sample(run: Experiment, count: int, *, beyond: int = 0) -> list[Padded]:
    """`count` test sentences of more than `beyond` words, evenly over their lengths, in batches of 16."""
    long = [number for number, sentence in enumerate(run.test) if len(sentence) > max(beyond, 2)]
    long.sort(key=lambda number: (len(run.test[number]), number))
    chosen = [long[int(at)] for at in np.linspace(0, len(long) - 1, min(count, len(long)))]
    return [run.words.padded(run.test, chosen[start : start + 16]) for start in range(0, len(chosen), 16)]


def ranks(run: Experiment) -> pl.DataFrame:
    """Kendall's τ of attention rows with the base's, head by head, on 48 test sentences: by λ, and other seeds."""
    base, many, count = run.members("base"), run.members("adversaries"), len(run.plan.seeds)
    others = {
        value: part(many, slice(at * count, (at + 1) * count))
        for at, value in enumerate(check_lambdas(run.plan.lambdas))
    }
    others[-1.0] = _rolled(base)  # −1: another seed of the base
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


def untrained(run: Experiment) -> dict[str, Tensor]:
    """Taggers as they begin, as many as there are bases: what is true of them was not learned."""
    return initial(run.shape, [3000 + seed for seed in run.plan.seeds])


def one_by_one(run: Experiment) -> Iterator[tuple[str, int, dict[str, Tensor]]]:
    """(kind, seed, tagger): every base, and untrained ones."""
    for kind, members in (("base", run.members("base")), ("untrained", untrained(run))):
        yield from ((kind, seed, part(members, slice(at, at + 1))) for at, seed in enumerate(run.plan.seeds))


def instances(run: Experiment) -> pl.DataFrame:
    """Per-instance adversaries of every base, and of untrained taggers, on 32 test sentences: one row a word."""
    rows = []
    for kind, seed, member in one_by_one(run):
        for batch in sample(run, 32):
            found = tagger_rivals(member, batch, run.shape, Search(epsilon=EPSILON, steps=60))
            rows.append(_words(found, batch, seed).with_columns(kind=pl.lit(kind)))
    return pl.concat(rows)


def exact(run: Experiment) -> pl.DataFrame:
    """The exact form of every base on 6 test sentences beyond head size + 1 words: one row a word."""
    rows = [pl.DataFrame(schema=WORDS)]  # there need not be a sentence that is long enough
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


def importance(run: Experiment) -> pl.DataFrame:
    """Kendall's τ of attention with importance on 32 test sentences: one row a word with a τ, of one_by_one's."""
    rows = []
    for kind, seed, member in one_by_one(run):
        for batch in sample(run, 32):
            text, word = batch.mask.nonzero(as_tuple=True)
            rows += [
                pl.DataFrame(
                    {"method": name, "sentence": batch.numbers[text].tolist(), "kendall": tau[text, word].tolist()}
                ).with_columns(seed=pl.lit(seed), kind=pl.lit(kind))
                for name, tau in importance_ranks(member, batch, run.shape).items()
            ]
    return pl.concat(rows).filter(pl.col("kendall").is_finite())


def knees(run: Experiment) -> pl.DataFrame:
    """Where each curve over λ turns, if it does: the λ, the divergence there, the share of draws, how deep it is."""
    table = stored(run, "curve").filter(pl.col("kind") == "adversary")
    rows = []
    for x, y in CURVES:
        wide = [table.pivot("seed", index="lambda", values=name).sort("lambda") for name in (x, y)]
        found = knee_of_seeds(*(one.drop("lambda").to_numpy() for one in wide))
        if found is not None:
            told = (found.divergence, found.low, found.high, found.found, found.depth, found.shallow, found.deep)
            rows.append((x, y, wide[0]["lambda"][found.at], *told, found.straight))
    return pl.DataFrame(rows, schema=KNEE, orient="row")


def probes(run: Experiment) -> pl.DataFrame:
    """Test F1 of every probe."""
    rows = []
    for guide in run.guides:
        attend = run.attention_of(guide)
        for form in FORMS:
            members = run.members(run.probe_name(form, guide))
            f1 = chunk_counts(_guided(run, members, attend, form), run.parts["test"], run.scheme).f1.tolist()
            rows += [
                {"form": form, "guide": guide, "seed": seed, "f1": value}
                for seed, value in zip(run.plan.seeds, f1, strict=True)
            ]
    return pl.DataFrame(rows)


def _guided(run: Experiment, members: Mapping[str, Tensor], attend: Callable[[Padded], Tensor], form: str) -> Tagger:
    def tag(batch: Padded) -> Tagged:
        return guided(members, batch, run.shape, attend(batch), form)

    return tag


BOTH = ("base", "adversaries")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "curve": BOTH, "knees": BOTH, "ranks": BOTH, "instances": ("base",), "exact": ("base",), "importance": ("base",),
    "probes": (*BOTH, "probes"),
}  # fmt: skip
TABLES: Mapping[str, Callable[[Experiment], pl.DataFrame]] = {
    "curve": curve, "knees": knees, "ranks": ranks, "instances": instances, "exact": exact, "importance": importance,
    "probes": probes,
}  # fmt: skip

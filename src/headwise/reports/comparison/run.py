"""From two names to a stored comparison: run or open both sides, match their heads, tell the differences.

OUT/manifest.json …   the comparison, a result like any other (`headwise show OUT`)
OUT/page.html         the same as one page
OUT/a, OUT/b          what was run for it; resumable, and opened the next time
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from headwise.engine.run import run, setting_of
from headwise.errors import InputError
from headwise.models.heads import own_task
from headwise.models.load import load
from headwise.models.model import Model
from headwise.reports.comparison.distances import between
from headwise.reports.comparison.formulas import (
    FEWEST,
    RESAMPLES,
    Difference,
    check_enough,
    kept,
    matched,
    mean,
    paired,
    profile_distances,
    unpaired,
)
from headwise.reports.comparison.page import figures_of, page_of
from headwise.results import RUN, Result, claim, open_result, provenance, write_result
from headwise.results.files import write_files
from headwise.results.result import MANIFEST, read_manifest
from headwise.studies import STUDIES
from headwise.studies.ablation.facts import effects_of
from headwise.studies.profile import NUMBERS, values_of
from headwise.studies.study import unpacked
from headwise.text.corpus import CorpusSpec, open_corpus

MATCHES = ("position", "attention", "profile")
WHERE = ("stack", "layer", "head", "name")
BY_TEXT = {"profile": NUMBERS, "ablation": ("effect",)}  # studies that keep their texts apart, and their numbers


@dataclass(frozen=True)
class Side:
    """One of the two: its result, and the model where it was loaded for it."""

    result: Result
    model: Model | None = None
    corpus: CorpusSpec | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.result.manifest

    @property
    def name(self) -> str:
        return self.facts["model"]["name"]

    @property
    def text(self) -> str:
        return self.facts["plan"]["corpus"]["name"]


@dataclass(frozen=True)
class Asked:
    """One of the two before anything is run: a stored result, or a model and the corpus that it will read."""

    result: Result | None = None
    model: Model | None = None
    corpus: CorpusSpec | None = None

    @property
    def name(self) -> str:
        return self.model.name if self.model is not None else self.result.manifest["model"]["name"]  # type: ignore[union-attr]

    @property
    def stacks(self) -> Mapping[str, Sequence[int]]:
        """The layers and heads of every stack."""
        if self.model is None:
            return {stack: sizes[:2] for stack, sizes in self.result.manifest["stacks"].items()}  # type: ignore[union-attr]
        return {stack: [self.model.layers(stack), self.model.heads(stack)] for stack in self.model.stacks}


@dataclass(frozen=True)
class Match:
    """Which head of b (by place) each head of a is compared with; what it costs, and how surely it is this one."""

    places: Int[ndarray, " a"]
    cost: Float[ndarray, " a"]
    kept: Float[ndarray, " a"]


def compare(
    a: str | Model,
    b: str | Model | None = None,
    *,
    out: str | Path,
    corpus: str | Path = "sample",
    corpus_b: str | Path | None = None,
    study: str = "profile",
    match: str = "position",
    texts: int = 48,
    resamples: int = RESAMPLES,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Result:
    """Compare two models, one model on two corpora, or two stored results (folders); b − a for every head.

    `study` other than profile and ablation (what is lost without each head) gives differences without intervals, since
    its result holds no single documents.
    `options` are those of `hw.run`: task, kind, columns, segments, first, truncate, max_tokens, settings, engine ….
    """
    if match not in MATCHES:
        raise InputError(f"Heads are matched by {', '.join(MATCHES)}, but {match!r} was asked for.")
    if b is None and corpus_b is None:
        raise InputError("There must be two sides: name a second model or result, or a second corpus with --corpus-b.")
    if b is None and isinstance(a, str) and (Path(a) / MANIFEST).is_file():
        raise InputError(f"A stored result cannot be run on another corpus, but {a} is one; name a second result.")
    chosen = {"study": study, "match": match, "texts": texts, "resamples": resamples, "seed": seed}
    with claim(out):
        asked = _asked(a, corpus, study, options)
        same = b is None or (b == a and isinstance(a, str))
        other = _asked(asked.model or a if same else b, corpus_b or corpus, study, options)  # type: ignore[arg-type]
        if study in BY_TEXT:
            _check_asked(asked, other, match)
        first, second = (
            _side(side, Path(out) / place, study, seed, options) for side, place in ((asked, "a"), (other, "b"))
        )
        _check_sides(first, second)
        say("matching heads, and drawing the texts anew for intervals")
        table, told = _compared(first, second, chosen, options)
        table = table.fill_nan(None).drop_nulls("change")  # NaN: no text has the number, or it was not asked for
        return _written(Path(out), first, second, table, {**chosen, **told})


LOADING, READING = ("task", "dtype", "device"), ("kind", "columns", "segments", "label", "first")


def _asked(source: str | Model, corpus: str | Path, study: str, options: Mapping[str, Any]) -> Asked:
    if isinstance(source, str) and (Path(source) / MANIFEST).is_file():
        return Asked(open_result(source, RUN))
    loading = {key: options[key] for key in LOADING if key in options}
    if isinstance(source, str) and options.get("task") is None and STUDIES[study].own_head:
        loading["task"] = own_task(source)
    model = load(source, **loading) if isinstance(source, str) else source
    return Asked(None, model, open_corpus(corpus, **{key: options[key] for key in READING if key in options}))


def _check_asked(a: Asked, b: Asked, match: str) -> None:
    """What would be refused after the run is refused before it."""
    for stack, sizes in a.stacks.items():
        if stack not in b.stacks:
            raise InputError(f"Both models must have the stack {stack!r}, but {b.name} has {', '.join(b.stacks)}.")
        if match == "position" and list(sizes) != list(b.stacks[stack]):
            one, other = (f"{layers} layers of {heads} heads" for layers, heads in (sizes, b.stacks[stack]))
            raise InputError(
                f"Heads at the same place are compared where both models have the same layers and heads, but "
                f"{a.name} has {one} and {b.name} {other}; use --match profile."
            )
    for side in (a, b):
        if side.corpus is not None and side.corpus.segments is None:
            check_enough(sum(1 for _ in islice(side.corpus.documents(), FEWEST)))


def _side(asked: Asked, folder: Path, study: str, seed: int, options: Mapping[str, Any]) -> Side:
    if asked.result is not None or asked.model is None:
        return Side(asked.result)  # type: ignore[arg-type]
    rest = {key: value for key, value in options.items() if key not in (*LOADING, *READING)}
    result = run(study, asked.model, corpus=asked.corpus, out=folder, seed=seed, **rest)[study]
    return Side(result, asked.model, asked.corpus)


def _check_sides(a: Side, b: Side) -> None:
    for key, what in (("study", "studies"), ("settings", "settings")):
        if a.facts.get(key) != b.facts.get(key):
            raise InputError(
                f"Both sides must be results of the same study with the same settings, but their {what} differ: "
                f"{a.facts.get(key)} and {b.facts.get(key)}; run one of them again."
            )


def _compared(
    a: Side, b: Side, chosen: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The table, one row a head and number, and what has to be said about how it was made."""
    pairs, lengths = same_documents(a.facts, b.facts), [s.facts["tokens"] / s.facts["documents"] for s in (a, b)]
    told: dict[str, Any] = {"paired": pairs, "intervals": a.facts["study"] in BY_TEXT, "lengths": lengths}
    if not told["intervals"]:
        return _without_intervals(a.result.table, b.result.table, chosen["match"]), {**told, "documents": None}
    tables: list[pl.DataFrame] = []
    told["documents"] = 0
    for stack in a.facts["stacks"]:
        (numbers_a, x), (numbers_b, y) = (_by_text(side, stack) for side in (a, b))
        heads_a, heads_b = head_names(x), head_names(y)
        x, y = np.concatenate(x, axis=1), np.concatenate(y, axis=1)
        found = _match(a, b, x, y, chosen, options)
        if pairs:
            both = sorted(set(numbers_a) & set(numbers_b))
            x, y = x[[numbers_a.index(n) for n in both]], y[[numbers_b.index(n) for n in both]]
        told["documents"] = max(told["documents"], len(x)) if pairs else f"{len(x)} and {len(y)}"
        used = np.flatnonzero(found.places >= 0)
        x, y = x[:, used], y[:, found.places[used]]
        how = paired if pairs else unpaired
        difference = how(
            x.reshape(len(x), -1), y.reshape(len(y), -1), resamples=chosen["resamples"], seed=chosen["seed"]
        )
        tables.append(_rows(stack, heads_a, heads_b, used, found, difference, BY_TEXT[a.facts["study"]]))
    return pl.concat(tables), told


def _by_text(side: Side, stack: str) -> tuple[tuple[int, ...], list[Float[ndarray, "document head number"]]]:
    state = unpacked(side.result.state)
    if side.facts["study"] == "profile":
        return values_of(state, stack)
    return effects_of(state, setting_of(side.facts).stacks, stack)


def same_documents(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether document n is the same text on both sides: one corpus, read as it is (segments depend on the model)."""
    corpora = [side["plan"]["corpus"] for side in (a, b)]
    return corpora[0]["fingerprint"] == corpora[1]["fingerprint"] and corpora[0]["segments"] is None


def head_names(layers: Sequence[Float[ndarray, "document head number"]]) -> list[tuple[int, int]]:
    """(layer, head) of every place when the layers stand side by side."""
    return [(layer, head) for layer, values in enumerate(layers) for head in range(values.shape[1])]


def _match(a: Side, b: Side, x: ndarray, y: ndarray, chosen: Mapping[str, Any], options: Mapping[str, Any]) -> Match:
    nothing = np.full(x.shape[1], np.nan)
    if chosen["match"] == "position":
        return Match(np.arange(x.shape[1]), nothing, nothing)
    if chosen["match"] == "profile":
        cost = profile_distances(*(mean(v.reshape(len(v), -1)).reshape(v.shape[1:]) for v in (x, y)))
        stable = nothing
    else:
        if a.model is None or b.model is None or a.corpus is None:
            raise InputError("Rows are compared by running both models, but a stored result has none; name the models.")
        if a.text != b.text:
            raise InputError("Rows are compared on the same texts, but there are two corpora; leave --corpus-b out.")
        reading: dict[str, Any] = {"max_tokens": options.get("max_tokens"), "truncate": bool(options.get("truncate"))}
        found = between(a.model, b.model, a.corpus, texts=chosen["texts"], **reading)
        cost = found.sums.sum(0) / found.tokens.sum()
        stable = kept(*found, seed=chosen["seed"])
    places = matched(cost)
    paid = np.where(places >= 0, cost[np.arange(len(places)), places], np.nan)
    return Match(places, paid, stable)


def _rows(
    stack: str,
    heads_a: Sequence[tuple[int, int]],
    heads_b: Sequence[tuple[int, int]],
    used: Int[ndarray, " pair"],
    match: Match,
    difference: Difference,
    names: Sequence[str],
) -> pl.DataFrame:
    """One row a pair of heads and number, in the order of a's heads."""
    count = len(names)
    first = [heads_a[at] for at in np.repeat(used, count)]
    second = [heads_b[at] for at in np.repeat(match.places[used], count)]
    numbers = {name: getattr(difference, name) for name in ("a", "b", "change", "low", "high", "clear")}
    return pl.DataFrame(
        {
            "stack": [stack] * len(first),
            "layer": [layer for layer, _ in first],
            "head": [head for _, head in first],
            "name": [f"L{layer}.H{head}" for layer, head in first],
            "matched_layer": [layer for layer, _ in second],
            "matched": [f"L{layer}.H{head}" for layer, head in second],
            "cost": np.repeat(match.cost[used], count),
            "kept": np.repeat(match.kept[used], count),
            "what": list(names) * len(used),
            **numbers,
        }
    )


def _without_intervals(a: pl.DataFrame, b: pl.DataFrame, match: str) -> pl.DataFrame:
    """Any study whose table has a row a head: the same rows and columns of both, subtracted."""
    if match != "position" or not {*WHERE} <= {*a.columns}:
        raise InputError(
            "Without intervals, only studies with one row a head are compared, at the same place; use --study profile "
            "(or surface, nullspace, norms) and --match position."
        )
    a, b = a.drop_nulls(WHERE), b.drop_nulls(WHERE)
    floats = [name for name, kind in a.schema.items() if kind.is_float() and name in b.columns]
    numbers = [name for name in floats if name.removesuffix("_low").removesuffix("_high") not in {*floats} - {name}]
    others = [name for name, kind in a.schema.items() if not kind.is_float() and name in b.columns]
    keys = [name for name in others if name in (*WHERE, "quantity")]
    keys = others if a.select(keys).is_duplicated().any() else keys  # what else a row is of; not what is said of it
    if a.select(keys).is_duplicated().any() or not numbers or a.is_empty():
        raise InputError("Without intervals, a table must have one row a head, but this one has others; use profile.")
    extra = [key for key in keys if key not in WHERE]
    long = [t.unpivot(numbers, index=keys, variable_name="number", value_name=side) for t, side in ((a, "a"), (b, "b"))]
    both = long[0].join(long[1], on=[*keys, "number"], how="inner", nulls_equal=True, maintain_order="left")
    what = pl.concat_str([*(pl.col(key).cast(pl.String) for key in extra), "number"], separator=" ", ignore_nulls=True)
    unknown = pl.lit(None, pl.Float64)
    return both.select(
        *WHERE, pl.col("layer").alias("matched_layer"), pl.col("name").alias("matched"), cost=unknown, kept=unknown,
        what=what, a="a", b="b", change=pl.col("b") - pl.col("a"), low=unknown, high=unknown,
        clear=pl.lit(None, pl.Boolean),
    )  # fmt: skip


def _written(out: Path, a: Side, b: Side, table: pl.DataFrame, chosen: Mapping[str, Any]) -> Result:
    names = labels(a, b)
    text = a.text if a.text == b.text else f"{a.text} and {b.text}"
    sides = {
        label: {key: side.facts.get(key) for key in ("model", "proof", "stacks", "documents", "tokens", "skipped",
                                                     "settings", "plan_digest")}
        | {"corpus": side.facts["plan"]["corpus"], "folder": str(side.result.folder)}
        for label, side in (("a", a), ("b", b))
    }  # fmt: skip
    manifest = {
        "study": "compare", "settings": dict(chosen), **provenance(seed=chosen["seed"]),
        "model": {"name": f"{names[0]} → {names[1]}"}, "plan": {"corpus": {"name": text}}, "sides": sides,
        "names": list(names),
        "documents": a.facts["documents"], "tokens": a.facts["tokens"], "skipped": a.facts["skipped"],
    }  # fmt: skip
    _check_target(out, manifest)
    charts = figures_of(table, *names, chosen, a.facts["stacks"])
    state = {
        name: torch.from_numpy(table[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy())
        for name in ("a", "b", "low", "high")
    }
    result = write_result(out, manifest, table, state, {name: chart.to_dict() for name, chart in charts.items()})
    write_files(out, {"page.html": page_of(manifest, table, charts, *names).encode("ascii")})
    return result


def labels(a: Side, b: Side) -> tuple[str, str]:
    """What the two are called: by model, or by what they were run on where the model is the same."""
    if a.name != b.name:
        return a.name, b.name
    if a.text != b.text:
        return f"{a.name} on {Path(a.text).name}", f"{b.name} on {Path(b.text).name}"
    return f"{a.name} (a)", f"{b.name} (b)"


def _check_target(out: Path, manifest: Mapping[str, Any]) -> None:
    """A comparison may be made again over itself, but over nothing else."""
    if (out / MANIFEST).is_file():
        before = read_manifest(out)
        if before.get("study") != "compare" or before.get("model") != manifest["model"]:
            raise InputError(f"Folder {out} holds another result; choose another --out, or remove it.")

"""The figures and tables of a paper by name: run what makes them, look at what they are said to show.

OUT/RUN/STUDY/                the results; jobs that read the same corpus share a pass
OUT/RUN/corpus.conllu         of what learns: the sentences to learn from, then those to score on
OUT/RUN/untrained-SEED/…,     the same of networks of the same shape: drawn anew, and with the weights shuffled
OUT/RUN/shuffled-SEED/…
OUT/trained/                  models trained for a paper, and their tables
OUT/figures/                  ITEM-FIGURE.svg; ITEM.md where the paper has a table, or nothing could be drawn
OUT/verdicts.csv, .parquet    one row a claim: the paper's value, ours with its interval, n, control, verdict, rule
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from headwise.engine.run import run
from headwise.errors import InputError
from headwise.models.heads import own_task
from headwise.models.load import load
from headwise.models.model import Model
from headwise.papers import Item, Job, Paper, Training, chunking
from headwise.papers.claim import TWO, Evidence, counts_of, judge
from headwise.papers.controls import CONTROL_TEXTS, CONTROLS, KINDS, PARTS, SHARD, networks
from headwise.papers.items import chosen_items, missing, obstacle, paper_of, passes
from headwise.papers.rows import SCHEMA, TOLD, row_of
from headwise.papers.shown import written
from headwise.papers.verdict import UNTRAINED
from headwise.results import Result
from headwise.results.files import write_files
from headwise.results.result import parquet_bytes
from headwise.results.shown import shown
from headwise.text.alignments import read_pairs, write_pairs
from headwise.text.conllu import first_blocks
from headwise.text.corpus import Document, open_corpus

PAIRS = "corpus.pairs"
LEARNED = 4000  # sentences, of those to learn from
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Found:
    """What a job came to: the evidence for its claims, its figures, where they are, and what it read with what."""

    evidence: Evidence
    folder: Path
    figures: Mapping[str, Callable[[], Any]]
    example: Callable[[], tuple[Model, Document]] | None = None
    other: pl.DataFrame | None = None  # the table of the model that it is set against


@dataclass(frozen=True)
class Asked:
    """How runs are made, whatever the job."""

    out: Path
    settings: Mapping[str, Mapping[str, Any]]
    first: int | None
    controls: int
    control_texts: int
    say: Say
    engine: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, str | None] = ("", None)  # the one that is asked, and the one it is set against
    items: tuple[Item, ...] = ()

    def of_control(self, folder: Path) -> Asked:
        return replace(self, out=folder, first=min(self.first or self.control_texts, self.control_texts))


def reproduce(
    paper: str,
    *,
    data: str | Path,
    out: str | Path,
    model: str = "demo",
    task: str | None = None,
    device: str = "cpu",
    items: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    first: int | None = None,
    controls: int = CONTROLS,
    control_texts: int = CONTROL_TEXTS,
    against: str | None = None,
    say: Say = lambda _: None,
    **engine: Any,
) -> pl.DataFrame:
    """Every item, or those named, with the paper's settings where `settings` has no others; one row a claim.

    What cannot be run here (no data, a model of another kind) is a row too, and says what it takes. `first` reads only
    so many documents of each corpus. `controls`: as many untrained networks of the same shape read the same texts (the
    first `control_texts` documents), so that what is true of any network is not taken for something learned; with 0 no
    such claim can hold. `against`: a model of the same shape, from which `model` was fine-tuned, for the items that
    draw both (brunner2020 fig12–13).
    """
    source, chosen, data = paper_of(paper), chosen_items(paper, items), Path(data)
    if against == model:
        raise InputError(f"against must be another model than the one that is asked, but both are {model}.")
    asked = Asked(
        Path(out), settings or {}, first, controls, control_texts, say, engine, (model, against), tuple(chosen)
    )
    found: dict[Job | Training, Found | str] = {}
    found |= _trained(chosen, data, asked)
    loaded: dict[str | None, Model] = {}
    wanted = [job for item in chosen for job in (item.job, *item.beside) if isinstance(job, Job)]
    for number, (place, jobs) in enumerate(passes(wanted, data)):
        needed = jobs[0].task or task or (own_task(model) if jobs[0].head else None)
        if lacking := missing(place, jobs[0].files, jobs[0].learns):
            found |= dict.fromkeys(jobs, f"not run: {lacking} is not there; it takes {jobs[0].get}")
            continue
        if needed not in loaded:
            loaded[needed] = load(model, task=needed, device=device)
        folder = replace(asked, out=asked.out / f"{number}")
        found |= _found(jobs, loaded[needed], place, _controlled(jobs, chosen), folder)
        both = [job for job in jobs if any(item.job is job and item.against for item in chosen)]
        found |= _set_against(both, found, place, folder, device)
    rows = [row for item in chosen for row in _rows(source, item, found, asked)]
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    csv = shown(table.select(TOLD)).write_csv().encode("utf-8")
    write_files(asked.out, {"verdicts.csv": csv, "verdicts.parquet": parquet_bytes(table)})
    return table


def _controlled(jobs: Sequence[Job], items: Sequence[Item]) -> list[Job]:
    """The jobs of which some claim is to be looked at in untrained networks too."""
    return [
        job for job in jobs
        if any(item.job is job and claim.control == UNTRAINED for item in items for claim in item.claims)
    ]  # fmt: skip


def _found(
    jobs: Sequence[Job], model: Model, place: Path, controlled: Sequence[Job], asked: Asked
) -> dict[Job | Training, Found | str]:
    """The jobs of one pass, and their controls; a job that the model cannot do says why."""
    unable = {job: reason for job in jobs if (reason := obstacle(job, model)) is not None}
    found: dict[Job | Training, Found | str] = {job: f"not run: {reason}" for job, reason in unable.items()}
    rest = [job for job in jobs if job not in unable]
    if not rest:
        return found
    asked.say(f"{', '.join(job.study for job in rest)} on {place}")
    results = _run(rest, model, place, asked, parts=PARTS)
    beside = [job for job in controlled if job not in unable]
    for job in beside if asked.controls else ():
        if told := too_few(job, counts_of(results[job.study].manifest), asked.items):
            asked.say(told)
    controls = _controls(beside, model, place, asked)
    for job in rest:
        result = results[job.study]
        tables = {kind: [one[job.study].table for one in runs] for kind, runs in controls.items() if job in beside}
        evidence = Evidence(
            result.table, counts_of(result.manifest), result.parts, tables.get("untrained"), tables.get("shuffled", ())
        )
        charts = {name: (lambda name=name, result=result: result.figure(name)) for name in result.figures}
        found[job] = Found(evidence, result.folder, charts, lambda job=job: (model, _first_document(job, place)))
    return found


def too_few(job: Job, counts: Mapping[str, int], items: Sequence[Item]) -> str:
    """What to say before the controls are run, where there are too few texts for any verdict but "undecided"."""
    claims = [claim for item in items if item.job is job for claim in item.claims]
    least = max((claim.least for claim in claims if claim.unit == "texts"), default=0)
    if counts["texts"] >= least:
        return ""
    joined = ", for paragraphs and headings count as documents and are put together" if "segments" in job.corpus else ""
    return (
        f"{counts['texts']} texts were read{joined}: verdicts that take {least} can only be undecided, whatever the "
        "controls give; read more (--first), or leave the controls out (--controls 0)."
    )


def _set_against(
    jobs: Sequence[Job], found: Mapping[Job | Training, Found | str], place: Path, asked: Asked, device: str
) -> dict[Job | Training, Found | str]:
    """What was found, with the tables of the other model beside it."""
    ours = {job: one for job in jobs if isinstance(one := found[job], Found)}
    if asked.models[1] is None or not ours:
        return {}
    asked.say(f"the same on {asked.models[1]}")
    folder = replace(asked, out=asked.out / "against")
    results = _run(list(ours), load(asked.models[1], device=device), place, folder, figures=False)
    return {job: replace(one, other=results[job.study].table) for job, one in ours.items()}


def _first_document(job: Job, place: Path) -> Document:
    """For maps of single heads; paragraphs as they are, not put together to segments."""
    corpus = {name: value for name, value in job.corpus.items() if name != "segments"}
    return next(open_corpus(place, first=1, **corpus).documents())


def _controls(jobs: Sequence[Job], model: Model, place: Path, asked: Asked) -> dict[str, list[dict[str, Result]]]:
    """The same runs on untrained networks, by kind and seed."""
    if not jobs or not asked.controls:
        return {}
    runs: dict[str, list[dict[str, Result]]] = {kind: [] for kind in KINDS}
    for kind, seed, network in networks(model, asked.controls):
        asked.say(f"the control: {kind}, seed {seed}")
        folder = asked.of_control(asked.out / f"{kind}-{seed}")
        runs[kind].append(_run(jobs, network, place, folder, figures=False))
    return runs


def _run(jobs: Sequence[Job], model: Model, place: Path, asked: Asked, **more: Any) -> dict[str, Result]:
    if files := jobs[0].files:
        pairs, seen = read_pairs(*(place / name for name in files))
        for note in seen:
            asked.say(note)
        write_files(asked.out, {PAIRS: write_pairs(pairs)})
        place = asked.out / PAIRS
    learned = {}
    if jobs[0].learns:
        place, learned["train"] = learned_first(place, jobs[0].learns, asked.first, asked.out)
    corpus = open_corpus(place, first=None if learned else asked.first, **jobs[0].corpus)
    shard = max(1, asked.first // PARTS) if asked.first and more.get("parts") else SHARD
    options: dict[str, Any] = {"shard_documents": min(shard, SHARD), **jobs[0].run, **asked.engine, **more}
    settings = {job.study: {**job.settings, **learned, **asked.settings.get(job.study, {})} for job in jobs}
    return run([job.study for job in jobs], model, corpus=corpus, out=asked.out, settings=settings, **options)


def learned_first(place: Path, learns: str, first: int | None, out: Path) -> tuple[Path, int]:
    """One file with the sentences to learn from before those to score on, and how many the former are."""
    sides = {"learned": (place.with_name(learns), min(LEARNED, first or LEARNED)), "scored": (place, first)}
    text = {side: first_blocks(path.read_text("utf-8"), most) for side, (path, most) in sides.items()}
    write_files(out, {f"{side}{place.suffix}": some.encode("utf-8") for side, some in text.items()})
    write_files(out, {f"corpus{place.suffix}": "".join(text.values()).encode("utf-8")})
    count = sum(1 for _ in open_corpus(out / f"learned{place.suffix}").documents())  # those that can be read
    return out / f"corpus{place.suffix}", count


def _trained(items: Sequence[Item], data: Path, asked: Asked) -> dict[Job | Training, Found | str]:
    """What the items that train look at; only what their claims and figures need is trained."""
    trainings = {item.job: item for item in items if isinstance(item.job, Training)}
    if not trainings:
        return {}
    place, get = (getattr(next(iter(trainings)), name) for name in ("data", "get"))
    if lacking := missing(data / place, chunking.FILES):
        return dict.fromkeys(trainings, f"not run: {lacking} is not there; it takes {get}")
    figures = {figure for item in trainings.values() for figure in item.figures}
    names = {job.table for job in trainings} | {name for figure in figures for name in chunking.DRAWN_FROM[figure]}
    settings: dict[str, Any] = {"sentences": asked.first or 0, **next(iter(asked.settings.values()), {})}
    plan = chunking.Plan(**settings)
    out = asked.out / "trained"
    tables = chunking.tables(data / place, out, plan=plan, names=names, say=asked.say)
    charts = {name: (lambda chart=chart: chart) for name, chart in chunking.figures(tables).items()}
    counts = {"seeds": len(plan.seeds)}
    return {job: Found(Evidence(tables[job.table], counts), out / "tables", charts) for job in trainings}


def _rows(paper: Paper, item: Item, found: Mapping[Job | Training, Found | str], asked: Asked) -> list[tuple[Any, ...]]:
    mine = found[item.job]
    if isinstance(mine, str):
        return [row_of(paper, item, ours=mine)]
    try:
        charts = {**mine.figures, **_drawn(item, mine, found), **_two(item, mine, asked.models)}
    except InputError as error:
        return [row_of(paper, item, ours=f"not drawn: {error}")]
    files = written(item, mine.evidence.table, charts, asked.out / "figures")
    if not item.claims:
        return [row_of(paper, item, ours=", ".join(str(path) for path in files))]
    return [row_of(paper, item, claim, judge(claim, mine.evidence)) for claim in item.claims]


def _drawn(item: Item, mine: Found, found: Mapping[Job | Training, Found | str]) -> dict[str, Callable[[], Any]]:
    """The pictures of an item: of heads, or of its run beside others."""
    if item.pictures is None or mine.example is None:
        return {}
    others = [one.evidence.table if isinstance(one := found[job], Found) else None for job in item.beside]
    drawn = item.pictures(mine.evidence.table, *mine.example(), *others)
    return {name: (lambda chart=chart: chart) for name, chart in drawn.items()}


def _two(item: Item, mine: Found, models: tuple[str, str | None]) -> dict[str, Callable[[], Any]]:
    """The model and the one that it is set against on one plot, the latter dashed."""
    if item.against is None:
        return {}
    if models[1] is None or mine.other is None:
        raise InputError("it takes two models: --model the fine-tuned one, --against the one that it came from.")
    chart = item.against({models[1]: mine.other, models[0]: mine.evidence.table})
    return {TWO: lambda: chart}

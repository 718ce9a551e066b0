"""The figures and tables of a paper by name: run what makes them, look at what they are said to show.

OUT/RUN/STUDY/      the results; jobs that read the same corpus share a pass
OUT/trained/        models trained for a paper, and their tables
OUT/figures/        ITEM-FIGURE.svg
OUT/verdicts.csv    one row a claim: the paper's value, ours, the verdict and its rule
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from headwise.engine.run import run
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.models.load import load
from headwise.models.model import Model
from headwise.papers import PAPERS, Item, Job, Paper, Training, chunking
from headwise.results import Result
from headwise.results.files import write_files
from headwise.studies import STUDIES
from headwise.text.alignments import read_pairs, write_pairs
from headwise.text.corpus import open_corpus

PAIRS = "corpus.pairs"
SCHEMA = ["paper", "item", "claim", "theirs", "ours", "verdict", "rule"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Trained:
    """A table of models that were trained, and the figures of all tables."""

    table: pl.DataFrame
    folder: Path
    figures: Mapping[str, Any]

    def figure(self, name: str) -> Any:
        return self.figures[name]


Outcome = Result | Trained


def reproduce(
    paper: str,
    *,
    data: str | Path,
    out: str | Path,
    model: str = "demo",
    task: str | None = None,
    items: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    first: int | None = None,
    say: Say = lambda _: None,
    **engine: Any,
) -> pl.DataFrame:
    """Every item, or those named, with the paper's settings where `settings` has no others; one row a claim.

    What cannot be run here (no data, a model of another kind) is a row too, and says what it takes. `first` reads only
    so many documents of each corpus.
    """
    source, chosen = paper_of(paper), chosen_items(paper, items)
    data, out = Path(data), Path(out)
    loaded: dict[str | None, Model] = {}
    found: dict[Job | Training, Outcome | str] = {}
    found |= _trained(chosen, data, out / "trained", first, say)
    for number, (place, jobs) in enumerate(passes([item.job for item in chosen if isinstance(item.job, Job)], data)):
        needed = next(iter(jobs)).task or task
        if lacking := missing(place, jobs[0].files):
            found |= dict.fromkeys(jobs, f"not run: {lacking} is not there; it takes {jobs[0].get}")
            continue
        if needed not in loaded:
            loaded[needed] = load(model, task=needed)
        unable = {job: reason for job in jobs if (reason := obstacle(job, loaded[needed])) is not None}
        found |= {job: f"not run: {reason}" for job, reason in unable.items()}
        rest = [job for job in jobs if job not in unable]
        if rest:
            say(f"{', '.join(job.study for job in rest)} on {place}")
            results = _run(rest, loaded[needed], place, out / f"{number}", settings or {}, first, engine, say)
            found |= {job: results[job.study] for job in rest}
    rows = [row for item in chosen for row in _rows(source, item, found[item.job] if item.job else None, out)]
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    write_files(out, {"verdicts.csv": table.write_csv().encode("utf-8")})
    return table


def paper_of(name: str) -> Paper:
    if name not in PAPERS:
        raise UnknownNameError(f"There is no paper {name!r}; there are {', '.join(PAPERS)}.")
    return PAPERS[name]


def chosen_items(paper: str, names: Sequence[str]) -> list[Item]:
    """The items of a paper, or those that go by the names."""
    items = paper_of(paper).items
    known = {name: item for item in items for name in (item.id, *item.also)}
    if unknown := [name for name in names if name not in known]:
        raise UnknownNameError(f"{paper} has no item {unknown[0]!r}; it has {', '.join(known)}.")
    return list(dict.fromkeys(known[name] for name in names)) if names else list(items)


def passes(jobs: Sequence[Job], data: Path) -> list[tuple[Path, list[Job]]]:
    """Jobs that may share a pass: the same corpus read in the same way, and no study twice."""
    groups: list[tuple[tuple[Any, ...], list[Job]]] = []
    for job in dict.fromkeys(jobs):
        reading = (job.data, tuple(job.corpus.items()), tuple(job.run.items()), job.task)
        for key, group in groups:
            if key == reading and all(other.study != job.study for other in group):
                group.append(job)
                break
        else:
            groups.append((reading, [job]))
    return [(data / str(group[0].data), group) for _, group in groups]


def obstacle(job: Job, model: Model) -> str | None:
    """Why a job cannot be done with a model."""
    try:
        STUDIES[job.study](**job.settings).check(model)
    except (InputError, ModelError) as error:
        return f"{error} It takes {job.model}." if job.model else str(error)
    return None


def _run(
    jobs: Sequence[Job], model: Model, place: Path, out: Path, settings: Mapping[str, Mapping[str, Any]],
    first: int | None, engine: Mapping[str, Any], say: Say,
) -> dict[str, Result]:  # fmt: skip
    if files := jobs[0].files:
        pairs, seen = read_pairs(*(place / name for name in files))
        for note in seen:
            say(note)
        write_files(out, {PAIRS: write_pairs(pairs)})
        place = out / PAIRS
    results = run(
        [job.study for job in jobs], model, corpus=open_corpus(place, first=first, **jobs[0].corpus), out=out,
        settings={job.study: {**job.settings, **settings.get(job.study, {})} for job in jobs},
        **{**jobs[0].run, **engine},
    )  # fmt: skip
    return {results.manifest["study"]: results} if isinstance(results, Result) else results


def _trained(
    items: Sequence[Item], data: Path, out: Path, first: int | None, say: Say
) -> dict[Job | Training, Outcome | str]:
    """What the items that train look at; only what their claims and figures need is trained."""
    trainings = {item.job: item for item in items if isinstance(item.job, Training)}
    if not trainings:
        return {}
    place, get = (getattr(next(iter(trainings)), name) for name in ("data", "get"))
    if lacking := missing(data / place, chunking.FILES):
        return dict.fromkeys(trainings, f"not run: {lacking} is not there; it takes {get}")
    figures = {figure for item in trainings.values() for figure in item.figures}
    names = {job.table for job in trainings} | {name for figure in figures for name in chunking.DRAWN_FROM[figure]}
    plan = chunking.Plan(sentences=first or 0)
    tables = chunking.tables(data / place, out, plan=plan, names=names, say=say)
    charts = chunking.figures(tables)
    return {job: Trained(tables[job.table], out / "tables", charts) for job in trainings}


def missing(place: Path, files: Sequence[str] | None) -> Path | None:
    """The first of a job's files that is not there."""
    return next((path for path in ([place / name for name in files or ()] or [place]) if not path.exists()), None)


def _rows(paper: Paper, item: Item, found: Outcome | str | None, out: Path) -> list[tuple[str, ...]]:
    name = (paper.name, item.id)
    if found is None or isinstance(found, str):
        return [(*name, item.shows, "", found or item.command, "", "")]
    _draw(item, found, out / "figures")
    if not item.claims:
        return [(*name, item.shows, "", f"{found.folder}", "", "")]
    looked = [(claim, claim.found(found.table)) for claim in item.claims]
    return [(*name, claim.says, claim.theirs, seen.value, seen.verdict, claim.rule) for claim, seen in looked]


def _draw(item: Item, result: Outcome, folder: Path) -> None:
    """The item's figures as SVG; figures that a model does not have (no separators, say) are left out."""
    from headwise.plots.theme import save_chart

    folder.mkdir(parents=True, exist_ok=True)
    for figure in item.figures:
        if figure in result.figures:
            save_chart(result.figure(figure), folder / f"{item.id}-{figure}.svg")

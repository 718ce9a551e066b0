"""Items of a paper by their names, and which of their runs may share a pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.models.model import Model
from headwise.papers import PAPERS, Item, Job, Paper
from headwise.studies import STUDIES


def paper_of(name: str) -> Paper:
    if name not in PAPERS:
        raise UnknownNameError(f"There is no paper {name!r}; there are {', '.join(PAPERS)}.")
    return PAPERS[name]


def chosen_items(paper: str, names: Sequence[str]) -> list[Item]:
    """The items of a paper, or those that go by the names: fig15 finds fig14–17, fig38-43 both that it is of."""
    items = paper_of(paper).items
    known = {name: item for item in items for name in (item.id, *item.also)}
    names = [one for name in names for one in figures_in(name, known)]
    found = {name: next((item for one, item in known.items() if covers(one, name)), None) for name in names}
    if unknown := [name for name, item in found.items() if item is None]:
        raise UnknownNameError(f"{paper} has no item {unknown[0]!r}; it has {', '.join(known)}.")
    return list(dict.fromkeys(item for item in found.values() if item is not None)) if names else list(items)


def figures_in(name: str, known: Collection[str]) -> list[str]:
    """A range of figures that no item goes by, figure by figure.

    >>> figures_in("fig11-13", ["fig11", "fig12"]), figures_in("fig8–10", ["fig8–10"])
    (['fig11', 'fig12', 'fig13'], ['fig8–10'])
    """
    ends = re.fullmatch(r"([a-z]+)(\d+)[-–](\d+)", name)
    if ends is None or any(covers(one, name) for one in known):
        return [name]
    return [f"{ends[1]}{number}" for number in range(int(ends[2]), int(ends[3]) + 1)]


def covers(known: str, asked: str) -> bool:
    """Whether an item's name is the one asked for, or a range of figures that holds it.

    >>> covers("fig14–17", "fig15"), covers("fig14–17", "fig14-17"), covers("fig1", "fig15")
    (True, True, False)
    """
    known, asked = known.replace("–", "-"), asked.replace("–", "-")
    ends, number = re.fullmatch(r"([a-z]+)(\d+)-(\d+)", known), re.fullmatch(r"([a-z]+)(\d+)", asked)
    inside = ends and number and ends[1] == number[1] and int(ends[2]) <= int(number[2]) <= int(ends[3])
    return known == asked or bool(inside)


def passes(jobs: Sequence[Job], data: Path) -> list[tuple[Path, list[Job]]]:
    """Jobs that may share a pass: the same corpus read in the same way, and no study twice."""
    groups: list[tuple[tuple[Any, ...], list[Job]]] = []
    for job in dict.fromkeys(jobs):
        reading = (job.data, tuple(job.corpus.items()), tuple(job.run.items()), job.task, job.head, job.learns)
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


def missing(place: Path, files: Sequence[str] | None, learns: str = "") -> Path | None:
    """The first of a job's files that is not there."""
    paths = [place / name for name in files or ()] or [place, *([place.with_name(learns)] if learns else [])]
    return next((path for path in paths if not path.exists()), None)

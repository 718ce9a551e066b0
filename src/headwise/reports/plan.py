"""Which studies a report runs, on how much, and why the others are left out.

Every study says what it needs of a corpus (a parse, mentions, translations, labels), whether it takes the model, and
what it costs; one that asks to be named is run where it is. A study that does not apply is left out with the sentence
it gives. A budget of minutes is shared out by what one forward pass costs here: half for the shared pass, a third for
studies with passes of their own, the rest for learning; each study says how many texts its share is worth.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from headwise.engine.fold import readable
from headwise.engine.plan import Plan
from headwise.errors import InputError, ModelError
from headwise.models.model import Model
from headwise.studies import STUDIES
from headwise.studies.needs import Means
from headwise.text.corpus import CorpusSpec, Document

TIMED = 6  # texts of which one pass is timed
PASSES = 3.0  # what the shared pass with its studies costs, in forward passes (docs/benchmarks.md)
FEWEST = 8  # texts that are read whatever the budget


@dataclass(frozen=True)
class Agenda:
    """What will be run; `left_out` has a reason for each study that is not."""

    settings: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]
    documents: int | None  # the first so many; None: all
    note: str = ""  # how the budget was shared out

    def to_json(self) -> dict[str, Any]:
        return {"settings": dict(self.settings), "left_out": dict(self.left_out), "documents": self.documents,
                "note": self.note}  # fmt: skip

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Agenda:
        settings = {study: {key: _tuples(value) for key, value in chosen.items()}
                    for study, chosen in fields["settings"].items()}  # fmt: skip
        return cls(settings, fields["left_out"], fields["documents"], fields["note"])


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def agenda(
    model: Model,
    corpus: CorpusSpec,
    *,
    studies: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    budget: float | None = None,
    truncate: bool = False,
    max_tokens: int | None = None,
) -> Agenda:
    """What to run of a model and a corpus; `studies` are all that apply, unless they are named."""
    first = list(islice(corpus.documents(), TIMED))
    if not first:
        raise InputError(f"A report needs at least one text, but {corpus.name} has none that can be read.")
    left_out = {} if studies else _left_out(corpus, first)
    wanted = list(studies) if studies else [name for name in STUDIES if name not in left_out]
    pass_ = None
    if budget is not None:
        pass_ = timed(model, first, Plan({}, {}, corpus, truncate=truncate, max_tokens=max_tokens), budget)
    means = _means(wanted, first, budget, pass_)
    chosen: dict[str, Mapping[str, Any]] = {}
    for name in wanted:
        given = {**STUDIES[name].for_report(means[name]), **(settings or {}).get(name, {})}
        try:
            STUDIES[name].from_settings(given).check(model)
        except (InputError, ModelError) as error:
            if studies:
                raise
            left_out[name] = str(error)
            continue
        chosen[name] = given
    if not chosen:
        raise InputError(f"A report needs at least one study that applies to {model.name}; none does.")
    if budget is None or pass_ is None:
        return Agenda(chosen, left_out, None)
    documents = max(FEWEST, int(budget * 60 / 2 / (PASSES * pass_.once)))
    return Agenda(chosen, left_out, documents, _note(budget, pass_, documents, chosen, settings or {}))


def _left_out(corpus: CorpusSpec, first: Sequence[Document]) -> dict[str, str]:
    """Studies that the corpus rules out, or that are only run where they are named; with the sentence why."""
    found: dict[str, str] = {}
    for name in STUDIES:
        study = STUDIES[name]
        if study.by_name:
            found[name] = f"it is run where it is named (--studies …,{name})."
        elif (lack := study.needs.lacks_corpus(name, corpus)) is not None:
            found[name] = lack
        elif len(first) < study.fewest:
            found[name] = f"it takes {study.fewest} texts or more, and there are {len(first)}."
    return found


@dataclass(frozen=True)
class Pass:
    """What one forward pass of a text takes here, in seconds, and the tokens of a text in the mean."""

    once: float
    tokens: float


def timed(model: Model, first: Sequence[Document], plan: Plan, minutes: float) -> Pass:
    if not minutes > 0:
        raise InputError(f"A budget is a number of minutes above 0, but {minutes:g} was given.")
    items = list(readable(model, first, plan, Counter()))
    if not items:
        raise InputError(f"A report needs texts that {model.name} can read, but none of the first {len(first)} is one.")
    start = time.perf_counter()
    with torch.inference_mode():
        for item in items:
            model.hf(**model.batch([item.text], [item.target] if item.target else []).inputs)
    once = (time.perf_counter() - start) / len(items)
    return Pass(once, sum(item.length for item in items) / len(items))


def _means(
    wanted: Sequence[str], first: Sequence[Document], minutes: float | None, pass_: Pass | None
) -> dict[str, Means]:
    """What each study can afford: those with passes of their own share a third; learning is by the whole budget."""
    texts = len(first) if len(first) < TIMED else None
    if minutes is None or pass_ is None:
        return {name: Means(texts) for name in wanted}
    asking = sum(STUDIES[name].cost == "passes" for name in wanted)
    seconds = {"pass": minutes * 60 / 2, "passes": minutes * 60 / 3 / max(1, asking), "learning": minutes * 60}
    return {name: Means(texts, seconds[STUDIES[name].cost], pass_.once, pass_.tokens) for name in wanted}


def _note(
    minutes: float, pass_: Pass, documents: int, chosen: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]
) -> str:
    """How the budget was shared out: what it, and not the user, decided."""
    decided = [
        f"{name} {key} = {value:,}"
        for name, given in chosen.items()
        for key, value in given.items()
        if isinstance(value, int) and key not in settings.get(name, {})
    ]
    rest = f"; {', '.join(decided)}" if decided else ""
    return (
        f"Budget {minutes:g} min; a pass of one text took {1000 * pass_.once:.0f} ms, so at most {documents:,} texts "
        f"are read{rest}."
    )

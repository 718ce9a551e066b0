"""Which studies a report runs, on how much, and why the others are left out.

Every study says what it needs of a corpus (a parse, mentions, translations, labels), whether it takes the model, and
what it costs; one that asks to be named is run where it is. A study that does not apply is left out with the sentence
it gives. A budget of minutes is shared out by what one forward pass costs here: half for the shared pass, a third for
studies with passes of their own, the rest for learning; each study says how many texts its share is worth. Then the
forecast of a run (engine/forecast.py) is asked what all of it will take: where that is more than the budget, the
studies with passes ask fewer texts, then fewer texts are read, and the dearest studies are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from headwise.engine.fold import EVERY
from headwise.engine.forecast import Forecast, Pass, duration, heads_of, lengths, of_texts, timed
from headwise.engine.plan import Plan
from headwise.errors import InputError, ModelError
from headwise.models.model import Model
from headwise.reports.intervals import PARTS, shard_size
from headwise.studies import STUDIES
from headwise.studies.needs import Means
from headwise.text.corpus import CorpusSpec, Document

TIMED = 6  # texts that are looked at
PASSES = 3.0  # what the shared pass with its studies costs, in forward passes (docs/benchmarks.md)
SHARES = (*(0.8**n for n in range(20)), 0.0)  # of what is asked or read, tried one after another
FEWEST, ASKED = 8, 4  # texts that are read, and that a study asks, whatever the budget: of fewer no test decides


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
    pass_, plan = None, Plan({}, {}, corpus, truncate=truncate, max_tokens=max_tokens)
    if budget is not None:
        pass_ = _timed(model, len(first), plan, budget)
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
    documents = max(FEWEST, int(budget * 60 / 2 / (PASSES * pass_.seconds)))
    if corpus.first is None or corpus.first > documents:
        plan = replace(plan, corpus=replace(corpus, first=documents))
    tokens, heads, shard = lengths(model, plan, pass_), heads_of(model), shard_size(plan.corpus)

    def told(chosen: Settings, documents: int) -> Forecast:
        made = [STUDIES[name].from_settings(given) for name, given in chosen.items()]
        return of_texts(tokens[:documents], made, heads, pass_, parts=PARTS, shard=shard)

    free = [name for name in chosen if "texts" in chosen[name] and "texts" not in (settings or {}).get(name, {})]
    chosen = {name: {**given, "texts": max(given["texts"], ASKED)} if name in free else given
              for name, given in chosen.items()}  # fmt: skip
    kept, dear, read = _within(budget, chosen, min(documents, len(tokens)), told, free, named=bool(studies))
    documents = documents if read == len(tokens) else read
    note = _note(budget, pass_, documents, kept, settings or {}) + _over(told(kept, read).whole, budget)
    return Agenda(kept, {**left_out, **dear}, documents, note)


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


def _timed(model: Model, first: int, plan: Plan, minutes: float) -> Pass:
    if not minutes > 0:
        raise InputError(f"A budget is a number of minutes above 0, but {minutes:g} was given.")
    if (found := timed(model, plan)) is None:
        raise InputError(f"A report needs texts that {model.name} can read, but none of the first {first} is one.")
    return found


Settings = Mapping[str, Mapping[str, Any]]


def _within(
    minutes: float, chosen: Settings, documents: int, told: Callable[[Settings, int], Forecast],
    free: Sequence[str], *, named: bool,
) -> tuple[Settings, dict[str, str], int]:  # fmt: skip
    """So much of it as the forecast says the minutes are enough for: settings, what is left out and why, and texts.

    `free` are the studies whose texts may be fewer; those that were named are not left out.
    """
    left_out: dict[str, str] = {}
    kept = dict(chosen)
    while not named and (least := told(_asking(kept, free, 0.0), min(documents, FEWEST))).whole > 60 * minutes:
        dearest = next((name for name, share in least.shares.items() if name != EVERY and share), None)
        if dearest is None or len(kept) == 1:
            break
        took = least.shares[dearest] * sum(least.shards)
        of = "even of a few texts " if dearest in free else ""
        left_out[dearest] = f"{of}it would take about {duration(took)} of the {minutes:g} minutes of --budget."
        del kept[dearest]
    fits = lambda settings, read: told(settings, read).whole <= 60 * minutes  # noqa: E731
    asked = [_asking(kept, free, share) for share in SHARES]
    settings = next((settings for settings in asked if fits(settings, documents)), asked[-1])
    reads = [max(min(documents, FEWEST), int(share * documents)) for share in SHARES]
    return settings, left_out, next((read for read in reads if fits(settings, read)), reads[-1])


def _asking(chosen: Settings, free: Sequence[str], share: float) -> Settings:
    """The same with so large a share of the texts that each of the studies `free` would ask, ASKED at least."""
    fewer = lambda texts: max(min(texts, ASKED), int(share * texts))  # noqa: E731
    return {name: {**given, "texts": fewer(given["texts"])} if name in free else given
            for name, given in chosen.items()}  # fmt: skip


def _over(seconds: float, minutes: float) -> str:
    """What is said where even the least takes longer."""
    if seconds <= 60 * minutes:
        return ""
    return f" What is run takes about {duration(seconds)} at least, more than --budget {minutes:g}."


def _means(
    wanted: Sequence[str], first: Sequence[Document], minutes: float | None, pass_: Pass | None
) -> dict[str, Means]:
    """What each study can afford: those with passes of their own share a third; learning is by the whole budget."""
    texts = len(first) if len(first) < TIMED else None
    if minutes is None or pass_ is None:
        return {name: Means(texts) for name in wanted}
    asking = sum(STUDIES[name].cost == "passes" for name in wanted)
    seconds = {"pass": minutes * 60 / 2, "passes": minutes * 60 / 3 / max(1, asking), "learning": minutes * 60}
    return {name: Means(texts, seconds[STUDIES[name].cost], pass_.seconds, float(pass_.tokens)) for name in wanted}


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
        f"Budget {minutes:g} min; a pass takes {1000 * pass_.seconds:.3g} ms a text, so at most {documents:,} texts "
        f"are read{rest}."
    )

"""`hw.report`: run, then write the page. The same call goes on after a crash and redraws what is done.

OUT/agenda.json     what is run, on how much; read again when the run is resumed
OUT/results/STUDY/  the results, as `hw.run` writes them
OUT/untrained/      with `controls`: the same of networks that learned nothing
OUT/report.html     the page
OUT/verdict.html, verdict.md, verdict.json, card.md    its first page to print, for programs, for a model card

`verdict` runs what a decision needs and writes the last four alone.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from headwise.engine.run import run
from headwise.errors import InputError, ModelError
from headwise.interventions.answered import right
from headwise.interventions.outcomes import kind_of
from headwise.models.heads import own_task
from headwise.models.load import load
from headwise.models.model import Model
from headwise.papers.controls import beside
from headwise.reports.intervals import PARTS, shard_size
from headwise.reports.onepage import card, html, markdown
from headwise.reports.page import Example, page
from headwise.reports.plan import Agenda, agenda
from headwise.reports.verdict import Judgement, judged, plain
from headwise.results.files import write_files
from headwise.results.records import EVERY, DamagedError, read_record
from headwise.studies import STUDIES
from headwise.studies.needs import Means
from headwise.text.corpus import CorpusSpec, open_corpus
from headwise.viewer.view import page_of

AGENDA, RESULTS, PAGE = "agenda.json", "results", "report.html"
UNTRAINED = "untrained"  # the folder of the controls
NOTE = {
    "asked": dict,
    "agenda": {"settings": {EVERY: dict}, "left_out": {EVERY: str}, "documents": int | None, "note": str},
}
EXAMPLES, EXAMPLE_TOKENS = 2, 40
LABELLED = 256  # texts on which the model's accuracy is told


def report(
    model: str | Model = "demo",
    *,
    corpus: str | Path | CorpusSpec = "sample",
    out: str | Path,
    studies: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    budget: float | None = None,
    task: str | None = None,
    device: str = "cpu",
    kind: str | None = None,
    columns: str | Sequence[str | int] | None = None,
    segments: int | None = None,
    label: str | int | None = None,
    first: int | None = None,
    truncate: bool = False,
    max_tokens: int | None = None,
    controls: int = 0,
    command: str = "",
    say: Callable[[str], None] = lambda _: None,
    **engine: Any,
) -> Path:
    """Run every study that applies, or those named, and write the report; returns the path of the page.

    `budget` is in minutes and bounds how many texts are read. `controls`: as many networks of the same shape that
    learned nothing, of each kind, read the first 64 texts too, and the papers' claims get a control.
    `engine` are further options of `hw.run`.
    """
    out = Path(out)
    loaded = _loaded(model, task, device)
    spec = _opened(corpus, kind=kind, columns=columns, segments=segments, label=label, first=first)
    asked = {"studies": list(studies or ()), "settings": settings or {}, "budget": budget}
    todo = _agenda(out, asked, lambda: agenda(
        loaded, spec, studies=studies, settings=settings, budget=budget, truncate=truncate, max_tokens=max_tokens,
    ))  # fmt: skip
    for name, reason in todo.left_out.items():
        say(f"{name} is left out: {reason}")
    if todo.note:
        say(todo.note)
    if todo.documents is not None and (spec.first is None or spec.first > todo.documents):
        spec = replace(spec, first=todo.documents)
    say(f"running {', '.join(todo.settings)} on {spec.name}")
    engine = {"truncate": truncate, "max_tokens": max_tokens, **engine}
    results = run(
        list(todo.settings), loaded, corpus=spec, out=out / RESULTS, settings=todo.settings,
        **{**_in_parts(spec), **engine},
    )  # fmt: skip
    others = beside(todo.settings, loaded, spec, out / UNTRAINED, controls, say, **engine) if controls else None
    say("drawing the page")
    labelled = _right(loaded, spec, max_tokens, truncate=truncate)
    drawn = page(results, todo, _examples(loaded, spec), command=command, right=labelled, beside=others)
    write_files(out, {PAGE: drawn.encode("utf-8"), **written(judged(results, labelled))})
    return out / PAGE


def verdict(
    model: str | Model = "demo",
    *,
    corpus: str | Path | CorpusSpec = "sample",
    out: str | Path,
    studies: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    task: str | None = None,
    device: str = "cpu",
    kind: str | None = None,
    columns: str | Sequence[str | int] | None = None,
    segments: int | None = None,
    label: str | int | None = None,
    first: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    **engine: Any,
) -> Judgement:
    """Run the studies that apply, of those named, and write verdict.html, .md, .json and card.md into `out`."""
    out = Path(out)
    loaded = _loaded(model, task, device)
    spec = _opened(corpus, kind=kind, columns=columns, segments=segments, label=label, first=first)
    chosen = {}
    for name in studies:
        given = {**STUDIES[name].for_report(Means(None)), **(settings or {}).get(name, {})}
        if (why := _lacks(name, given, loaded, spec)) is None:
            chosen[name] = given
        else:
            say(f"{name} is left out: {why}")
    if not chosen:
        raise InputError(f"A verdict needs at least one study that applies, but none of {', '.join(studies)} does.")
    say(f"running {', '.join(chosen)} on {spec.name}")
    results = run(
        list(chosen), loaded, corpus=spec, out=out / RESULTS, settings=chosen, **{**_in_parts(spec), **engine}
    )
    cut = engine.get("truncate", False)
    found = judged(results, _right(loaded, spec, engine.get("max_tokens"), truncate=cut))
    write_files(out, written(found))
    return found


def _loaded(model: str | Model, task: str | None, device: str) -> Model:
    """With the head that it was saved with, as `run` and `inspect` load it: one loss, one answer on every page."""
    if not isinstance(model, str):
        return model
    return load(model, task=own_task(model) if task is None else task, device=device)


def _opened(corpus: str | Path | CorpusSpec, **reading: Any) -> CorpusSpec:
    return corpus if isinstance(corpus, CorpusSpec) else open_corpus(corpus, **reading)


def _in_parts(corpus: CorpusSpec) -> dict[str, Any]:
    """How a run keeps what intervals over texts are made of."""
    return {"parts": PARTS, "shard_documents": shard_size(corpus)}


def _right(model: Model, corpus: CorpusSpec, limit: int | None, *, truncate: bool) -> list[bool]:
    """Of the first labelled texts that were read, which the model gets right; none where it has no classes."""
    if corpus.label is None or kind_of(model) != "label":
        return []
    return right(model, islice(corpus.documents(), LABELLED), limit=limit, truncate=truncate)


def written(found: Judgement) -> dict[str, bytes]:
    """The files of a verdict."""
    data = json.dumps(plain(found.to_json()), ensure_ascii=False, indent=1, allow_nan=False)
    texts = {"verdict.html": html(found), "verdict.md": markdown(found), "verdict.json": data, "card.md": card(found)}
    return {name: content.encode("utf-8") for name, content in texts.items()}


def _lacks(name: str, given: Mapping[str, Any], model: Model, corpus: CorpusSpec) -> str | None:
    """Why a study does not apply; None where it does."""
    if (lack := STUDIES[name].needs.lacks_corpus(name, corpus)) is not None:
        return lack
    try:
        STUDIES[name].from_settings(given).check(model)
    except (InputError, ModelError) as error:
        return str(error)
    return None


def _agenda(out: Path, asked: Mapping[str, Any], decide: Callable[[], Agenda]) -> Agenda:
    """What was decided when the report was begun, so that a resumed one reads as much; else decided now."""
    note, asked = out / AGENDA, json.loads(json.dumps(asked, default=list))
    if note.is_file():
        try:
            before = read_record(note, NOTE)
        except DamagedError as error:
            raise InputError(f"{note} must be as it was written; {error}. Remove {out} and run it again.") from None
        if before["asked"] != asked:
            raise InputError(
                f"{out} holds a report with other studies, settings or budget; choose another --out, or remove it."
            )
        return Agenda.from_json(before["agenda"])
    decided = decide()
    text = json.dumps({"asked": asked, "agenda": decided.to_json()}, default=list, indent=2)
    write_files(out, {AGENDA: text.encode("utf-8")})
    return decided


def _examples(model: Model, corpus: CorpusSpec) -> list[Example]:
    """The beginnings of the first texts in the viewer."""
    found = []
    for document in islice(corpus.documents(), EXAMPLES):
        title = " ".join(document.text.split()[:12]) + " …"
        try:
            trace = model.trace(_beginning(model, document.text), document.pair if model.is_encoder_decoder else None)
        except InputError:
            continue  # an encoder–decoder and a text without a pair, say: the studies have counted it as skipped
        found.append(Example(title, page_of(trace)))
    return found


def _beginning(model: Model, text: str) -> str:
    """So much of a text as has `EXAMPLE_TOKENS` tokens."""
    spans = model.encode(text, limit=EXAMPLE_TOKENS, truncate=True).offsets
    return text[: max(end for _, end in spans)]

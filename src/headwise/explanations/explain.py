"""`model.explain`, `hw.explain`: from a text to a tested explanation."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.errors import InputError, ModelError
from headwise.explanations.asking import Wish, ask, ask_read
from headwise.explanations.explanation import Explanation
from headwise.explanations.frozen import Freezing
from headwise.explanations.methods import METHODS, Scores, leave_units_out
from headwise.explanations.paths import HeadParts, head_parts
from headwise.explanations.question import Question, default_removal
from headwise.explanations.said import says
from headwise.explanations.trial import try_out
from headwise.explanations.units import Unit, gathered, units_of
from headwise.explanations.verdict import verdict
from headwise.models.heads import own_task
from headwise.models.load import load
from headwise.models.model import Model
from headwise.traces import WAYS
from headwise.types import Encoding

ALONE = "leave-one-out"  # the default: by blocking it found planted evidence best (experiments/judge); a pass a unit
ALONE_UNITS, ALONE_REMOVAL = 40, "block"  # up to so many units; of longer texts paths, whose cost does not grow
LONG, FALL_BACK = "paths", "integrated-gradients"
BESIDE = ("paths", "gradient-input", "raw-attention")  # cheap methods whose agreement is told


@WAYS.add("explain", "What a number of the model rests on.")
def explain(
    model: Model,
    text: str,
    pair: str | None = None,
    *,
    target: str | int | None = None,
    rather: str | int | None = None,
    of: str | None = None,
    at: str | int | None = None,
    generate: int | None = None,
    method: str | None = None,
    units: str = "words",
    beside: Sequence[str] = BESIDE,
    removal: str | None = None,
    tests: bool = True,
    seed: int = 0,
    truncate: bool = False,
    **options: Any,
) -> Explanation:
    """What a number of the model rests on, and whether to believe it.

    `target`, `rather`, `of`, `at`, `generate` say what is explained (`Wish`); without them, what the model itself says.
    `units`: tokens, words, sentences, passages, or heads. `method`: a name of METHODS with its `options`, by default
    leave-one-out, and paths for texts of more than ALONE_UNITS units; `beside` are others to compare it
    with. `removal`: how leave-one-out and the tests take a unit out, mask, delete or block; by default leave-one-out
    blocks the attention to it, and the tests put the mask token there where the model was taught one, else delete it.
    `tests=False` leaves the passes of the tests out.
    """
    wish = Wish(target, rather, of, at, generate)
    question = ask(model, text, pair, wish=wish, truncate=truncate)
    if units == "heads":
        return _of_heads(question, method, options)
    alone, removal = removal or ALONE_REMOVAL, removal or default_removal(model)
    parts = units_of(question, units)
    few = sum(unit.given for unit in parts) <= ALONE_UNITS
    asked = method or (ALONE if few else LONG)
    name, scores, note = _scored(question, parts, asked, options, removal=alone, fall_back=method is None)
    found = scores.tokens
    compared = {other: _compared(question, parts, other) for other in beside if other != name}
    compared = {other: rows for other, rows in compared.items() if rows is not None}
    if tests and few and name != ALONE:
        compared[ALONE] = leave_units_out(question, parts, alone).tokens
    trial, said = None, None
    if tests:
        others = {other: rows[0] for other, rows in compared.items()}
        trial = try_out(question, parts, found[0], removal=removal, seed=seed, others=others)
        said = verdict(trial, units, question.targets[0].among)
    return Explanation(
        model_name=model.name, method=name, unit=units, targets=question.targets, units=parts, scores=found,
        value=question.answers[:, 0], log_probability=question.answers[:, 1], passes=scores.passes, adds=scores.adds,
        error=scores.error, others=compared, trial=trial, verdict=said,
        note=" ".join(part for part in (question.note, note, _ways(name, alone, removal) if tests else "") if part),
        says="" if target is None and pair is None else says(question, wish, truncate=truncate),
    )  # fmt: skip


def _ways(name: str, alone: str, removal: str) -> str:
    """How leave-one-out took a word out, where the tests do it in another way.

    >>> _ways("leave-one-out", "block", "delete")
    'Scores: nobody attends to the word; tests: words are deleted (--removal delete: both).'
    """
    if name != ALONE or alone == removal:
        return ""
    does = {"mask": "masked", "delete": "deleted"}[removal]
    return f"Scores: nobody attends to the word; tests: words are {does} (--removal {removal}: both)."


def _scored(
    question: Question, units: tuple[Unit, ...], name: str, options: dict[str, Any], *, removal: str, fall_back: bool
) -> tuple[str, Scores, str]:
    """Scores of the units by a method; where nobody asked for it and it fails, by another, with a word."""
    known = [p.name for p in inspect.signature(METHODS[name]).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise InputError(f"Options of {name} are {', '.join(known) or 'none'}, but {option!r} was given.")
    if name == ALONE:
        return name, leave_units_out(question, units, removal), ""
    try:
        return name, _gathered(METHODS[name](question, **options), units), ""
    except ModelError as error:
        if not fall_back:
            raise
        return FALL_BACK, _gathered(METHODS[FALL_BACK](question), units), f"{error} Here {FALL_BACK} is shown."


def _gathered(scores: Scores, units: tuple[Unit, ...]) -> Scores:
    return replace(scores, tokens=gathered(scores.tokens, units))


def _compared(question: Question, units: tuple[Unit, ...], name: str) -> Float64[Tensor, "target unit"] | None:
    """Another method's scores; None where it does not apply to this model."""
    try:
        return gathered(METHODS[name](question).tokens, units)
    except ModelError:
        return None


def _of_heads(question: Question, method: str | None, options: dict[str, Any]) -> Explanation:
    """Direct parts of every head and feed-forward block, which add up, with what passes through a head in all."""
    if method not in (None, "paths"):
        raise InputError(f"Parts by head are those of paths, but method={method!r} was asked for.")
    parts = head_parts(question, 0, Freezing(**options))
    sites = question.model.proof.sites
    names, direct, total = [], [], []
    for site, own, whole in zip(sites, parts.direct, parts.total, strict=True):
        stack = "" if len(question.model.stacks) == 1 else f"{site.stack} "
        names += [f"{stack}L{site.index}.H{head}" for head in range(len(own))]
        direct, total = [*direct, *own.tolist()], [*total, *whole.tolist()]
    names, direct, total = _with_blocks(question, parts, names, direct, total)
    scores, passing = (torch.tensor([row], dtype=torch.float64) for row in (direct, total))
    return Explanation(
        model_name=question.model.name, method="paths", unit="heads", targets=question.targets[:1],
        units=tuple(Unit(name, (), False) for name in names), scores=scores, value=question.answers[:1, 0],
        log_probability=question.answers[:1, 1], passes=6.0,
        adds={name: torch.tensor([x], dtype=torch.float64) for name, x in
              (("embeddings", parts.embedding), ("biases", parts.bias), ("rest", parts.rest))},
        columns={"total": passing, "indirect": passing - scores}, note=question.note,
    )  # fmt: skip


@WAYS.add("brought", "Which head brought what to an answer.")
def brought(model: Model, text: Encoding, target: Encoding | None = None, **options: Any) -> Explanation:
    """Which head brought what to the model's own answer to a text that has been read (`Trace.brought`)."""
    return _of_heads(ask_read(model, text, target), None, options)


def _with_blocks(
    question: Question, parts: HeadParts, names: list[str], direct: list[float], total: list[float]
) -> tuple[list[str], list[float], list[float]]:
    """The feed-forward blocks after the heads; what passes through them in all is not told."""
    sites = question.model.proof.sites
    blocks = [(s, x) for s, x in zip(sites, parts.feed_forward, strict=True) if x]
    labels = [f"feed-forward L{site.index}" if len(question.model.stacks) == 1 else
              f"feed-forward after {site.stack} L{site.index}" for site, _ in blocks]  # fmt: skip
    numbers = [x for _, x in blocks]
    return [*names, *labels], [*direct, *numbers], [*total, *[float("nan")] * len(blocks)]


def explain_text(
    text: str,
    pair: str | None = None,
    *,
    model: str | Path | Model = "demo-llm",
    task: str | None = None,
    device: str = "cpu",
    **options: Any,
) -> Explanation:
    """`hw.explain`: as `model.explain`, loading the model by name; its task is read from its configuration."""
    loaded = model if isinstance(model, Model) else load_predictor(str(model), task, device=device)
    return explain(loaded, text, pair, **options)


def load_predictor(name: str, task: str | None = None, *, device: str = "cpu") -> Model:
    """A model with the head that its configuration says it was saved with, unless a task is named."""
    return load(name, task=task or own_task(name), device=device)

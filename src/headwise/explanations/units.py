"""What a score is about: a token, a word, a sentence or a passage of the text; what is not the user's stands alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from headwise.errors import InputError
from headwise.explanations.question import Question

UNITS = ("tokens", "words", "sentences", "passages")
SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+")
PASSAGE = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class Unit:
    """Some tokens under one name. `given`: of the user's text, so that it may be removed; the others always stay."""

    name: str
    tokens: tuple[int, ...]
    given: bool


def units_of(question: Question, how: str) -> tuple[Unit, ...]:
    """Every token of the question in exactly one unit, in the order of the text."""
    if how not in UNITS:
        raise InputError(f"Units are {', '.join(UNITS)} or heads, but {how!r} was asked for.")
    text, made = question.text, []
    labels = _labels(question, how)
    for at, label in enumerate(labels):
        if made and made[-1][0] == label and question.given[at]:
            made[-1][1].append(at)
        else:
            made.append((label, [at]))
    found = [Unit(_name(question, how, tokens), tuple(tokens), question.given[tokens[0]]) for _, tokens in made]
    if question.prefix is not None:
        first = len(text)
        found += [Unit(word, (first + at,), False) for at, word in enumerate(question.prefix.tokens)]
    return tuple(found)


def _labels(question: Question, how: str) -> list[tuple[object, ...]]:
    """Tokens of the text with equal labels that stand side by side are one unit."""
    text, labels = question.text, []
    cuts = {side: _cuts(part or "", how) for side, part in enumerate(question.texts)}
    for at in range(len(text)):
        if not question.given[at] or how == "tokens":
            labels.append(("alone", at))
        elif how == "words":
            labels.append(("word", text.unit[at]))
        else:
            side, start = text.segment[at], text.offsets[at][0]
            labels.append((side, sum(cut <= start for cut in cuts[side])))
    return labels


def _cuts(text: str, how: str) -> list[int]:
    """Where a new sentence or passage begins."""
    pattern = {"sentences": SENTENCE, "passages": PASSAGE}.get(how)
    # subtle: a byte-level token may begin with the space before its word, so a cut stands before the spaces.
    return [] if pattern is None else [found.start() for found in pattern.finditer(text)]


def _name(question: Question, how: str, tokens: list[int]) -> str:
    text = question.text
    if how == "tokens" or not question.given[tokens[0]]:
        return text.tokens[tokens[0]]
    if how == "words":
        return text.words[text.unit[tokens[0]]]
    whole = question.texts[text.segment[tokens[0]]] or ""
    return " ".join(whole[text.offsets[tokens[0]][0] : text.offsets[tokens[-1]][1]].split())


def gathered(scores: Float64[Tensor, "target token"], units: tuple[Unit, ...]) -> Float64[Tensor, "target unit"]:
    """The sum over each unit's tokens."""
    return torch.stack([scores[:, list(unit.tokens)].sum(-1) for unit in units], dim=-1)


def removed(
    units: tuple[Unit, ...], chosen: Bool[Tensor, "variant unit"], question: Question
) -> Bool[Tensor, "variant token"]:
    """The tokens of the text that go when these units do."""
    member = torch.zeros(len(units), len(question), dtype=torch.bool)
    for at, unit in enumerate(units):
        if unit.given:
            member[at, list(unit.tokens)] = True
    return (chosen.double() @ member.double() > 0)[:, : len(question.text)]

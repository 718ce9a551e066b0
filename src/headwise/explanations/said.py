"""What the model itself says, in a sentence, where something else is explained."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headwise.errors import InputError
from headwise.explanations.asking import Wish, ask, labels_of
from headwise.explanations.question import Question
from headwise.explanations.targets import Target
from headwise.interventions.answered import MOST, SMALL, short
from headwise.results.shown import number

HALF = 0.5  # from which on a label by itself is said
SAYS = "The model itself says: "


def says(question: Question, wish: Wish, *, truncate: bool = False) -> str:
    """The model's own answer; empty where that is what is explained."""
    target = question.targets[0]
    with torch.no_grad(), question.running():
        rows = question.logits()[0].double()
    if target.apart:
        return _each(question, target, rows[0].sigmoid())
    own = rows.argmax(-1).tolist()
    if all(own[row] == chosen for row, chosen in zip(target.rows, target.chosen, strict=True)):
        return ""
    if target.kind in ("label", "token-label"):
        name = labels_of(question.model)[own[0]]
        return f"{SAYS}{name} ({sure(float(rows[0].softmax(-1)[own[0]]))})"
    if target.kind == "translation" or (target.kind == "masked-token" and len(target.chosen) > 1):
        return _asked_anew(question, wish, truncate=truncate)
    return _goes_on(question, target, rows.log_softmax(-1), own)


def _each(question: Question, target: Target, p: Tensor) -> str:
    """Of labels that are said each by itself, those that are more likely than not."""
    if float(p[target.chosen[0]]) >= HALF:
        return ""
    names, best = labels_of(question.model), p.topk(min(MOST, len(p)))
    told = [f"{names[at]} ({sure(x)})" for x, at in zip(best.values.tolist(), best.indices.tolist(), strict=True)]
    said = [label for label, x in zip(told, best.values.tolist(), strict=True) if x >= HALF]
    return f"{SAYS}{', '.join(said) if said else f'none of its labels; the likeliest is {told[0]}'}"


def _goes_on(question: Question, target: Target, rows: Tensor, own: list[int]) -> str:
    """The target as far as the model says so, with the token that it says next."""
    apart = next(at for at, chosen in enumerate(target.chosen) if own[target.rows[at]] != chosen)
    ids = [*target.chosen[:apart], own[target.rows[apart]]]
    p = float(torch.stack([rows[target.rows[at], i] for at, i in enumerate(ids)]).mean().exp())
    return f"{SAYS}{_quoted(question, ids)} ({sure(p)}{_mean(ids)})"


def _asked_anew(question: Question, wish: Wish, *, truncate: bool) -> str:
    """A translation of its own; one token for a mask that became several."""
    text, pair = question.texts
    mask, many = str(question.model.tokenizer.mask_token), len(question.targets[0].chosen)
    if question.targets[0].kind == "masked-token":
        text, pair = (part and part.replace(mask * many, mask, 1) for part in (text, pair))
    try:
        anew = ask(question.model, text or "", pair, wish=replace(wish, target=None, rather=None), truncate=truncate)
    except InputError:  # it writes nothing
        return f"{SAYS}nothing"
    ids, p = anew.targets[0].chosen, float(anew.answers[0, 1].exp())
    return f"{SAYS}{_quoted(anew, list(ids))} ({sure(p)}{_mean(ids)})"


def _quoted(question: Question, ids: list[int]) -> str:
    words = str(question.model.tokenizer.decode(ids))
    return short(f"“{words if len(ids) == 1 else words.strip()}”")


def _mean(ids: tuple[int, ...] | list[int]) -> str:
    return " a token, geometric mean" if len(ids) > 1 else ""


def sure(p: float) -> str:
    """As the line above a page has it; what is not nothing is not written as 0 %.

    >>> sure(0.005), sure(0.0051), sure(0.0), sure(1.0)
    ('<\\xa01\\xa0%', '1\\xa0%', '0\\xa0%', '100\\xa0%')
    """
    return "<\u00a01\u00a0%" if 0 < p <= SMALL else number(p, ".0%")


__all__ = ["says", "sure"]

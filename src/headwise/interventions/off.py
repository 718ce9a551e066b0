r"""A head switched off in one text: what the model then says, by how much what it does moves, and which maps move.

    moved = ½ mean over rows of Σ_k |α′_k − α_k|      the share of a head's weight that goes elsewhere

The head gives zero to W_O. Its own map stays, and so do those of its layer and below: they are decided before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.changes import zero
from headwise.errors import InputError
from headwise.interventions.answered import answered
from headwise.interventions.effects import Variant, effects, first_order, replaced, slopes
from headwise.interventions.outcomes import FAR, IN_WORDS, Question, ask_far
from headwise.models.editing import chosen
from headwise.models.model import Model
from headwise.types import Encoding, Layer

TRIED = 8  # heads taken away for each that is named
Head = tuple[str, int, int]  # stack, layer, head
Maps = Mapping[str, Float[Tensor, "layer head query key"]]  # by stack


@dataclass(frozen=True)
class Off:
    """`says`: how far what the model says moves (matters.py); `answers`: what that is, empty where it says nothing."""

    head: Head
    effect: float
    says: str
    answers: str
    maps: Maps
    moved: Mapping[str, Float[Tensor, "layer head"]]


def switched_off(model: Model, text: Encoding, target: Encoding | None, heads: Sequence[Head]) -> list[Off]:
    """Each of some heads switched off alone; raises where one does not exist."""
    question = _asked(model, text, target)
    for stack, layer, head in heads:
        chosen(model, [f"L{layer}.H{head}"], stack)
    own = maps_of(model, text, target)
    moved = effects(model, question, [_without(model, head) for head in heads], signed=False)[:, 0].tolist()
    return [_off(model, text, target, head, own, effect, question.kind)
            for head, effect in zip(heads, moved, strict=True)]  # fmt: skip


def most_needed(model: Model, text: Encoding, target: Encoding | None, count: int) -> list[Head]:
    """The heads that matter most when they are taken away, the first of them first.

    Taken away are TRIED times as many, those that matter most to first order.
    """
    question = _asked(model, text, target)
    guess = first_order(question, *slopes(model, question))
    found = {(*place, head): abs(moved) for place, heads in guess.items() for head, moved in enumerate(heads.tolist())}
    tried = sorted(found, key=lambda head: -found[head])[: TRIED * count]
    moved = effects(model, question, [_without(model, head) for head in tried], signed=False)[:, 0].tolist()
    return [head for _, head in sorted(zip(moved, tried, strict=True), key=lambda one: -one[0])[:count]]


def head_named(model: Model, name: str) -> Head:
    """`L5.H3`, of the model's only stack or of its first, or `cross L1.H2`."""
    found = re.fullmatch(r"(?:(\w+) )?L(\d{1,6})\.H(\d{1,6})", name)
    if found is None:
        raise InputError(f"A head is named L5.H3, or cross L1.H2 where there are several stacks, but got {name!r}.")
    stack, layer, head = found[1] or model.stacks[0], int(found[2]), int(found[3])
    chosen(model, [f"L{layer}.H{head}"], stack)
    return stack, layer, head


def name_of(head: Head, stacks: Sequence[str]) -> str:
    stack, layer, number = head
    return f"L{layer}.H{number}" if len(stacks) == 1 else f"{stack} L{layer}.H{number}"


def maps_of(model: Model, text: Encoding, target: Encoding | None) -> Maps:
    """The raw weights of every stack."""
    layers: list[Layer] = []
    with torch.no_grad():
        model.run(model.batch([text], [] if target is None else [target]), layers.append, rows=0)
    return {stack: torch.cat([layer.alpha for layer in layers if layer.stack == stack]) for stack in model.stacks}


def said(kind: str, effect: float) -> str:
    """The effect in words.

    >>> said("label", 0.25), said("sentence", 0.0125)
    ('The loss of the label moves by 0.25 nats.', 'The sentence vector moves by 0.013 (1 − cos).')
    """
    return f"The {FAR[kind]} moves by {effect:.2g} {IN_WORDS[kind]}."


def _off(model: Model, text: Encoding, target: Encoding | None, head: Head, own: Maps, effect: float, kind: str) -> Off:
    stack, layer, number = head
    with model.changed(zero(f"L{layer}.H{number}", stack=stack)):
        maps, found = maps_of(model, text, target), answered(model, text, target)
    moved = {name: (maps[name] - own[name]).abs().sum(-1).mean(-1) / 2 for name in own}
    return Off(head, effect, said(kind, effect), "" if found is None else found.says, maps, moved)


def _without(model: Model, head: Head) -> Variant:
    stack, layer, number = head
    nothing = torch.zeros(1, *model.sites(stack)[layer].circuit.w_o.shape[:2])
    return Variant(reads={(stack, layer): replaced([number], nothing)})


def _asked(model: Model, text: Encoding, target: Encoding | None) -> Question:
    question = ask_far(model, text, target)
    if question is None:
        raise InputError("A text must have something to foretell, but this one has a single token; take a longer one.")
    return question

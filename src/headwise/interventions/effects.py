r"""How what a model does changes under many small changes of it, exactly and to first order.

Exactly: one copy of the text for every change, those that begin at the same block in one pass (resuming.py).
To first order (attribution patching, Nanda 2023; Syed et al. 2023, https://arxiv.org/abs/2310.10348): with x what W_O
reads of a head, g = ∂loss/∂x and x̃ what stands in its place,

    effect ≈ Σ_tokens (x̃ − x) · g,   one backward pass for all heads.

A distance ½ ‖Δu‖² has no slope at 0; there  effect ≈ ½ mean over r of (Σ_tokens (x̃ − x) · ∂(r·u)/∂x)²,  r ~ N(0, I),
which is ½ ‖J (x̃ − x)‖² in the mean, one backward pass for every r. Nor has a divergence of distributions; there r·u is
Σ_places log p(y) / √places with every y drawn from the place's own p, which gives Fisher's ½ Δᵀ F Δ in the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headwise.interventions.outcomes import DISTANCES, Question, asked_only, looked_at
from headwise.interventions.resuming import Clean, clean_pass, copies_of, options, resumed, shares
from headwise.models.blocks import feed_forwards
from headwise.models.capture import Call, Edit
from headwise.models.editing import Edited, Place, attending, giving, reading
from headwise.models.model import Model
from headwise.models.weighing import scaled_to

TOKENS = 2048  # of the copies of one pass
PROBES = 8  # random directions for the first order of a distance or a divergence
Heads = Float[Tensor, "token head d_head"]


@dataclass(frozen=True)
class Cut:
    """An edge of one head (or of all of a layer) that is cut, and the rest of its row scaled up."""

    place: Place
    query: int
    key: int
    head: int | None = None


@dataclass(frozen=True)
class Variant:
    """One change of one copy: what W_O reads [token head d_head], what feed-forward blocks give, edges that are cut."""

    reads: Mapping[Place, Callable[[Heads], Heads]] = field(default_factory=dict)
    gives: Mapping[Place, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    cuts: tuple[Cut, ...] = ()

    def places(self) -> Iterator[Place]:
        yield from (*self.reads, *self.gives, *(cut.place for cut in self.cuts))


def replaced(heads: Sequence[int], new: Float[Tensor, "row head d_head"]) -> Callable[[Heads], Heads]:
    """`new` for some heads, position by position; one row stands for all positions, fewer begin again."""

    def edit(x: Heads) -> Heads:
        rows = torch.arange(len(x), device=x.device) % len(new)
        x = x.clone()
        x[:, list(heads)] = new.to(x)[rows][:, list(heads)]
        return x

    return edit


def effects(
    model: Model, question: Question, variants: Sequence[Variant], *, signed: bool = True, tokens: int = TOKENS
) -> Float64[Tensor, "variant number"]:
    """What every variant changes in the answer to the question; not `signed`: how far places move, up or down."""
    compare = question.effects if signed else question.moved
    besides = looked_at(model, question.kind)
    # subtle: these try the probe at their first use, which no change may be in the way of
    shares(model)
    feed_forwards(model)
    with torch.no_grad():
        with asked_only(model, question):
            clean = clean_pass(model, question.inputs, **besides)
        own = question.read(clean.output)
        found = torch.zeros(len(variants), compare(own, own).shape[1], dtype=torch.float64)
        for first, some in _passes(clean, variants, max(1, tokens // question.length)):
            chosen = [variants[at] for at in some]
            below = resumed(model, clean, first=first, copies=len(some))
            with below, _varied(model, chosen), asked_only(model, question):
                output = model.hf(**copies_of(question.inputs, len(some)), **options(model), **besides)
            found[some] = compare(own, question.read(output)).cpu()
    return found


def _passes(clean: Clean, variants: Sequence[Variant], most: int) -> Iterator[tuple[int, list[int]]]:
    """Variants that begin at the same block, up to `most` at once."""
    groups: dict[int, list[int]] = {}
    for at, variant in enumerate(variants):
        first = min((clean.block[place] for place in variant.places()), default=0)
        groups.setdefault(first, []).append(at)
    for first, members in sorted(groups.items()):
        for start in range(0, len(members), most):
            yield first, members[start : start + most]


def _varied(model: Model, variants: Sequence[Variant]) -> ExitStack:
    """Every copy under its own change."""
    stack = ExitStack()
    reads = dict.fromkeys(place for variant in variants for place in variant.reads)
    gives = dict.fromkeys(place for variant in variants for place in variant.gives)
    if reads:
        stack.enter_context(reading(model, {p: _each([v.reads.get(p) for v in variants]) for p in reads}))
    if gives:
        edits = {p: _each([v.gives.get(p) for v in variants]) for p in gives}
        stack.enter_context(giving(model, feed_forwards(model), edits))
    if any(variant.cuts for variant in variants):
        stack.enter_context(attending(model, _cutting(variants)))
    return stack


def _each(edits: Sequence[Callable[[Tensor], Tensor] | None]) -> Edited:
    def edit(x: Tensor) -> Tensor:
        copies = x.unflatten(0, (len(edits), -1)) if len(x) != len(edits) else x  # (OPT folds copy and token into one)
        parts = [part if one is None else one(part) for one, part in zip(edits, copies, strict=True)]
        return torch.stack(parts).view_as(x)

    return edit


def _cutting(variants: Sequence[Variant]) -> dict[Place, Edit]:
    cuts: dict[Place, list[tuple[int, Cut]]] = {}
    for copy, variant in enumerate(variants):
        for cut in variant.cuts:
            cuts.setdefault(cut.place, []).append((copy, cut))

    def edit_of(some: list[tuple[int, Cut]]) -> Edit:
        def edit(call: Call, _start: int, out: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
            group = alpha.shape[1] // call.value.shape[1]
            out, new = out.clone(), alpha.clone()
            for copy, cut in some:
                new[copy, slice(None) if cut.head is None else cut.head, cut.query, cut.key] = 0.0
            new = scaled_to(new, alpha.sum(-1, keepdim=True))
            for copy, cut in some:
                for head in range(alpha.shape[1]) if cut.head is None else [cut.head]:
                    values = call.value[copy, head // group]
                    out[copy, cut.query, head] = new[copy, head, cut.query].to(values) @ values
            return out, new

        return edit

    return {place: edit_of(some) for place, some in cuts.items()}


def slopes(
    model: Model, question: Question, *, seed: int = 0
) -> tuple[dict[Place, Float[Tensor, "token head d_head"]], dict[Place, Float[Tensor, "probe token head d_head"]]]:
    """x, what W_O reads of the text, and its slopes: one of a loss, else PROBES random ones."""
    read: dict[Place, Tensor] = {}

    def keep(place: Place) -> Edited:
        def edit(x: Tensor) -> Tensor:
            read[place] = x if x.requires_grad else x.requires_grad_()
            return read[place]

        return edit

    places = [(site.stack, site.index) for site in model.proof.sites]
    with torch.enable_grad(), reading(model, {place: keep(place) for place in places}):
        found = question.read(model.hf(**question.inputs, **options(model), **looked_at(model, question.kind)))
        heads = [_loss(question, found)] if not _curved(question) else _random(question, found, seed)
        slope = [
            torch.autograd.grad(one, [read[p] for p in places], retain_graph=one is not heads[-1]) for one in heads
        ]
    gradients = {place: torch.stack([one[at][0] for one in slope]) for at, place in enumerate(places)}
    return {place: read[place][0].detach() for place in places}, gradients


def _loss(question: Question, found: Float[Tensor, "one place"]) -> Float[Tensor, ""]:
    return found[0, 0] if question.kind == "label" else found.mean()


def _curved(question: Question) -> bool:
    """Whether it has no slope where nothing is changed."""
    return question.whole or question.kind in DISTANCES


def _random(question: Question, found: Float[Tensor, "one place ..."], seed: int) -> list[Tensor]:
    """Random sums over places whose squared change is twice the distance, or the divergence, in the mean."""
    generator = torch.Generator().manual_seed(seed)
    if not question.whole:
        return _directions(found, generator)
    parts = question.parts(found)
    return [_drawn(part[0], generator) for part in parts for _ in range(PROBES // len(parts))]


def _drawn(logits: Float[Tensor, "place token"], generator: torch.Generator) -> Float[Tensor, ""]:
    logs = logits.log_softmax(-1)
    drawn = torch.multinomial(logs.detach().double().exp().cpu(), 1, generator=generator).to(logs.device)
    return logs.gather(-1, drawn).sum() / len(logs) ** 0.5


def _directions(unit: Float[Tensor, "one token d_model"], generator: torch.Generator) -> list[Tensor]:
    """r · u / √tokens for random r: the mean of its squared change is the mean over tokens of ‖Δu‖²."""
    shape = (PROBES, *unit.shape)
    directions = torch.randn(shape, generator=generator, dtype=torch.float32).to(unit)
    return [(direction * unit).sum() / unit.shape[1] ** 0.5 for direction in directions]


def first_order(
    question: Question,
    x: Mapping[Place, Heads],
    slope: Mapping[Place, Float[Tensor, "probe token head d_head"]],
    new: Mapping[Place, Float[Tensor, "row head d_head"]] | None = None,
) -> dict[Place, Float64[Tensor, " head"]]:
    """The estimated effect of putting `new` (by default zero) in the place of every head on its own.

    Where the answer counts by itself its probes are the second half, and the effect is the larger of the two.
    """
    found = {}
    for place, own in x.items():
        rows = torch.arange(len(own), device=own.device)
        other = torch.zeros_like(own) if new is None else new[place][rows % len(new[place])].to(own)
        moved = torch.einsum("thd,pthd->ph", (other - own).double(), slope[place].double())
        if _curved(question):
            halves = 2 if question.answered and question.length > 1 else 1
            moved = moved.square().unflatten(0, (halves, -1)).mean(1).amax(0, keepdim=True) / 2
        found[place] = moved[0].cpu()
    return found

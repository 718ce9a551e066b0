"""Heads taken away one after another, on texts that had no say in the order.

The texts themselves are kept as token numbers by the shards, so that the passes can be made once the order is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from headwise.interventions.effects import Variant, effects, replaced
from headwise.interventions.outcomes import UNITS, Question
from headwise.models.editing import Place
from headwise.models.model import Model
from headwise.stats import Pieces, Statistic, Sums
from headwise.studies.ablation.facts import STACKS, STATISTICS, stacked
from headwise.studies.study import State

SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)  # of all heads
KEPT = ("input_ids", "token_type_ids", "decoder_input_ids")
CODES = ("next-token", "masked-token", "label", "translation", "sentence", "tokens", "token-label")


def kept(question: Question) -> dict[str, Tensor]:
    """The question as tensors that a shard can hold."""
    facts = {f"text-{name}": question.inputs[name][0].cpu() for name in KEPT if name in question.inputs}
    return {**facts, "text-labels": question.labels.cpu(), "text-kind": torch.tensor([CODES.index(question.kind)])}


def questions(state: State, model: Model) -> dict[int, Question]:
    """What `kept` kept, by number of the document."""
    found: dict[int, dict[str, Tensor]] = {}
    for name, pieces in state.after(Pieces, "text-"):
        for number, tensor in zip(pieces.numbers, pieces.tensors, strict=True):
            found.setdefault(number, {})[name] = tensor.to(model.hf.device)
    return {number: _question(each) for number, each in found.items()}


def unit_of(state: State) -> str | None:
    """The unit of what these questions ask (nats, 1 − cos); None where no question was kept."""
    kinds = [piece for name, pieces in state.after(Pieces, "text-") if name == "kind" for piece in pieces.tensors]
    return UNITS[CODES[int(kinds[0][0])]] if kinds else None


def _question(parts: Mapping[str, Tensor]) -> Question:
    inputs = {name: parts[name][None] for name in KEPT if name in parts}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if "decoder_input_ids" in inputs:
        inputs["decoder_attention_mask"] = torch.ones_like(inputs["decoder_input_ids"])
    return Question(CODES[int(parts["kind"][0])], inputs, parts["labels"])


def curves(state: State, model: Model, draws: int, seed: int, report: Callable[[str], None]) -> dict[str, Statistic]:
    """`curve@ORDER`: of every text [1 draw step] the change; `steps` [1 step]: how many heads were removed."""
    asked = questions(state, model)
    if not asked:
        return {}
    means = _means(state)
    where = [(place, head) for place, mean in means.items() for head in range(len(mean))]
    steps = sorted({max(1, round(share * len(where))) for share in SHARES})
    orders = _orders(state, set(asked), len(where), draws, seed)
    found: dict[str, dict[int, Tensor]] = {name: {} for name in orders}
    for number, question in asked.items():
        report(f"removing heads one after another, text {number}")
        variants = [
            _without([where[at] for at in order[:count].tolist()], means)
            for some in orders.values() for order in some for count in steps
        ]  # fmt: skip
        changed = iter(effects(model, question, variants)[:, 0].view(-1, len(steps)))
        for name, some in orders.items():
            found[name][number] = torch.stack([next(changed) for _ in some])[None]
    first = min(asked)
    kept_steps = Pieces.of({first: torch.tensor(steps)[None]})
    return {"steps": kept_steps, **{f"curve@{name}": Pieces.of(each) for name, each in found.items()}}


def _means(state: State) -> dict[Place, Float64[Tensor, "head d_head"]]:
    """What stands in a head's place; in the order of the tables (of the stacks, then of the layers)."""
    found: dict[Place, Tensor] = {}
    for place, sums in state.after(Sums, "mean@"):
        stack, _, layer = place.rpartition(".")
        found[stack, int(layer)] = sums.mean
    return dict(sorted(found.items(), key=lambda item: (STACKS.index(item[0][0]), item[0][1])))


def _orders(state: State, asked: set[int], heads: int, draws: int, seed: int) -> dict[str, list[Int[Tensor, " head"]]]:
    """Which head goes first; by effect and estimate: of other texts than those that are asked, where there are any.

    A statistic that is the same for all heads (a null share of 0) gives no order.
    """
    pieces = state.pieces("effect")
    others = [at for at, number in enumerate(pieces.numbers) if number not in asked] or list(range(len(pieces.numbers)))
    effect = stacked(state, "effect")[others, 0, 0].mean(0)
    estimate = stacked(state, "estimate")[others].mean(0)
    generator = torch.Generator().manual_seed(seed)
    means = {name: stacked(state, name).mean(0) for name in STATISTICS}
    keys = {
        "effect, least first": effect,
        "estimate, least first": estimate,
        "effect, most first": -effect,
        "norm, least first": means["norm"],
        "entropy, most first": -means["entropy"],
        "null share, most first": -means["null"],
    }
    orders = {name: [key.argsort()] for name, key in keys.items() if bool((key != key[0]).any())}
    return {**orders, "random": [torch.randperm(heads, generator=generator) for _ in range(draws)]}


def _without(heads: list[tuple[Place, int]], means: Mapping[Place, Float64[Tensor, "head d_head"]]) -> Variant:
    by_place: dict[Place, list[int]] = {}
    for place, head in heads:
        by_place.setdefault(place, []).append(head)
    return Variant(reads={place: replaced(some, means[place][None]) for place, some in by_place.items()})

"""A role is tested by what it is for: heads that look like it are taken away, against as many of the same layers.

| task | what is asked | roles |
|---|---|---|
| repeat | loss of the second half of random tokens repeated once | previous, duplicate, induction, copying |
| retrieve | loss of a fact that stands earlier in the text | retrieval |
| agree | loss of the verb that agrees, against the other (roles/agreement.py) | subject, governor, dependent |
| plain | what the model does with texts of the corpus (ablation) | all others |

Heads that park their attention (first, separator, null) are said to be idle: taking them away must change *less*.
Removed heads are at their mean over the texts of the task. Where a model has no next-token head, every role is tried on
plain texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.interventions.effects import Variant, effects, replaced
from headwise.interventions.outcomes import Question, asked_only
from headwise.models.editing import Place, keeping
from headwise.models.model import Model

Head = tuple[str, int, int]  # stack, layer, head
Means = Mapping[Place, Float64[Tensor, "head d_head"]]
TASKS = {"previous": "repeat", "duplicate": "repeat", "induction": "repeat", "copying": "repeat",
         "retrieval": "retrieve", "subject": "agree", "governor": "agree", "dependent": "agree"}  # fmt: skip
IDLE = ("first", "separator", "null")
THRESHOLDS = {"induction": 0.3, "retrieval": 0.3, "duplicate": 0.3, "copying": 3.0, "suppression": 3.0, "broad": 0.9,
              "first": 0.6, "separator": 0.6, "null": 0.6, "subject": 0.3, "governor": 0.5,
              "dependent": 0.5}  # fmt: skip
USUAL = 0.4  # of all other roles: of a row's attention
MOST = 8  # heads of a role that are taken away together, those of the highest scores


@dataclass(frozen=True)
class Trial:
    """One role, its heads, and draws of as many others from the same layers."""

    role: str
    task: str
    heads: tuple[Head, ...]
    controls: tuple[tuple[Head, ...], ...]


def threshold(role: str) -> float:
    return THRESHOLDS.get(role, USUAL)


def looking(scores: Mapping[Head, float], role: str) -> tuple[Head, ...]:
    """The heads that look like a role, the most of it first."""
    named = [head for head, score in scores.items() if score >= threshold(role)]
    return tuple(sorted(named, key=lambda head: -scores[head]))[:MOST]


def task_of(role: str, tasks: Sequence[str]) -> str:
    return TASKS.get(role, "plain") if TASKS.get(role) in tasks else "plain"


def drawn(heads: Sequence[Head], sizes: Mapping[Place, int], draws: int, seed: int) -> tuple[tuple[Head, ...], ...]:
    """For every head another one of its layer, none twice; of those that are named only where no other is left."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(draws):
        chosen: list[Head] = []
        for stack, layer, _head in heads:
            everyone = [(stack, layer, number) for number in range(sizes[stack, layer])]
            free = [one for one in everyone if one not in chosen]
            others = [one for one in free if one not in heads] or free
            chosen.append(others[int(torch.randint(len(others), (1,), generator=generator))])
        found.append(tuple(chosen))
    return tuple(found)


def tried(
    model: Model, questions: Mapping[int, Question], trials: Sequence[Trial], means: Means | None = None
) -> dict[str, dict[int, Float64[Tensor, "one set"]]]:
    """By role and question: the effect without the role's heads, then without each control.

    `means` of what W_O reads, where passes over these texts have told them already.
    """
    if not (trials and questions):
        return {trial.role: {} for trial in trials}
    means = means or _means(model, list(questions.values()))
    asked = [frozenset(heads) for trial in trials for heads in (trial.heads, *trial.controls)]
    sets = list(dict.fromkeys(asked))  # of one head of a layer there are few others: many draws are the same
    variants, place = [_without(heads, means) for heads in sets], torch.tensor([sets.index(one) for one in asked])
    found: dict[str, dict[int, Tensor]] = {trial.role: {} for trial in trials}
    for number, question in questions.items():
        effect = effects(model, question, variants)[place, 0]
        changed = effect.split([1 + len(trial.controls) for trial in trials])
        for trial, part in zip(trials, changed, strict=True):
            found[trial.role][number] = part[None]
    return found


def _means(model: Model, questions: Sequence[Question]) -> Means:
    total: dict[Place, Tensor] = {}
    count: dict[Place, int] = {}
    for question in questions:
        with torch.no_grad(), keeping(model) as read, asked_only(model, question):
            model.hf(**question.inputs)
        for place, x in read.items():
            total[place] = total.get(place, 0) + x[0].double().sum(0)
            count[place] = count.get(place, 0) + x.shape[1]
    return {place: total[place] / count[place] for place in total}


def _without(heads: Collection[Head], means: Means) -> Variant:
    by_place: dict[Place, list[int]] = {}
    for stack, layer, head in sorted(heads):
        by_place.setdefault((stack, layer), []).append(head)
    return Variant(reads={place: replaced(some, means[place][None]) for place, some in by_place.items()})

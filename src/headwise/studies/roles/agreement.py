"""The task `agree`: "The keys near the cabinet" goes on with "are", not "is" (Linzen et al. 2016, arXiv:1611.01368).

The noun next to the verb has the other number, so that only its subject tells. A head looks like `subject` by the share
of the last token's attention that goes to the subject; the task is −log p(right verb | one of the two), nats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.interventions.outcomes import Question
from headwise.models.model import Model
from headwise.studies.roles.made import Made, encoded, ids_of, opening

NOUNS = (("key", "keys"), ("dog", "dogs"), ("book", "books"), ("car", "cars"), ("teacher", "teachers"),
         ("door", "doors"), ("picture", "pictures"), ("friend", "friends"))  # fmt: skip
BETWEEN = (" near the", " behind the", " beside the", " from the")
VERBS = (" is", " are")
DISTINCT = len(NOUNS) * len(BETWEEN)  # texts until nouns and words between come again


@dataclass(frozen=True)
class Agreeing(Made):
    """A subject and a noun of the other number; `verbs` are the tokens of the right and the wrong verb."""

    verbs: Int[Tensor, " verb"]

    def question(self, model: Model) -> Question:
        labels = torch.where(self.source >= 0, 0, -1).to(model.hf.device)
        return Question("next-token", model.batch([self.text]).inputs, labels, choices=self.verbs.to(model.hf.device))


def agreeing(model: Model, count: int, seed: int) -> Iterator[Agreeing]:
    """`count` texts, half of them about one thing; none where the tokenizer does not tell the verbs apart."""
    verbs = [ids_of(model, verb)[-1:] for verb in VERBS]
    if not all(verbs) or verbs[0] == verbs[1]:
        return
    for number in range(count):
        at, many = number + seed, (number + number // DISTINCT) % 2  # subtle: each noun comes in both numbers
        subject, other = NOUNS[at % len(NOUNS)], NOUNS[(at * 3 + 1) % len(NOUNS)]
        start = [*opening(model), *ids_of(model, "The"), *ids_of(model, f" {subject[many]}")]
        between = ids_of(model, BETWEEN[at // len(NOUNS) % len(BETWEEN)])
        ids = [*start, *between, *ids_of(model, f" {other[1 - many]}")]
        source = torch.full((len(ids),), -1)
        source[-1] = len(start) - 1
        yield Agreeing(encoded(model, ids), source, torch.tensor([verbs[many][0], verbs[1 - many][0]]))

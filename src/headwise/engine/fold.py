"""A shard of documents through the model, once, into the state of every study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.engine.gradients import graded_layers
from headwise.engine.plan import Plan
from headwise.errors import InputError, TooLongError
from headwise.models.model import Model
from headwise.studies.importance import lesson
from headwise.studies.study import Reading, State, Study, packed, plus, unpacked
from headwise.text.corpus import Document, Shard
from headwise.types import Encoding, Layer


@dataclass(frozen=True)
class Item:
    """A document as the model reads it."""

    number: int
    text: Encoding
    target: Encoding | None

    @property
    def length(self) -> int:
        return max(len(self.text), len(self.target) if self.target else 0)


@dataclass(frozen=True)
class Folded:
    """What one shard came to: a state for each study, and counts of what was read and what was not."""

    states: Mapping[str, State]
    counts: Mapping[str, int]

    def tensors(self) -> dict[str, Tensor]:
        return {f"{study}|{key}": t for study, state in self.states.items() for key, t in packed(state).items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], counts: Mapping[str, int]) -> Folded:
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            study, _, rest = key.partition("|")
            parts.setdefault(study, {})[rest] = tensor
        return cls({study: unpacked(part) for study, part in parts.items()}, counts)

    def __add__(self, other: Folded) -> Folded:
        names = dict.fromkeys([*self.states, *other.states])
        states = {name: plus(self.states.get(name, {}), other.states.get(name, {})) for name in names}
        return Folded(states, Counter(self.counts) + Counter(other.counts))


def fold(model: Model, studies: Sequence[Study], shard: Shard, plan: Plan) -> Folded:
    """Read, batch by length, run, observe."""
    counts: Counter[str] = Counter()
    items = list(_readable(model, shard.documents, plan, counts))
    states: dict[str, State] = {study.name: {} for study in studies}
    for batch in batches(items, plan.batch_tokens):
        _observe(model, studies, batch, states, plan)
    counts["documents"] += len(items)
    counts["tokens"] += sum(len(item.text) for item in items)
    return Folded(states, counts)


def batches(items: Sequence[Item], tokens: int) -> Iterator[list[Item]]:
    """Items of like length together, each batch at most `tokens` padded tokens (or one item)."""
    batch: list[Item] = []
    for item in sorted(items, key=lambda item: (item.length, item.number)):
        if batch and (len(batch) + 1) * item.length > tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _readable(model: Model, documents: Sequence[Document], plan: Plan, counts: Counter[str]) -> Iterator[Item]:
    """The documents that the model can read; the others are counted by reason."""
    for document in documents:
        try:
            yield _item(model, document, plan)
        except TooLongError:
            counts["skipped: too many tokens"] += 1
        except InputError:
            counts["skipped: no readable text"] += 1


def _item(model: Model, document: Document, plan: Plan) -> Item:
    if not model.is_encoder_decoder:
        text = model.encode(document.text, document.pair, limit=plan.max_tokens, truncate=plan.truncate)
        return Item(document.index, text, None)
    if document.pair is None:
        raise InputError("An encoder–decoder reads pairs: source and target.")
    text = model.encode(document.text, limit=plan.max_tokens, truncate=plan.truncate)
    return Item(document.index, text, model.encode_target(document.pair, truncate=plan.truncate))


def _observe(
    model: Model, studies: Sequence[Study], items: Sequence[Item], states: dict[str, State], plan: Plan
) -> None:
    """One pass for all studies; a masked language model's gradients need a second one, over masked texts."""
    documents = torch.tensor([item.number for item in items])
    targets = [item.target for item in items if item.target is not None]
    batch = model.batch([item.text for item in items], targets)
    waiting = list(studies)

    def see(layer: Layer, reading: Reading, viewers: Sequence[Study]) -> None:
        with torch.inference_mode():
            for study in viewers:
                states[study.name] = plus(states[study.name], study.observe(layer, reading))

    if any(study.gradient for study in studies):
        task = lesson(model, batch.texts, documents, plan.seed)
        same = task.texts == batch.texts
        viewers = [study for study in studies if study.gradient or same]
        waiting = [study for study in studies if study not in viewers]
        read = batch if same else model.batch(task.texts)
        reading = Reading(read, documents, model.causal)
        for layer in graded_layers(model, read, task.labels):
            see(layer, reading, viewers)
    if waiting:
        reading = Reading(batch, documents, model.causal)
        with torch.inference_mode():
            model.run(batch, lambda layer: see(layer, reading, waiting))

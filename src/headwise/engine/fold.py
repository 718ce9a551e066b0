"""A shard of documents through the model, once, into the state of every study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.engine.gradients import graded_layers
from headwise.engine.plan import Plan
from headwise.errors import InputError, TooLongError
from headwise.models.model import Model
from headwise.studies.importance import lesson
from headwise.studies.study import Reading, State, Stats, Study, packed, plus, unpacked
from headwise.text.corpus import Document, Shard
from headwise.types import Encoding, Layer

EVERY = "reading"  # the pass that all studies share
NO_PAIR = (
    "without a pair: an encoder–decoder reads source and target; give pairs, or take its encoder alone, --task encoder"
)


@dataclass(frozen=True)
class Item:
    """A document as the model reads it."""

    number: int
    text: Encoding
    target: Encoding | None
    notes: Any = None

    @property
    def length(self) -> int:
        return max(len(self.text), len(self.target) if self.target else 0)


@dataclass(frozen=True)
class Folded:
    """What one shard came to: a state for each study, and counts of what was read and what was not."""

    states: Mapping[str, State]
    counts: Mapping[str, int]
    plan: str | None = None  # the digest of plan and model that it belongs to; what has none is empty

    def tensors(self) -> dict[str, Tensor]:
        return {f"{study}|{key}": t for study, state in self.states.items() for key, t in packed(state).items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], counts: Mapping[str, int], plan: str | None) -> Folded:
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            study, _, rest = key.partition("|")
            parts.setdefault(study, {})[rest] = tensor
        return cls({study: unpacked(part) for study, part in parts.items()}, counts, plan)

    def __add__(self, other: Folded) -> Folded:
        plans = {one.plan for one in (self, other) if one.plan is not None}
        if len(plans) > 1:
            raise InputError(
                f"What is added up must be of one plan and model, but these are of {' and '.join(sorted(plans))}; run "
                "both with the same settings."
            )
        names = dict.fromkeys([*self.states, *other.states])
        states = {name: plus(self.states.get(name, State()), other.states.get(name, State())) for name in names}
        return Folded(states, Counter(self.counts) + Counter(other.counts), next(iter(plans), None))


def known(model: Model, studies: Sequence[Study], opening: Sequence[Document], plan: Plan) -> dict[str, Any]:
    """What studies must know of the corpus beforehand, from its first documents; by study."""
    if not any(study.has("prepare") for study in studies):
        return {}
    items = list(readable(model, opening, plan, Counter()))
    texts = [model.batch([item.text], [item.target] if item.target else []) for item in items]
    return {study.name: study.prepare(model, texts) for study in studies if study.has("prepare")}


@dataclass(frozen=True)
class Begun:
    """The sum of a shard's first batches."""

    batches: int
    folded: Folded


@dataclass(frozen=True)
class Step:
    """How far a shard is: its documents and tokens that are done, and who is at work; after a batch also the sum."""

    documents: int
    tokens: int
    doing: str = EVERY
    begun: Begun | None = None
    earlier: tuple[int, int] = (0, 0)  # documents and tokens that an interrupted run had done


def fold(
    model: Model, studies: Sequence[Study], shard: Shard, plan: Plan, before: Mapping[str, Any] | None = None
) -> Folded:
    """Read, batch by length, run, observe; `before` is what `known` found."""
    *_, last = steps(model, studies, shard, plan, before)
    assert isinstance(last, Folded)
    return last


def steps(
    model: Model, studies: Sequence[Study], shard: Shard, plan: Plan, before: Mapping[str, Any] | None = None,
    begun: Begun | None = None,
) -> Iterator[Step | Folded]:  # fmt: skip
    """The same, telling how far it is; the last is what the shard came to. Batches of `begun` are not run again."""
    counts: Counter[str] = Counter()
    items = list(readable(model, shard.documents, plan, counts))
    first, states = (0, {}) if begun is None else (begun.batches, dict(begun.folded.states))
    states = {study.name: states.get(study.name, State()) for study in studies}
    done, tokens, earlier = len(shard.documents) - len(items), 0, (0, 0)
    for number, batch in enumerate(batches(items, plan.batch_tokens, padded=model.proof.padding), start=1):
        if number > first:
            for texts, doing in _observe(model, studies, batch, states, plan, before or {}):
                yield Step(done + texts, tokens, doing, earlier=earlier)
        done, tokens = done + len(batch), tokens + sum(len(item.text) for item in batch)
        if number > first:
            so_far = Begun(number, Folded(dict(states), {}, plan.digest))
            yield Step(done, tokens, begun=so_far, earlier=earlier)
        elif number == first:
            earlier = (done, tokens)
            yield Step(done, tokens, earlier=earlier)
    counts["documents"] += len(items)
    counts["tokens"] += sum(len(item.text) for item in items)
    yield Folded(states, counts, plan.digest)


def batches(items: Sequence[Item], tokens: int, *, padded: bool = True) -> Iterator[list[Item]]:
    """Items of like length together (of one, where not `padded`), at most `tokens` padded tokens, or one item."""
    batch: list[Item] = []
    for item in sorted(items, key=lambda item: (item.length, item.number)):
        full = batch and (len(batch) + 1) * item.length > tokens
        if full or (batch and not padded and len(item.text) != len(batch[-1].text)):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def readable(model: Model, documents: Sequence[Document], plan: Plan, counts: Counter[str]) -> Iterator[Item]:
    """The documents that the model can read; the others are counted by reason."""
    for document in documents:
        if model.is_encoder_decoder and document.pair is None:
            counts[f"skipped: {NO_PAIR}"] += 1
            continue
        try:
            yield _item(model, document, plan)
        except TooLongError:
            counts["skipped: too many tokens"] += 1
        except InputError:
            counts["skipped: no readable text"] += 1


def _item(model: Model, document: Document, plan: Plan) -> Item:
    if not model.is_encoder_decoder:
        text = model.encode(document.text, document.pair, limit=plan.max_tokens, truncate=plan.truncate)
        return Item(document.index, text, None, document.notes)
    assert document.pair is not None
    text = model.encode(document.text, limit=plan.max_tokens, truncate=plan.truncate)
    return Item(document.index, text, model.encode_target(document.pair, truncate=plan.truncate), document.notes)


def _observe(
    model: Model, studies: Sequence[Study], items: Sequence[Item], states: dict[str, State], plan: Plan,
    before: Mapping[str, Any],
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """One pass for all studies; gradients of masked texts need a second one, and some studies ask for their own.

    Yields, before each part of the work, how many texts are done and whose it is. Studies that ask one text at a time
    come last, text by text, so that a text is done when the last of them has asked it.
    """
    documents, notes = torch.tensor([item.number for item in items]), tuple(item.notes for item in items)
    targets = [item.target for item in items if item.target is not None]
    batch = model.batch([item.text for item in items], targets)
    reading = Reading(batch, documents, model.causal, notes, before)

    def add(study: Study, state: Stats) -> None:
        states[study.name] = plus(states[study.name], state)

    yield 0, EVERY
    waiting = [study for study in studies if study.has("observe") or study.has("observe_hidden")]
    if any(study.gradient for study in studies):
        task = lesson(model, batch.texts, documents, plan.seed, batch.targets)
        same = task.texts == batch.texts
        viewers = [study for study in waiting if study.gradient or (same and not study.has("observe_hidden"))]
        waiting = [study for study in waiting if study not in viewers]
        read = reading if same else Reading(model.batch(task.texts), documents, model.causal, notes)
        for layer in graded_layers(model, read.batch, task.labels):
            with torch.inference_mode():
                for study in viewers:
                    add(study, study.observe(layer, read))
    if waiting:
        _one_pass(model, waiting, reading, add)
    asking = [study for study in studies if study.has("ask")]
    singly = [study for study in asking if study.one_by_one]
    for study in asking:
        if study not in singly:
            yield 0, study.name
            add(study, study.ask(model, reading))
    asked: dict[str, State] = {study.name: State() for study in singly}
    for text, alone in enumerate(_texts(model, reading) if singly else ()):
        for study in singly:
            yield text, study.name
            asked[study.name] = plus(asked[study.name], study.ask(model, alone))
    for study in singly:
        add(study, asked[study.name])


def _texts(model: Model, reading: Reading) -> Iterator[Reading]:
    """Every text of a batch as a batch of its own."""
    batch = reading.batch
    for row, text in enumerate(batch.texts):
        one = slice(row, row + 1)
        alone = model.batch([text], batch.targets[one])
        yield Reading(alone, reading.documents[one], reading.causal, reading.notes[one], reading.known)


def _one_pass(model: Model, studies: Sequence[Study], reading: Reading, add: Callable[[Study, Stats], None]) -> None:
    layers = [study for study in studies if study.has("observe")]
    hidden = [study for study in studies if study.has("observe_hidden")]

    def see(layer: Layer) -> None:
        for study in layers:
            add(study, study.observe(layer, reading))

    with torch.inference_mode():
        options: dict[str, Any] = {"output_hidden_states": True} if hidden else {}
        output = model.run(reading.batch, see, wanted=lambda _: bool(layers), **options)
        for study in hidden:
            add(study, study.observe_hidden(model.hidden_states(output), reading))

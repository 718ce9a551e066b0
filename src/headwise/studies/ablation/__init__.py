r"""Which heads matter: what the model does without each of them (Michel et al. 2019, https://arxiv.org/abs/1905.10650).

For every head of every text, alone: what W_O reads of it is replaced by

    mean      the head's mean output over the tokens of the corpus's first texts (32 at most)
    zero      nothing
    resample  its output on another one of those texts, position by position (which begins again where it ends)

and the change of what the model does is noted (interventions/outcomes.py): a loss in nats, a label's probability and
accuracy, or 1 − cos of what an encoder gives. So is that without the whole attention or feed-forward block of a layer
(at its mean over the text), and the estimate to first order by one backward pass. Means over texts with a bootstrap
interval over texts.

Then heads are taken away one after another on the first texts: in the order of their effect in *other* texts, of the
statistics of their attention (entropy, length of the vectors that are sent, share of the null space), and at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError
from headwise.interventions.effects import Variant, effects, first_order, replaced, slopes
from headwise.interventions.labels import told
from headwise.interventions.outcomes import KINDS, Question, ask, kind_of
from headwise.measures import ATTENTION, reductions
from headwise.models.blocks import feed_forwards
from headwise.models.editing import Place, head_means, head_outputs
from headwise.models.model import Model
from headwise.stats import Pieces, Sums
from headwise.studies import STUDIES
from headwise.studies.ablation import curves
from headwise.studies.ablation.answers import answers
from headwise.studies.ablation.facts import STATISTICS, WAYS, table_of
from headwise.studies.ablation.figures import drawn
from headwise.studies.answers import Answer
from headwise.studies.needs import Cost, Means
from headwise.studies.study import Reading, Setting, State, Stats, Study
from headwise.types import Batch, Layer

SOURCES = 4  # texts whose outputs are put in the place of others'


@dataclass(frozen=True)
class Known:
    """What stands in a head's place, from the corpus's first texts."""

    means: Mapping[Place, Float[Tensor, "head d_head"]]
    sources: tuple[Mapping[Place, Tensor], ...]  # [token head d_head]


@STUDIES.add("ablation", "which heads matter: what the model does without each of them", order=55)
@dataclass(frozen=True)
class Ablation(Study):
    """`ways`: mean, zero, resample; the first one is also estimated and drawn. `texts`: how many, from the first on, as
    each costs a pass for every two heads and way; 0 for all. `curve`: on how many of them heads are removed one after
    another. `draws` of a random order. `outcome`: what the model does, by default what its head is for. `seed` of
    masks, random orders and of the bootstrap.
    """

    title: ClassVar[str] = "Which heads matter"
    first_by: ClassVar[tuple[str, ...]] = ("part=head", "-value")
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    captions: ClassVar[Mapping[str, str]] = {
        "heads": "what the model loses without each head",
        "estimate": "one backward pass against taking each head away",
        "statistics": "whether a number of the attention tells which heads matter",
        "removal": "what is lost as heads are taken away one after another",
    }
    ways: tuple[str, ...] = ("mean", "zero", "resample")
    texts: int = setting(16, least=0)
    curve: int = setting(4, least=0)
    draws: int = setting(3, least=1)
    outcome: str = ""
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ways or len(set(self.ways)) < len(self.ways) or set(self.ways) - set(WAYS):
            raise InputError(f"Heads are replaced by {', '.join(WAYS)}, each once, but ways={self.ways} was asked for.")
        if self.outcome and self.outcome not in KINDS:
            raise InputError(f"What a model does is one of {', '.join(KINDS)}, but {self.outcome!r} was asked for.")

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        if means.seconds is None:
            return {"ways": ("mean",), "texts": 6, "curve": 1, "draws": 1}
        return {"ways": ("mean",), "texts": min(32, max(6, means.passes(100.0))), "curve": 1, "draws": 1}

    def check(self, model: Model) -> None:
        super().check(model)
        kind_of(model)

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        return len(self.ways) * heads

    def prepare(self, model: Model, texts: Sequence[Batch]) -> Known:
        sources = [head_outputs(model, batch) for batch in texts[:SOURCES]] if "resample" in self.ways else []
        return Known(head_means(model, texts), tuple({p: x[0] for p, x in each.items()} for each in sources))

    def ask(self, model: Model, reading: Reading) -> Stats:
        first = reading.first(self.texts, model)
        known: Known = reading.known[self.name]
        state: Stats = {}
        found: dict[str, dict[int, Tensor]] = {}
        for question, number, row in questions(self, model, first) if first is not None else ():
            assert first is not None
            facts = {**self._effects(model, question, known, number), **statistics_of(model, first, row)}
            if number < self.curve:
                facts |= curves.kept(question)
            for name, tensor in facts.items():
                found.setdefault(name, {})[number] = tensor
        for name, tensors in found.items():
            state[name] = Pieces.of(tensors)
        for place, mean in known.means.items() if found else ():
            state[f"mean@{place[0]}.{place[1]}"] = Sums(mean.double().cpu(), torch.ones_like(mean, dtype=torch.float64))
        return state

    def _effects(self, model: Model, question: Question, known: Known, number: int) -> dict[str, Tensor]:
        """`effect` [1 way number head], `estimate` [1 head] and `block` [1 part number layer] of one text."""
        found, slope = slopes(model, question, seed=self.seed)
        x = {place: found[place] for place in places(model)}
        new = {way: self._new(way, known, number, x) for way in self.ways}
        heads = [
            Variant(reads={place: replaced([head], new[way][place])})
            for way in self.ways
            for place, own in x.items()
            for head in range(own.shape[1])
        ]
        blocks = list(block_variants(model, x))
        changed = effects(model, question, [*heads, *blocks])
        guess = first_order(question, x, slope, new[self.ways[0]])
        by_way = changed[: len(heads)].unflatten(0, (len(self.ways), -1)).transpose(1, 2)
        by_part = changed[len(heads) :].unflatten(0, (len(x), 2)).permute(1, 2, 0)
        return {"effect": by_way[None], "block": by_part[None], "estimate": torch.cat(list(guess.values()))[None]}

    def _new(
        self, way: str, known: Known, number: int, x: Mapping[Place, Float[Tensor, "token head d_head"]]
    ) -> Mapping[Place, Float[Tensor, "row head d_head"]]:
        if way == "zero":
            return {place: torch.zeros_like(own[:1]) for place, own in x.items()}
        if way == "mean":
            return {place: mean[None] for place, mean in known.means.items()}
        at = (number + 1) % len(known.sources)  # subtle: the sources are texts 0 … 3, and none is its own
        return known.sources[at]

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        return {**state, **curves.curves(state, model, self.draws, self.seed, report)} if "effect" in state else state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact: heads by way, blocks, correlations over heads, points of the removal curves."""
        return table_of(state, setting, ways=self.ways, seed=self.seed, unit=curves.unit_of(state))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        return drawn(self.table(state, setting), setting, ways=self.ways)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, setting)


def questions(study: Any, model: Model, reading: Reading) -> Iterator[tuple[Question, int, int]]:
    """For every text that has something to ask: the question, the document's number, its row in the batch."""
    for row, text in enumerate(reading.batch.texts):
        target = reading.batch.targets[row] if reading.batch.targets else None
        note = reading.notes[row] if reading.notes else None
        label = told(model, note)
        number = int(reading.documents[row])
        question = ask(model, text, target, label=label, number=number, seed=study.seed, kind=study.outcome or None)
        if question is not None:
            yield question, number, row


def block_variants(model: Model, x: Mapping[Place, Float[Tensor, "token head d_head"]]) -> Iterator[Variant]:
    """For every layer: its heads, then its feed-forward block, at their mean over the text."""
    there = feed_forwards(model)
    for place, own in x.items():
        yield Variant(reads={place: replaced(range(own.shape[1]), own.mean(0, keepdim=True))})
        yield Variant(gives={place: at_its_mean} if place in there else {})


def at_its_mean(given: Float[Tensor, "token d_model"]) -> Float[Tensor, "token d_model"]:
    return given.mean(0, keepdim=True).expand_as(given)


def statistics_of(model: Model, reading: Reading, row: int) -> dict[str, Float64[Tensor, "one head"]]:
    """Entropy of the attention, length of what is sent, and share of the null space, mean over the rows of a text."""
    batch = reading.batch
    alone = model.batch([batch.texts[row]], [batch.targets[row]] if batch.targets else [])
    found: dict[Place, dict[str, Float[Tensor, " head"]]] = {}

    def see(layer: Layer) -> None:
        whole, reached = reductions.squared_norms(layer)
        found[layer.stack, layer.index] = {
            "entropy": reductions.row_entropy(layer).mean(-1)[0],
            "norm": ATTENTION["norm"](layer).sum(-1).mean(-1)[0],
            "null": 1 - (reached.sum(-1) / whole.sum(-1))[0],
        }

    with torch.no_grad():
        model.run(alone, see, rows=0)
    layers = [found[place] for place in places(model)]
    return {name: torch.cat([layer[name].double().cpu() for layer in layers])[None] for name in STATISTICS}


def places(model: Model) -> list[Place]:
    """Every layer of every stack, in the order of the tables."""
    return [(stack, layer) for stack in model.stacks for layer in range(model.layers(stack))]

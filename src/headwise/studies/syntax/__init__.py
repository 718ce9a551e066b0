"""Every head as a parser: does a word attend most to its syntactic head?

Clark et al. 2019 §4.2, Table 1 (https://arxiv.org/abs/1906.04341), for any quantity, on any CoNLL-U corpus. Maps are
made between words, special tokens and the diagonal are left out, and the largest entry is the prediction, the first of
equals. Three directions, for a dependent d and its head h:

    from-dependent   of all words, d attends most to h
    to-dependent     of all words, h attends most to d: the column of d (the released code's other direction)
    from-head        h attends to d more than to any other word: the row of h

A causal model predicts only words that it sees, so that a pair can be found in one direction at most; what cannot be
seen counts as wrong, and `visible` says how many pairs could be found.

The best head of each relation is chosen on one part of the sentences and scored on the other, against the best fixed
offset chosen in the same way, and against right-branching (the next word is the head).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.measures import ATTENTION
from headwise.measures.wordmaps import only, visible_words, word_map
from headwise.models.model import Model
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, Answer
from headwise.studies.hits import (
    by_document,
    from_bytes,
    to_bits,
    to_bytes,
)
from headwise.studies.needs import Needs
from headwise.studies.scored import best_heads, scored_rows, scores_of_heads
from headwise.studies.study import Reading, Setting, State, Stats, Study, at
from headwise.studies.syntax.figures import figures
from headwise.studies.syntax.pairs import STANFORD, Asked, asked, labels
from headwise.types import Layer

DIRECTIONS = ("from-dependent", "to-dependent", "from-head")


@STUDIES.add("syntax", "every head as a parser: relation by relation, both directions (Clark et al. table1)", order=80)
@dataclass(frozen=True)
class Syntax(Study):
    """`choose`: the share of sentences the best head is chosen on; `choose_first`: instead, so many from the start.

    `first_token` takes a split word's first row instead of the mean of its rows; `clitic` lets 's answer for the
    possessor; fixed offsets are searched from −`reach` to +`reach`.
    """

    title: ClassVar[str] = "Heads as parsers"
    first_by: ClassVar[tuple[str, ...]] = ("-accuracy",)
    needs: ClassVar[Needs] = Needs(("encoder", "decoder"), "parse")
    captions: ClassVar[Mapping[str, str]] = {
        "table1": "the best head of each relation, against the best fixed offset (Clark et al. 2019)",
        "heads": "every head and relation: how often the syntactic head is where it attends most",
    }
    quantities: tuple[str, ...] = setting(("raw", "effective", "norm"), of=ATTENTION)
    directions: tuple[str, ...] = setting(DIRECTIONS[:2], one_of=DIRECTIONS)
    choose: float = setting(0.5, above=0, below=1)
    choose_first: int = setting(0, least=0)
    first_token: bool = False
    clitic: bool = True
    reach: int = setting(10, least=1, most=10**4)
    resamples: int = setting(1000, least=1, most=10**6)
    seed: int = setting(0, least=0, most=SEED)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """One bit a pair, direction and head; the pairs themselves come with the first layer."""
        if "syntax" not in reading.memo:
            options = {"first": self.first_token, "clitic": self.clitic, "dtype": layer.alpha.dtype}
            reading.memo["syntax"] = asked(reading.batch.texts, reading.notes, **options)
        questions: Asked = reading.memo["syntax"]
        documents = reading.documents.tolist()
        maps = {quantity: word_map(layer, quantity, questions.words) for quantity in self.quantities}
        seen = visible_words(layer, questions.words)
        if seen is None:
            return {}
        candidates = (
            seen & questions.words.there[:, None] & ~torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
        )
        state: Stats = _pairs(layer, questions, documents) if layer.index == 0 else {}
        for quantity, words in maps.items():
            assert words is not None
            choices = only(words, candidates)
            hits = torch.stack([_right(way, choices, questions) for way in self.directions], dim=1)
            state[at(f"hits {quantity}", layer)] = by_document(documents, questions.counts, to_bits(hits))
        return state

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        """Bits into scores, against the best fixed offset and right-branching."""
        return scores_of_heads(
            self, state, model, lambda line: report(f"syntax: {line}"), asked="relations", lost="untold", labels=labels,
            beside=lambda stack: self._beside(torch.cat(state.pieces(f"distance@{stack}.0").tensors), model.causal),
        )  # fmt: skip

    def _beside(self, distance: Int[Tensor, " pair"], causal: bool) -> dict[str, Bool[Tensor, "pair _ _"]]:
        """What a fixed offset gets right, what the next word does, and what can be seen at all."""
        offsets = torch.tensor([offset for offset in range(-self.reach, self.reach + 1) if offset])
        return {
            "offset": (distance[:, None] == offsets)[:, None],
            "next": (distance == 1)[:, None, None],
            "visible": self._visible(distance, causal)[..., None],
        }

    def _visible(self, distance: Int[Tensor, " pair"], causal: bool) -> Bool[Tensor, "pair direction"]:
        """Whether the answer is a word that the one who is asked can see."""
        sees = {way: distance < 0 if way == "from-dependent" else distance > 0 for way in self.directions}
        return torch.stack([sees[way] | (not causal) for way in self.directions], dim=1)

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a quantity, relation, direction and head; then the fixed offsets and right-branching.

        `chosen_accuracy` decides `best`; `accuracy`, `low` and `high` are of the other part of the sentences.
        """
        tables = []
        for stack in setting.stacks:
            if f"labels@{stack}" not in state:
                continue
            for quantity in self.quantities:
                tables.append(scored_rows(state, stack, quantity, self.directions, what="relation"))
            offsets = [offset for offset in range(-self.reach, self.reach + 1) if offset]
            names = {"offset": [f"{offset:+d}" for offset in offsets], "next": ["right-branching"]}
            for kind, named in names.items():
                tables.append(scored_rows(state, stack, kind, ["from-dependent"], what="relation", names=named))
        stanford = {relation: name for name, relation in STANFORD.items()}
        visible = _visible_shares(state, setting, self.directions)
        return (
            pl.concat(tables)
            .with_columns(stanford=pl.col("relation").replace_strict(stanford, default=None, return_dtype=pl.String))
            .join(visible, on=["stack", "relation", "direction"], how="left")
        )

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG002 - n is the table's own
        yield Answer(DOING, best_heads(table, "relation"))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """table1, and heads-QUANTITY: every head and relation."""
        untold = sum(int(sums.total) for _, sums in state.after(Sums, "untold@"))
        return figures(self.table(state, setting), setting, self.quantities, untold)


def _pairs(layer: Layer, questions: Asked, documents: list[int]) -> Stats:
    """What was asked, once a batch."""
    distance = (questions.head - questions.asker).to(torch.int16)
    untold = torch.tensor(float(questions.untold), dtype=torch.float64)
    return {
        at("relations", layer): by_document(documents, questions.counts, to_bytes(questions.relations)),
        at("distance", layer): by_document(documents, questions.counts, distance),
        at("untold", layer): Sums(untold, torch.full_like(untold, len(documents))),
    }


def _right(way: str, maps: Float[Tensor, "batch head word word"], questions: Asked) -> Bool[Tensor, "pair head"]:
    """Whether each head's choice is the gold word; −∞ in `maps` is what may not be chosen."""
    text, asker, gold = questions.text, questions.asker, questions.head
    if way == "from-head":
        asker, gold = gold, asker
    # subtle: `max` says the first of equals along either axis, and is many times faster here than argmax of a transpose
    choice = maps.max(-2 if way == "to-dependent" else -1).indices[text, :, asker]
    row, column = (gold, asker) if way == "to-dependent" else (asker, gold)
    # subtle: where nothing may be chosen `max` says word 0; a choice counts only if the gold word is a candidate
    seen = maps[text, 0, row, column] > -torch.inf
    return (choice == gold[:, None]) & seen[:, None]


def _visible_shares(state: State, setting: Setting, directions: tuple[str, ...]) -> pl.DataFrame:
    """Which share of the scored pairs can be found."""
    rows = []
    for stack in setting.stacks:
        if f"labels@{stack}" not in state:
            continue
        shares = state.sums(f"scored visible@{stack}").mean[:, :, 0].tolist()
        relations = from_bytes(state.pieces(f"labels@{stack}").tensors[0])
        for relation, row in zip(relations, shares, strict=True):
            rows += [(stack, relation, way, share) for way, share in zip(directions, row, strict=True)]
    return pl.DataFrame(rows, schema=["stack", "relation", "direction", "visible"], orient="row")

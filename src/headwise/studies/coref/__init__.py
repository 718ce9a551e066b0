"""Coreference by attention: does the head word of a mention attend most to one of its antecedents?

Clark et al. 2019 §4.3, Table 2 (https://arxiv.org/abs/1906.04341), for any quantity, on any corpus with CoNLL-2012
brackets and a parallel CoNLL-U. A mention that has an earlier mention of the same entity is a question; a head is right
where its choice is the head word of any of those. The paper leaves open what may be chosen, so there are two readings:

    mentions   the head words of earlier mentions, which is what the rules choose among
    words      every other word of the passage (of a causal model: every word before)

Documents are read as far as the model goes (`--truncate --max-tokens 128` is the paper's way), or with `windows` in
overlapping windows of words, each mention in the first window that holds it, where most comes before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError
from headwise.measures import ATTENTION
from headwise.measures.wordmaps import visible_words, word_map
from headwise.models.model import Model
from headwise.plots.relations import best_of_each
from headwise.plots.theme import themed
from headwise.stats import Pieces, Sums, merge
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, Answer
from headwise.studies.coref.mentions import READINGS, Asked, Passage, asked, noted, passage, unreached
from headwise.studies.hits import (
    by_document,
    to_bits,
    to_bytes,
)
from headwise.studies.needs import Needs
from headwise.studies.scored import best_heads, scored_rows, scores_of_heads
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, plus
from headwise.text.coref import TYPES, CorefDocument
from headwise.text.sieves import RULES
from headwise.text.tokens import encode
from headwise.types import Layer

ALL = "all"
WINDOWS = 8  # run together


@STUDIES.add("coref", "every head as a finder of antecedents, against rules (Clark et al. table2)", order=90)
@dataclass(frozen=True)
class Coref(Study):
    """`windows` reads whole documents in windows of `window_tokens` that share `overlap` tokens (use --truncate too).

    The other settings are those of the study syntax, with documents for sentences.
    """

    title: ClassVar[str] = "Heads as finders of antecedents"
    needs: ClassVar[Needs] = Needs(("encoder", "decoder"), "mentions")
    captions: ClassVar[Mapping[str, str]] = {
        "table2": "the best head at finding antecedents, against rules (Clark et al. 2019)",
    }
    quantities: tuple[str, ...] = setting(("raw", "effective", "norm"), of=ATTENTION)
    windows: bool = False
    window_tokens: int = setting(128, least=4)
    overlap: int = setting(64, least=0)
    choose: float = setting(0.5, above=0, below=1)
    choose_first: int = setting(0, least=0)
    first_token: bool = False
    resamples: int = setting(1000, least=1, most=10**6)
    seed: int = setting(0, least=0, most=SEED)

    def has(self, hook: str) -> bool:
        """Documents are read in the engine's pass, or in windows by the study itself, not both."""
        return super().has(hook) and hook != ("observe" if self.windows else "ask")

    def check(self, model: Model) -> None:
        super().check(model)
        if not 0 <= self.overlap < self.window_tokens:
            raise InputError(
                f"Windows must share fewer tokens than they have; got overlap={self.overlap} of "
                f"window_tokens={self.window_tokens}. Choose a smaller overlap."
            )
        if model.limit is not None and self.windows and self.window_tokens > model.limit:
            raise InputError(
                f"A window must fit {model.name}, which reads {model.limit} tokens; got "
                f"window_tokens={self.window_tokens}. Choose fewer."
            )

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """One bit a mention, reading and head; the mentions themselves come with the first layer."""
        if "coref" not in reading.memo:
            documents = [noted(note) for note in reading.notes]
            parts = [passage(*pair) for pair in zip(documents, reading.batch.texts, strict=True)]
            lost = sum(unreached(document, [part]) for document, part in zip(documents, parts, strict=True))
            reading.memo["coref"] = asked(parts, first=self.first_token, dtype=layer.alpha.dtype), lost
        questions, lost = reading.memo["coref"]
        return self._observed(layer, questions, reading.documents.tolist(), questions.counts, lost)

    def ask(self, model: Model, reading: Reading) -> Stats:
        """The same over windows of each document."""
        state: Stats = {}
        for number, note in zip(reading.documents.tolist(), reading.notes, strict=True):
            parts = list(self._windows(model, noted(note)))
            state = plus(state, self._windowed(model, parts, number, unreached(noted(note), parts)))
        return state

    def _windowed(self, model: Model, parts: Sequence[Passage], number: int, lost: int) -> Stats:
        """All windows of one document, as many as go together at a time."""
        states: list[Stats] = []
        step = WINDOWS if model.proof.padding else 1
        for start in range(0, len(parts), step):
            some = parts[start : start + step]
            dtype = torch.float64 if model.hf.dtype == torch.float64 else torch.float32
            questions = asked(some, first=self.first_token, dtype=dtype)
            see = partial(
                self._observed,
                questions=questions,
                numbers=[number],
                counts=[sum(questions.counts)],
                lost=lost if start == 0 else 0,
            )
            with torch.inference_mode():
                model.run(
                    model.batch([part.encoding for part in some]), lambda layer, see=see: states.append(see(layer))
                )
        return _of_one_document(states, number)

    def _observed(
        self, layer: Layer, questions: Asked, numbers: Sequence[int], counts: Sequence[int], lost: int
    ) -> Stats:
        """Bits of a layer, `counts[d]` of them of document `numbers[d]`; nothing while blocks are still to come."""
        hits = _hits(layer, questions, self.quantities)
        if hits is None:
            return {}
        rows = {f"hits {quantity}": bits for quantity, bits in hits.items()}
        state: Stats = {}
        if layer.index == 0:
            rows |= {"types": to_bytes(questions.types), "rules": questions.rules.to(torch.uint8)}
            count = torch.tensor(float(lost), dtype=torch.float64)
            state[at("unreached", layer)] = Sums(count, torch.full_like(count, len(numbers)))
        return state | {at(name, layer): by_document(numbers, counts, found) for name, found in rows.items()}

    def _windows(self, model: Model, document: CorefDocument) -> Iterator[Passage]:
        """Windows of whole words, the next one `overlap` tokens back from the end of the last."""
        done: set[int] = set()
        for start, stop in _word_windows(model, document, self.window_tokens, self.overlap):
            text = document.text[document.spans[start][0] : document.spans[stop - 1][1]]
            encoding = model.encode(text, limit=self.window_tokens, truncate=True)
            part = passage(document, encoding, start, done=frozenset(done))
            done |= set(part.mentions)
            yield part

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        """Bits into scores, as in the study syntax, against the rules."""
        return scores_of_heads(
            self, state, model, lambda line: report(f"coref: {line}"), asked="types", lost="unreached",
            labels=lambda kind: (kind, ALL),
            beside=lambda stack: {"rules": torch.cat(state.pieces(f"rules@{stack}.0").tensors).bool()},
        )  # fmt: skip

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a quantity, type of mention, reading and head; then the rules.

        `chosen_accuracy` decides `best`, within each reading; the other numbers are of the other documents.
        """
        tables = []
        for stack in setting.stacks:
            if f"labels@{stack}" not in state:
                continue
            for quantity in self.quantities:
                tables.append(scored_rows(state, stack, quantity, READINGS, what="type", compete=False))
            tables.append(
                scored_rows(state, stack, "rules", ["mentions"], what="type", names=list(RULES), compete=False)
            )
        return pl.concat(tables).rename({"direction": "reading"})

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG002 - n is the table's own
        yield Answer(DOING, best_heads(table, "type"))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """table2: the head that is best on all mentions, on each type, against the rules."""
        table, charts = self.table(state, setting), {}
        for stack in table["stack"].unique(maintain_order=True):
            where = setting.model if stack == "self" else f"{setting.model}, {stack}"
            lost = state.sums(f"unreached@{stack}")
            tail = f"-{stack}" if charts else ""
            mine = table.filter(stack=stack)
            if bool((mine["count"] > 0).any()):  # else every question fell into the part that heads are chosen on
                charts[f"table2{tail}"] = _table2(mine, where, self.quantities, int(lost.total))
        return charts


def _hits(layer: Layer, questions: Asked, quantities: Sequence[str]) -> dict[str, Tensor] | None:
    """Per quantity the bits [item reading byte]; None while blocks of rows are still to come."""
    maps = {quantity: word_map(layer, quantity, questions.words) for quantity in quantities}
    seen = visible_words(layer, questions.words)
    if seen is None:
        return None
    visible = seen[questions.text, questions.row]
    found = {}
    for quantity, words in maps.items():
        assert words is not None
        rows = words[questions.text, :, questions.row]
        right = [_right(rows, questions.candidates[reading] & visible, questions.gold) for reading in READINGS]
        found[quantity] = to_bits(torch.stack(right, dim=1))
    return found


def _right(rows: Tensor, candidates: Tensor, gold: Tensor) -> Bool[Tensor, "item head"]:
    """Whether the candidate that each head attends to most is an antecedent's head word."""
    choice = rows.masked_fill(~candidates[:, None], -torch.inf).argmax(-1)
    # subtle: where there is no candidate at all argmax says word 0, which must not pass for a choice
    return (gold & candidates).gather(1, choice)


def _of_one_document(states: Sequence[Stats], number: int) -> Stats:
    """What was kept of a document's windows put one under the other; counts are added."""
    total: Stats = {}
    for key in dict.fromkeys(key for state in states for key in state):
        found = [state[key] for state in states if key in state]
        pieces = [piece for piece in found if isinstance(piece, Pieces)]
        total[key] = Pieces.of({number: torch.cat([piece.tensors[0] for piece in pieces])}) if pieces else merge(found)
    return total


def _word_windows(model: Model, document: CorefDocument, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Word ranges of at most `size` tokens, special ones counted (but one word at least)."""
    encoding = encode(model.tokenizer, document.text, limit=None)
    tokens = Counter(passage(document, encoding).of_token)
    room, start, stop = size - sum(encoding.special), 0, 0
    while stop < len(document):
        stop = start + max(1, _fitting(tokens, range(start, len(document)), room))
        yield start, stop
        start = stop - _fitting(tokens, range(stop - 1, start, -1), overlap)


def _fitting(tokens: Mapping[int, int], words: Iterable[int], room: int) -> int:
    """How many of the words, in their order, have at most `room` tokens together."""
    totals = accumulate(tokens.get(word, 0) for word in words)
    return sum(1 for _ in takewhile(lambda total: total <= room, totals))


def _table2(table: pl.DataFrame, where: str, quantities: Sequence[str], lost: int) -> Any:
    best = table.filter(pl.col("best"), pl.col("type") == ALL).select("quantity", "reading", "name")
    heads = table.filter(pl.col("quantity").is_in(list(quantities))).join(best, on=["quantity", "reading", "name"])
    heads = heads.with_columns(quantity=pl.format("{}, among {}", "quantity", "reading"))
    rules = table.filter(quantity="rules").with_columns(quantity="name")
    order = [f"{quantity}, among {reading}" for reading in READINGS for quantity in quantities]
    rows = pl.concat([heads, rules]).filter(pl.col("count") > 0)
    rows = rows.with_columns(type=pl.format("{} ({})", "type", "count"), direction="reading")
    counts = [rows.filter(pl.col("type").str.starts_with(kind))["type"].head(1).to_list() for kind in (ALL, *TYPES)]
    labels = [name for found in counts for name in found]
    chart = best_of_each(rows, order=labels, quantities=order, what="type", plain=list(RULES))
    return themed(
        chart,
        f"{where}: the best head at finding antecedents",
        "Of each quantity and reading the head that is best on all mentions, chosen on other documents; rules below.",
        "Bars are 95 % bootstrap intervals over documents; the numbers of mentions are in brackets.",
        f"{lost:,} more mentions have their antecedents, or themselves, outside of what the model read.",
    )

"""The questions that a document with mentions puts to a head: which earlier mention is this one the same as?

A passage is what the model reads of a document: its beginning, as far as it goes, or a window of its words. A mention
is there where its head word has a token; one that has an antecedent there too is asked about, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.errors import InputError
from headwise.measures.wordmaps import Words, of_rows, words
from headwise.text.conllu import words_of
from headwise.text.coref import CorefDocument
from headwise.text.sieves import RULES
from headwise.types import Encoding

READINGS = ("mentions", "words")


@dataclass(frozen=True)
class Passage:
    """Words `start` … `stop` − 1 of a document as the model reads them, and the mentions to ask about."""

    document: CorefDocument
    encoding: Encoding
    start: int
    stop: int
    of_token: tuple[int, ...]  # the word of each token, counted from `start`
    mentions: tuple[int, ...]  # all that are there
    asked: tuple[int, ...]

    def antecedents(self, mention: int) -> list[int]:
        """Earlier mentions of the same entity."""
        entity = self.document.mentions[mention].entity
        return [other for other in self.candidates(mention) if self.document.mentions[other].entity == entity]

    def candidates(self, mention: int) -> list[int]:
        """Earlier mentions in the order of the text, but those whose head is the very same word."""
        heads = self.document.heads
        return [other for other in self.mentions if other < mention and heads[other] != heads[mention]]


@dataclass(frozen=True)
class Asked:
    """The questions of a batch, flat; a row of the word map is the head word of a mention that is asked about."""

    words: Words
    text: Int[Tensor, " item"]
    row: Int[Tensor, " item"]
    candidates: Mapping[str, Bool[Tensor, "item word"]]  # by reading
    gold: Bool[Tensor, "item word"]
    types: tuple[str, ...]
    rules: Bool[Tensor, "item 1 rule"]  # whether each rule is right
    counts: tuple[int, ...]  # questions of each passage


def passage(
    document: CorefDocument, encoding: Encoding, start: int = 0, *, done: frozenset[int] = frozenset()
) -> Passage:
    """What the encoding of the document's text from word `start` on holds; mentions that are `done` are not asked."""
    shift = document.spans[start][0]
    of_token = words_of(encoding, [(a - shift, b - shift) for a, b in document.spans[start:]])
    told = {start + word for word in of_token if word >= 0}
    there = tuple(number for number, head in enumerate(document.heads) if head in told)
    stop = max(told, default=start) + 1
    whole = Passage(document, encoding, start, stop, of_token, there, ())
    asked = tuple(number for number in there if number not in done and whole.antecedents(number))
    return Passage(document, encoding, start, stop, of_token, there, asked)


def asked(passages: Sequence[Passage], *, first: bool = False, dtype: torch.dtype = torch.float32) -> Asked:
    """The questions of a batch of passages."""
    flat = [(text, part, mention) for text, part in enumerate(passages) for mention in part.asked]
    heads = [sorted({part.document.heads[mention] for mention in part.asked}) for part in passages]
    rows = [{head: row for row, head in enumerate(found)} for found in heads]
    all_words = words(
        [part.of_token for part in passages], [part.stop - part.start for part in passages], first=first, dtype=dtype
    )
    local = [[head - part.start for head in found] for part, found in zip(passages, heads, strict=True)]
    width = all_words.receiving.shape[2]
    mentions = _marks(flat, width, Passage.candidates)
    return Asked(
        words=of_rows(all_words, local),
        text=torch.tensor([text for text, _, _ in flat], dtype=torch.int64),
        row=torch.tensor([rows[text][part.document.heads[mention]] for text, part, mention in flat], dtype=torch.int64),
        candidates={"mentions": mentions, "words": _others(flat, all_words)},
        gold=_marks(flat, width, Passage.antecedents),
        types=tuple(part.document.types[mention] for _, part, mention in flat),
        rules=torch.tensor([[list(_rules(part, mention))] for _, part, mention in flat])
        .reshape(-1, 1, len(RULES))
        .bool(),
        counts=tuple(len(part.asked) for part in passages),
    )


def unreached(document: CorefDocument, passages: Sequence[Passage]) -> int:
    """Mentions that have an antecedent in the document, but are asked about in no passage."""
    entities = [mention.entity for mention in document.mentions]
    later = sum(entity in entities[:number] for number, entity in enumerate(entities))
    return later - sum(len(part.asked) for part in passages)


def noted(note: object) -> CorefDocument:
    """The note as a document with mentions."""
    if isinstance(note, CorefDocument):
        return note
    raise InputError(
        "This study reads coreference, but the corpus has none; pass a .conll file with its CoNLL-U (--corpus x.conll)."
    )


def _rules(part: Passage, mention: int) -> Iterator[bool]:
    """Whether each rule's choice is an antecedent."""
    right, candidates = part.antecedents(mention), part.candidates(mention)
    for rule in RULES.values():
        yield rule(part.document, mention, candidates) in right


def _marks(
    flat: Sequence[tuple[int, Passage, int]], width: int, chosen: Callable[[Passage, int], list[int]]
) -> Bool[Tensor, "item word"]:
    """True at the head words of the mentions that `chosen` (a method of the passage) names."""
    marks = torch.zeros(len(flat), width, dtype=torch.bool)
    for item, (_, part, mention) in enumerate(flat):
        found = chosen(part, mention)
        marks[item, [part.document.heads[other] - part.start for other in found]] = True
    return marks


def _others(flat: Sequence[tuple[int, Passage, int]], all_words: Words) -> Bool[Tensor, "item word"]:
    """True at every word that has a token, but the mention's own head."""
    others = all_words.there[[text for text, _, _ in flat]].clone()
    for item, (_, part, mention) in enumerate(flat):
        others[item, part.document.heads[mention] - part.start] = False
    return others

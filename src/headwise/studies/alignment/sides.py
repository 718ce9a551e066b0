"""Which tokens make which words, on both sides of a pair, and which row of the decoder speaks for which target word.

Cross-attention has a row for every token that the decoder reads. Row r reads token r and predicts token r + 1:

    input     row r speaks for the token that it reads (the first row, which reads the start token, for none)
    output    row r speaks for the token that it predicts (the last row, which predicts the end, for none)

Kobayashi et al. 2020 use the input position; most earlier work has the output position.

Source words are followed by a column for every special token: what goes to the end of the sentence goes to no word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.errors import InputError
from headwise.measures.wordmaps import Words, words
from headwise.text.alignments import Pair, Span
from headwise.text.conllu import words_of
from headwise.types import Batch, Encoding

POSITIONS = ("input", "output")


@dataclass(frozen=True)
class Sides:
    """A batch of pairs as words."""

    pairs: tuple[Pair, ...]
    source_words: int  # columns that are words, padding included; the columns after them are special tokens
    words: Mapping[str, Words]  # by position: rows are target words, columns source words and special tokens

    @property
    def columns(self) -> Bool[Tensor, "batch column"]:
        """Words and special tokens that have a token of their own."""
        return next(iter(self.words.values())).there

    def rows(self, position: str) -> Bool[Tensor, "batch target_word"]:
        """Target words for which some row speaks."""
        return self.words[position].giving.sum(-1) > 0

    def receiving(self) -> Float[Tensor, "batch token column"]:
        return next(iter(self.words.values())).receiving


def sides(
    batch: Batch, notes: Sequence[object], positions: Sequence[str] = POSITIONS, dtype: torch.dtype = torch.float32
) -> Sides:
    """The words of a batch of aligned pairs."""
    pairs = tuple(_pair(note) for note in notes)
    most = max(len(pair.source_spans) for pair in pairs)
    sources = [_source(text, pair.source_spans, most) for text, pair in zip(batch.texts, pairs, strict=True)]
    columns = max(most, *(max(row) + 1 for row in sources))
    keys = words(sources, [columns] * len(pairs), dtype=dtype).receiving
    targets = [owners(text, pair.target_spans) for text, pair in zip(batch.targets, pairs, strict=True)]
    spoken = {"input": targets, "output": [(*row[1:], -1) for row in targets]}
    counts = [len(pair.target_spans) for pair in pairs]
    giving = {position: words(spoken[position], counts, dtype=dtype).giving for position in positions}
    return Sides(pairs, most, {position: Words(rows, keys) for position, rows in giving.items()})


def owners(text: Encoding, spans: Sequence[Span]) -> tuple[int, ...]:
    """The word of each token, −1 for special ones; a token of white space goes with the word after it."""
    found = list(words_of(text, spans))
    for at in reversed(range(len(found) - 1)):
        if found[at] < 0 and not text.special[at]:
            found[at] = found[at + 1]
    return tuple(found)


def _source(text: Encoding, spans: Sequence[Span], most: int) -> tuple[int, ...]:
    """The same with special tokens numbered from `most` on."""
    special = iter(range(most, most + len(text)))
    return tuple(
        next(special) if is_special else own for own, is_special in zip(owners(text, spans), text.special, strict=True)
    )


def _pair(note: object) -> Pair:
    if isinstance(note, Pair):
        return note
    raise InputError(
        "This study reads pairs of sentences as words between blanks, but the corpus has none; pass a file of lines "
        "`source ||| target` (--corpus x.pairs), or use `headwise align`."
    )

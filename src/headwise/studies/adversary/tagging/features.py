"""Words as numbers: word vectors or word rows, character features, part-of-speech tags; sentences in padded batches.

A word is a vector of GloVe (frozen, that of its lower-cased form; zero where GloVe has none) or a learned row, and a
bag of learned rows: its suffixes of 1 … 4 and prefixes of 1 … 3 characters, its shape ("McGraw" is XxXx, "1,200" is
d,d), and where it is asked for its part-of-speech tag. What was seen fewer than `seldom` times in training has no row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.errors import InputError, TooLongError
from headwise.studies.adversary.tagging.conll import Sentence

PAD = 0  # the row of padding: always zero
VECTORS = ("glove", "learned")


class Padded(NamedTuple):
    """A batch of sentences of like length, padded on the right; `numbers` are their places in the data."""

    vectors: Float[Tensor, "batch token d_word"]  # frozen word vectors; of width 0 where words are learned
    rows: Int[Tensor, "batch token feature"]  # rows of the learned table, PAD where there is none
    tags: Int[Tensor, "batch token"]  # 0 at padding
    mask: Bool[Tensor, "batch token"]
    numbers: Int[Tensor, " batch"]


@dataclass(frozen=True)
class Vocabulary:
    """What was seen in training: features with a row, tags with a number, frozen vectors of words."""

    rows: Mapping[str, int]
    tags: tuple[str, ...]
    words: Mapping[str, int]  # rows of `vectors`
    vectors: Float[Tensor, "word d_word"]  # row 0: a word that has none
    learned: bool
    pos: bool

    @classmethod
    def of(
        cls,
        training: Sequence[Sentence],
        vectors: tuple[Sequence[str], Float[Tensor, "word d_word"]] | None = None,
        *,
        pos: bool = True,
        seldom: int = 5,
        others: Sequence[Sentence] = (),
    ) -> Vocabulary:
        """Of the training sentences; `vectors` (words and theirs, frozen), or None to learn a row a word.

        `others` are to be tagged as well: kinds of chunks that only they have get tags too, though none is learned.
        """
        seen: Counter[str] = Counter()
        for sentence in training:
            for word, tag in zip(sentence.words, sentence.pos, strict=True):
                seen.update(features(word, tag if pos else None, word_row=vectors is None))
        rows = {name: at for at, name in enumerate(sorted(n for n, count in seen.items() if count >= seldom), start=1)}
        kinds = sorted({tag[2:] for sentence in (*training, *others) for tag in sentence.tags} - {""})
        tags = ("O", *(f"{place}-{kind}" for kind in kinds for place in "BI"))  # I-LST is in CoNLL-2000's test alone
        if vectors is None:
            return cls(rows, tags, {}, torch.zeros(1, 0), True, pos)
        names, table = vectors
        return cls(
            rows, tags, {word: at for at, word in enumerate(names, start=1)},
            torch.cat([torch.zeros(1, table.shape[1]), table.float()]), False, pos,
        )  # fmt: skip

    def batches(self, sentences: Sequence[Sentence], *, size: int, longest: int) -> list[Padded]:
        """Batches of `size` sentences of like length, shortest first; a sentence is in the same one every time."""
        self.check(sentences, longest)
        order = sorted(range(len(sentences)), key=lambda number: (len(sentences[number]), number))
        return [self.padded(sentences, order[start : start + size]) for start in range(0, len(order), size)]

    def check(self, sentences: Sequence[Sentence], longest: int) -> None:
        """Refuse a tag that training did not have, or a sentence that the tagger has no positions for."""
        known = set(self.tags)
        for sentence in sentences:
            if len(sentence) > longest:
                raise TooLongError(
                    f"Line {sentence.line}: a sentence must have at most {longest} words for this tagger, but it has "
                    f"{len(sentence)}; leave it out, or train a tagger with a larger `longest`."
                )
            for at, tag in enumerate(sentence.tags):
                if tag not in known:
                    raise InputError(
                        f"Line {sentence.line + at}: a tag must be of a type that training had "
                        f"({', '.join(self.tags)}), but it is {tag!r}; leave the sentence out, or train on data "
                        "that has it."
                    )

    def padded(self, sentences: Sequence[Sentence], numbers: Sequence[int]) -> Padded:
        """Some of the sentences as one batch."""
        chosen, tag_number = [sentences[number] for number in numbers], {tag: at for at, tag in enumerate(self.tags)}
        width = max(len(sentence) for sentence in chosen)
        found = [[self._rows(*pair) for pair in zip(s.words, s.pos, strict=True)] for s in chosen]
        most = max(len(rows) for sentence in found for rows in sentence)
        rows, mask = torch.full((len(chosen), width, most), PAD), torch.zeros(len(chosen), width, dtype=torch.bool)
        words, tags = torch.zeros(len(chosen), width, dtype=torch.int64), torch.zeros_like(mask, dtype=torch.int64)
        for at, sentence in enumerate(chosen):
            mask[at, : len(sentence)] = True
            tags[at, : len(sentence)] = torch.tensor([tag_number[tag] for tag in sentence.tags])
            words[at, : len(sentence)] = torch.tensor([self.words.get(word.lower(), 0) for word in sentence.words])
            for place, own in enumerate(found[at]):
                rows[at, place, : len(own)] = torch.tensor(own, dtype=torch.int64)
        return Padded(self.vectors[words], rows, tags, mask, torch.tensor(list(numbers)))

    def _rows(self, word: str, tag: str) -> list[int]:
        names = features(word, tag if self.pos else None, word_row=self.learned)
        return [self.rows[name] for name in names if name in self.rows]


def features(word: str, pos: str | None, *, word_row: bool) -> Iterator[str]:
    """The names of a word's features.

    >>> list(features("Cats", "NNS", word_row=False))[-4:]
    ['^C', '^Ca', '^Cat', 'shape=Xx', 'pos=NNS'][-4:]
    """
    if word_row:
        yield f"word={word.lower()}"
    yield from (f"{word[-size:].lower()}$" for size in range(1, min(4, len(word)) + 1))
    yield from (f"^{word[:size]}" for size in range(1, min(3, len(word)) + 1))
    yield f"shape={shape(word)}"
    if pos is not None:
        yield f"pos={pos}"


def shape(word: str) -> str:
    """Runs of capitals, small letters and digits as X, x and d; everything else as it is.

    >>> shape("McGraw"), shape("1,200-point")
    ('XxXx', 'd,d-x')
    """
    for pattern, kind in ((r"[^\W\d_]+", None), (r"\d+", "d")):
        word = re.sub(pattern, _cases if kind is None else kind, word)
    return word


def _cases(run: re.Match[str]) -> str:
    return re.sub(r"(.)\1+", r"\1", "".join("X" if char.isupper() else "x" for char in run[0]))

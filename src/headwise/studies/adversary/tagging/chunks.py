r"""Chunk precision, recall and F1 as `conlleval` counts them, for many taggings of a padded batch at once.

A chunk is a run of words of one type. It begins at a word whose tag is not O where

    the tag is B-…,  or the tag before is O (or there is none),  or the tag before is of another type,

so that an I- after O, or after another type, opens a chunk as B- does: both IOB1 and IOB2 are read. It ends before the
next word that is O or begins a chunk. A chunk is found where one of the same type begins and ends at the same words.

    precision = found / guessed,   recall = found / gold,   F1 = 2 · precision · recall / (precision + recall)

each 0 where it would be 0/0. Sentences are apart: no chunk goes over an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Tags = Int[Tensor, "*member batch token"]


@dataclass(frozen=True)
class Scheme:
    """What a tag number means: which type of chunk (−1 for O), and whether it is a B-."""

    kind: Int[Tensor, " tag"]
    opens: Bool[Tensor, " tag"]

    @classmethod
    def of(cls, tags: Sequence[str]) -> Scheme:
        kinds = sorted({tag[2:] for tag in tags if tag != "O"})
        number = {kind: at for at, kind in enumerate(kinds)}
        return cls(
            torch.tensor([-1 if tag == "O" else number[tag[2:]] for tag in tags]),
            torch.tensor([tag.startswith("B-") for tag in tags]),
        )


@dataclass(frozen=True)
class Counts:
    """Chunks of the gold tags, of the guessed ones, and those in both; words, and those with the right tag."""

    gold: Int[Tensor, "*member"]
    guessed: Int[Tensor, "*member"]
    found: Int[Tensor, "*member"]
    words: Int[Tensor, "*member"]
    right: Int[Tensor, "*member"]

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def precision(self) -> Tensor:
        return _ratio(self.found, self.guessed)

    @property
    def recall(self) -> Tensor:
        return _ratio(self.found, self.gold)

    @property
    def f1(self) -> Tensor:
        return _ratio(2 * self.found, self.gold + self.guessed)  # the harmonic mean of the two, in one fraction

    @property
    def accuracy(self) -> Tensor:
        return _ratio(self.right, self.words)


def counts(
    gold: Int[Tensor, "batch token"],
    guessed: Int[Tensor, "*member batch token"],
    mask: Bool[Tensor, "batch token"],
    scheme: Scheme,
) -> Counts:
    """The chunks of a batch, per member; padding counts for nothing."""
    gold = gold.expand_as(guessed)
    real = mask.expand_as(guessed)
    true_starts, true_ends, true_kind = _spans(gold, mask, scheme)
    starts, ends, kind = _spans(guessed, mask, scheme)
    both = true_starts & starts & (true_kind == kind) & (true_ends == ends)
    total = lambda x: x.sum((-2, -1))  # noqa: E731 - over sentences and words
    return Counts(total(true_starts), total(starts), total(both), total(real), total(real & (gold == guessed)))


def _spans(
    tags: Int[Tensor, "*member batch token"], mask: Bool[Tensor, "batch token"], scheme: Scheme
) -> tuple[Bool[Tensor, "*member batch token"], Int[Tensor, "*member batch token"], Int[Tensor, "*member batch token"]]:
    """Where chunks start, the first word that is no longer in the chunk of each word, and the types."""
    kind = torch.where(mask, scheme.kind[tags], -1)
    before = torch.nn.functional.pad(kind, (1, 0), value=-1)[..., :-1]
    starts = (kind >= 0) & (scheme.opens[tags] | (before != kind))
    n = tags.shape[-1]
    breaks = torch.where(starts | (kind < 0), torch.arange(n), n)
    after = torch.nn.functional.pad(breaks, (0, 1), value=n)[..., 1:]
    return starts, after.flip(-1).cummin(-1).values.flip(-1), kind


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part.double() / whole.clamp(min=1).double(), 0.0)

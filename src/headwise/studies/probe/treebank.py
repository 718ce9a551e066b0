"""A treebank as probes see it: sentences for training and for testing, features on demand, and scores.

Scores are counts [task control …], the right ones and all: UAS counts words that have the right head, UUAS arcs between
words without their direction. Punctuation counts in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.errors import InputError
from headwise.stats import Sums
from headwise.studies.probe.controls import control_heads, word_types
from headwise.studies.probe.dependency import FRAME, Example
from headwise.studies.probe.trees import (
    best_heads,
    best_tree,
    has_tree_decoder,
    nearest_tree,
    right_branching,
    undirected,
)
from headwise.text.conllu import Sentence

TASKS = ("task", "control")
SHARE = 0.7  # of the sentences, for training, where nothing else is said
ByNumber = Mapping[int, Tensor]  # a tensor for each sentence of the corpus


@dataclass(frozen=True)
class Parsed:
    """A sentence: its number in the corpus, gold heads, which words count, word types."""

    number: int
    heads: Int[Tensor, " word"]
    counted: Bool[Tensor, " word"]
    types: Int[Tensor, " word"]

    def both(self, seed: int) -> tuple[Int[Tensor, " word"], Int[Tensor, " word"]]:
        """The heads of the task and those of the control task of a seed."""
        return self.heads, control_heads(self.types, seed=seed)

    def candidates(self, seed: int) -> Int[Tensor, "replica word"]:
        """The same as numbers of candidates: 0 for the root, 1 + i for word i."""
        return torch.stack(self.both(seed)) + 1


def facts(sentence: Sentence) -> Int[Tensor, "word 3"]:
    """Head, whether the word counts in scores (it is not punctuation), and word type."""
    counted = [relation.partition(":")[0] != "punct" for relation in sentence.relations]
    heads = torch.tensor(sentence.heads, dtype=torch.int64)
    return torch.stack([heads, torch.tensor(counted).long(), word_types(sentence.forms)], dim=-1)


@dataclass(frozen=True)
class Treebank:
    """Sentences for training and for testing."""

    training: tuple[Parsed, ...]
    testing: tuple[Parsed, ...]

    @classmethod
    def of(cls, words: ByNumber, train: int) -> Treebank:
        """From the `facts` of every sentence; numbers below `train` are for training, 0 for the first 70 %."""
        found = [Parsed(number, x[:, 0], x[:, 1].bool(), x[:, 2]) for number, x in sorted(words.items())]
        end = train or found[min(round(SHARE * len(found)), len(found) - 1)].number
        bank = cls(tuple(s for s in found if s.number < end), tuple(s for s in found if s.number >= end))
        if not bank.training or not any(bool(sentence.counted.any()) for sentence in bank.testing):
            raise InputError(
                f"Study probe needs sentences to train and to test on, but of {len(found)} in this corpus "
                f"{len(bank.training)} are for training and {len(bank.testing)} for testing; give more, or set train."
            )
        return bank

    def right_branching(self, seed: int) -> Sums:
        """The baseline on the task and on the control of a seed."""
        return self._right_heads(([right_branching(len(s.heads))] * len(TASKS) for s in self.testing), seed)

    def uas(self, scores: Iterable[Float[Tensor, "replica word candidate"]], seed: int) -> dict[str, Sums]:
        """By decoder, [task control]: each word's best head, and the best tree where its package is installed."""
        every = [each.double().numpy() for each in scores]
        decoders = {"argmax": best_heads, **({"tree": best_tree} if has_tree_decoder() else {})}
        return {
            name: self._right_heads(([decode(replica) for replica in each] for each in every), seed)
            for name, decode in decoders.items()
        }

    def _right_heads(self, heads: Iterable[Sequence[Int[np.ndarray, " word"]]], seed: int) -> Sums:
        right = torch.zeros(len(TASKS), dtype=torch.float64)
        words = sum(int(sentence.counted.sum()) for sentence in self.testing)
        for sentence, found in zip(self.testing, heads, strict=True):
            for task, (gold, guess) in enumerate(zip(sentence.both(seed), found, strict=True)):
                right[task] += int(((gold == torch.from_numpy(guess)) & sentence.counted).sum())
        return Sums(right, torch.full_like(right, words))

    def uuas(self, distances: Iterable[Float[Tensor, "replica layer word other"]], seed: int) -> Sums:
        """[task control, layer]: arcs of the minimum spanning tree that the gold tree has too."""
        sums = [
            _shared_arcs(sentence, each.double().numpy(), seed)
            for sentence, each in zip(self.testing, distances, strict=True)
        ]
        return Sums(
            torch.stack([each.total for each in sums]).sum(0), torch.stack([each.weight for each in sums]).sum(0)
        )


def _shared_arcs(sentence: Parsed, distances: Float[np.ndarray, "replica layer word other"], seed: int) -> Sums:
    kept = sentence.counted.numpy()
    right, arcs = torch.zeros(2, *distances.shape[:2], dtype=torch.float64)
    for task, heads in enumerate(sentence.both(seed)):
        gold = undirected(heads.numpy(), kept=kept)
        arcs[task] = len(gold)
        for layer, each in enumerate(distances[task]):
            right[task, layer] = len(gold & nearest_tree(each, kept=kept))
    return Sums(right, arcs)


@dataclass(frozen=True)
class Features:
    """The examples of a probe, put together as they are asked for, in units that suit one learning rate.

    Every head's maps are divided by their root mean square over the training sentences, and the vectors by theirs.
    """

    maps: tuple[ByNumber, ...]  # a layer each: rows [from × to, head]
    vectors: ByNumber
    map_scale: Float[Tensor, " head"]
    vector_scale: float

    @classmethod
    def of(
        cls, training: Sequence[Parsed], maps: tuple[ByNumber, ...] = (), vectors: ByNumber | None = None
    ) -> Features:
        vectors = vectors or {}
        scales = [_root_mean_square([layer[s.number] for s in training]) for layer in maps]
        length = _root_mean_square([vectors[s.number].flatten()[:, None] for s in training]) if vectors else 1.0
        return cls(maps, vectors, torch.cat([*scales, torch.ones(0)]), float(length))

    @property
    def heads(self) -> int:
        return len(self.map_scale)

    @property
    def dimension(self) -> int:
        return next((each.shape[-1] for each in self.vectors.values()), 0)

    def of_sentences(self, sentences: Sequence[Parsed]) -> Examples:
        return Examples(self, sentences)

    def example(self, sentence: Parsed) -> Example:
        words = len(sentence.heads)
        maps = vectors = None
        if self.maps:
            rows = torch.cat([layer[sentence.number] for layer in self.maps], dim=-1)
            maps = (rows.float() / self.map_scale).view(FRAME + words, FRAME + words, self.heads)
        if self.vectors:
            vectors = self.vectors[sentence.number].float() / self.vector_scale
        return Example(maps, vectors, words)


@dataclass(frozen=True)
class Examples(Sequence[Example]):
    """The examples of some sentences, read from disk one at a time."""

    features: Features
    sentences: Sequence[Parsed]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Example:  # type: ignore[override] - slices are not needed
        return self.features.example(self.sentences[index])


def _root_mean_square(rows: Sequence[Tensor]) -> Float[Tensor, " column"]:
    total = torch.stack([each.double().square().sum(0) for each in rows]).sum(0)
    mean = (total / sum(map(len, rows))).sqrt().float()
    return torch.where(mean > 0, mean, 1.0)

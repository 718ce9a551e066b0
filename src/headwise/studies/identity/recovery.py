"""Which input token is nearest to a mapped hidden token, among the tokens of its own sentence.

Brunner et al. 2020 (https://arxiv.org/abs/1908.04211) §4: e_i is identified where the nearest neighbour of g(e_i) among
the targets x_1 … x_n of its sentence is x_i. With p = g(e_i), both distances need the products p · x_j alone:

    l2      argmin ‖p − x_j‖     = argmax  p · x_j − ½ ‖x_j‖²
    cosine  argmax cos(p, x_j)   = argmax  p · x_j / ‖x_j‖

Repeated words. Where x holds the position (BERT), the same word twice is two different targets. Where it does not
(rotary positions), it is the same target twice, and no map could tell which of them was meant. Two readings:

    position   1 where the nearest target is that of the token itself; 1/k where k tokens of the sentence share that
               very target, which is what choosing one of them at random would score
    word       1 where the nearest target belongs to a token with the same id

and what a perfect map would score by position is `possible`: 1, or 1/k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

DISTANCES = ("cosine", "l2")
READINGS = ("position", "word", "possible")
BLOCK = 4096  # padded tokens of sentences that are searched together


@dataclass(frozen=True)
class Sentences:
    """The tokens of many sentences in one row, sentence after sentence."""

    lengths: Int64[Tensor, " sentence"]
    ids: Int64[Tensor, " token"]

    @cached_property
    def starts(self) -> Int64[Tensor, " sentence"]:
        return self.lengths.cumsum(0) - self.lengths

    @cached_property
    def of_token(self) -> Int64[Tensor, " token"]:
        """The sentence that each token belongs to."""
        return torch.arange(len(self.lengths)).repeat_interleave(self.lengths)

    def tokens(self, sentences: Int64[Tensor, " chosen"]) -> Int64[Tensor, " token"]:
        """The tokens of some sentences, in the order of the sentences.

        >>> Sentences(torch.tensor([2, 3, 1]), torch.zeros(6, dtype=torch.int64)).tokens(torch.tensor([2, 0])).tolist()
        [5, 0, 1]
        """
        lengths = self.lengths[sentences]
        shift = (self.starts[sentences] - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
        return shift + torch.arange(int(lengths.sum()))

    def inside(self, offset: int) -> Bool[Tensor, " token"]:
        """The tokens whose neighbour at `offset` is in the same sentence."""
        place = torch.arange(len(self.ids)) - self.starts[self.of_token] + offset
        return (place >= 0) & (place < self.lengths[self.of_token])

    @cached_property
    def chance(self) -> Float[Tensor, " token"]:
        """What a guess within the sentence scores: 1/n. Its mean over all tokens is 1 / (mean length)."""
        return (1.0 / self.lengths.double())[self.of_token]


@dataclass(frozen=True)
class Targets:
    """What is to be recovered: a vector for each token, and which tokens of a sentence share the very same one."""

    vectors: Float[Tensor, "token d_model"]
    twin: Int64[Tensor, " token"]  # equal for tokens of one sentence with equal vectors
    twins: Int64[Tensor, " token"]  # how many those are, at least 1

    @classmethod
    def of(cls, vectors: Float[Tensor, "token d_model"], sentences: Sentences) -> Targets:
        """subtle: equality is found on the ids first, as sorting all rows of all tokens would take longer."""
        same_word = (sentences.of_token * (int(sentences.ids.max()) + 1) + sentences.ids).unique(return_inverse=True)[1]
        repeated = same_word.bincount()[same_word] > 1
        twin = torch.arange(len(vectors))
        if bool(repeated.any()):
            rows = vectors[repeated].unique(dim=0, return_inverse=True)[1]
            pair = same_word[repeated] * len(vectors) + rows
            twin[repeated] = len(vectors) + pair.unique(return_inverse=True)[1]
        return cls(vectors, twin, twin.bincount()[twin])


@dataclass(frozen=True)
class Found:
    """For each mapped token the token whose target is nearest, and by how much the right one wins (below 0: loses)."""

    nearest: Int64[Tensor, "map token"]
    margin: Float[Tensor, "map token"]  # cosine: difference of cosines; l2: of squared distances


def search(
    mapped: Float[Tensor, "map token d_model"],
    tokens: Int64[Tensor, " token"],
    targets: Targets,
    sentences: Sentences,
    *,
    chosen: Int64[Tensor, " sentence"],
    distances: Sequence[str],
    offset: int = 0,
) -> dict[str, Found]:
    """The nearest target of every mapped token, by distance; `tokens` are those of the `chosen` sentences, in order.

    A token whose neighbour at `offset` is not in the sentence is searched for all the same: leave it out of what you
    count (`Sentences.inside`).
    """
    lengths = sentences.lengths[chosen]
    starts = lengths.cumsum(0) - lengths
    found = {name: Found(tokens.new_zeros(mapped.shape[:2]), mapped.new_zeros(mapped.shape[:2])) for name in distances}
    for block in blocks(lengths):
        span = torch.arange(int(lengths[block].max()))
        real = span < lengths[block][:, None]
        place = torch.where(real, starts[block][:, None] + span, starts[block][:, None])
        p, vectors = mapped[:, place], targets.vectors[tokens[place]]
        product = p @ vectors.mT
        for name, into in found.items():
            score = _scores(product, vectors, name).masked_fill(~real[:, None], -torch.inf)
            nearest = tokens[starts[block][:, None] + score.argmax(-1)]
            into.nearest[:, place[real]] = nearest[:, real]
            into.margin[:, place[real]] = _margins(score, p, name, offset)[:, real]
    return found


def blocks(lengths: Int[Tensor, " sentence"]) -> Iterator[Int64[Tensor, " sentence"]]:
    """Sentences of like length together, as many as stay below BLOCK padded tokens."""
    order = lengths.argsort(stable=True)
    start = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or (at + 1 - start) * int(lengths[order[at]]) > BLOCK:
            yield order[start:at]
            start = at


def _scores(
    product: Float[Tensor, "map sentence token target"], vectors: Float[Tensor, "sentence target d_model"], name: str
) -> Float[Tensor, "map sentence token target"]:
    """Highest where the distance is least."""
    if name == "l2":
        return product - vectors.square().sum(-1)[:, None] / 2
    return product / vectors.norm(dim=-1).clamp(min=torch.finfo(product.dtype).tiny)[:, None]


def _margins(
    score: Float[Tensor, "map sentence token target"],
    p: Float[Tensor, "map sentence token d_model"],
    name: str,
    offset: int,
) -> Float[Tensor, "map sentence token"]:
    """The score of the right target minus the best of the others, in the units of `Found.margin`."""
    last = score.shape[-1] - 1
    own = (torch.arange(last + 1) + offset).clamp(0, last)[:, None].expand(*score.shape[:3], 1)
    right = score.gather(-1, own)[..., 0]
    wrong = score.scatter(-1, own, -torch.inf).amax(-1)
    unit = 2.0 if name == "l2" else 1.0 / p.norm(dim=-1).clamp(min=torch.finfo(p.dtype).tiny)
    return (right - wrong) * unit


def credit_of(
    nearest: Int64[Tensor, "*map token"],
    tokens: Int64[Tensor, " token"],
    targets: Targets,
    sentences: Sentences,
    *,
    offset: int = 0,
) -> dict[str, Float[Tensor, "*map token"]]:
    """What each token scores by each reading; `tokens` are such that their neighbour at `offset` is there."""
    own = tokens + offset
    same = targets.twin[nearest] == targets.twin[own]
    possible = 1 / targets.twins[own].double()
    return {
        "position": same * possible,
        "word": (sentences.ids[nearest] == sentences.ids[own]).double(),
        "possible": possible.expand(nearest.shape),
    }

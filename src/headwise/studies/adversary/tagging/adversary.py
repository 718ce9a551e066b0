r"""Adversaries: taggers trained from scratch to say what a base tagger says while they attend elsewhere.

    loss = D(predictions of the adversary, those of the base) − λ · d(attention of the adversary, that of the base)

D is the negative log-likelihood of the base's tags or the total variation distance, a mean over words; d is KL or
Jensen-Shannon of every row of every head, a mean over rows, heads and layers; padding counts in neither (Wiegreffe &
Pinter 2019, https://arxiv.org/abs/1908.04626, and Yang's chunking taggers after them). KL is KL(adversary ‖ base), as
theirs: it grows where the adversary looks at words that the base ignores. It has no bound; JS has ln 2.

subtle: heads of a layer can change places and nothing is different, but a divergence head by head is. `matched` is the
divergence after the heads were paired with those of the base so that it is least: what is left is not a renaming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from headwise.errors import InputError
from headwise.measures import divergence
from headwise.studies.adversary.tagging.chunks import Counts, Scheme, counts
from headwise.studies.adversary.tagging.ensemble import Loss, Score
from headwise.studies.adversary.tagging.features import Padded
from headwise.studies.adversary.tagging.tagger import HIDDEN_SCORE, Attention, Parameters, Shape, Tagged, tagged

DISTANCES, DIVERGENCES = ("nll", "tvd"), ("kl", "js")
Tagger = Callable[[Padded], Tagged]  # anything that tags a batch: members, or members with other attention


def check_lambdas(lambdas: Sequence[float]) -> tuple[float, ...]:
    """A grid of λ, rising."""
    if not lambdas or not all(math.isfinite(value) and value >= 0 for value in lambdas):
        raise InputError(f"A λ grid must have finite values of at least 0, but {list(lambdas)} was asked for.")
    if len(set(lambdas)) < len(lambdas):
        raise InputError(f"A λ grid must have each value once, but {list(lambdas)} was asked for.")
    return tuple(sorted(lambdas))


@dataclass(frozen=True)
class Objective:
    """What is kept near (`distance`: nll or tvd), and what is driven apart (`divergence`: kl or js)."""

    distance: str = "nll"
    divergence: str = "kl"

    def __post_init__(self) -> None:
        for name, known in (("distance", DISTANCES), ("divergence", DIVERGENCES)):
            if getattr(self, name) not in known:
                raise InputError(f"A {name} is one of {', '.join(known)}, but {getattr(self, name)!r} was asked for.")

    def of(
        self, adversary: Tagged, base: Tagged, mask: Bool[Tensor, "batch token"]
    ) -> tuple[Float[Tensor, " member"], Float[Tensor, " member"]]:
        """Distance of predictions and divergence of attention, per member."""
        said, meant = adversary.logits.log_softmax(-1), base.logits.log_softmax(-1)
        if self.distance == "nll":
            apart = divergence.nll(said, meant.argmax(-1))
        else:
            apart = divergence.tvd(said, meant)
        assert adversary.log_alpha is not None
        assert base.log_alpha is not None
        rows = getattr(divergence, self.divergence)(adversary.log_alpha, base.log_alpha)
        return divergence.mean_rows(apart, mask), divergence.mean_rows(rows.mean((2, 3)), mask)


def gold_loss(shape: Shape, *, attention: Callable[[Padded], Attention] | None = None) -> Loss:
    """The base's own: mean −log p(gold tag) over words; with attention that is given, a probe's."""

    def loss(parameters: Parameters, batch: Padded, noise: torch.Generator) -> Float[Tensor, " member"]:
        given = None if attention is None else attention(batch)
        said = tagged(parameters, batch, shape, attention=given, noise=noise).logits.log_softmax(-1)
        return divergence.mean_rows(divergence.nll(said, batch.tags), batch.mask)

    return loss


def adversary_loss(
    shape: Shape,
    base: Parameters,
    which: Int[Tensor, " adversary"],
    lambdas: Float[Tensor, " adversary"],
    objective: Objective,
) -> Loss:
    """Member m is driven from base `which[m]` with λ = `lambdas[m]`; each base is asked once a batch, for all."""

    def loss(parameters: Parameters, batch: Padded, noise: torch.Generator) -> Float[Tensor, " member"]:
        with torch.no_grad():
            meant = members_of(tagged(base, batch, shape), which)
        distance, apart = objective.of(tagged(parameters, batch, shape, noise=noise), meant, batch.mask)
        return distance - lambdas * apart

    return loss


def members_of(found: Tagged, which: Int[Tensor, " adversary"]) -> Tagged:
    """Some members, in another order or repeated."""
    return Tagged(found.logits[which], None if found.log_alpha is None else found.log_alpha[which])


def adversary_score(
    shape: Shape, base: Parameters, which: Int[Tensor, " adversary"], lambdas: Float[Tensor, " adversary"],
    objective: Objective, validation: Sequence[Padded],
) -> Score:  # fmt: skip
    """−loss on the validation sentences."""

    def score(parameters: Parameters) -> Float[Tensor, " member"]:
        total, words = torch.zeros(len(which), dtype=torch.float64), 0
        for batch in validation:
            meant = members_of(tagged(base, batch, shape), which)
            distance, apart = objective.of(tagged(parameters, batch, shape), meant, batch.mask)
            total -= (distance - lambdas * apart).double() * int(batch.mask.sum())
            words += int(batch.mask.sum())
        return total / words

    return score


def f1_score(tag: Callable[[Parameters, Padded], Tagged], validation: Sequence[Padded], scheme: Scheme) -> Score:
    """Chunk F1 on the validation sentences."""

    def score(parameters: Parameters) -> Float[Tensor, " member"]:
        return chunk_counts(lambda batch: tag(parameters, batch), validation, scheme).f1

    return score


def chunk_counts(tagger: Tagger, batches: Sequence[Padded], scheme: Scheme) -> Counts:
    """The chunks that a tagger finds in all batches."""
    with torch.no_grad():
        each = [counts(batch.tags, tagger(batch).logits.argmax(-1), batch.mask, scheme) for batch in batches]
    total = each[0]
    for more in each[1:]:
        total = total + more
    return total


# --- how far an adversary got ---


@dataclass(frozen=True)
class Compared:
    """Taggers against a base of as many members: sums over words, which add up over batches."""

    words: int
    chunks: Counts
    sums: Float64[Tensor, "number member"]  # of `NUMBERS`
    heads: Float64[Tensor, "member layer head head"]  # Σ JS of every head with every head of the base

    NUMBERS = ("nll", "tvd", "kl", "js", "changed")

    @classmethod
    def of(cls, batch: Padded, mine: Tagged, base: Tagged, scheme: Scheme) -> Compared:
        said, meant = mine.logits.log_softmax(-1).double(), base.logits.log_softmax(-1).double()
        assert mine.log_alpha is not None
        assert base.log_alpha is not None
        own, theirs = mine.log_alpha.double(), base.log_alpha.double()
        heads = divergence.js(own[:, :, :, :, None], theirs[:, :, :, None])  # member batch layer head head query
        rows = (
            divergence.nll(said, meant.argmax(-1)), divergence.tvd(said, meant),
            divergence.kl(own, theirs).mean((2, 3)), heads.diagonal(dim1=3, dim2=4).mean((2, 4)),
            (said.argmax(-1) != meant.argmax(-1)).double(),
        )  # fmt: skip
        words = int(batch.mask.sum())
        return cls(
            words,
            counts(batch.tags, mine.logits.argmax(-1), batch.mask, scheme),
            torch.stack([divergence.mean_rows(row, batch.mask) for row in rows]) * words,
            torch.einsum("mblijq,bq->mlij", heads, batch.mask.double()),
        )

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            self.words + other.words, self.chunks + other.chunks, self.sums + other.sums, self.heads + other.heads
        )

    def number(self, name: str) -> Float64[Tensor, " member"]:
        """A mean over words: nll, tvd, kl, js (nats, probability, nats, nats), or the share of tags that changed."""
        return self.sums[self.NUMBERS.index(name)] / self.words

    @property
    def matched(self) -> Float64[Tensor, " member"]:
        """JS after the heads of each layer were paired with the base's so that it is least (Hungarian method)."""
        found = []
        for member in (self.heads / self.words).numpy():
            pairs = [layer[linear_sum_assignment(layer)].mean() for layer in member]
            found.append(np.mean(pairs))
        return torch.tensor(found, dtype=torch.float64)


def compared(mine: Tagger, base: Tagger, batches: Sequence[Padded], scheme: Scheme) -> Compared:
    """Taggers against a base on all batches."""
    with torch.no_grad():
        parts = [Compared.of(batch, mine(batch), base(batch), scheme) for batch in batches]
    total = parts[0]
    for more in parts[1:]:
        total = total + more
    return total


# --- attention by rule, for controls ---


def uniform(mask: Bool[Tensor, "batch token"], shape: Shape, members: int) -> Attention:
    """The same weight for every word of the sentence."""
    row = mask / mask.sum(-1, keepdim=True)
    return row[None, :, None, None, None, :].expand(members, -1, shape.layers, shape.heads, mask.shape[1], -1)


def random_attention(
    mask: Bool[Tensor, "batch token"], shape: Shape, members: int, generator: torch.Generator
) -> Attention:
    """Rows drawn evenly from all distributions over the sentence's words."""
    size = (members, len(mask), shape.layers, shape.heads, mask.shape[1], mask.shape[1])
    drawn = torch.empty(size).exponential_(generator=generator) * mask[:, None, None, None, :]
    return drawn / drawn.sum(-1, keepdim=True)


def permuted(alpha: Attention, mask: Bool[Tensor, "batch token"], generator: torch.Generator) -> Attention:
    """The weights of each row dealt out anew among the sentence's words."""
    key = torch.rand(alpha.shape, generator=generator) + ~mask[:, None, None, None, :]  # padding stays at the end
    return alpha.gather(-1, key.argsort(-1))


def with_attention(parameters: Parameters, shape: Shape, attend: Callable[[Padded], Attention]) -> Tagger:
    """The members with their attention replaced, and nothing else."""

    def tag(batch: Padded) -> Tagged:
        alpha = attend(batch)
        logits = tagged(parameters, batch, shape, attention=alpha).logits
        return Tagged(logits, log_of(alpha, batch.mask))

    return tag


def log_of(alpha: Attention, mask: Bool[Tensor, "batch token"]) -> Attention:
    """The logarithm of given attention, as the tagger's own is at padding and nowhere below it."""
    logs = alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log()
    return torch.where(mask[:, None, None, None, :], logs, HIDDEN_SCORE)

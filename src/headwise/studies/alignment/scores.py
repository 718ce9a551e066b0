"""Links of single pairs as bits, and what they come to: AER with an interval, the best layer, the agreement.

A pair's links are a matrix of target by source words, eight a byte; a column is a map that they were taken from. Once
all pairs were read, a part of them chooses the best layer and the rest scores it, and the interval is that of a
bootstrap over pairs: the counts of a corpus are sums, so a resample is one row of a product of weights and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from headwise.errors import InputError
from headwise.studies.hits import INTERVAL, chooses, draws
from headwise.text.alignments import Pair


def to_bits(links: Bool[np.ndarray, "many target source"]) -> UInt8[Tensor, "byte many"]:
    """The links of one pair."""
    return torch.from_numpy(np.packbits(links.reshape(len(links), -1), axis=1).T.copy())


def from_bits(bits: UInt8[Tensor, "byte many"], lengths: tuple[int, int]) -> Bool[np.ndarray, "target source many"]:
    """What `to_bits` was given, the maps last; `lengths` are words of source and target."""
    source, target = lengths
    flat = np.unpackbits(bits.numpy(), axis=0, count=source * target)
    return flat.astype(bool).reshape(target, source, -1)


def matrix(links: frozenset[tuple[int, int]], lengths: tuple[int, int]) -> Bool[np.ndarray, "target source"]:
    """Links (source, target) as a matrix."""
    found = np.zeros((lengths[1], lengths[0]), dtype=bool)
    if links:
        sources, targets = zip(*links, strict=True)
        found[list(targets), list(sources)] = True
    return found


def diagonal(lengths: tuple[int, int]) -> Bool[np.ndarray, "target source"]:
    """Each target word with the source word in whose part of the sentence its middle lies.

    >>> diagonal((2, 4)).astype(int).tolist()
    [[1, 0], [1, 0], [0, 1], [0, 1]]
    """
    source, target = lengths
    found = np.zeros((target, source), dtype=bool)
    found[np.arange(target), (2 * np.arange(target) + 1) * source // (2 * target)] = True
    return found


def gold_bits(pair: Pair) -> UInt8[Tensor, "byte 2"] | None:
    """Sure and possible links; None where nobody aligned the pair."""
    if pair.links is None:
        return None
    return to_bits(np.stack([matrix(kind, pair.lengths) for kind in (pair.links.sure, pair.links.possible)]))


def linked(bits: UInt8[Tensor, "byte many"], column: int, lengths: tuple[int, int]) -> Int[Tensor, "link 2"]:
    """The links of one column as (source, target)."""
    target, source = np.nonzero(from_bits(bits, lengths)[..., column])
    return torch.from_numpy(np.stack([source, target], axis=1))


def counted(
    found: Sequence[UInt8[Tensor, "_ many"]],
    gold: Sequence[UInt8[Tensor, "_ 2"]],
    lengths: Sequence[tuple[int, int]],
) -> Float[Tensor, "pair many 4"]:
    """|A ∩ S|, |A ∩ P|, |A| and |S| of every pair and map."""
    rows = []
    for links, both, pair in zip(found, gold, lengths, strict=True):
        bits, (sure, possible) = from_bits(links, pair), np.moveaxis(from_bits(both, pair), -1, 0)
        sums = [bits[sure].sum(0), bits[possible].sum(0), bits.sum((0, 1)), np.full(bits.shape[-1], sure.sum())]
        rows.append(np.stack(sums, axis=-1))
    return torch.from_numpy(np.stack(rows).astype(np.float64))


def aer(counts: Float[Tensor, "*any 4"]) -> Float[Tensor, "*any"]:
    """The error rate of counts, NaN where there is nothing to count."""
    sure_found, possible_found, found, sure = counts.unbind(-1)
    return 1 - (sure_found + possible_found) / (found + sure)


@dataclass(frozen=True)
class Division:
    """Which pairs choose, and how often each of the others is drawn in each resample."""

    choosing: Bool[Tensor, " pair"]
    weights: Float[Tensor, "resample pair"]

    @classmethod
    def of(cls, numbers: Sequence[int], *, fraction: float, first: int, resamples: int, seed: int) -> Division:
        choosing = chooses(numbers, fraction, first)
        if bool(choosing.all()) or not bool(choosing.any()):
            raise InputError(
                f"There must be pairs to choose the best layer on and others to score it; got {int(choosing.sum())} "
                f"and {int((~choosing).sum())}. Pass more pairs, or another choose= or choose_first=."
            )
        return cls(choosing, draws(~choosing, resamples, seed))

    def scores(self, counts: Float[Tensor, "pair many 4"]) -> Scored:
        """What every map comes to."""
        chosen, scored = counts[self.choosing].sum(0), counts[~self.choosing].sum(0)
        drawn = aer(torch.einsum("rp,pmc->rmc", self.weights, counts))
        low, high = torch.nanquantile(drawn, torch.tensor(INTERVAL, dtype=torch.float64), dim=0)
        return Scored(chosen, scored, low, high)


class Scored(NamedTuple):
    """Counts on the part that chooses and the part that scores, and the ends of the interval of the latter's AER."""

    chosen: Float[Tensor, "many 4"]
    scored: Float[Tensor, "many 4"]
    low: Float[Tensor, " many"]
    high: Float[Tensor, " many"]

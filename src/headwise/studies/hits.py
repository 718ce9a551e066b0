"""Right or wrong, kept for every question and every head: how often each head is right, and how sure that is.

Studies that use heads as classifiers (syntax, coref) put the same questions to every head. What is kept of an answer
is one bit. Once the corpus was read, the documents are divided: the best head (and the best baseline) is *chosen* on
one part and *scored* on the other, since the best of many on the same data is good by luck as well. The interval of a
score is that of a bootstrap over documents, which keeps the questions of one document together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from headwise.errors import InputError
from headwise.stats import Pieces, Sums

LONGEST_LABEL = 40  # bytes
INTERVAL = (0.025, 0.975)


def to_bits(hits: Bool[Tensor, "item way head"]) -> UInt8[Tensor, "item way byte"]:
    """Eight heads a byte."""
    return torch.from_numpy(np.packbits(hits.numpy(), axis=-1))


def from_bits(bits: UInt8[Tensor, "item way byte"], heads: int) -> Bool[Tensor, "item way head"]:
    """What `to_bits` was given."""
    return torch.from_numpy(np.unpackbits(bits.numpy(), axis=-1, count=heads)).bool()


def to_bytes(labels: Sequence[str]) -> UInt8[Tensor, "item byte"]:
    """Labels as rows of bytes, as a state holds nothing but tensors; the part over the longest is cut."""
    rows = np.zeros((len(labels), LONGEST_LABEL), dtype=np.uint8)
    for row, label in zip(rows, labels, strict=True):
        spelled = label.encode()[:LONGEST_LABEL]
        row[: len(spelled)] = list(spelled)
    return torch.from_numpy(rows)


def from_bytes(rows: UInt8[Tensor, "item byte"]) -> list[str]:
    """What `to_bytes` was given."""
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in rows.numpy()]


def by_document(numbers: Iterable[int], counts: Sequence[int], rows: Tensor) -> Pieces:
    """Rows of a batch as pieces of its documents; `counts[b]` rows belong to text b."""
    return Pieces.of(dict(zip(numbers, rows.split(list(counts)), strict=True)))


def chooses(numbers: Sequence[int], fraction: float, first: int = 0) -> Bool[Tensor, " document"]:
    """Which documents the best is chosen on: the `first` of the corpus, or a fraction by a hash of their numbers.

    The hash (Knuth's multiplicative one) depends on nothing but the number, so that every run divides alike.
    """
    known = torch.tensor(numbers, dtype=torch.int64)
    if first:
        return known < first
    return (known * 2654435761 % 2**32).double() / 2**32 < fraction


def draws(scored: Bool[Tensor, " document"], resamples: int, seed: int) -> Float[Tensor, "resample document"]:
    """How often each document is drawn in each resample of the bootstrap; those that do not score are never."""
    where = torch.nonzero(scored).squeeze(1).numpy()
    weights = np.zeros((resamples, len(scored)))
    if len(where):
        chances = np.full(len(where), 1 / len(where))
        weights[:, where] = np.random.default_rng(seed).multinomial(len(where), chances, resamples)
    return torch.from_numpy(weights)


@dataclass(frozen=True)
class Questions:
    """What was asked: the labels of every question, its document, and how the documents are divided and resampled."""

    labels: tuple[str, ...]
    item: Int[Tensor, " asked"]  # a question once for each of its labels
    label: Int[Tensor, " asked"]
    document: Int[Tensor, " item"]
    choosing: Bool[Tensor, " document"]
    resamples: int
    seed: int

    @classmethod
    def of(
        cls,
        labels_of_items: Sequence[Sequence[str]],
        rows: Sequence[int],
        choosing: Bool[Tensor, " document"],
        *,
        resamples: int,
        seed: int,
    ) -> Questions:
        """`labels_of_items[i]` names the sets that question i is in; document d asks `rows[d]` questions.

        Refuses a division that leaves nothing to choose on, or nothing to score.
        """
        if not sum(rows) or bool(choosing.all()) or not bool(choosing.any()):
            raise InputError(
                f"There must be documents to choose the best head on and others to score it; got {int(choosing.sum())} "
                f"and {int((~choosing).sum())} with {sum(rows)} questions in all. Pass a larger corpus, or another "
                "choose= or choose_first=."
            )
        order = sorted({label for labels in labels_of_items for label in labels})
        number = {label: at for at, label in enumerate(order)}
        asked = [(item, number[label]) for item, labels in enumerate(labels_of_items) for label in labels]
        pairs = torch.tensor(asked, dtype=torch.int64).reshape(-1, 2)
        document = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(rows, dtype=torch.int64))
        return cls(tuple(order), pairs[:, 0], pairs[:, 1], document, choosing, resamples, seed)

    @cached_property
    def _cells(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Questions of one document under one label are a cell: its label, its document, its size, whose cell."""
        keys = self.label * len(self.choosing) + self.document[self.item]
        cells, whose, sizes = torch.unique(keys, return_inverse=True, return_counts=True)
        return cells // len(self.choosing), cells % len(self.choosing), sizes, whose

    @cached_property
    def _weights(self) -> Float[Tensor, "resample document"]:
        """How often each scored document is drawn in each resample."""
        return draws(~self.choosing, self.resamples, self.seed).float()

    def scores(self, hits: Bool[Tensor, "item way head"]) -> dict[str, Sums]:
        """Per label, way and head: `chosen` and `scored` (right, asked), and the ends `low` and `high` of the score."""
        label, document, sizes, whose = self._cells
        flat = hits.flatten(1).float()
        right = torch.zeros(len(label), flat.shape[1]).index_add_(0, whose, flat[self.item])
        shape = (len(self.labels), *hits.shape[1:])
        result = {}
        for name, part in (("chosen", self.choosing), ("scored", ~self.choosing)):
            inside = part[document]
            total = torch.zeros(len(self.labels), flat.shape[1], dtype=torch.float64)
            total.index_add_(0, label[inside], right[inside].double())
            asked = torch.zeros(len(self.labels), dtype=torch.float64).index_add_(
                0, label[inside], sizes[inside].double()
            )
            result[name] = Sums(total.reshape(shape), asked[:, None, None].expand(shape).clone())
        ends = self._ends(right).reshape(2, *shape)
        weight = result["scored"].weight
        result |= {
            name: Sums(torch.where(weight > 0, end, 0.0) * weight, weight.clone())
            for name, end in zip(("low", "high"), ends, strict=True)
        }
        return result

    def _ends(self, right: Float[Tensor, "cell column"]) -> Float[Tensor, "end label column"]:
        """The ends of the interval: each resample is one row of a product of weights and counts."""
        label, document, sizes, _ = self._cells
        ends = torch.full((2, len(self.labels), right.shape[1]), torch.nan, dtype=torch.float64)
        quantiles = torch.tensor(INTERVAL, dtype=torch.float64)
        for number in range(len(self.labels)):
            cells = torch.nonzero((label == number) & ~self.choosing[document]).squeeze(1)
            if len(cells):
                weights = self._weights[:, document[cells]]
                drawn = (weights @ right[cells]).double() / (weights @ sizes[cells].float())[:, None]
                ends[:, number] = torch.nanquantile(drawn, quantiles, dim=0)
        return ends


def best_cell(chosen: Float[Tensor, "... head"]) -> tuple[int, ...]:
    """Where the largest share is, NaN aside; the first of equals."""
    flat = torch.nan_to_num(chosen, nan=-1.0).flatten()
    return tuple(int(at) for at in np.unravel_index(int(flat.argmax()), tuple(chosen.shape)))

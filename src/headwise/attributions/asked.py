"""One token of each text, about which a token classifier is asked: what it says there is a prediction like any other.

A `Batch` that knows the places keeps its inputs as the model reads them; `asked_inputs` adds the places for
prediction.py, as one more row a text, so that they go along wherever texts are picked or repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.stats.reservoir import hashed
from headwise.types import Batch

ASKED = "asked"


@dataclass(frozen=True)
class AskedBatch(Batch):
    """`asked` is True at one token of each text."""

    asked: Bool[Tensor, "batch token"]


def asked_inputs(batch: Batch) -> Mapping[str, Tensor]:
    """The inputs of a batch, with the places where it has any."""
    return {**batch.inputs, ASKED: batch.asked} if isinstance(batch, AskedBatch) else batch.inputs


def asked_at(batch: Batch, places: Int[Tensor, " batch"]) -> AskedBatch:
    """The batch, asked about the tokens at `places`."""
    width = batch.inputs["input_ids"].shape[1]
    asked = torch.arange(width, device=batch.mask.device) == places.to(batch.mask.device)[:, None]
    return AskedBatch(batch.texts, batch.targets, batch.inputs, asked)


def asked_by_lot(
    batch: Batch, documents: Int[Tensor, " batch"], may: Bool[Tensor, "batch token"], seed: int
) -> AskedBatch:
    """One of the tokens where `may` holds, by a hash of the document: whatever the batches.

    subtle: a text without such a token is asked about its first; it has nothing to remove, so it does not count.
    """
    draw = hashed(documents * 7919 + 1, seed).remainder(may.sum(-1).clamp(min=1).cpu())
    chosen = ((may.cumsum(-1) - 1) == draw[:, None].to(may.device)).logical_and(may)
    return asked_at(batch, chosen.int().argmax(-1))

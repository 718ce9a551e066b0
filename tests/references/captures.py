"""What a family's tiny model gives for a padded batch: whole, in blocks, text by text, and by Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn

import headwise as hw
from headwise.errors import ModelError
from headwise.measures import ATTENTION, MIXING
from headwise.models.capture import eager
from headwise.types import Batch, Layer

# The last has no more tokens than a head has dimensions (6), so that all its weights count.
TEXTS = ("The old dog and the young cat sat in the sun, and so it was.", "It is said that the sea is big.", "the sea")
TARGETS = ("And it was so, in the end, that they all came.", "they say", "It was the end of it.")
HF_NAMES = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions",
            "cross": "cross_attentions"}  # fmt: skip


@dataclass(frozen=True)
class Captured:
    """A family's model and the three texts through it; everything is computed at its first use and kept."""

    family: str
    model: hw.Model

    @cached_property
    def batch(self) -> Batch:
        targets = [self.model.encode_target(text) for text in TARGETS] if self.model.is_encoder_decoder else []
        return self.model.batch([self.model.encode(text) for text in TEXTS], targets)

    @cached_property
    def layers(self) -> list[Layer]:
        return self._run(rows=0)

    @cached_property
    def blocks(self) -> list[Layer]:
        return self._run(rows=5)

    def _run(self, *, rows: int) -> list[Layer]:
        found: list[Layer] = []
        with torch.no_grad():
            self.model.run(self.batch, found.append, rows=rows)
        return found

    @cached_property
    def traces(self) -> list[hw.Trace]:
        return self.model.traces(TEXTS, TARGETS if self.model.is_encoder_decoder else None)

    @cached_property
    def hugging_face(self) -> Mapping[str, Any]:
        """Hugging Face's own output with its own eager attention."""
        return plain_forward(self.model.hf, self.batch.inputs)


def as_maps(banded: Tensor) -> Tensor:
    """Longformer's own weights [batch head query 2 w + 1], column c of row i being key i + c − w, as [… query key]."""
    n, half = banded.shape[2], banded.shape[3] // 2
    maps = torch.zeros(*banded.shape[:2], n, n)
    for row in range(n):
        for column in range(2 * half + 1):
            if 0 <= row + column - half < n:
                maps[:, :, row, row + column - half] = banded[:, :, row, column]
    return maps


def plain_forward(hf: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
    with torch.no_grad(), eager(hf):  # type: ignore[arg-type] - a PreTrainedModel
        return hf(**inputs, output_attentions=True, output_hidden_states=True)


@cache
def captured(family: str) -> Captured:
    return Captured(family, hw.load(f"tiny:{family}"))


def quantities(layer: Layer) -> dict[str, Tensor]:
    """Every registered quantity that this layer has; mixing ones with a head axis of length 1."""
    maps = {name: ATTENTION[name](layer) for name in ATTENTION}
    for name in MIXING:
        try:
            maps[name] = MIXING[name](layer)[:, None]
        except ModelError:
            assert name.startswith("norm-residual") or name in ("globenc", "alti")
            whole_block = layer.stack in ("self", "encoder") or name.startswith("norm-residual")
            norms = {"norm-residual-ln": layer.circuit.outer, "globenc": layer.circuit.last}
            assert not whole_block or layer.stack == "cross" or layer.residual is None or norms[name] is None
    return maps


def real_rows(layer: Layer, map_: Tensor) -> Tensor:
    """The map with NaN in the rows of padding queries."""
    return map_.masked_fill(~layer.query_mask[:, None, :, None], torch.nan)

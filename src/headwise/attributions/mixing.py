"""Any mixing quantity of a padded batch: those of a layer's own numbers, and those that need passes of their own."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attributions import PASSES
from headwise.measures import MIXING
from headwise.models.model import Model
from headwise.types import Batch, Layer


def has_residual(name: str) -> bool:
    """Whether a mixing quantity is of the whole block; otherwise it is of attention alone."""
    return (PASSES if name in PASSES else MIXING).entry(name).residual


def mixing_maps(model: Model, batch: Batch, name: str) -> Float[Tensor, "batch layer query key"]:
    """The map of every layer of the first stack; padding rows and columns are zero."""
    if name in PASSES:
        return PASSES[name](model, batch)
    measure, found = MIXING[name], {}

    def keep(layer: Layer) -> None:
        found.setdefault(layer.index, []).append(measure(layer))

    with torch.no_grad():
        model.run(batch, keep, wanted=lambda site: site.stack == model.stacks[0])
    maps = torch.stack([torch.cat(blocks, dim=1) for _, blocks in sorted(found.items())], dim=1)
    return torch.where(batch.mask[:, None, :, None] & batch.mask[:, None, None, :], maps, 0.0)

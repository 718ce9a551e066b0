"""What rows give to the token before, to the same one and to the token after: over the rows that have such a key.

previous, current, next   A_{q, q−1}, A_{q, q}, A_{q, q+1}
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.measures.reductions import diagonal
from headwise.types import Layer

OFFSETS = {"previous": -1, "current": 0, "next": 1}


def neighbour_rows(layer: Layer, offset: int) -> Float[Tensor, "batch query"]:
    """The weight of every row that has such a neighbour; a text weighs 1."""
    lengths = layer.key_mask.sum(-1, keepdim=True)
    key = torch.arange(layer.alpha.shape[2], device=layer.alpha.device) + layer.first_row + offset
    there = layer.query_mask & (key >= 0) & (key < lengths)
    return there.double() / (lengths - abs(offset)).clamp(min=1)


def to_neighbour(layer: Layer, quantity: str, offset: int) -> Float[Tensor, "batch head query"]:
    """What each row gives to a neighbour; 0 where there is none, as such rows have no weight."""
    if layer.stack == "cross":
        return layer.alpha.new_zeros(layer.alpha.shape[:3])
    return diagonal(layer, quantity, offset).nan_to_num(0.0)

r"""How far each key's vector goes along the head's output: ⟨α_ij f(x_j), o_i⟩ / ‖o_i‖; a row sums to ‖o_i‖."""

from __future__ import annotations

import torch

from headwise.quantities import ATTENTION, LENGTH
from headwise.types import Layer, once_per_text


@ATTENTION.add(
    "along",
    "How far each key's vector goes along what the head puts out; below zero it pulls the output back.",
    label="Along the output",
    rows="Signed; a row adds up to the length of the head's output.",
    unit=LENGTH,
    signed=True,
    cost="n·d_v² and n²·d_v a head",
)
def along(layer: Layer) -> torch.Tensor:
    """⟨α f(x), o⟩ / ‖o‖."""
    out = layer.alpha @ sent_small(layer)
    return layer.alpha * (torch.nn.functional.normalize(out, dim=-1) @ sent_small(layer).mT)


@once_per_text
def sent_small(layer: Layer) -> torch.Tensor:
    """f(x) in d_head instead of d_model dimensions, with the same lengths and inner products."""
    return layer.head_value @ layer.circuit.root

"""The attention weights themselves: α = softmax(q kᵀ/√d), as the model computed them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headwise.measures import ATTENTION, MIXING
from headwise.types import Layer


@ATTENTION.add("raw", "the attention weights, as every other tool shows them")
def raw(layer: Layer) -> Float[Tensor, "batch head query key"]:
    """α, a probability for each key."""
    return layer.alpha


@MIXING.add("raw-mean", "the attention weights, averaged over heads")
def raw_mean(layer: Layer) -> Float[Tensor, "batch query key"]:
    """The mean of α over heads."""
    return layer.alpha.mean(dim=1)

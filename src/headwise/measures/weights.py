"""The attention weights themselves: α = softmax(q kᵀ/√d), as the model computed them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headwise.quantities import ATTENTION, MIXING, WEIGHT
from headwise.types import Layer


@ATTENTION.add(
    "raw",
    "The weight α that the softmax gives each key: where the head looks, not what it takes.",
    label="Raw attention",
    unit=WEIGHT,
    distribution=True,
    quick=True,
    cost="free: it comes with the forward pass",
    order=10,
)
def raw(layer: Layer) -> Float[Tensor, "batch head query key"]:
    """α, a probability for each key."""
    return layer.alpha


@MIXING.add(
    "raw-mean",
    "The raw weights averaged over the heads of a layer.",
    residual=False,
    label="Mean of heads",
    unit=WEIGHT,
    distribution=True,
    cost="free: it comes with the forward pass",
    order=10,
)
def raw_mean(layer: Layer) -> Float[Tensor, "batch query key"]:
    """The mean of α over heads."""
    return layer.alpha.mean(dim=1)

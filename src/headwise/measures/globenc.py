r"""GlobEnc (Modarressi et al. 2022, https://arxiv.org/abs/2205.03286): norms through the whole block.

    globenc_ij = ‖ N₂ N₁ (Σ_h α_h,ij f_h(x_j) + [i = j] x_i) ‖ / Σ_k …,   N x = gain · centre(x)

N₁ is the norm after attention and N₂ the one after the feed-forward block, whose residual carries these vectors past
it; what that block itself adds is left out, as in the paper. A norm divides all vectors of a row by one σ_i, which a
share does not see.

Pre-norm blocks have no norm on the residual's way: N₁ is left out there, and N₂ is the norm that reads their output.
Cost: n·d² for what the keys send, n·H²·d for inner products of heads, n²·H² for the pairs.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ModelError
from headwise.measures.block import check, total
from headwise.measures.norms import with_own
from headwise.quantities import MIXING, SHARE
from headwise.types import Layer, Norm


@MIXING.add(
    "globenc",
    "Norms through residual and both norm layers of the block.",
    residual=True,
    label="GlobEnc",
    unit=SHARE,
    distribution=True,
    cost="n²·H² a layer",
    needs=lambda _, layer: last_norm(layer),
    paper="https://arxiv.org/abs/2205.03286",
    order=60,
)
def globenc(layer: Layer) -> Float[Tensor, "batch query key"]:
    """‖N₂ N₁ u_ij‖, each row a share."""
    pairs = lengths(layer)
    shares = pairs / pairs.sum(-1, keepdim=True)
    return torch.where(layer.query_mask[..., None], shares, 0.0)


def lengths(layer: Layer) -> Float[Tensor, "batch query key"]:
    """‖N₂ N₁ u_ij‖ before any σ_i of N₁ or N₂ divides the row."""
    last, circuit = last_norm(layer), layer.circuit
    first = [circuit.outer] if circuit.post and circuit.outer is not None else []
    return with_own(layer, [*first, last])


def last_norm(layer: Layer) -> Norm:
    """The norm layer that reads the block's output, without which there is no globenc."""
    check(layer, "globenc")
    if layer.circuit.last is None:
        raise ModelError(
            "globenc needs a norm layer that reads the output of the block, but this model has none there; use "
            "norm-residual or alti."
        )
    return layer.circuit.last


def scaled(layer: Layer) -> Float[Tensor, "batch query key"]:
    """The same divided by σ_i of N₁, where the block's stream passes it: what a product over blocks does see."""
    outer, pairs = layer.circuit.outer, lengths(layer)
    return pairs / outer.sigma(total(layer)) if layer.circuit.post and outer is not None else pairs

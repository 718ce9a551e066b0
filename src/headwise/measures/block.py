r"""The vectors that a block puts together, as globenc and alti read them.

With f_h(x_j) what key j sends through head h, token i of the block is the sum over j of

    u_ij = (Σ_h α_h,ij f_h(x_j) / σ_inner + [i = j] x_i) / σ

after the linear part of every norm on its way, plus biases that come from no token. The linear parts (centring, gains)
go into W_O once a layer, so no n × n × d_model tensor is formed for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from headwise.errors import ModelError
from headwise.types import Layer, Norm


class Parts(NamedTuple):
    """u_ij = inner_scale_i · Σ_h α_h,ij v_hj read_h + [i = j] own_i, before any division by a later norm's σ_i."""

    read: Float[Tensor, "head d_head d_model"]  # W_O with the linear parts of the norms inside
    own: Float[Tensor, "batch query d_model"]
    inner_scale: Float[Tensor, "batch query 1"] | None


def parts(layer: Layer, norms: Sequence[Norm]) -> Parts:
    """What makes of a value what its key sends, and what each query keeps, by the linear parts of `norms` in turn."""
    assert layer.residual is not None
    circuit, w_o, own = layer.circuit, layer.circuit.w_o, layer.residual
    before = [] if circuit.inner is None else [circuit.inner]
    for norm in (*before, *norms):
        w_o = norm.centre(w_o) * norm.gain
    for norm in norms:
        own = norm.centre(own) * norm.gain
    return Parts(circuit.scale * w_o, own, None if circuit.inner is None else 1 / circuit.inner.sigma(layer.out))


def total(layer: Layer) -> Float[Tensor, "batch query d_model"]:
    """Attention plus residual, as the model computes it, biases included."""
    assert layer.residual is not None
    circuit = layer.circuit
    return layer.residual + circuit.scale * (layer.out if circuit.inner is None else circuit.inner(layer.out))


def check(layer: Layer, name: str) -> None:
    if layer.stack not in ("self", "encoder"):
        raise ModelError(
            f"{name} is about blocks of self-attention and feed-forward, but a decoder's block reads another text in "
            f"between; use norm-sum for the {layer.stack} stack."
        )
    check_ungated(layer)
    if layer.circuit.shared:
        raise ModelError(
            f"{name} needs a block in which attention alone mixes tokens, but this model has convolutions beside its "
            "heads; use norm-sum or value-zeroing."
        )
    if layer.residual is None:
        raise ModelError(
            f"{name} needs a block that adds its attention to a residual before anything else reads it, but this model "
            "adds attention and feed-forward in parallel; use norm-sum or value-zeroing."
        )


def check_ungated(layer: Layer) -> None:
    if layer.gate is not None:
        raise ModelError(
            "Norms of several heads together need what a key sends to be the same for every query, but this model "
            "multiplies it by a gate (or norm) of the query before W_O; use norm, raw or effective."
        )

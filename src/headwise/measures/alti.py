r"""ALTI (Ferrando et al. 2022, https://arxiv.org/abs/2203.04212): how near a key's vector brings the block's output.

With y_i = Σ_j u_ij + b the output of attention, residual and (in post-norm blocks) their norm, u_ij what key j gives,

    c_ij = max(0, ‖y_i‖₁ − ‖y_i − u_ij‖₁) / Σ_k …

A key whose vector points away from the output counts nothing; a row in which all do is NaN. The distances need every
vector u_ij: they are formed for a few query rows at a time, never n × n × d_model at once. Cost: n²·H·d.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.measures.block import check, diagonal, parts, total
from headwise.quantities import MIXING, SHARE
from headwise.types import Layer

CHUNK = 2**22  # numbers of u formed at once


@MIXING.add(
    "alti",
    "How near a key's vector brings the block's output, as a share.",
    residual=True,
    label="ALTI",
    unit=SHARE,
    distribution=True,
    cost="n²·H·d a layer",
    paper="https://arxiv.org/abs/2203.04212",
    order=70,
)
def alti(layer: Layer) -> Float[Tensor, "batch query key"]:
    """c_ij, each row a share."""
    check(layer, "alti")
    outer = layer.circuit.outer if layer.circuit.post else None
    y = total(layer)
    scale = None if outer is None else 1 / outer.sigma(y)
    y = y if outer is None else outer(y)
    sent, own, inner_scale = parts(layer, [] if outer is None else [outer])
    rows, keys = diagonal(layer)
    near = torch.empty_like(layer.alpha[:, 0])
    for some in rows.split(max(1, CHUNK // (sent.shape[0] * sent.shape[2] * sent.shape[3]))):
        u = torch.einsum("bhqk,bhke->bqke", layer.alpha[:, :, some], sent)
        if inner_scale is not None:
            u = u * inner_scale[:, some, None]
        u[:, torch.arange(len(some)), keys[some]] += own[:, some]
        if scale is not None:
            u = u * scale[:, some, None]
        whole = y[:, some, None]
        near[:, some] = whole.abs().sum(-1) - (whole - u).abs().sum(-1)
    # subtle: a key that is not seen sends nothing, and so brings nothing nearer but for rounding
    seen = layer.visible & layer.query_mask[..., None]
    near = torch.where(seen, near.clamp(min=0), 0.0)
    return torch.where(seen, near / near.sum(-1, keepdim=True), 0.0)

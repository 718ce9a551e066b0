r"""ALTI (Ferrando et al. 2022, https://arxiv.org/abs/2203.04212): how near a key's vector brings the block's output.

With y_i = Σ_j u_ij + b the output of attention, residual and (in post-norm blocks) their norm, u_ij what key j gives,

    c_ij = max(0, ‖y_i‖₁ − ‖y_i − u_ij‖₁) / Σ_k …

A key whose vector points away from the output counts nothing; a row in which all do is NaN. The distances need every
vector u_ij: they are formed a tile of rows and keys at a time, never n × n × d_model at once. Cost: n²·H·d products and
n²·d absolute values, which no Gram matrix gives.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.measures.block import check, parts, total
from headwise.quantities import MIXING, SHARE
from headwise.types import Layer

ROWS, TILE = 64, 2**18  # query rows, and numbers of u, formed at once


@MIXING.add(
    "alti",
    "How near a key's vector brings the block's output, as a share.",
    residual=True,
    label="ALTI",
    unit=SHARE,
    distribution=True,
    cost="n²·H·d a layer",
    needs=lambda _, layer: check(layer, "alti"),
    paper="https://arxiv.org/abs/2203.04212",
    order=70,
)
def alti(layer: Layer) -> Float[Tensor, "batch query key"]:
    """c_ij, each row a share."""
    check(layer, "alti")
    outer = layer.circuit.outer if layer.circuit.post else None
    y = total(layer)
    # A norm divides all vectors of a row by one σ_i, which a share does not see: y and u are taken before it does.
    y = y if outer is None else outer(y) * outer.sigma(y)
    read, own, inner_scale = parts(layer, [] if outer is None else [outer])
    weights = layer.alpha if inner_scale is None else layer.alpha * inner_scale[:, None]
    away = _distances(y, weights, layer.head_value @ read, own, layer.first_row)
    near = y.abs().sum(-1, keepdim=True) - away
    # subtle: a key that is not seen sends nothing, and so brings nothing nearer but for rounding
    seen = layer.visible & layer.query_mask[..., None]
    near = torch.where(seen, near.clamp(min=0), 0.0)
    return torch.where(seen, near / near.sum(-1, keepdim=True), 0.0)


@torch.no_grad()
def _distances(
    y: Float[Tensor, "batch query d_model"],
    alpha: Float[Tensor, "batch head query key"],
    sent: Float[Tensor, "batch head key d_model"],
    own: Float[Tensor, "batch query d_model"],
    first_row: int,
) -> Float[Tensor, "batch query key"]:
    """‖y_i − u_ij‖₁, a tile of rows and keys at a time: every number of u is made, measured and forgotten in cache.

    subtle: all tiles are made in one piece of memory (new memory costs more than the products), and their absolute
    values are added up in two steps, which are vectorised where torch's 1-norm is not.
    """
    by_key = sent.transpose(1, 2).contiguous()  # batch key head d_model
    result = torch.empty_like(alpha[:, 0])
    keys = max(1, TILE // (ROWS * sent.shape[3]))
    tiles = sent.new_empty(keys * ROWS * sent.shape[3])
    for text in range(len(alpha)):
        for row in range(0, alpha.shape[2], ROWS):
            rows = slice(row, min(row + ROWS, alpha.shape[2]))
            for key in range(0, alpha.shape[3], keys):
                some = slice(key, min(key + keys, alpha.shape[3]))
                weights = alpha[text, :, rows, some].permute(2, 1, 0).contiguous()  # key query head
                shape = (*weights.shape[:2], sent.shape[3])
                left = tiles[: math.prod(shape)].view(shape)
                torch.bmm(weights, by_key[text, some], out=left)
                torch.sub(y[text, rows], left, out=left)
                _take_own(left, own[text, rows], first_row + row - key)
                result[text, rows, some] = left.abs_().sum(-1).mT
    return result


def _take_own(left: Float[Tensor, "key query d_model"], own: Float[Tensor, "query d_model"], offset: int) -> None:
    """Subtract what each query keeps of itself where its own key is in the tile; query q is key q + offset of it."""
    first, last = max(0, -offset), min(len(own), len(left) - offset)
    if first < last:
        left.diagonal(-offset, 0, 1).sub_(own[first:last].mT)

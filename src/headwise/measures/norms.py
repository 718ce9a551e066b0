r"""Weights times the vectors they carry: norm-based analysis (Kobayashi et al. 2020, 2021).

With f_h(x_j) = (x_j W_V + b_V) W_O,h the vector that key j sends through head h, attention moves α_h,ij f_h(x_j):

    norm               ‖α_h,ij f_h(x_j)‖ = α_h,ij ‖f_h(x_j)‖
    norm-sum           ‖Σ_h α_h,ij f_h(x_j)‖
    norm-residual      ‖Σ_h α_h,ij f_h(x_j) + [i = j] x_i‖, in units of the residual stream
    norm-residual-ln   the same vectors after the norm that reads their sum, divided by that row's own σ_i

None of them forms the n × n × d_model vectors. With G_j the head × head Gram matrix of f_1(x_j) … f_H(x_j), the squared
norm of the sum is α_ijᵀ G_j α_ij. A norm layer is linear once σ_i is known, so centring and gains go into f before the
Gram matrix is taken and 1/σ_i stays outside; only the diagonal needs the residual's vector.

subtle: b_V is inside f, b_O is not (it comes from no token), and so is the bias of a norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ModelError
from headwise.measures.block import check_ungated, parts, total
from headwise.quantities import ATTENTION, LENGTH, MIXING
from headwise.types import Layer, Norm, once_per_text

SENT, WEIGHTS = 128, 2**17  # keys whose vectors, and weights, are worked on at once, so that they stay in the cache


@ATTENTION.add(
    "norm",
    "‖α f(x)‖: the length of the vector that a key really sends, weight and value together.",
    label="Weighted value norm",
    unit=LENGTH,
    mean=False,  # norm-sum is what heads send together
    quick=True,
    cost="n·d_v² and n² a head",
    paper="https://arxiv.org/abs/2004.10102",
    order=40,
)
def norm(layer: Layer) -> Float[Tensor, "batch head query key"]:
    """α ‖f(x)‖; with a gate, α_ij ‖(g_i ⊙ v_j) W_O‖."""
    return layer.alpha * (sent_norm(layer)[:, :, None, :] if layer.gate is None else gated_norm(layer, layer.gate))


@MIXING.add(
    "norm-sum",
    "‖Σ_h α f(x)‖: what all heads together send from a key; heads that oppose each other cancel.",
    residual=False,
    label="Norm of the summed heads",
    unit=LENGTH,
    quick=True,
    cost="n²·H² a layer",
    paper="https://arxiv.org/abs/2004.10102",
    order=20,
)
def norm_sum(layer: Layer) -> Float[Tensor, "batch query key"]:
    """‖Σ_h α_h f_h(x)‖."""
    return quadratic_form(layer.alpha, sent_gram(layer))


@MIXING.add(
    "norm-residual",
    "‖Σ_h α f(x) + x‖: the heads together with the copy that the residual connection keeps.",
    residual=True,
    label="With the residual",
    unit=LENGTH,
    quick=True,
    cost="n²·H² a layer",
    paper="https://arxiv.org/abs/2109.07152",
    order=30,
)
def norm_residual(layer: Layer) -> Float[Tensor, "batch query key"]:
    """‖Σ_h α_h f_h(x_j) + [i = j] x_i‖."""
    return _with_residual(layer, None)


@MIXING.add(
    "norm-residual-ln",
    "The heads with the residual connection, after the layer norm that follows.",
    residual=True,
    label="With residual and norm layer",
    unit=LENGTH,
    quick=True,
    cost="n²·H² a layer",
    paper="https://arxiv.org/abs/2109.07152",
    order=40,
)
def norm_residual_ln(layer: Layer) -> Float[Tensor, "batch query key"]:
    """norm-residual, each vector centred, scaled by the gains and divided by the row's σ."""
    if layer.residual is not None and layer.circuit.outer is None:
        raise ModelError(
            "norm-residual-ln needs a norm layer that reads attention plus residual, but this model has none there "
            "(its feed-forward block reads the sum as it is); use norm-residual."
        )
    return _with_residual(layer, layer.circuit.outer)


@once_per_text
def sent_gram(layer: Layer) -> Float[Tensor, "batch key head other"]:
    """G_j, the inner products of f_1(x_j) … f_H(x_j)."""
    check_ungated(layer)
    return gram(layer, layer.circuit.w_o)


@once_per_text
def sent_norm(layer: Layer) -> Float[Tensor, "batch head key"]:
    """‖f_h(x_j)‖, without f."""
    return (layer.head_value @ layer.circuit.root).norm(dim=-1)


def gated_norm(layer: Layer, gate: Float[Tensor, "batch head query d_head"]) -> Float[Tensor, "batch head query key"]:
    """‖(g_i ⊙ v_j) W_O‖ = sqrt(Σ_de g_id g_ie (W_O W_Oᵀ)_de v_jd v_je), a head at a time."""
    norms = []
    for head, root in enumerate(layer.circuit.root):
        g, v = gate[:, head], layer.head_value[:, head]
        by_query = (g[..., None] * g[..., None, :] * (root @ root.mT)).flatten(-2)
        by_key = (v[..., None] * v[..., None, :]).flatten(-2)
        norms.append((by_query @ by_key.mT).clamp(min=0).sqrt())
    return torch.stack(norms, dim=1)


def gram(layer: Layer, read: Float[Tensor, "head d_head d_model"]) -> Float[Tensor, "batch key head other"]:
    """The inner products of what the heads make of each key's values; all of these vectors are never held at once."""
    sent = ((some @ read).transpose(1, 2) for some in layer.head_value.split(SENT, dim=2))
    return torch.cat([by_key @ by_key.mT for by_key in sent], dim=1)


def quadratic_form(
    alpha: Float[Tensor, "batch head query key"], gram: Float[Tensor, "batch key head other"]
) -> Float[Tensor, "batch query key"]:
    """sqrt(αᵀ G_j α) for every pair, a few keys at a time so that what is made of α stays in the cache.

    subtle: the first copy brings rows together that lie as far apart as a map is wide, which turning them round at once
    would take from memory number by number.
    """
    result = torch.empty_like(alpha[:, 0])
    keys = max(1, WEIGHTS // (alpha.shape[1] * alpha.shape[2]))
    for text, start in product(range(len(alpha)), range(0, alpha.shape[3], keys)):
        some = slice(start, start + keys)
        by_key = alpha[text, ..., some].contiguous().permute(2, 0, 1).contiguous()  # key head query, for products
        squared = (gram[text, some] @ by_key).mul_(by_key).sum(1)
        result[text, :, some] = squared.clamp_(min=0).sqrt_().mT
    return result


def _with_residual(layer: Layer, outer: Norm | None) -> Float[Tensor, "batch query key"]:
    """The norms of all vectors that add up to the block's output, `outer` being the norm they pass, if any."""
    _check_residual(layer)
    check_ungated(layer)
    return with_own(layer, []) if outer is None else with_own(layer, [outer]) / outer.sigma(total(layer))


def with_own(layer: Layer, norms: Sequence[Norm]) -> Float[Tensor, "batch query key"]:
    """‖u_ij‖ of a block (`parts`): what all heads send, and on the diagonal what the query keeps of itself too."""
    read, own, inner_scale = parts(layer, norms)
    pairs, kept = quadratic_form(layer.alpha, _gram_through(layer, norms, read)), _sent_to_itself(layer, read)
    if inner_scale is not None:
        pairs, kept = pairs * inner_scale, kept * inner_scale
    pairs.diagonal(layer.first_row, 1, 2).copy_((kept + own).norm(dim=-1))
    return pairs


def _gram_through(
    layer: Layer, norms: Sequence[Norm], read: Float[Tensor, "head d_head d_model"]
) -> Float[Tensor, "batch key head other"]:
    """Once a text for the same norms: blocks of its rows share the keys."""
    name = f"{__name__}.gram through {[id(norm) for norm in norms]}"
    if name not in layer.text_memo:
        layer.text_memo[name] = gram(layer, read)
    return layer.text_memo[name]


def _sent_to_itself(layer: Layer, read: Float[Tensor, "head d_head d_model"]) -> Float[Tensor, "batch query d_model"]:
    """Σ_h α_h,ii v_hi read_h, all heads in one product."""
    weights = layer.alpha.diagonal(layer.first_row, 2, 3)
    values = layer.head_value[:, :, layer.first_row : layer.first_row + weights.shape[-1]]
    return (weights[..., None] * values).transpose(1, 2).flatten(2) @ read.flatten(0, 1)


def _check_residual(layer: Layer) -> None:
    if layer.stack == "cross":
        raise ModelError(
            "Norms with the residual need the query to be one of the keys, but cross-attention reads another text; "
            "use norm-sum for the cross stack."
        )
    if layer.circuit.shared:
        raise ModelError(
            "Norms with the residual need a block in which attention alone mixes tokens, but this model has "
            "convolutions beside its heads; use norm-sum."
        )
    if layer.residual is None:
        raise ModelError(
            "Norms with the residual need a block that adds its attention to a residual before anything else reads it, "
            "but this model adds attention and feed-forward in parallel; use norm-sum."
        )

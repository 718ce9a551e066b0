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

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ModelError
from headwise.measures.block import check_ungated, diagonal, parts, total
from headwise.quantities import ATTENTION, LENGTH, MIXING
from headwise.types import Layer, Norm, once_per_text

KEYS = 16  # a cache line of float32 weights


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
def sent(layer: Layer) -> Float[Tensor, "batch head key d_model"]:
    """f_h(x_j), the vector key j sends through head h at weight 1."""
    check_ungated(layer)
    return torch.einsum("bhkd,hde->bhke", layer.head_value, layer.circuit.w_o)


@once_per_text
def sent_gram(layer: Layer) -> Float[Tensor, "batch key head other"]:
    """G_j, the inner products of f_1(x_j) … f_H(x_j)."""
    return gram(sent(layer))


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


def gram(vectors: Float[Tensor, "batch head key d_model"]) -> Float[Tensor, "batch key head other"]:
    by_key = vectors.transpose(1, 2)
    return by_key @ by_key.mT


def quadratic_form(
    alpha: Float[Tensor, "batch head query key"], gram: Float[Tensor, "batch key head other"]
) -> Float[Tensor, "batch query key"]:
    """sqrt(αᵀ G_j α) for every pair, a few keys at a time so that what is made of α stays in the cache."""
    result = torch.empty_like(alpha[:, 0])
    for start in range(0, alpha.shape[3], KEYS):
        some = slice(start, start + KEYS)
        by_key = alpha[..., some].permute(0, 3, 1, 2).contiguous()  # batch key head query: products need it so
        squared = (gram[:, some] @ by_key).mul_(by_key).sum(2)
        result[..., some] = squared.clamp_(min=0).sqrt_().mT
    return result


def _with_residual(layer: Layer, outer: Norm | None) -> Float[Tensor, "batch query key"]:
    """The norms of all vectors that add up to the block's output, `outer` being the norm they pass, if any."""
    _check_residual(layer)
    check_ungated(layer)
    outer_scale = 1.0 if outer is None else 1 / outer.sigma(total(layer))
    sent, own, inner_scale = parts(layer, [] if outer is None else [outer])
    rows, keys = diagonal(layer)
    pairs = quadratic_form(layer.alpha, gram(sent))
    kept = torch.einsum("bhq,bhqe->bqe", layer.alpha[:, :, rows, keys], sent[:, :, keys])
    if inner_scale is not None:
        pairs, kept = pairs * inner_scale, kept * inner_scale
    pairs[:, rows, keys] = (kept + own).norm(dim=-1)
    return pairs * outer_scale


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

r"""Sizes of ∂e_j^l/∂x_i for all layers and token pairs of a batch, forward (tangents) or backward (cotangents).

Forward: a tangent q at x_i gives J_ij q for every token j and every layer l in one pass. With k orthonormal tangents
drawn at random and d dimensions, (d/k) Σ_r ‖J_ij q_r‖² is unbiased for ‖J_ij‖²_F, and for k = d it is exact. Its
variance is that of a sample from a finite population, s²/k · (1 − k/d), as orthonormal draws do not repeat each other.

Backward: a cotangent v at e_j^l gives vᵀ J_ij for every input i; n · L of them serve all tokens and layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headwise.attributions.passes import hidden_of, tangents_of, trunk, trunk_inputs
from headwise.errors import InputError
from headwise.models.capture import at_least_float
from headwise.models.model import Model
from headwise.types import Batch

BUDGET = 2**30  # bytes that the tangents of a pass may take unless told
CACHE = (
    12 * 2**20
)  # bytes of the widest step of a bundle: fewer tangents share a primal too seldom, more leave the cache
Reduce = Callable[[int, Float[Tensor, "tangent batch token d_model"]], Float[Tensor, "tangent batch token"]]
Draws = Float[Tensor, "draw batch layer token input"]


def directions(d: int, k: int, seed: int, position: int, like: Tensor) -> Float[Tensor, "draw d_model"]:
    """k orthonormal tangents for one input position; all unit vectors where k is d or more.

    They depend on the seed and the position alone, so neither padding nor other texts of a batch change a result.
    """
    if k >= d:
        return torch.eye(d, dtype=like.dtype, device=like.device)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + position)
    drawn = torch.randn(d, k, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(drawn).Q.T.to(like)


def squared_draws(
    model: Model,
    batch: Batch,
    x: Float[Tensor, "batch token d_model"],
    reduce: Reduce,
    *,
    k: int,
    seed: int,
    budget: int,
) -> Draws:
    """`reduce` of every J_ij q_r: [draw batch layer token input], scaled so that the mean over draws is unbiased."""
    texts, n, d = x.shape
    draws = min(k, d)
    kept = torch.zeros(draws, texts, model.layers(), n, n, dtype=at_least_float(x[:0]).dtype, device=x.device)
    size = tangents_at_once(model, x, budget=budget, kept=kept.numel() * kept.element_size())
    for places, tangents in _bundles(x, draws, seed, size):
        inputs, draw = places // draws, places % draws
        for layer, moved in enumerate(tangents_of(model, trunk_inputs(batch.inputs), x, tangents)):
            kept[draw, :, layer, :, inputs] = reduce(layer, at_least_float(moved)) * d
    return kept


def squared_total(
    model: Model, batch: Batch, x: Float[Tensor, "batch token d_model"], reduce: Reduce, *, budget: int
) -> Float[Tensor, "batch layer token input"]:
    """The sum of `reduce` over all unit tangents: exact, at d passes a token."""
    texts, n, d = x.shape
    total = torch.zeros(n, texts, model.layers(), n, dtype=at_least_float(x[:0]).dtype, device=x.device)
    size = tangents_at_once(model, x, budget=budget, kept=total.numel() * total.element_size())
    for places, tangents in _bundles(x, d, 0, size):
        for layer, moved in enumerate(tangents_of(model, trunk_inputs(batch.inputs), x, tangents)):
            total[:, :, layer].index_add_(0, places // d, reduce(layer, at_least_float(moved)))
    return total.permute(1, 2, 3, 0)


def _bundles(
    x: Float[Tensor, "batch token d_model"], draws: int, seed: int, size: int
) -> Iterator[tuple[Tensor, Float[Tensor, "tangent batch token d_model"]]]:
    """All tangents in bundles of `size`, with their numbers: input position · draws + draw."""
    texts, n, d = x.shape
    for start in range(0, n * draws, size):
        places = torch.arange(start, min(start + size, n * draws), device=x.device)
        inputs = places // draws
        frames = {int(at): directions(d, draws, seed, int(at), x) for at in inputs.unique()}
        vectors = torch.stack([frames[int(at)][int(draw)] for at, draw in zip(inputs, places % draws, strict=True)])
        tangents = x.new_zeros(len(places), texts, n, d)
        tangents[torch.arange(len(places), device=x.device), :, inputs] = vectors[:, None].expand(-1, texts, -1)
        yield places, tangents


def tangents_at_once(model: Model, x: Float[Tensor, "batch token d_model"], *, budget: int, kept: int) -> int:
    """How many tangents the budget allows, or an error with the numbers; more than fill the cache bring no speed."""
    each = bytes_each(model, x)
    fits = (budget - kept) // each
    if fits < 1:
        raise InputError(
            f"The budget must hold the result ({_mib(kept)}) and one tangent through the model ({_mib(each)}), but it "
            f"is {_mib(budget)}; pass a larger budget=, a shorter text, or fewer texts a batch."
        )
    return int(min(fits, max(1, CACHE // (x.element_size() * x.shape[0] * x.shape[1] * widest(model)))))


def bytes_each(model: Model, x: Float[Tensor, "batch token d_model"]) -> int:
    """What one tangent takes on its way: the states that are kept, and the widest step with its copies."""
    texts, n, d = x.shape
    return x.element_size() * texts * n * ((model.layers() + 4) * d + 3 * widest(model) + 4 * model.heads() * n)


def widest(model: Model) -> int:
    """The most numbers that a linear module of the blocks gives for a token."""
    linear = [m for m in trunk(model).modules() if isinstance(m, nn.Linear | Conv1D)]
    return max(m.out_features if isinstance(m, nn.Linear) else m.nf for m in linear)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def pulled_back(
    model: Model,
    batch: Batch,
    x: Float[Tensor, "batch token d_model"],
    cotangents: Sequence[Float[Tensor, "batch token d_model"]],
    *,
    budget: int,
) -> Float[Tensor, "batch layer token input"]:
    """‖vᵀ J_ij‖ with v = cotangents[l] at token j, for every layer, token and input."""
    texts, n, _ = x.shape
    found = torch.zeros(texts, model.layers(), n, n, dtype=at_least_float(x[:0]).dtype, device=x.device)
    size = tangents_at_once(model, x, budget=budget, kept=found.numel() * found.element_size())
    with torch.enable_grad():
        point = x.detach().requires_grad_()
        states = hidden_of(model, trunk_inputs(batch.inputs), point)
        for layer, (state, cotangent) in enumerate(zip(states, cotangents, strict=True)):
            for start in range(0, n, size):
                tokens = torch.arange(start, min(start + size, n), device=x.device)
                rows = torch.zeros(len(tokens), *x.shape, dtype=x.dtype, device=x.device)
                rows[torch.arange(len(tokens)), :, tokens] = cotangent[:, tokens].transpose(0, 1)
                (pulled,) = torch.autograd.grad(state, point, rows, retain_graph=True, is_grads_batched=True)
                found[:, layer, tokens] = at_least_float(pulled).norm(dim=-1).transpose(0, 1)
    return found

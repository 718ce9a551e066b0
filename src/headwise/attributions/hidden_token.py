r"""Hidden token attribution (Brunner et al. 2020, https://arxiv.org/abs/1908.04211): the share of input i in e_j^l,

    c_ij = ‖∂e_j^l/∂x_i‖ / Σ_k ‖∂e_j^l/∂x_k‖,

x being the output of the embedding module. The paper does not say which norm of the matrix is meant:

    frobenius   the root of the sum of squares, estimated by k random tangents an input token, or exact
    sum         ‖Σ_o ∂e_jo/∂x_i‖, the gradient of the sum over output dimensions; exact, by cotangents. After a
                LayerNorm with even gains this sum is constant, so the shares say little there
    spectral    the largest singular value; exact, from the whole Jacobian

Cost, in passes of the text: frobenius n·k tangents (exact: n·d), sum n·L cotangents, spectral n·d tangents and n²·L
singular value decompositions of d × d matrices. A pass grows with L·(n·d² + n²·d).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.attributions import ORIGINS, Origins
from headwise.attributions.jacobians import BUDGET, Draws, pulled_back, squared_draws, squared_total, tangents_at_once
from headwise.attributions.passes import embedded, shares, tangents_of, trunk_inputs
from headwise.errors import InputError
from headwise.models.capture import at_least_float
from headwise.models.model import Model
from headwise.quantities import SHARE
from headwise.types import Batch

NORMS = ("frobenius", "sum", "spectral")


@ORIGINS.add(
    "hidden-token",
    "The share of each input token in a hidden token, by the gradient of the one in the other.",
    label="Hidden token attribution",
    unit=SHARE,
    distribution=True,
    cost="16·n tangents; n·d for exact ones",
    work=lambda size: 16 * size.tokens * size.a_pass,
    paper="https://arxiv.org/abs/1908.04211",
    order=10,
)
def hidden_token(
    model: Model,
    batch: Batch,
    *,
    k: int = 16,
    seed: int = 0,
    exact: bool = False,
    norm: str = "frobenius",
    budget: int = BUDGET,
) -> Origins:
    """c_ij of every layer; `error` is the standard error where it is estimated (frobenius, k below d)."""
    if norm not in NORMS:
        raise InputError(f"A norm is one of {', '.join(NORMS)}, but {norm!r} was asked for.")
    check_draws(k)
    x = embedded(model, batch)
    if norm == "sum":
        ones = [torch.ones_like(x)] * model.layers()
        return Origins(shares(pulled_back(model, batch, x, ones, budget=budget), batch.mask))
    if norm == "spectral":
        return Origins(shares(_spectral(model, batch, x, budget=budget), batch.mask))
    if exact or k >= x.shape[-1]:
        return Origins(shares(squared_total(model, batch, x, _squared, budget=budget).sqrt(), batch.mask))
    return estimated(squared_draws(model, batch, x, _squared, k=k, seed=seed, budget=budget), batch, x.shape[-1])


def check_draws(k: int) -> None:
    if k < 2:
        raise InputError(f"At least 2 tangents are needed to tell their error, but k={k} was asked for.")


def _squared(_layer: int, moved: Float[Tensor, "tangent batch token d_model"]) -> Float[Tensor, "tangent batch token"]:
    return torch.linalg.vector_norm(moved, dim=-1).square()


def estimated(draws: Draws, batch: Batch, d: int) -> Origins:
    """Shares of the root mean squares over draws, and their standard error to first order."""
    sizes = draws.mean(0).sqrt()
    maps = shares(sizes, batch.mask)
    error = torch.empty_like(maps)
    for layer in range(maps.shape[1]):
        error[:, layer] = _standard_error(draws[:, :, layer], sizes[:, layer], maps[:, layer], batch, d)
    return Origins(maps, error)


def _standard_error(
    draws: Float[Tensor, "draw batch token input"],
    sizes: Float[Tensor, "batch token input"],
    maps: Float[Tensor, "batch token input"],
    batch: Batch,
    d: int,
) -> Float[Tensor, "batch token input"]:
    """The spread over draws of what each adds to a share: (s_ij/2a_ij − c_ij Σ_m s_mj/2a_mj) / Σ_m a_mj."""
    inputs = batch.mask[:, None, :]
    pulls = torch.where((sizes > 0) & inputs, draws / (2 * sizes), 0.0)
    whole = torch.where(inputs, sizes, 0.0).sum(-1, keepdim=True)
    added = (pulls - maps * pulls.sum(-1, keepdim=True)) / whole
    left = 1 - len(draws) / d
    return torch.where(inputs & batch.mask[:, :, None], (added.var(0) / len(draws) * left).sqrt(), 0.0)


def _spectral(
    model: Model, batch: Batch, x: Float[Tensor, "batch token d_model"], *, budget: int
) -> Float[Tensor, "batch layer token input"]:
    """The largest singular value of every J_ij, one input token after the other."""
    texts, n, d = x.shape
    layers, inputs = model.layers(), trunk_inputs(batch.inputs)
    matrices = x.new_empty(layers, texts, n, d, d, dtype=at_least_float(x[:0]).dtype)
    size = tangents_at_once(model, x, budget=budget, kept=matrices.numel() * matrices.element_size())
    found = matrices.new_zeros(texts, layers, n, n)
    unit = torch.eye(d, dtype=x.dtype, device=x.device)
    for at in range(n):
        for rows in torch.arange(d, device=x.device).split(size):
            tangents = x.new_zeros(len(rows), texts, n, d)
            tangents[:, :, at] = unit[rows][:, None]
            for layer, moved in enumerate(tangents_of(model, inputs, x, tangents)):
                matrices[layer][..., rows] = at_least_float(moved).permute(1, 2, 3, 0)
        found[..., at] = torch.linalg.matrix_norm(matrices, ord=2).transpose(0, 1)
    return found

"""Is an explanation faithful? Remove the tokens it names and see whether the prediction goes (DeYoung et al. 2020).

With p the probability of the target and r_q the ⌈q n⌉ tokens of the highest scores among the n that may be removed,

    comprehensiveness(q) = p(text) − p(text without r_q)          high: what it names was needed
    sufficiency(q)       = p(text) − p(r_q alone)                 low: what it names is enough

and AOPC is the mean over q = 1, 5, 10, 20 and 50 % (ERASER, https://arxiv.org/abs/1911.03429). Special tokens always
stay. The other test is the rank correlation of the scores with those of leave-one-out (Jain & Wallace 2019,
https://arxiv.org/abs/1902.10186): Kendall's τ-b and Spearman's ρ, over the tokens that may be removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from headwise.errors import InputError

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


def check_fractions(fractions: Sequence[float]) -> None:
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise InputError(f"Fractions of the tokens must be above 0 and at most 1, but {list(fractions)} was asked for.")


def top(
    scores: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"], fraction: float
) -> Bool[Tensor, "batch token"]:
    """The ⌈fraction · n⌉ tokens of the highest scores among those that `may` names; of equals the earlier ones."""
    size = (may.sum(-1, keepdim=True).double() * fraction - 1e-9).ceil()  # subtle: 0.07 · 100 is above 7 in floats
    return may & (places(scores, may) < size)


def places(scores: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"]) -> Int[Tensor, "batch token"]:
    """The place of every token in the order of falling scores, from 0; those that `may` does not name come last."""
    order = torch.where(may, scores, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    return order.argsort(dim=-1)


def removals(
    scores: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"], fractions: Sequence[float]
) -> Bool[Tensor, "side fraction batch token"]:
    """What to remove: side 0 the tokens named (comprehensiveness), side 1 all the others (sufficiency)."""
    named = torch.stack([top(scores, may, fraction) for fraction in fractions])
    return torch.stack([named, may & ~named])


def drops(
    whole: Float64[Tensor, " batch"], without: Float64[Tensor, "side fraction batch"]
) -> Float64[Tensor, "side fraction batch"]:
    """p(text) − p(what is left) from log-probabilities: comprehensiveness (side 0) and sufficiency (side 1)."""
    return whole.exp() - without.exp()


def aopc(drops: Float64[Tensor, "*any fraction batch"]) -> Float64[Tensor, "*any batch"]:
    """The mean over the fractions."""
    return drops.mean(-2)


def kendall(
    x: Float[Tensor, "batch token"], y: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"]
) -> Float64[Tensor, " batch"]:
    """Kendall's τ-b over the tokens that `may` names; NaN where all of x or all of y are equal."""
    pairs = (may[:, :, None] & may[:, None, :]).double()
    a, b = (pairs * (z.double()[:, :, None] - z.double()[:, None, :]).sign() for z in (x, y))
    return _ratio((a * b).sum((1, 2)), a.square().sum((1, 2)), b.square().sum((1, 2)))


def spearman(
    x: Float[Tensor, "batch token"], y: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"]
) -> Float64[Tensor, " batch"]:
    """Spearman's ρ, ties sharing their mean rank; NaN where all of x or all of y are equal."""
    a, b = (_centred_ranks(z, may) for z in (x, y))
    return _ratio((a * b).sum(-1), a.square().sum(-1), b.square().sum(-1))


def _centred_ranks(x: Float[Tensor, "batch token"], may: Bool[Tensor, "batch token"]) -> Float64[Tensor, "batch token"]:
    """Half of (how many are below − how many are above): the mean rank of a token, less that of all."""
    pairs = (may[:, :, None] & may[:, None, :]).double()
    return (pairs * (x.double()[:, :, None] - x.double()[:, None, :]).sign()).sum(-1) / 2


def _ratio(
    product: Float64[Tensor, " batch"], left: Float64[Tensor, " batch"], right: Float64[Tensor, " batch"]
) -> Float64[Tensor, " batch"]:
    size = (left * right).sqrt()
    return torch.where(size > 0, product / size, torch.nan)

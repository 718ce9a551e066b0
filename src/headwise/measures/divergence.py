r"""How far apart two distributions are, row by row: of attention (KL, Jensen-Shannon) and of predictions (TVD, NLL).

    KL(p ‖ q) = Σ p (log p − log q)                                nats, no upper bound
    JS(p, q)  = ½ KL(p ‖ m) + ½ KL(q ‖ m),   m = (p + q) / 2       nats, at most ln 2, symmetric
    TVD(p, q) = ½ Σ |p − q|                                        in [0, 1], symmetric

They take logarithms and are differentiable: an entry that is hidden has the same large negative logarithm in both, so
that its weight and its gradient are exactly zero.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LN_2 = math.log(2)


def kl(log_p: Float[Tensor, "*#rows key"], log_q: Float[Tensor, "*#rows key"]) -> Float[Tensor, "*many"]:
    """KL(p ‖ q) in nats."""
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def js(log_p: Float[Tensor, "*#rows key"], log_q: Float[Tensor, "*#rows key"]) -> Float[Tensor, "*many"]:
    """JS(p, q) in nats."""
    p, q = log_p.exp(), log_q.exp()
    log_m = torch.log((p + q).clamp(min=torch.finfo(p.dtype).tiny)) - LN_2
    return ((p * (log_p - log_m)).sum(-1) + (q * (log_q - log_m)).sum(-1)) / 2


def tvd(log_p: Float[Tensor, "*rows choice"], log_q: Float[Tensor, "*rows choice"]) -> Float[Tensor, "*rows"]:
    """Total variation distance, a probability."""
    return (log_p.exp() - log_q.exp()).abs().sum(-1) / 2


def nll(log_p: Float[Tensor, "*rows choice"], label: Int[Tensor, "*#rows"]) -> Float[Tensor, "*rows"]:
    """−log p(label) in nats."""
    return -log_p.gather(-1, label.expand(log_p.shape[:-1])[..., None])[..., 0]


def mean_rows(rows: Float[Tensor, "*any batch token"], mask: Bool[Tensor, "batch token"]) -> Float[Tensor, "*any"]:
    """The mean over the tokens of a batch that are no padding."""
    return torch.where(mask, rows, 0.0).sum((-2, -1)) / mask.sum()

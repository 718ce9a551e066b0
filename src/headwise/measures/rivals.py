r"""Per-instance adversaries (Jain & Wallace 2019, https://arxiv.org/abs/1902.10186, §4.2.2): for one text and a model
that stays as it is, the attention that is farthest from the model's own and hardly changes what is predicted,

    max over α̃ of  mean JS(α̃, α)   subject to   TVD(prediction under α̃, prediction) ≤ ε  at every place of it.

All texts of a batch at once. α̃ = softmax(θ) over the keys that a query sees; Adam climbs JS − μ · max(0, TVD − ε) from
noise (α itself is where JS is least, and beside it the way up may lead to a still sharper α), and after each step the
maps that keep the constraint and are farther than before are kept. At the end what is left is projected: along
(1 − t) α + t α̃ the divergence only grows with t, and the largest t that keeps the constraint is found by halving. t = 0
is always allowed, so every answer keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.errors import InputError
from headwise.measures import divergence

HIDDEN = -1e4  # logarithm of the weight of a key that is not seen: the weight is exactly 0
HALVINGS = 12
Maps = Float[Tensor, "batch map query key"]  # of all layers and heads, side by side
Predict = Callable[[Maps], Float[Tensor, "batch place choice"]]  # → log-probabilities


@dataclass(frozen=True)
class Search:
    """`epsilon`: most that a prediction may change (TVD). `weight`: μ. `noise`: of the start, in nats."""

    epsilon: float = 0.05
    steps: int = 60
    rate: float = 0.3
    weight: float = 20.0
    noise: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 1:
            raise InputError(f"A prediction may change by ε above 0 and at most 1, but {self.epsilon} was asked for.")
        if self.steps < 1 or self.rate <= 0 or self.weight <= 0 or self.noise <= 0:
            raise InputError(f"A search needs steps, a rate, a weight and noise above 0, but {self} was asked for.")


@dataclass(frozen=True)
class Rivals:
    """The maps that were found, how far they are from the model's own, and what they change, at each place."""

    alpha: Maps
    js: Float[Tensor, "batch map query"]  # nats; 0 at padding
    tvd: Float[Tensor, "batch place"]


def rivals(
    alpha: Maps,
    predict: Predict,
    *,
    visible: Bool[Tensor, "batch query key"],
    queries: Bool[Tensor, "batch query"],
    places: Bool[Tensor, "batch place"],
    search: Search,
    numbers: Sequence[int] | None = None,
    rowwise: bool = False,
) -> Rivals:
    """The farthest maps that were found for every text.

    `numbers` name the texts: with the seed they decide the noise, so that batch-mates play no part.
    `places`: where predictions count. `rowwise`: place i depends on row i of the maps alone (one layer that tags), and
    so each row is an instance of its own; otherwise a text is.
    """
    own = log_of(alpha, visible)
    with torch.no_grad():
        said = predict(alpha)
    counted = queries[:, None] & visible.any(-1)[:, None]

    def far(candidate: Maps) -> tuple[Tensor, Tensor, Tensor]:
        """JS of rows; its mean over what one instance is; TVD of places, padding at 0."""
        rows = torch.where(counted, divergence.js(log_of(candidate, visible), own), 0.0)
        changed = torch.where(places, divergence.tvd(predict(candidate), said), 0.0)
        whole = rows.mean(1) if rowwise else (rows.mean(1).sum(-1) / queries.sum(-1))[:, None]
        return rows, whole, changed

    def allowed(changed: Float[Tensor, "batch place"]) -> Bool[Tensor, "batch instance"]:
        return changed <= search.epsilon if rowwise else (changed <= search.epsilon).all(-1, keepdim=True)

    best, best_js = alpha.clone(), torch.zeros_like(alpha[:, 0, :, 0] if rowwise else alpha[:, 0, :1, 0])
    theta = (search.noise * _noise(own, queries, visible, numbers or range(len(alpha)), search.seed)).requires_grad_()
    adam = torch.optim.Adam([theta], lr=search.rate)
    for _ in range(search.steps):
        candidate = softmax(theta, visible)
        _, whole, changed = far(candidate)
        loss = -whole.sum() + search.weight * (changed - search.epsilon).clamp(min=0).sum()
        best, best_js = _better(best, best_js, candidate.detach(), whole.detach(), allowed(changed.detach()))
        (theta.grad,) = torch.autograd.grad(loss, theta)
        adam.step()
    with torch.no_grad():
        last = softmax(theta, visible)
        low = torch.zeros_like(best_js)
        high = torch.ones_like(low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            ok = allowed(far(_between(alpha, last, middle))[2])
            low, high = torch.where(ok, middle, low), torch.where(ok, high, middle)
        moved = _between(alpha, last, low)
        _, whole, changed = far(moved)
        best, _ = _better(best, best_js, moved, whole, allowed(changed))
        rows, _, changed = far(best)
    return Rivals(best, rows, changed)


def _noise(
    like: Maps, queries: Bool[Tensor, "batch query"], visible: Bool[Tensor, "batch query key"],
    numbers: Sequence[int], seed: int,
) -> Maps:  # fmt: skip
    """N(0, 1) for the queries and keys of each text, whatever they are padded to."""
    noise = torch.zeros_like(like)
    for at, number in enumerate(numbers):
        rows, keys = int(queries[at].sum()), int(visible[at].any(0).sum())
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        noise[at, :, :rows, :keys] = torch.randn(like.shape[1], rows, keys, generator=generator).to(like)
    return noise


def _between(alpha: Maps, last: Maps, t: Float[Tensor, "batch instance"]) -> Maps:
    return alpha + t[:, None, :, None] * (last - alpha)


def _better(
    best: Maps, best_js: Tensor, candidate: Maps, js: Tensor, allowed: Bool[Tensor, "batch instance"]
) -> tuple[Maps, Float[Tensor, "batch instance"]]:
    taken = allowed & (js > best_js)
    return torch.where(taken[:, None, :, None], candidate, best), torch.where(taken, js, best_js)


def softmax(theta: Maps, visible: Bool[Tensor, "batch query key"]) -> Maps:
    """Distributions over the keys that each query sees; a row that sees none is zero."""
    return torch.where(visible[:, None], theta, HIDDEN).softmax(-1) * visible.any(-1)[:, None, :, None]


def log_of(alpha: Maps, visible: Bool[Tensor, "batch query key"]) -> Maps:
    return torch.where(visible[:, None], alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log(), HIDDEN)

"""Maps from vectors to vectors, learned for many folds and layers at once.

    linear   g(e) = e W                          no bias
    mlp      g(e) = gelu(e W₁ + b₁) W₂ + b₂      d → 1000 → d

Closed form (linear, least squares). With the Gram matrices of the training tokens, G = Σ e eᵀ and C = Σ e xᵀ,

    W = (G + λ I)⁻¹ C,   λ = strength · trace(G) / d,

and the validation tokens choose the strength, as they stop the training below. Gram matrices add up over tokens, so all
folds share those of the pieces between their cuts; and in the eigenbasis of G the validation loss of one more strength
costs d² instead of d³.

Newton (linear, cosine). The loss Σ 1 − cos(p, x) with p = e W, r = ‖p‖ has the gradient Σ e (cos · p̂ − x̂)ᵀ / r. Steps
W ← W − H⁻¹ ∇ with H = Σ e eᵀ / r², taken where the steps begin (at least squares), come to the same least loss as Adam
in some fifteen passes over the tokens instead of hundreds.

Adam, as Brunner et al. 2020 (https://arxiv.org/abs/1908.04211) B.1 do it: rate 1e-4, batches of 256 tokens, Glorot
uniform weights, until 20 epochs have brought no gain on the validation tokens; the best weights are kept. Problems of a
group go forward and backward as one batched product, each with its own batches, its own Adam and its own end; what a
problem comes to does not depend on its company but for rounding.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn.functional import cosine_similarity, gelu, normalize

MAPS = ("none", "linear", "mlp")
STRENGTHS = tuple(10.0**power for power in range(-7, 2))


@dataclass(frozen=True)
class Maps:
    """Maps of one kind, stacked: () is no map at all, (W,) linear, (W₁, b₁, W₂, b₂) an MLP."""

    weights: tuple[Float[Tensor, "map ..."], ...]

    def __call__(self, x: Float[Tensor, "#map token d_in"]) -> Float[Tensor, "map token d_out"]:
        if not self.weights:
            return x
        if len(self.weights) == 1:
            return x @ self.weights[0]
        w_1, b_1, w_2, b_2 = self.weights
        return gelu(x @ w_1 + b_1[:, None]) @ w_2 + b_2[:, None]

    def __getitem__(self, chosen: int | slice) -> Maps:
        part = slice(chosen, chosen + 1) if isinstance(chosen, int) else chosen
        return Maps(tuple(weight[part] for weight in self.weights))


# --- closed form ---


@dataclass(frozen=True)
class Grams:
    """Sums over tokens: e eᵀ, e xᵀ and ‖x‖², and how many tokens there were. They add up."""

    xx: Float64[Tensor, "*fold d_in d_in"]
    xy: Float64[Tensor, "*fold d_in d_out"]
    yy: Float64[Tensor, "*fold"]
    count: Float64[Tensor, "*fold"]

    @classmethod
    def of(cls, x: Float[Tensor, "token d_in"], y: Float[Tensor, "token d_out"]) -> Grams:
        x, y = x.double(), y.double()
        return cls(x.mT @ x, x.mT @ y, y.square().sum(), torch.tensor(float(len(x)), dtype=torch.float64))

    def __add__(self, other: Grams) -> Grams:
        return Grams(self.xx + other.xx, self.xy + other.xy, self.yy + other.yy, self.count + other.count)

    @classmethod
    def stack(cls, grams: Sequence[Grams]) -> Grams:
        return cls(*(torch.stack([getattr(g, name) for g in grams]) for name in ("xx", "xy", "yy", "count")))


def ridge(
    train: Grams, validation: Grams | None = None, strengths: Sequence[float] = STRENGTHS
) -> tuple[Float64[Tensor, "fold d_in d_out"], Float64[Tensor, " fold"]]:
    """The least-squares map of each fold at the strength that serves its validation tokens best, and that strength.

    A strength of 0 is plain least squares, of least norm where the training tokens leave directions open. With one
    strength there is nothing to choose and `validation` may be left out.
    """
    values, basis = torch.linalg.eigh(train.xx)
    z = basis.mT @ train.xy
    open_ends = values[:, -1:] * values.shape[-1] * torch.finfo(values.dtype).eps
    shrunk = [values + strength * values.mean(-1, keepdim=True) for strength in strengths]
    inverses = torch.stack([torch.where(s > open_ends, 1 / s, 0.0) for s in shrunk])  # [strength fold d_in]
    chosen = torch.zeros(len(values), dtype=torch.int64)
    if len(strengths) > 1:
        if validation is None:
            raise ValueError("Several strengths need validation tokens to choose by.")
        quadratic = (basis.mT @ validation.xx @ basis) * (z @ z.mT)
        linear = (z * (basis.mT @ validation.xy)).sum(-1)
        losses = torch.einsum("sfi,fij,sfj->sf", inverses, quadratic, inverses)
        losses = losses - 2 * torch.einsum("sfi,fi->sf", inverses, linear)
        chosen = losses.argmin(0)
    inverse = inverses[chosen, torch.arange(len(values))]
    return basis @ (inverse[..., None] * z), torch.tensor(strengths, dtype=torch.float64)[chosen]


def newton(
    x: Float[Tensor, "token d_in"],
    y: Float[Tensor, "token d_out"],
    start: Float[Tensor, "d_in d_out"],
    *,
    steps: int = 30,
    gain: float = 2e-4,
    damping: float = 1e-4,
) -> tuple[Float[Tensor, "d_in d_out"], int]:
    """The linear map of least mean 1 − cos(e W, x), and how many steps led to it.

    It ends when a step lowers the loss by less than `gain` of itself, or raises it, and gives the best map seen. There
    is no early stopping on other tokens: the map is the optimum for these.
    """
    goal = normalize(y, dim=-1)
    w, kept, least, taken = start, start, math.inf, 0
    root = None
    for step in range(steps + 1):
        p = x @ w
        r = p.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        cosine = (p * goal).sum(-1, keepdim=True) / r
        loss = 1 - float(cosine.double().mean())
        enough = loss > least * (1 - gain)
        if loss < least:
            kept, least, taken = w, loss, step
        if enough or step == steps:
            break
        weighed = x / r
        if root is None:
            h = (weighed.mT @ weighed).double()
            root = torch.linalg.cholesky(h + damping * h.diagonal().mean() * torch.eye(len(h), dtype=h.dtype))
        gradient = weighed.mT @ (cosine * p / r - goal)
        w = w - torch.cholesky_solve(gradient.double(), root).to(w)
    return kept, taken


# --- Adam ---


@dataclass(frozen=True)
class Recipe:
    """How maps are trained."""

    kind: str = "linear"
    loss: str = "l2"  # the mean over tokens of ‖g(e) − x‖², or of 1 − cos(g(e), x) for "cosine"
    rate: float = 1e-4
    batch: int = 256
    patience: int = 20
    hidden: int = 1000
    epochs: int = 10_000  # the most
    together: int = 8  # problems of a group; more of them no longer fit the caches of a processor


@dataclass(frozen=True)
class Problem:
    """One map to learn: from row t of `x` to row t + offset of `y`. Its name seeds all that is random in it."""

    name: str
    x: Float[Tensor, "token d_in"]
    y: Float[Tensor, "token d_out"]
    train: Int64[Tensor, " train"]
    validation: Int64[Tensor, " validation"]
    offset: int = 0


@dataclass(frozen=True)
class Learned:
    """The maps of the problems in their order, the epoch whose weights were kept, and their validation loss."""

    maps: Maps
    epochs: Int64[Tensor, " map"]
    losses: Float64[Tensor, " map"]


def learn(
    problems: Sequence[Problem], recipe: Recipe, *, seed: int, report: Callable[[str], None] = lambda _: None
) -> Learned:
    """Train a map for every problem by Adam, `recipe.together` of them at a time."""
    learners = [_Learner(problem, recipe, seed) for problem in problems]
    for start in range(0, len(learners), recipe.together):
        group = learners[start : start + recipe.together]
        _learn_together(group, recipe)
        report(f"{recipe.kind}, {recipe.loss}: {start + len(group)} of {len(learners)} maps learned")
    return Learned(
        Maps(tuple(torch.stack(weights) for weights in zip(*(learner.kept for learner in learners), strict=True))),
        torch.tensor([learner.kept_epoch for learner in learners]),
        torch.tensor([learner.kept_loss for learner in learners], dtype=torch.float64),
    )


def glorot(rows: int, columns: int, generator: torch.Generator) -> Float[Tensor, "rows columns"]:
    """Uniform in ±√(6 / (rows + columns)) (Glorot & Bengio 2010)."""
    return (torch.rand(rows, columns, generator=generator) * 2 - 1) * math.sqrt(6 / (rows + columns))


def token_losses(
    mapped: Float[Tensor, "*map token d_out"], y: Float[Tensor, "*map token d_out"], loss: str
) -> Float[Tensor, "*map token"]:
    return (mapped - y).square().sum(-1) if loss == "l2" else 1 - cosine_similarity(mapped, y, dim=-1)


class _Learner:
    """A problem while it is being learned: its weights, its Adam, its random numbers, and the best weights so far."""

    def __init__(self, problem: Problem, recipe: Recipe, seed: int):
        self.problem, self.recipe = problem, recipe
        # subtle: a generator looks at 32 bits of its seed only
        self.generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {problem.name}".encode()))
        d_in, d_out = problem.x.shape[1], problem.y.shape[1]
        sizes = [(d_in, d_out)] if recipe.kind == "linear" else [(d_in, recipe.hidden), (recipe.hidden, d_out)]
        weights = [glorot(*size, self.generator).to(problem.x.dtype) for size in sizes]
        if recipe.kind == "mlp":
            weights = [weights[0], problem.x.new_zeros(recipe.hidden), weights[1], problem.x.new_zeros(d_out)]
        self.weights = [torch.nn.Parameter(weight) for weight in weights]
        self.adam = torch.optim.Adam(self.weights, lr=recipe.rate, betas=(0.9, 0.999), fused=True)
        self.kept, self.kept_loss, self.kept_epoch, self.waited = weights, math.inf, 0, 0

    @property
    def steps(self) -> int:
        return math.ceil(len(self.problem.train) / self.recipe.batch)

    def shuffled(self) -> tuple[Int64[Tensor, " batch"], ...]:
        """The training tokens of one epoch, batch by batch."""
        order = torch.randperm(len(self.problem.train), generator=self.generator)
        return self.problem.train[order].split(self.recipe.batch)

    def judge(self, epoch: int) -> bool:
        """Keep the weights if they are the best so far; whether to go on."""
        problem = self.problem
        with torch.no_grad():
            mapped = Maps(tuple(weight[None] for weight in self.weights))(problem.x[problem.validation][None])[0]
            losses = token_losses(mapped, problem.y[problem.validation + problem.offset], self.recipe.loss)
        loss = float(losses.double().mean())
        self.waited = 0 if loss < self.kept_loss else self.waited + 1
        if loss < self.kept_loss:
            self.kept = [weight.detach().clone() for weight in self.weights]
            self.kept_loss, self.kept_epoch = loss, epoch
        return self.waited < self.recipe.patience


def _learn_together(learners: list[_Learner], recipe: Recipe) -> None:
    """Epoch after epoch until every learner has had enough; one that has leaves the group."""
    # subtle: with the longest epochs first, those that still have a batch at a step are always the first k.
    running = sorted(learners, key=lambda learner: -learner.steps)
    stacked = _stack(running)
    for epoch in range(1, recipe.epochs + 1):
        batches = [learner.shuffled() for learner in running]
        for step in range(running[0].steps):
            present = sum(learner.steps > step for learner in running)
            _step(running[:present], [order[step] for order in batches[:present]], stacked, recipe)
        going_on = [learner for learner in running if learner.judge(epoch)]
        if not going_on:
            return
        if len(going_on) < len(running):
            running, stacked = going_on, _stack(going_on)


def _stack(learners: Sequence[_Learner]) -> tuple[Tensor, ...]:
    """The weights of all learners in one tensor each; a learner's own become views of it, so that Adam moves both."""
    stacked = tuple(
        torch.stack(weights)
        for weights in zip(*([w.data for w in learner.weights] for learner in learners), strict=True)
    )
    for number, learner in enumerate(learners):
        for weight, stack in zip(learner.weights, stacked, strict=True):
            weight.data = stack[number]
    return stacked


def _step(learners: Sequence[_Learner], rows: Sequence[Tensor], stacked: Sequence[Tensor], recipe: Recipe) -> None:
    """One batch of every learner; a batch that is shorter than others is filled with tokens of no weight."""
    longest = max(map(len, rows))
    filled = [torch.cat([r, r[:1].expand(longest - len(r))]) for r in rows]
    x = torch.stack([learner.problem.x[r] for learner, r in zip(learners, filled, strict=True)])
    y = torch.stack(
        [learner.problem.y[r + learner.problem.offset] for learner, r in zip(learners, filled, strict=True)]
    )
    leaves = tuple(stack[: len(learners)].detach().requires_grad_() for stack in stacked)
    weight = torch.stack([(torch.arange(longest) < len(r)).to(x.dtype) / len(r) for r in rows])
    loss = (token_losses(Maps(leaves)(x), y, recipe.loss) * weight).sum()
    gradients = torch.autograd.grad(loss, leaves)
    for number, learner in enumerate(learners):
        for parameter, gradient in zip(learner.weights, gradients, strict=True):
            parameter.grad = gradient[number]
        learner.adam.step()

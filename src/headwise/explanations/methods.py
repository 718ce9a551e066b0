"""Methods: each gives every token of a question a score for every target, above zero where it speaks for it.

With f a target and x_i the word embedding of token i:

    paths                  exact part of f in the frozen network (paths.py); parts, biases and rest add up to f
    gradient-input         Σ_d x_id ∂f/∂x_id                                     https://arxiv.org/abs/1605.01713
    gradient-norm          ‖∂f/∂x_i‖                                             https://arxiv.org/abs/1312.6034
    integrated-gradients   Σ_d (x_id − b_id) ∫₀¹ ∂f/∂x_id(b + a (x − b)) da      https://arxiv.org/abs/1703.01365
    leave-one-out          f(text) − f(text without token i)                     https://arxiv.org/abs/1612.08220
    raw-attention          weight of i in the last layer at the row that is read, mean of the heads
    rollout                attention multiplied through the layers, at that row  https://arxiv.org/abs/2005.00928
    globenc-rollout        norms of what blocks carry, multiplied likewise       https://arxiv.org/abs/2205.03286
    alti-rollout           ALTI contributions, multiplied likewise               https://arxiv.org/abs/2203.04212
    random                 uniform in [0, 1): the control

`passes` is the cost in forward passes of the text, a backward pass counted as two.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwise.attributions import ORIGINS
from headwise.attributions.prediction import attend_all
from headwise.errors import InputError
from headwise.explanations.frozen import Freezing
from headwise.explanations.paths import paths as exact_paths
from headwise.explanations.question import Question, default_removal
from headwise.explanations.units import Unit, removed
from headwise.measures.gradients import differentiating
from headwise.models.capture import Call
from headwise.registry import Registry

BASELINES = ("pad", "mask", "zero")
PASS_TOKENS = 512  # of integrated gradients, through which one pass goes back


@dataclass(frozen=True)
class Scores:
    """`adds`: what the scores of a target add up to with; None where they add up to nothing of the model."""

    tokens: Float64[Tensor, "target token"]
    passes: float
    adds: Mapping[str, Float64[Tensor, " target"]] | None = None
    error: float | None = None  # how far they are from adding up, relative to the largest logit (paths) or in f's unit


METHODS: Registry[Callable[..., Scores]] = Registry("explanation method", ("headwise.explanations.methods",))
"""(question, **options) → Scores"""


@METHODS.add("paths", "exact part of each token in the frozen network; the parts add up to the number")
def paths(question: Question, *, attention: str = "frozen", gate: str = "activation") -> Scores:
    parts = exact_paths(question, Freezing(attention, gate))
    backs = max(len(question.targets) - 1, 1)
    adds = {"biases": parts.bias, "minus the entropy": parts.rest} if parts.rest.any() else {"biases": parts.bias}
    return Scores(parts.tokens, 1.0 + 2 * backs, adds, float(parts.error.max()))


# Gradients.


class Embedding(TorchFunctionMode):
    """Looks words up as a function of `place`: what stands at each token is what it makes of the embedded words."""

    def __init__(
        self, inputs: Mapping[str, Tensor], place: Callable[[int, Tensor, Callable[[Tensor], Tensor]], Tensor]
    ):
        super().__init__()
        self.ids, self.place = [inputs[n] for n in ("input_ids", "decoder_input_ids") if n in inputs], place
        self.seen: set[int] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") != "embedding":
            return out
        for side, ids in enumerate(self.ids):
            same = args[0].shape == ids.shape and bool((args[0] == ids).all())
            if same and side not in self.seen:
                self.seen.add(side)
                return self.place(side, out, lambda other: func(other, *args[1:], **(kwargs or {})))
        return out


@dataclass
class Point:
    """Where gradients are taken: the shares `at` of the way from a baseline to the words, a text for each, and what was
    found there."""

    at: Tensor = field(default_factory=lambda: torch.ones(1))
    baseline: Tensor | None = None  # ids of the text's baseline; None for vectors of zero
    leaves: list[Tensor] = field(default_factory=list)
    ways: list[Tensor] = field(default_factory=list)  # x − b

    def __call__(self, side: int, words: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
        words = words.detach()
        base = torch.zeros_like(words)
        if self.baseline is not None:
            base = embed(self.baseline).detach() if side == 0 else words  # a decoder's own prefix stays
        at = self.at.to(words).view(-1, *[1] * (words.dim() - 1))
        leaf = torch.lerp(base, words, at).requires_grad_()
        self.leaves.append(leaf)
        self.ways.append(words - base)
        return leaf


@differentiating()
def gradients(question: Question, point: Point) -> list[list[Tensor]]:
    """∂f/∂x of every target at each share of the way, for the words of each stack."""
    inputs = {name: x.expand(len(point.at), *x.shape[1:]) for name, x in question.inputs.items()}
    frozen = [p for p in question.model.hf.parameters() if p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad(), question.running(), Embedding(inputs, point):
            logits = question.logits(inputs)
        found = []
        for target in question.targets:
            number = target.value(logits).sum()
            found.append(torch.autograd.grad(number, point.leaves, retain_graph=True, allow_unused=True))
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    return [[torch.zeros_like(x) if g is None else g for g, x in zip(row, point.leaves, strict=True)] for row in found]


def _per_token(parts: list[list[Tensor]]) -> Float64[Tensor, "target token"]:
    """The stacks' tokens behind each other; a sum over the features has been taken."""
    return torch.stack([torch.cat([part[0].double().cpu() for part in row]) for row in parts])


@METHODS.add("gradient-input", "gradient × input: the number to first order in each word embedding, signed")
def gradient_input(question: Question) -> Scores:
    point = Point()
    found = gradients(question, point)
    parts = [[(g * x).sum(-1) for g, x in zip(row, point.leaves, strict=True)] for row in found]
    return Scores(_per_token(parts).detach(), 1.0 + 2 * len(question.targets))


@METHODS.add("gradient-norm", "length of the gradient at each token, without a sign")
def gradient_norm(question: Question) -> Scores:
    found = gradients(question, Point())
    return Scores(_per_token([[g.norm(dim=-1) for g in row] for row in found]), 1.0 + 2 * len(question.targets))


@METHODS.add("integrated-gradients", "gradient × (input − baseline), averaged on the way from the baseline")
def integrated_gradients(question: Question, *, baseline: str = "pad", steps: int = 16) -> Scores:
    """By Gauss-Legendre quadrature, several points a pass. The baseline's words are the padding or the mask token."""
    if steps < 1:
        raise InputError(f"Integrated gradients take at least one step, but steps={steps} was asked for.")
    ids = _baseline(question, baseline)
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros(len(question.targets), len(question), dtype=torch.float64)
    several = max(PASS_TOKENS // len(question), 1)
    for some in torch.arange(steps).split(several):
        point = Point(torch.tensor((points[some] + 1) / 2).reshape(-1), ids)
        share = torch.tensor(weights[some] / 2).reshape(-1, 1)
        found = gradients(question, point)
        rows = [[(g * w).sum(-1).double().cpu() for g, w in zip(row, point.ways, strict=True)] for row in found]
        total += _per_token([[(share * part).sum(0, keepdim=True) for part in row] for row in rows])
    return Scores(total, steps * (1.0 + 2 * len(question.targets)))


def _baseline(question: Question, baseline: str) -> Tensor | None:
    if baseline not in BASELINES:
        raise InputError(f"A baseline is one of {', '.join(BASELINES)}, but {baseline!r} was asked for.")
    token: Any = None if baseline == "zero" else getattr(question.model.tokenizer, f"{baseline}_token_id")
    if token is None:
        return None
    ids = question.inputs["input_ids"]
    return ids.masked_fill(question.may.to(ids.device)[None], token)


# Removal, attention, chance.


@METHODS.add("leave-one-out", "how much the number falls when the token is removed")
def leave_one_out(question: Question, *, removal: str | None = None) -> Scores:
    """One pass a token, many at once; tokens that are not the user's stay, and score 0."""
    may = question.may
    singles = torch.eye(len(may), dtype=torch.bool)[may]
    asked = torch.cat([torch.zeros_like(singles[:1]), singles])
    values = question.without(asked, removal=removal or default_removal(question.model))[..., 0]
    scores = torch.zeros(len(question.targets), len(question), dtype=torch.float64)
    scores[:, : len(may)][:, may] = (values[:, :1] - values[:, 1:]).nan_to_num(0.0)
    return Scores(scores, 1.0 + len(singles))


def leave_units_out(question: Question, units: tuple[Unit, ...], removal: str) -> Scores:
    """The same of whole units, the first tries of trial.py; NaN of a unit without which nothing is left to read."""
    singles = torch.eye(len(units), dtype=torch.bool)
    asked = removed(units, torch.cat([torch.zeros_like(singles[:1]), singles]), question)
    values = question.without(asked, removal=removal)[..., 0]
    return Scores(values[:, :1] - values[:, 1:], float(1 + sum(unit.given for unit in units)))


@METHODS.add("raw-attention", "attention weight of the last layer at the row that is read, mean of the heads")
def raw_attention(question: Question) -> Scores:
    maps: list[Tensor] = []

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = attend_all(call)
        maps.append(alpha[0].mean(0).double().cpu())
        return out, alpha

    with torch.no_grad(), question.running(watch):
        question.logits()
    last = maps[-1][:, : len(question.text)]  # of an encoder–decoder the cross-attention stands last
    return Scores(_at_rows(question, last), 1.0)


@METHODS.add("rollout", "attention rolled out through the layers, at the row that is read")
def rollout(question: Question) -> Scores:
    return _origins(question, "rollout")


@METHODS.add("globenc-rollout", "norms of what whole blocks carry, rolled out, at the row that is read")
def globenc_rollout(question: Question) -> Scores:
    return _origins(question, "globenc-rollout")


@METHODS.add("alti-rollout", "ALTI contributions rolled out through the layers, at the row that is read")
def alti_rollout(question: Question) -> Scores:
    return _origins(question, "alti-rollout")


def _origins(question: Question, name: str) -> Scores:
    """The shares of the input tokens in the hidden token of the last layer at the row that is read."""
    if question.prefix is not None:
        raise InputError(f"{name} is about one stack, but this model has an encoder and a decoder; use raw-attention.")
    batch = question.model.batch([question.text])
    maps = ORIGINS[name](question.model, batch).maps
    return Scores(_at_rows(question, maps[0, -1].double().cpu()), 1.0)


def _at_rows(question: Question, map_: Float64[Tensor, "row source"]) -> Float64[Tensor, "target token"]:
    """A map at the rows that a target reads, their mean; a classifier reads the first token, a causal one the last."""
    rows = question.rows or ((len(question.text) - 1,) if question.model.causal else (0,))
    found = torch.zeros(len(question.targets), len(question), dtype=torch.float64)
    for at, target in enumerate(question.targets):
        read = [rows[row] for row in target.rows]
        found[at, : map_.shape[1]] = map_[read].mean(0)
    return found


@METHODS.add("random", "uniform random scores: the control that every other method must beat")
def random_scores(question: Question, *, seed: int = 0) -> Scores:
    """Depends on the seed and on the text's own tokens alone."""
    number = zlib.crc32(np.asarray(question.text.ids, dtype=np.int64).tobytes(), seed)
    generator = torch.Generator().manual_seed(number)
    shape = (len(question.targets), len(question))
    return Scores(torch.rand(shape, generator=generator, dtype=torch.float64), 0.0)

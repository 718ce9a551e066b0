"""Explanations of a prediction: one score a token, how much it speaks for what a task model says.

With f the target's logit and x_i what the embedding module gives for token i:

    gradient-norm          ‖∂f/∂x_i‖                                             https://arxiv.org/abs/1312.6034
    gradient-input         Σ_d x_id ∂f/∂x_id                                     https://arxiv.org/abs/1605.01713
    gradient-input-norm    ‖x_i ∘ ∂f/∂x_i‖                                       https://arxiv.org/abs/2009.13295
    integrated-gradients   Σ_d (x_id − b_id) ∫₀¹ ∂f/∂x_id(b + a (x − b)) da      https://arxiv.org/abs/1703.01365
    leave-one-out          f(text) − f(text without token i)                     https://arxiv.org/abs/1612.08220
    raw-attention          weight of i at the output position, last layer, mean of the heads
    random                 uniform in [0, 1): the control

and every name of ORIGINS: the share of input i in the last hidden token that the prediction reads (see `readout`).
Where it reads one token, `output-weighted` there is `gradient-norm` as shares, at far more cost.

Gradients, integrals and differences are signed: below zero, a token speaks against the target. They explain `of`: the
target's logit, or its log-probability. The others say how much of a token arrives, not for whom it speaks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.attributions import ORIGINS
from headwise.attributions.asked import asked_inputs
from headwise.attributions.passes import embedded
from headwise.attributions.prediction import (
    Removal,
    head_of,
    outputs_without,
    readout,
    removable,
    slope,
    targets,
)
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.models.model import Model
from headwise.quantities import EXPLANATIONS
from headwise.types import Batch, Layer

BASELINES = ("pad", "mask", "zero")
Target = Int[Tensor, " batch"] | int | None


@dataclass(frozen=True)
class TokenScores:
    """Of a padded batch, 0 at padding; the target is the choice that they explain.

    `error`: of integrated gradients, how far the scores of a text are from adding up to f(x) − f(baseline).
    """

    scores: Float[Tensor, "batch token"]
    target: Int[Tensor, " batch"]
    error: Float[Tensor, " batch"] | None = None


Explain = Callable[..., TokenScores]


def explain(model: Model, batch: Batch, name: str, *, target: Target = None, **options: Any) -> TokenScores:
    """Explain the prediction for every text by the method called `name`, of EXPLANATIONS or ORIGINS."""
    return method(name)(model, batch, target=target, **options)


def method(name: str) -> Explain:
    """The function behind a name of EXPLANATIONS or ORIGINS."""
    if name in EXPLANATIONS:
        return EXPLANATIONS[name]
    if name in ORIGINS:
        return lambda model, batch, **options: at_output(model, batch, name, **options)
    raise UnknownNameError(f"There is no explanation {name!r}; there are {', '.join([*EXPLANATIONS, *ORIGINS])}.")


@EXPLANATIONS.add("gradient-norm", "length of the gradient at each token, without a sign", order=10)
def gradient_norm(model: Model, batch: Batch, *, target: Target = None, of: str = "logit") -> TokenScores:
    head_of(model)
    chosen = targets(model, batch, target)
    gradient, _ = slope(model, asked_inputs(batch), chosen, embedded(model, batch), of=of)
    return TokenScores(_at_tokens(gradient.norm(dim=-1), batch), chosen)


@EXPLANATIONS.add(
    "gradient-input", "gradient × input: the target's logit to first order in each token, signed", signed=True, order=20
)
def gradient_input(model: Model, batch: Batch, *, target: Target = None, of: str = "logit") -> TokenScores:
    chosen, product = _products(model, batch, target, of)
    return TokenScores(_at_tokens(product.sum(-1), batch), chosen)


@EXPLANATIONS.add("gradient-input-norm", "length of gradient × input of each token, without a sign", order=30)
def gradient_input_norm(model: Model, batch: Batch, *, target: Target = None, of: str = "logit") -> TokenScores:
    chosen, product = _products(model, batch, target, of)
    return TokenScores(_at_tokens(product.norm(dim=-1), batch), chosen)


def _products(
    model: Model, batch: Batch, target: Target, of: str
) -> tuple[Int[Tensor, " batch"], Float[Tensor, "batch token d_model"]]:
    head_of(model)
    chosen, x = targets(model, batch, target), embedded(model, batch)
    return chosen, x * slope(model, asked_inputs(batch), chosen, x, of=of)[0]


@EXPLANATIONS.add(
    "integrated-gradients",
    "gradient × (input − baseline), averaged on the way from the baseline",
    signed=True,
    order=40,
)
def integrated_gradients(
    model: Model, batch: Batch, *, target: Target = None, of: str = "logit", baseline: str = "pad", steps: int = 32
) -> TokenScores:
    """By Gauss-Legendre quadrature with `steps` points, a forward and a backward pass each.

    `baseline`: the embeddings of a text whose tokens, but for the special ones, are all the padding ("pad") or the mask
    token ("mask"), at the same positions; or "zero" vectors for every token. subtle: where a norm reads x (all pre-norm
    decoders) zero is a bad one, since norm(a x) is the same for every a but the smallest; `error` tells.
    """
    head_of(model)
    if steps < 1:
        raise InputError(f"Integrated gradients take at least one step, but steps={steps} was asked for.")
    chosen, x, b = targets(model, batch, target), embedded(model, batch), baseline_of(model, batch, baseline)
    top, bottom = (slope(model, asked_inputs(batch), chosen, end, of=of)[1] for end in (x, b))
    points, weights = np.polynomial.legendre.leggauss(steps)
    mean = torch.zeros_like(x)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        mean += float(weight) * slope(model, asked_inputs(batch), chosen, torch.lerp(b, x, float(point)), of=of)[0]
    scores = _at_tokens(((x - b) * mean).sum(-1), batch)
    return TokenScores(scores, chosen, (scores.sum(-1) - (top - bottom)).abs())


def baseline_of(model: Model, batch: Batch, baseline: str) -> Float[Tensor, "batch token d_model"]:
    """x of a text that says nothing."""
    if baseline not in BASELINES:
        raise InputError(f"A baseline is one of {', '.join(BASELINES)}, but {baseline!r} was asked for.")
    if baseline == "zero":
        return torch.zeros_like(embedded(model, batch))
    token = getattr(model.tokenizer, f"{baseline}_token_id")
    if token is None:
        raise ModelError(
            f"The baseline {baseline!r} needs a {baseline} token, but the tokenizer of {model.name} has none; choose "
            "baseline='zero'."
        )
    filled = batch.inputs["input_ids"].masked_fill(removable(batch), token)
    return embedded(model, replace(batch, inputs={**batch.inputs, "input_ids": filled}))


@EXPLANATIONS.add(
    "leave-one-out",
    "how much the target's logit falls when the token is removed (mask, pad or delete; block where one is explained)",
    signed=True,
    order=50,
)
def leave_one_out(
    model: Model, batch: Batch, *, target: Target = None, of: str = "logit", removal: str = "mask"
) -> TokenScores:
    """One pass a token (many at once); special tokens are never removed and score 0."""
    head_of(model)
    chosen, may = targets(model, batch, target), removable(batch)
    singles = torch.eye(may.shape[1], dtype=torch.bool, device=may.device)[:, None, :] & may
    asked = torch.cat([torch.zeros_like(singles[:1]), singles])
    whole, *without = outputs_without(model, batch, asked, chosen, Removal.of(model, removal), of=of)
    scores = torch.stack([whole - rest for rest in without], dim=1)
    return TokenScores(_at_tokens(torch.where(may, scores, 0.0), batch), chosen)


@EXPLANATIONS.add(
    "raw-attention", "attention weight of the last layer at the output position, mean of the heads", order=60
)
def raw_attention(model: Model, batch: Batch, *, target: Target = None) -> TokenScores:
    head_of(model)
    chosen, maps = targets(model, batch, target), []

    def keep(layer: Layer) -> None:
        maps.append(layer.alpha.mean(1))

    last = model.layers() - 1
    with torch.no_grad():
        model.run(batch, keep, wanted=lambda site: site.index == last, rows=0)
    return TokenScores(_read_off(maps[0], readout(model, batch, chosen)), chosen)


def at_output(model: Model, batch: Batch, name: str, *, target: Target = None, **options: Any) -> TokenScores:
    """An origins map where the prediction reads it: row `readout` of the last layer."""
    head_of(model)
    chosen = targets(model, batch, target)
    maps = ORIGINS[name](model, batch, **options).maps
    return TokenScores(_read_off(maps[:, -1], readout(model, batch, chosen)), chosen)


def _read_off(
    maps: Float[Tensor, "batch token input"], read: Float[Tensor, "batch token"]
) -> Float[Tensor, "batch input"]:
    """Rows weighted by how much the prediction reads them; what it does not read may be undefined."""
    rows = torch.where(read[..., None] > 0, maps, 0.0)
    return torch.einsum("bt,bti->bi", read.to(rows), rows)


@EXPLANATIONS.add("random", "uniform random scores: the control that every other method must beat", order=70)
def random_scores(model: Model, batch: Batch, *, target: Target = None, seed: int = 0) -> TokenScores:
    """Depends on the seed and on the text's own tokens alone."""
    head_of(model)
    rows = []
    for text in batch.texts:
        number = zlib.crc32(np.asarray(text.ids, dtype=np.int64).tobytes(), seed)  # torch's CPU seeds have 32 bits
        rows.append(torch.rand(len(text), generator=torch.Generator().manual_seed(number)))
    scores = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.hf.device, model.hf.dtype)
    return TokenScores(scores, targets(model, batch, target))


def _at_tokens(scores: Float[Tensor, "batch token"], batch: Batch) -> Float[Tensor, "batch token"]:
    return torch.where(batch.mask, scores, 0.0)

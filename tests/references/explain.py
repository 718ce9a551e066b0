"""Explanations and their tests by plain loops: one text at a time, unpadded, in float64, straight from Hugging Face."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

import headwise as hw

Function = Callable[[Tensor], Tensor]


def function(model: hw.Model, text: str) -> tuple[Tensor, Function]:
    """x [token d_model] of a text, and the logits as a function of it."""
    hf, ids = model.hf, torch.tensor([model.encode(text).ids])
    if hf.config.model_type == "bert":
        x = hf.bert.embeddings(ids).detach()[0]
        return x, lambda x: hf.classifier(hf.bert.pooler(hf.bert.encoder(x[None]).last_hidden_state))[0]
    places = hf.transformer.wpe.weight[: ids.shape[1]].detach()
    head = hf.score if hasattr(hf, "score") else hf.lm_head
    x = hf.transformer.wte(ids).detach()[0] + places
    return x, lambda x: head(hf.transformer(inputs_embeds=(x - places)[None]).last_hidden_state)[0, -1]


def gradient_input(model: hw.Model, text: str, target: int) -> np.ndarray:
    """Σ_d x_d ∂f/∂x_d of each token by moving it a little along itself."""
    x, f = function(model, text)
    scores = []
    with torch.no_grad():
        for token in range(len(x)):
            step = torch.zeros_like(x)
            step[token] = 1e-6 * x[token]
            scores.append(float(f(x + step)[target] - f(x - step)[target]) / 2e-6)
    return np.array(scores)


def integrated_gradients(model: hw.Model, text: str, target: int, b: Tensor, steps: int) -> np.ndarray:
    """The integral by the midpoint rule."""
    x, f = function(model, text)
    total = torch.zeros_like(x)
    for step in range(steps):
        point = (b + (step + 0.5) / steps * (x - b)).requires_grad_()
        (gradient,) = torch.autograd.grad(f(point)[target], point)
        total += gradient / steps
    return ((x - b) * total).sum(-1).numpy()


def log_probability(
    model: hw.Model, text: str, removed: Sequence[int], removal: str, target: int, at: int | None = None
) -> float:
    """log p(target) of a text from which some tokens were taken; of a token classifier, `at` its token."""
    encoding, tokenizer = model.encode(text), model.tokenizer
    ids, seen, segment = list(encoding.ids), [1] * len(encoding), list(encoding.segment)
    for gone in sorted(removed, reverse=True):
        if removal == "delete":
            del ids[gone], seen[gone], segment[gone]
        else:
            ids[gone] = tokenizer.mask_token_id if removal == "mask" else tokenizer.pad_token_id
            seen[gone] = 0 if removal == "pad" else 1
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([seen])}
    if "token_type_ids" in tokenizer.model_input_names:
        inputs["token_type_ids"] = torch.tensor([segment])
    with torch.no_grad():
        logits = model.hf(**inputs).logits[0]
    last = max(place for place, s in enumerate(seen) if s)
    row = logits if logits.ndim == 1 else logits[last if at is None else at]
    return float(row.log_softmax(-1)[target])


def free_tokens(model: hw.Model, text: str) -> list[int]:
    return [at for at, special in enumerate(model.encode(text).special) if not special]


def leave_one_out(model: hw.Model, text: str, removal: str, target: int) -> np.ndarray:
    scores = np.zeros(len(model.encode(text)))
    whole = log_probability(model, text, [], removal, target)
    for at in free_tokens(model, text):
        scores[at] = whole - log_probability(model, text, [at], removal, target)
    return scores


def aopc(
    model: hw.Model, text: str, scores: Sequence[float], fractions: Sequence[float], removal: str, target: int,
    at: int | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Mean comprehensiveness and sufficiency over the fractions."""
    free = free_tokens(model, text)
    ranked = sorted(free, key=lambda place: (-scores[place], place))
    whole = math.exp(log_probability(model, text, [], removal, target, at))
    both = []
    for fraction in fractions:
        named = ranked[: math.ceil(round(fraction * len(free), 9))]
        others = [place for place in free if place not in named]
        both.append([whole - math.exp(log_probability(model, text, r, removal, target, at)) for r in (named, others)])
    return tuple(np.mean(both, axis=0))  # type: ignore[return-value]

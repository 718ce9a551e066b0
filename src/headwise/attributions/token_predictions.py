"""Explanations of what a token classifier says of one token of a text, in the manner of explain.py.

With f the logit of the label chosen at place i and x_j what the embedding module gives for token j:

    gradient-input   Σ_d x_jd ∂f/∂x_jd
    leave-one-out    f(text) − f(text without token j), removed by the mask or the padding token
    raw-attention    weight of j in row i of the last layer, mean of the heads
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.attributions.passes import embedded, entering
from headwise.attributions.prediction import CHUNK_TOKENS, Inputs, Removal, removable
from headwise.errors import InputError
from headwise.models.capture import watching
from headwise.models.model import Model
from headwise.types import Batch

Places = Int[Tensor, " batch"]


def token_logits(model: Model, inputs: Inputs) -> Float[Tensor, "batch token choice"]:
    """By the model's own eager attention."""
    with watching(model.hf, lambda call: call.rows(0, call.length)):
        return model.hf(**inputs).logits


def gradient_input(model: Model, batch: Batch, places: Places) -> Float[Tensor, "batch token"]:
    """Signed scores for the label that the model chooses at `places`; 0 at padding."""
    point = embedded(model, batch).requires_grad_()
    with torch.enable_grad(), entering(model, point):
        chosen = _at(token_logits(model, batch.inputs), places).max(-1).values
        (gradient,) = torch.autograd.grad(chosen.sum(), point)
    return torch.where(batch.mask, (point.detach() * gradient).sum(-1), 0.0)


@torch.no_grad()
def leave_one_out(model: Model, batch: Batch, places: Places, removal: Removal) -> Float[Tensor, "batch token"]:
    """How much the chosen logit falls without each token; special tokens are never removed and score 0."""
    if removal.how == "delete":
        raise InputError("A token classifier's tokens keep their places, but removal='delete' was asked for; use mask.")
    whole = _at(token_logits(model, batch.inputs), places)
    target, may = whole.argmax(-1), removable(batch)
    scores = torch.zeros(may.shape, dtype=whole.dtype, device=whole.device)
    text, token = may.nonzero(as_tuple=True)
    for rows in torch.arange(len(text)).split(max(CHUNK_TOKENS // may.shape[1], 1)):
        removed = torch.zeros(len(rows), may.shape[1], dtype=torch.bool, device=may.device)
        removed[torch.arange(len(rows)), token[rows]] = True
        inputs = removal({name: tensor[text[rows]] for name, tensor in batch.inputs.items()}, removed)
        left = _at(token_logits(model, inputs), places[text[rows]])
        scores[text[rows], token[rows]] = (whole[text[rows]] - left).gather(-1, target[text[rows], None])[:, 0]
    return scores


def _at(logits: Float[Tensor, "batch token choice"], places: Places) -> Float[Tensor, "batch choice"]:
    return logits[torch.arange(len(logits), device=logits.device), places]

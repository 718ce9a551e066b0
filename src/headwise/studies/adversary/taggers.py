r"""What is asked of taggers beside their adversaries: other attention without training, and ranks of importance.

per-instance   for every word, the farthest attention of its row found with TVD(prediction of the word) ≤ ε. With one
               layer a word's prediction depends on its own row alone, so a row is an instance
exact          the farthest attention with the same output of every head, for sentences beyond head size + 1 words;
               put into the tagger it gives the same predictions, which is measured
importance     Kendall's τ between a word's attention (mean of the heads) and |gradient × input| of every word in its
               tag's score, or how far its prediction goes (TVD) when a word is replaced by one without features
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from headwise.attributions.faithfulness import kendall
from headwise.errors import InputError
from headwise.measures import divergence
from headwise.measures.agreement import js_divergence
from headwise.measures.rivals import Search, rivals
from headwise.measures.simplex import far_alternative
from headwise.studies.adversary.tagging.features import PAD, Padded
from headwise.studies.adversary.tagging.tagger import Attention, Parameters, Shape, affine, tagged, words_in


@dataclass(frozen=True)
class Moved:
    """Other attention of one member for a batch: how far each row is from its own, and what it changes of each word."""

    js: Float[Tensor, "batch head query"]  # nats; NaN where there is no other
    tvd: Float[Tensor, "batch query"]
    flipped: Bool[Tensor, "batch query"]
    alpha: Float[Tensor, "batch head query key"]


def one_layer(shape: Shape) -> None:
    """Refuse taggers of more layers, where a row of attention is not an instance."""
    if shape.layers != 1:
        raise InputError(f"Rows of attention are apart in one layer, but the tagger has {shape.layers}; train one.")


def tagger_rivals(parameters: Parameters, batch: Padded, shape: Shape, search: Search) -> Moved:
    """The per-instance adversaries of one member (a leading axis of 1)."""
    one_layer(shape)
    own = tagged(parameters, batch, shape)
    alpha = own.alpha[0, :, 0].detach()
    found = rivals(
        alpha,
        lambda maps: tagged(parameters, batch, shape, attention=maps[None, :, None]).logits[0].log_softmax(-1),
        visible=batch.mask[:, None, :] & batch.mask[:, :, None], queries=batch.mask, places=batch.mask, search=search,
        numbers=batch.numbers.tolist(), rowwise=True,
    )  # fmt: skip
    return _moved(parameters, batch, shape, own.logits[0], found.alpha, found.js)


def tagger_exact(parameters: Parameters, batch: Padded, shape: Shape) -> Moved:
    """The farthest attention with the same head outputs, all heads and rows of one member's batch at once."""
    one_layer(shape)
    own = tagged(parameters, batch, shape)
    alpha = own.alpha[0, :, 0].double()
    values = head_values(parameters, batch, shape)[0].double()
    other, js = alpha.clone(), torch.full(alpha.shape[:-1], torch.nan, dtype=torch.float64)
    for text, length in enumerate(batch.mask.sum(-1).tolist()):
        for head in range(shape.heads):
            seen = values[text, head, :length].numpy()
            for query in range(length):
                row = alpha[text, head, query, :length].numpy()
                far = far_alternative(row, seen)
                if far is not row:
                    other[text, head, query, :length] = torch.from_numpy(far)
                    js[text, head, query] = js_divergence(torch.from_numpy(row), torch.from_numpy(far))
    return _moved(parameters, batch, shape, own.logits[0], other.float(), js)


def head_values(parameters: Parameters, batch: Padded, shape: Shape) -> Float[Tensor, "member batch head key d_head"]:
    """The value vectors of the first layer."""
    x = words_in(parameters, batch)
    z = torch.nn.functional.layer_norm(x, x.shape[-1:])
    part = {name.removeprefix("0."): value for name, value in parameters.items()}
    return affine(part, "v", z).unflatten(-1, (shape.heads, -1)).transpose(2, 3)


def _moved(
    parameters: Parameters,
    batch: Padded,
    shape: Shape,
    before: Float[Tensor, "batch token tag"],
    alpha: Float[Tensor, "batch head query key"],
    js: Float[Tensor, "batch head query"],
) -> Moved:
    with torch.no_grad():
        after = tagged(parameters, batch, shape, attention=alpha[None, :, None]).logits[0]
    tvd = divergence.tvd(after.log_softmax(-1), before.log_softmax(-1))
    flipped = (after.argmax(-1) != before.argmax(-1)) & batch.mask
    return Moved(js, torch.where(batch.mask, tvd, 0.0).detach(), flipped, alpha)


def importance_ranks(parameters: Parameters, batch: Padded, shape: Shape) -> dict[str, Float64[Tensor, "batch query"]]:
    """Kendall's τ of every word's attention with each importance of all words to it; NaN at padding."""
    attention = tagged(parameters, batch, shape).alpha[0].mean((1, 2)).detach()
    scores = {
        "gradient-input": gradient_input(parameters, batch, shape),
        "leave-one-out": leave_one_out(parameters, batch, shape),
    }
    n = batch.mask.shape[1]
    pairs = batch.mask[:, None, :].expand(-1, n, -1).flatten(0, 1)
    found = {name: kendall(attention.flatten(0, 1), s.flatten(0, 1), pairs).view(-1, n) for name, s in scores.items()}
    return {name: torch.where(batch.mask, tau, torch.nan) for name, tau in found.items()}


def gradient_input(parameters: Parameters, batch: Padded, shape: Shape) -> Float[Tensor, "batch query key"]:
    """|Σ_d x_jd ∂f_i/∂x_jd| with f_i the score of word i's tag and x the frozen vectors and learned rows of word j.

    x enters linearly (the bag is a sum), so x ∘ ∂f/∂x is taken where the words have been projected, less the bias.
    """
    with torch.no_grad():
        x = words_in(parameters, batch)
        word = x - parameters["in_b"][:, None, None]
    point = word.clone().requires_grad_()
    logits = tagged(parameters, batch, shape, words=point + parameters["in_b"][:, None, None]).logits[0]
    said = logits.max(-1).values  # batch token
    rows = []
    for query in range(batch.mask.shape[1]):
        (gradient,) = torch.autograd.grad(said[:, query].sum(), point, retain_graph=True)
        rows.append((gradient * word).sum(-1)[0].abs())
    return torch.stack(rows, dim=1)


def leave_one_out(parameters: Parameters, batch: Padded, shape: Shape) -> Float[Tensor, "batch query key"]:
    """TVD of word i's prediction when word j has no vector and no features; the other words keep their places."""
    with torch.no_grad():
        whole = tagged(parameters, batch, shape).logits[0].log_softmax(-1)
        columns = []
        for key in range(batch.mask.shape[1]):
            vectors, rows = batch.vectors.clone(), batch.rows.clone()
            vectors[:, key], rows[:, key] = 0, PAD
            left = tagged(parameters, batch._replace(vectors=vectors, rows=rows), shape).logits[0].log_softmax(-1)
            columns.append(divergence.tvd(whole, left))
    return torch.stack(columns, dim=-1)


def attention_ranks(
    one: Attention, two: Attention, mask: Bool[Tensor, "batch token"]
) -> Float64[Tensor, "member batch layer head query"]:
    """Kendall's τ of every row of two attentions; NaN at padding."""
    shape = one.shape[:-1]
    seen = mask[None, :, None, None, None, :].expand(one.shape).flatten(0, -2)
    tau = kendall(one.flatten(0, -2), two.flatten(0, -2), seen).view(shape)
    return torch.where(mask[None, :, None, None, :], tau, torch.nan)

r"""Frozen attention guiding a fresh model: is there anything in the attention itself?

Two probes, both given attention as data and trained on the gold tags:

    values   the tagger without query and key: it learns word rows, values, output and feed-forward part
    mlp      tag_i = MLP([x_i, Σ_j α^1_ij x_j, …, Σ_j α^H_ij x_j]),  x the projected words, without positions:
             a per-token network that sees other words only as the attention weighs them

(Wiegreffe & Pinter 2019, §3.3, guide an MLP; Yang keeps the tagger and replaces the softmax, but lets query and key
train on.) The attention is computed once, by members in evaluation mode, and kept: `Stored` holds plain tensors that no
gradient reaches, and `digest` is the proof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError
from headwise.measures import divergence
from headwise.studies.adversary.tagging.ensemble import Loss
from headwise.studies.adversary.tagging.features import Padded
from headwise.studies.adversary.tagging.tagger import (
    Attention,
    Parameters,
    Shape,
    Tagged,
    affine,
    initial,
    tagged,
    words_in,
)

FORMS = ("values", "mlp")


@dataclass(frozen=True)
class Stored:
    """The attention for every batch, by the number of its first sentence."""

    maps: Mapping[int, Attention]

    @classmethod
    def of(cls, attend: Callable[[Padded], Attention], batches: Sequence[Padded]) -> Stored:
        with torch.no_grad():
            return cls({int(batch.numbers[0]): attend(batch).contiguous() for batch in batches})

    def __call__(self, batch: Padded) -> Attention:
        return self.maps[int(batch.numbers[0])]

    def digest(self) -> str:
        """SHA-256 of every byte."""
        total = hashlib.sha256()
        for number in sorted(self.maps):
            total.update(self.maps[number].numpy().tobytes())
        return total.hexdigest()


def probe(shape: Shape, seeds: Sequence[int], form: str) -> dict[str, Tensor]:
    """A fresh probe of one form for each seed."""
    if form not in FORMS:
        raise InputError(f"A probe of attention is one of {', '.join(FORMS)}, but {form!r} was asked for.")
    whole = initial(shape, seeds, attends=False)
    if form == "values":
        return whole
    maps = 1 + shape.layers * shape.heads
    wide = initial(Shape(0, 0, shape.d_hidden, d_model=maps * shape.d_model, heads=1, d_hidden=1), seeds, attends=False)
    first = {"1": wide["tag"], "1_b": wide["tag_b"]}
    last = initial(Shape(0, 0, shape.tags, d_model=shape.d_hidden, heads=1, d_hidden=1), seeds, attends=False)
    return (
        {name: whole[name] for name in ("rows", "in", "in_b")} | first | {name: last[name] for name in ("tag", "tag_b")}
    )


def guided(
    parameters: Parameters,
    batch: Padded,
    shape: Shape,
    attention: Attention,
    form: str,
    *,
    noise: torch.Generator | None = None,
) -> Tagged:
    """The tags of a probe under the attention it is given."""
    if form == "values":
        return tagged(parameters, batch, shape, attention=attention, noise=noise)
    x = words_in(parameters, batch)
    contexts = torch.einsum("mblhqk,mbkd->mbqlhd", attention, x).flatten(3)
    inner = affine(parameters, "1", torch.cat([x, contexts], dim=-1)).relu()
    if noise is not None and shape.dropout:
        inner = inner * (torch.rand(inner.shape[1:], generator=noise) >= shape.dropout) / (1 - shape.dropout)
    return Tagged(affine(parameters, "tag", inner), None)


def probe_loss(shape: Shape, attention: Stored, form: str) -> Loss:
    """Mean −log p(gold tag) over words."""

    def loss(parameters: Parameters, batch: Padded, noise: torch.Generator) -> Float[Tensor, " member"]:
        said = guided(parameters, batch, shape, attention(batch), form, noise=noise).logits.log_softmax(-1)
        return divergence.mean_rows(divergence.nll(said, batch.tags), batch.mask)

    return loss

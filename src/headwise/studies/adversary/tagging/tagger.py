r"""A small transformer tagger, many of them at once: every parameter has a leading axis of members.

With x the projected features of the words, each layer is

    α = softmax(q kᵀ / √d_head + r[k − q]) over the sentence's words,   q, k = LN(x) W,   v = LN(x) W_V + b_V
    x ← x + (α v) W_O + b_O,      x ← x + relu(LN(x) W_1 + b_1) W_2 + b_2,

and the tag scores are LN(x) W_tag + b_tag (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762). Norms come first and
have no gain of their own, as a matrix follows each; a bias of the keys would change nothing. Positions are told by the
learned scores r of offsets alone (Shaw et al. 2018, https://arxiv.org/abs/1803.02155, in the form of T5), not by sines
added to x as Vaswani has it. A fresh tagger may be given attention: then it has no query and no key, and α is data.

Members share the words that they read and nothing else, so one batch goes through all of them in batched products, and
what a member comes to does not depend on its company. Dropout acts on the stream beside attention, on what the heads
give and inside the feed-forward part; never on α, nor (in the first layer) on what α is computed from. Its noise is the
same for all members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import embedding_bag, layer_norm

from headwise.errors import InputError
from headwise.studies.adversary.tagging.features import PAD, Padded

QUICKER = 4.0  # the scores of offsets must grow to some 5 nats, which Adam's steps would be long about
HIDDEN_SCORE = -1e4  # of a padding key: its weight is exactly 0, its logarithm still a number
Parameters = Mapping[str, Float[Tensor, "member ..."]]
Attention = Float[Tensor, "member batch layer head query key"]


@dataclass(frozen=True)
class Shape:
    """How a tagger is built. `rows`, `d_word` and `tags` are the vocabulary's."""

    rows: int
    d_word: int
    tags: int
    layers: int = 1
    heads: int = 4
    d_model: int = 128
    d_hidden: int = 128  # of the feed-forward part
    d_feature: int = 64
    near: int = 8  # words ahead or behind that have a score of their own; farther ones share the last
    dropout: float = 0.2
    longest: int = 256

    def __post_init__(self) -> None:
        if self.layers < 1 or self.heads < 1 or self.d_model % self.heads:
            raise InputError(
                f"A tagger must have layers, and heads that divide its width, but layers={self.layers}, "
                f"heads={self.heads}, d_model={self.d_model} was asked for."
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"Dropout must be at least 0 and below 1, but dropout={self.dropout} was asked for.")

    @property
    def d_head(self) -> int:
        return self.d_model // self.heads


class Tagged(NamedTuple):
    """Tag scores, and the attention with its logarithm (None where attention was given)."""

    logits: Float[Tensor, "member batch token tag"]
    log_alpha: Attention | None

    @property
    def alpha(self) -> Attention:
        assert self.log_alpha is not None
        return self.log_alpha.exp()


def initial(shape: Shape, seeds: Sequence[int], *, attends: bool = True) -> dict[str, Tensor]:
    """Fresh parameters, a member for each seed: Glorot uniform matrices, zero biases, rows N(0, 1/d).

    Scores of offsets are N(−|offset|, 2²): heads begin by looking at words nearby, each at others.
    """
    members = [_one(shape, seed, attends) for seed in seeds]
    return {name: torch.stack([member[name] for member in members]) for name in members[0]}


def _one(shape: Shape, seed: int, attends: bool) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def matrix(d_in: int, d_out: int) -> Tensor:
        most = math.sqrt(6 / (d_in + d_out))
        return torch.empty(d_in, d_out).uniform_(-most, most, generator=generator)

    d, h = shape.d_model, shape.d_hidden
    rows = torch.randn(shape.rows + 1, shape.d_feature, generator=generator) / math.sqrt(shape.d_feature)
    rows[PAD] = 0
    found = {"rows": rows, "in": matrix(shape.d_word + shape.d_feature, d), "in_b": torch.zeros(d)}
    for layer in range(shape.layers):
        at = f"{layer}."
        if attends:
            found[at + "qk"] = torch.cat([matrix(d, d), matrix(d, d)], dim=1)
            apart = torch.arange(-shape.near, shape.near + 1).abs()
            drawn = torch.randn(shape.heads, len(apart), generator=generator)
            found[at + "near"] = (2 * drawn - apart) / QUICKER
        found |= {
            at + "v": matrix(d, d),
            at + "v_b": torch.zeros(d),
            at + "o": matrix(d, d),
            at + "o_b": torch.zeros(d),
        }
        found |= {
            at + "1": matrix(d, h),
            at + "1_b": torch.zeros(h),
            at + "2": matrix(h, d),
            at + "2_b": torch.zeros(d),
        }
    return found | {"tag": matrix(d, shape.tags), "tag_b": torch.zeros(shape.tags)}


def tagged(
    parameters: Parameters,
    batch: Padded,
    shape: Shape,
    *,
    attention: Attention | None = None,
    words: Float[Tensor, "member batch token d_model"] | None = None,
    noise: torch.Generator | None = None,
) -> Tagged:
    """Every member's tags of a batch.

    `attention` replaces that of the tagger, `words` the projected words; `noise` is dropout's, None for none.
    """
    x = words_in(parameters, batch) if words is None else words
    maps = []
    for layer in range(shape.layers):
        part = {name.removeprefix(f"{layer}."): value for name, value in parameters.items()}
        z = layer_norm(x, x.shape[-1:])
        if attention is None:
            log_alpha = _log_attention(part, z, batch.mask, shape)
            maps.append(log_alpha)
            alpha = log_alpha.exp()
        else:
            alpha = attention[:, :, layer]
        value = _split(affine(part, "v", z), shape.heads)
        context = (alpha @ value).transpose(2, 3).flatten(3)
        x = _dropped(x, shape, noise) + affine(part, "o", _dropped(context, shape, noise))
        inner = affine(part, "1", layer_norm(x, x.shape[-1:])).relu_()
        x = x + affine(part, "2", _dropped(inner, shape, noise))
    logits = affine(parameters, "tag", layer_norm(x, x.shape[-1:]))
    return Tagged(logits, torch.stack(maps, dim=2) if maps else None)


def words_in(parameters: Parameters, batch: Padded) -> Float[Tensor, "member batch token d_model"]:
    """The projected features of the words, without positions.

    subtle: members read the same rows, so a row of all members side by side is fetched once.
    """
    table = parameters["rows"].transpose(0, 1).flatten(1)
    bags = embedding_bag(batch.rows.flatten(0, 1), table, mode="sum", padding_idx=PAD)
    bags = bags.unflatten(1, (len(parameters["rows"]), -1)).transpose(0, 1).unflatten(1, batch.mask.shape)
    vectors = batch.vectors.expand(len(bags), -1, -1, -1)
    return affine(parameters, "in", torch.cat([vectors, bags], dim=-1))


def affine(
    parameters: Parameters, name: str, x: Float[Tensor, "member batch token d_in"]
) -> Float[Tensor, "member batch token d_out"]:
    """x W + b of every member."""
    flat = torch.baddbmm(parameters[f"{name}_b"][:, None], x.flatten(1, 2), parameters[name])
    return flat.unflatten(1, x.shape[1:3])


def offsets(length: int, near: int) -> Float[Tensor, "offset pair"]:
    """For every query and key, 1 at how far ahead (+) or behind (−) the key is, at most `near` words."""
    place = torch.arange(length)
    apart = (place[None, :] - place[:, None]).clamp(-near, near) + near
    return torch.nn.functional.one_hot(apart.flatten(), 2 * near + 1).T.to(torch.get_default_dtype())


def _log_attention(
    part: Parameters, z: Float[Tensor, "member batch token d"], mask: Bool[Tensor, "batch token"], shape: Shape
) -> Float[Tensor, "member batch head query key"]:
    both = (z.flatten(1, 2) @ part["qk"]).unflatten(1, z.shape[1:3])
    query, key = (_split(side, shape.heads) for side in both.chunk(2, dim=-1))
    near = QUICKER * part["near"] @ offsets(mask.shape[1], shape.near)
    scores = (query / math.sqrt(shape.d_head)) @ key.mT + near.unflatten(-1, (mask.shape[1], -1))[:, None]
    return scores.masked_fill(~mask[:, None, None, :], HIDDEN_SCORE).log_softmax(-1)


def _split(x: Float[Tensor, "member batch token d"], heads: int) -> Float[Tensor, "member batch head token d_head"]:
    return x.unflatten(-1, (heads, -1)).transpose(2, 3)


def _dropped(x: Float[Tensor, "member *any d"], shape: Shape, noise: torch.Generator | None) -> Tensor:
    if noise is None or shape.dropout == 0:
        return x
    kept = torch.rand(x.shape[1:], generator=noise) >= shape.dropout
    return x * (kept / (1 - shape.dropout))

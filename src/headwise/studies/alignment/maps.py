r"""The maps that links are taken from: one a quantity for all heads together, and one for every head.

    raw         α, the mean over heads; or of a head
    effective   the part of α that reaches the output, the mean over heads; or of a head
    norm        α ‖f(x)‖ of a head
    norm-sum    ‖Σ_h α_h f_h(x)‖
    alti        ‖y_i‖₁ − ‖y_i − u_ij‖₁, y_i the target token after attention and residual, u_ij what source token j gave
                to it: how near that brings y_i (after ALTI+, Ferrando et al. 2022, https://arxiv.org/abs/2205.11631;
                of one layer, not followed through the others)

From tokens to words, two rules:

    soft     sum over the source word's tokens, mean over the rows that speak for the target word; links from that
    union    links between tokens; words are linked where any of their tokens are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import ModelError
from headwise.measures import ATTENTION, MIXING
from headwise.measures.block import parts, total
from headwise.measures.reductions import key_sums
from headwise.studies.alignment.sides import Sides
from headwise.types import Layer

RULES = ("soft", "union")
CHUNK = 2**19  # numbers of u formed at once, to stay in the cache
Tokens = Float[Tensor, "batch head query key"]


class Column(NamedTuple):
    """One map of a layer: a quantity of one head, or of all together."""

    quantity: str
    head: int | None


def columns(quantities: Sequence[str], heads: int, *, each_head: bool) -> list[Column]:
    """The maps of a layer, in the order of `stacked`."""
    return list(_columns(quantities, heads, each_head))


def _columns(quantities: Sequence[str], heads: int, each_head: bool) -> Iterator[Column]:
    for quantity in quantities:
        if together(quantity):
            yield Column(quantity, None)
        if quantity in ATTENTION and each_head:
            yield from (Column(quantity, head) for head in range(heads))


def received(
    layer: Layer, quantities: Sequence[str], weights: Float[Tensor, "batch key column"], *, each_head: bool
) -> Float[Tensor, "batch many query column"]:
    """What the columns receive from every row, for each of `columns`; the maps of heads are not formed."""
    found = []
    for quantity in quantities:
        if quantity in ATTENTION:
            found += _kept(key_sums(layer, quantity, weights), together(quantity), each_head)
        else:
            found.append((_together(quantity)(layer) @ weights)[:, None])
    return torch.cat(found, dim=1)


def between_tokens(layer: Layer, quantities: Sequence[str], *, each_head: bool) -> Tokens:
    """The same maps between tokens."""
    found = []
    for quantity in quantities:
        if quantity in ATTENTION:
            found += _kept(ATTENTION[quantity](layer), together(quantity), each_head)
        else:
            found.append(_together(quantity)(layer)[:, None])
    return torch.cat(found, dim=1)


def together(quantity: str) -> bool:
    """Whether a quantity has a map of all heads together: its own, or their mean where that says something."""
    return quantity in MIXING or ATTENTION.entry(quantity).mean


def offered() -> tuple[str, ...]:
    """The quantities of cross-attention: those of heads, and of all together where no residual is in the way."""
    mixing = (each.name for each in MIXING.entries() if not each.residual or each.name in WITHOUT_OWN_ROW)
    return (*ATTENTION, *mixing)


def _kept(heads: Float[Tensor, "batch head query column"], mean: bool, each_head: bool) -> list[Tensor]:
    return [*([heads.mean(1, keepdim=True)] if mean else []), *([heads] if each_head else [])]


def _together(quantity: str) -> Callable[[Layer], Float[Tensor, "batch query key"]]:
    return WITHOUT_OWN_ROW.get(quantity, MIXING[quantity])


def cross_alti(layer: Layer) -> Float[Tensor, "batch query key"]:
    """‖y_i‖₁ − ‖y_i − u_ij‖₁, not clipped at zero: a row that nothing brings nearer still has a nearest key.

    The vectors u_ij are formed for a few rows at a time.
    """
    if layer.residual is None:
        raise ModelError(
            "alti needs a block that adds its attention to a residual before anything else reads it, but this model's "
            "cross-attention is not of that kind; use norm-sum."
        )
    outer = layer.circuit.outer if layer.circuit.post else None
    y = total(layer)
    scale = None if outer is None else 1 / outer.sigma(y)
    y = y if outer is None else outer(y)
    read, _, inner_scale = parts(layer, [] if outer is None else [outer])
    by_key = layer.alpha.permute(0, 3, 2, 1).contiguous()
    sent = (layer.head_value @ read).transpose(1, 2).contiguous()
    near = torch.empty(by_key.shape[:3], dtype=y.dtype, device=y.device)  # batch key query
    rows = torch.arange(near.shape[2], device=near.device)
    for some in rows.split(max(1, CHUNK // (sent.shape[0] * sent.shape[1] * sent.shape[3]))):
        u = by_key[:, :, some] @ sent  # batch key some d_model
        for size in (inner_scale, scale):
            u = u if size is None else u.mul_(size[:, None, some])
        near[:, :, some] = y[:, None, some].abs().sum(-1) - u.sub_(y[:, None, some]).abs_().sum(-1)
    return torch.where(layer.visible & layer.query_mask[..., None], near.mT, 0.0)


WITHOUT_OWN_ROW = {"alti": cross_alti}  # what needs the query among the keys, done without it


def from_rows(
    layer: Layer, sides: Sides, position: str, tokens: Float[Tensor, "batch many query column"]
) -> Float[Tensor, "batch many target_word column"]:
    """The mean over the rows of this block that speak for a target word; blocks add up."""
    return sides.words[position].block(layer)[:, None] @ tokens

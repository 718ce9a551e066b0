"""What the lamps (headwise.lamps) need to know of every head of a trace: how much follows the weights, what is parked.

    carried = mean over rows of Σ_k min(α_k, p_k)        p_k = ‖α_k f(x_k)‖ / Σ_j ‖α_j f(x_j)‖
    parked  = mean over rows of Σ_{k ∈ P} α_k             sent, of the same places = mean of Σ_{k ∈ P} p_k
    neighbour = the largest, over the steps −1, 0, 1, of the mean over rows i of α_{i, i + step}

P are the parking places: special tokens, periods and commas, the first token of a causal model; where these hold less
than half, and one other key alone holds half, that key. Rows that see two keys or fewer (the first of a causal model)
have no choice and are not counted, unless there are no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.lamps import SINK, Head, Lamps, lamps
from headwise.measures.loose import loose
from headwise.text.categories import CATEGORIES, categories
from headwise.types import Layer

if TYPE_CHECKING:
    from headwise.traces.trace import Trace

CHOICE = 3  # keys that a row must see to have a choice
OTHER = CATEGORIES.index("other")
STEPS = (-1, 0, 1)
FEWEST = 4  # rows of which "one key, whoever looks" can be said

Map = Float[Tensor, "layer head query key"]


def trace_lamps(
    trace: Trace, *, stack: str | None = None, matters: Tensor | None = None, what: str = "output", unit: str = "nats",
    exact: bool = False,
) -> list[list[Lamps]]:  # fmt: skip
    """The lamps of every layer and head; `matters` as of `headwise.interventions.matters`, where it is known."""
    found = readings(trace, stack=stack)
    if matters is not None:
        asked = {"what": what, "unit": unit, "exact": exact}
        found = [
            [replace(head, matters=float(moved), **asked) for head, moved in zip(*row, strict=True)]
            for row in zip(found, matters.tolist(), strict=True)
        ]
    return [[lamps(head) for head in row] for row in found]


def readings(trace: Trace, *, stack: str | None = None) -> list[list[Head]]:
    """What is known of every head: [layer][head]."""
    facts, alpha = trace.nullspace(stack=stack), trace.attention("raw", stack=stack)
    if alpha.shape[-1] == 1:
        return [[Head(alone=True)] * alpha.shape[1] for _ in alpha]
    shares = sent_shares(trace, stack)
    rows = with_choice(trace.of(stack)[0].visible[0])
    names = [named(token) for token in trace.keys(stack).tokens]
    places = parking_places(alpha, parking(trace, stack), rows)
    parked, sent = (on_places(maps, places, rows) for maps in (alpha, shares))
    most = torch.where(places[:, :, None], alpha, 0.0)[:, :, rows].mean(2).argmax(-1)
    free = torch.stack([loose(layer)[0] for layer in trace.of(stack)])[:, :, rows].mean(-1)
    near = torch.stack([neighbours(layer)[0] for layer in trace.of(stack)])[:, :, rows].mean(2).amax(-1)
    numbers = {"null_share": facts.null_share, "unique_rows": facts.identifiable_rows, "loose": free,
               "parked": parked, "sent": sent, "neighbour": near, "carried": carried(alpha, shares, rows)}  # fmt: skip
    lists = {name: found.tolist() for name, found in numbers.items()}
    return [
        [head_of({name: found[layer][head] for name, found in lists.items()}, on=names[int(most[layer, head])])
         for head in range(alpha.shape[1])] for layer in range(alpha.shape[0])
    ]  # fmt: skip


def head_of(numbers: Mapping[str, Any], *, on: str = "") -> Head:
    """What is known of a head, from numbers by their names."""
    return Head(
        null_share=numbers["null_share"], unique_rows=numbers["unique_rows"], loose=numbers.get("loose"),
        carried=numbers["carried"],
        parked=numbers["parked"], sent=numbers["sent"], neighbour=numbers.get("neighbour"), on=on,
    )  # fmt: skip


def sent_shares(trace: Trace, stack: str | None) -> Map:
    """Of the lengths of the vectors that a row adds up, each key's share; NaN where the lengths cannot be had."""
    try:
        lengths = trace.attention("norm", stack=stack)
    except HeadwiseError:
        return torch.full_like(trace.attention("raw", stack=stack), float("nan"))
    return lengths / lengths.sum(-1, keepdim=True).clamp(min=torch.finfo(lengths.dtype).tiny)


def neighbours(layer: Layer) -> Float[Tensor, "batch head query step"]:
    """What goes to the token before, to itself, and to the one after; of cross-attention nothing."""
    keys = layer.alpha.shape[-1]
    if layer.stack == "cross":
        return layer.alpha.new_zeros(*layer.alpha.shape[:3], len(STEPS))
    place = layer.first_row + torch.arange(layer.alpha.shape[2], device=layer.alpha.device)
    place = place[:, None] + torch.tensor(STEPS, device=place.device)
    got = layer.alpha.gather(-1, place.clamp(0, keys - 1).expand(*layer.alpha.shape[:2], -1, -1))
    return torch.where((place >= 0) & (place < keys), got, 0.0)


def with_choice(visible: Bool[Tensor, "query key"]) -> Bool[Tensor, " query"]:
    rows = visible.sum(-1) >= CHOICE
    return rows if bool(rows.any()) else torch.ones_like(rows)


def carried(alpha: Map, shares: Map, rows: Bool[Tensor, " query"]) -> Float[Tensor, "layer head"]:
    """The share of the lengths that follows the weights: 1 less their total variation."""
    return torch.minimum(alpha.double(), shares.double())[:, :, rows].sum(-1).mean(-1)


def parking(trace: Trace, stack: str | None) -> Bool[Tensor, " key"]:
    """Keys that are no words: special tokens, periods and commas, the first token under a causal mask."""
    keys, visible = trace.keys(stack), trace.of(stack)[0].visible[0]
    causal = len(visible) > 1 and len(visible) == visible.shape[1] and not bool(visible[0, 1:].any())
    return torch.tensor(categories(keys, causal=causal), device=visible.device) != OTHER


def parking_places(alpha: Map, fixed: Bool[Tensor, " key"], rows: Bool[Tensor, " query"]) -> Bool[Tensor, "l h key"]:
    """The parking places of every head: the fixed ones, or one other key where it alone holds half."""
    got = alpha[:, :, rows].mean(2)
    one = (got >= SINK) & (int(rows.sum()) >= FEWEST)
    enough = (got * fixed).sum(-1, keepdim=True) >= SINK
    return torch.where(enough, fixed.expand_as(got), fixed | one)


def on_places(maps: Map, places: Bool[Tensor, "l h key"], rows: Bool[Tensor, " query"]) -> Float[Tensor, "layer head"]:
    return (maps.double() * places[:, :, None])[:, :, rows].sum(-1).mean(-1)


def named(token: str) -> str:
    """A token as a sentence shows it: special ones as they are, others between quotes."""
    bare = token.strip("Ġ▁Ċ ") or token
    return bare if bare[0] in "[<" and bare[-1] in "]>" else f'"{bare}"'

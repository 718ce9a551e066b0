r"""How far a weight may go, by moves between keys that send nearly the same, while the output stays nearly as it is.

A row with weights α over values v gives o = Σ_j α_j v_j. To move a weight δ from key j to key k changes it by
δ ‖v_j − v_k‖, and ‖Σ‖ ≤ Σ‖ ‖; so, as long as all moves together stay within ε ‖o‖,

    gain_k = max Σ_j δ_j    with  0 ≤ δ_j ≤ α_j,  Σ_j δ_j ‖v_j − v_k‖ ≤ ε ‖o‖       (the nearest keys first)
    loss_k = min(α_k, ε ‖o‖ / min_j ‖v_j − v_k‖)
    loose  = max over k of gain_k + loss_k

is a distribution's room at least: the interval of weight k, of all that change the output by ε or less, is so wide or
wider. A word that is there twice where values know no positions (the first layer of a model with rotary ones) costs
nothing to move. k runs over the keys with the largest weights of the row, j over the nearest of k in the text, as far
as the row sees them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from headwise.lamps import EPSILON
from headwise.measures.nullspace import exact_values
from headwise.types import Layer, once, once_per_text

NEAR = 1e-5  # how far apart two value vectors may be that are the same, in lengths of the longer one
KEYS, NEIGHBOURS = 3, 8  # weights of a row that are looked at, and the keys nearest to each
BLOCK = 1 << 22  # distances at a time


@once
def loose(layer: Layer) -> Float64[Tensor, "batch head query"]:
    """The widest room of a weight of the row; 0 where it sees one key."""
    near, values = _near(layer), exact_values(layer)
    weights = layer.alpha.unflatten(1, (values.shape[1], -1))  # [batch kv_head group query key]
    budget = EPSILON * (weights @ values.to(weights)[:, :, None]).double().norm(dim=-1)[..., None, None]
    own, key = weights.topk(min(KEYS, weights.shape[-1]))  # [batch kv_head group query top]
    others, apart = (_at_keys(of, key) for of in near)  # [… top neighbour]
    visible = layer.visible[:, None, None].expand_as(weights)
    apart = torch.where(_gather(visible, others), apart, torch.inf)
    weight = torch.where(apart.isfinite(), _gather(weights, others).double(), 0.0)
    cost = torch.where(weight > 0, weight * apart, 0.0)
    left = (budget - (cost.cumsum(-1) - cost)).clamp(min=0)
    moved = torch.where(apart == 0, weight, torch.minimum(weight, left / apart))
    first = apart.amin(-1)
    lost = torch.where(first == 0, own.double(), torch.minimum(own.double(), budget[..., 0] / first))
    return torch.where(visible.gather(-1, key), moved.sum(-1) + lost, 0.0).amax(-1).flatten(1, 2)


class Near(NamedTuple):
    """Of every key the nearest others, the nearest first, and how far away they are."""

    keys: Int[Tensor, "batch kv_head key neighbour"]
    apart: Float64[Tensor, "batch kv_head key neighbour"]


@once_per_text
def _near(layer: Layer) -> Near:
    """By ‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b, which rounds what is nearly the same; the few found are subtracted again."""
    values = exact_values(layer)
    n = values.shape[2]
    length, hidden = values.square().sum(-1), ~layer.key_mask[:, None, None]
    found = []
    for rows in torch.arange(n, device=values.device).split(max(1, BLOCK // max(1, n * values[..., 0, 0].numel()))):
        far = torch.where(hidden, torch.inf, length[:, :, None]) - 2 * values[:, :, rows] @ values.mT
        far[:, :, range(len(rows)), rows] = torch.inf  # a key is no neighbour of itself
        found.append(far.topk(min(NEIGHBOURS, n), largest=False))
    keys = torch.cat([one.indices for one in found], 2)
    apart = (_at_keys(values, keys) - values[:, :, :, None]).norm(dim=-1)
    longer = torch.maximum(length[..., None], _at_keys(length[..., None], keys)[..., 0]).sqrt()
    apart = torch.where(apart <= NEAR * longer, 0.0, apart)
    apart = torch.where(torch.cat([one.values for one in found], 2).isinf(), torch.inf, apart)
    order = apart.argsort(dim=-1, stable=True)
    return Near(keys.gather(-1, order), apart.gather(-1, order))


def _at_keys(table: Tensor, key: Tensor) -> Tensor:
    """Rows of a [batch kv_head key number] table for the keys asked for, of any places."""
    flat = key.flatten(2)[..., None].expand(*key.shape[:2], -1, table.shape[-1])
    return table.gather(2, flat).unflatten(2, key.shape[2:])


def _gather(rows: Tensor, keys: Int[Tensor, "batch kv_head group query top neighbour"]) -> Tensor:
    """Of [batch kv_head group query key] rows the numbers at these keys."""
    return rows.gather(-1, keys.flatten(-2)).unflatten(-1, keys.shape[-2:])

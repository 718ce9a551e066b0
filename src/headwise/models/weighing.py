"""Other weights in an attention call: edges cut, or a whole map in the place of the head's own.

cut        α_qk = 0; renormalised, the rest of the row is scaled to the sum that the row had
raw        α itself, multiplied with the values here: a control
effective  α without its part in the null space of T = V W_O (measures/nullspace.py): the same output
far        the distribution farthest from α that gives the same output (measures/simplex.py)
uniform    1 / (number of keys that the query sees)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.changes import Attention, Edge, Edges
from headwise.errors import InputError
from headwise.measures import nullspace, simplex
from headwise.models.capture import Call, Edit, Site, at_least_float
from headwise.types import Layer

Weights = Float[Tensor, "batch head query key"]


def edit_of(change: Edges | Attention, site: Site, heads: list[int]) -> Edit:
    """What a change makes of a call's output and weights."""
    if isinstance(change, Edges):
        return lambda call, start, out, alpha: _reweighed(call, out, alpha, heads, _without(alpha, start, call, change))
    weights = _MAPS[change.like]
    return lambda call, start, out, alpha: _reweighed(
        call, out, alpha, heads, weights(layer_of(call, site, start, out, alpha), heads)
    )


def _reweighed(
    call: Call, out: Float[Tensor, "batch query head d_head"], alpha: Weights, heads: list[int], new: Weights
) -> tuple[Tensor, Tensor]:
    """Output and weights with those of `heads` in place; the other heads keep the model's own numbers."""
    value = call.value.repeat_interleave(alpha.shape[1] // call.value.shape[1], dim=1)
    new = new.to(alpha)
    out, alpha = out.clone(), alpha.clone()
    alpha[:, heads] = new[:, heads]
    out[:, :, heads] = torch.einsum("bhqk,bhkd->bqhd", new[:, heads].to(value), value[:, heads])
    return out, alpha


def _without(alpha: Weights, start: int, call: Call, change: Edges) -> Weights:
    gone = torch.zeros(call.length, call.key.shape[2], dtype=torch.bool, device=alpha.device)
    for query, key in change.edges:
        _check(query, key, call)
        gone[slice(None) if query is None else query, slice(None) if key is None else key] = True
    kept = alpha.masked_fill(gone[start : start + alpha.shape[2]], 0.0)
    return scaled_to(kept, alpha.sum(-1, keepdim=True)) if change.renormalise else kept


def scaled_to(alpha: Weights, total: Float[Tensor, "batch head query 1"]) -> Weights:
    """Rows scaled to a sum; a row in which nothing is left stays zero."""
    left = alpha.sum(-1, keepdim=True)
    return torch.where(left > 0, alpha * (total / torch.where(left > 0, left, 1.0)), 0.0)


def _check(query: int | None, key: int | None, call: Call) -> None:
    for name, position, size in (("query", query, call.length), ("key", key, call.key.shape[2])):
        if position is not None and not 0 <= position < size:
            raise InputError(
                f"An edge must lie in the text, whose {name} positions go from 0 to {size - 1}, but {name} {position} "
                "was asked for."
            )


def layer_of(call: Call, site: Site, start: int, out: Tensor, alpha: Weights) -> Layer:
    """The call as measures see a layer; what no map here asks for is left empty."""
    every = torch.ones(call.key.shape[0], call.key.shape[2], dtype=torch.bool, device=alpha.device)
    visible = call.visible(every).expand(len(alpha), -1, -1)
    seen = visible.any(1)  # a key that no query sees is padding
    rows = visible[:, start : start + alpha.shape[2]]
    return Layer(
        stack=site.stack, index=site.index, first_row=start, alpha=at_least_float(alpha), visible=rows,
        value=torch.where(seen[:, None, :, None], at_least_float(call.value), 0.0), key_mask=seen,
        query_mask=rows.any(-1), out=at_least_float(out).flatten(-2), residual=None, circuit=site.circuit,
    )  # fmt: skip


def _uniform(layer: Layer, _heads: list[int]) -> Weights:
    seen = layer.visible[:, None].expand_as(layer.alpha).to(layer.alpha)
    return seen / seen.sum(-1, keepdim=True).clamp(min=1)


def _far(layer: Layer, heads: list[int]) -> Weights:
    """A linear programme for every row of the heads that are asked for."""
    values = nullspace.seen_values(layer)
    group = layer.alpha.shape[1] // values.shape[1]
    found = layer.alpha.double().clone()
    for text, rows in enumerate(layer.visible):
        for head in heads:
            for query, seen in enumerate(rows):
                if bool(seen.any()):
                    found[text, head, query, seen] = _rival(
                        layer.alpha[text, head, query, seen], values[text, head // group, seen]
                    )
    return found


def _rival(row: Float[Tensor, " key"], values: Bool[Tensor, "key d"] | Float[Tensor, "key d"]) -> Tensor:
    other = simplex.far_alternative(row.double().cpu().numpy(), values.double().cpu().numpy())
    return torch.from_numpy(np.ascontiguousarray(other)).to(row.device)


_MAPS: Mapping[str, Callable[[Layer, list[int]], Weights]] = {
    "raw": lambda layer, _heads: layer.alpha,
    "effective": lambda layer, _heads: nullspace.effective(layer),
    "uniform": _uniform,
    "far": _far,
}

__all__ = ["Edge", "edit_of", "layer_of", "scaled_to"]

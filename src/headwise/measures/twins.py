r"""Keys that send the same: how a row shares its weight out among them changes nothing.

    shared_i = max over groups g of Σ_{k ∈ g} α_ik      g: keys that row i sees, two or more, with one value vector

A word that is there twice is such a group where values know no positions: in the first layer of a model with rotary
ones. Any key of a group could have all of its weight, so the interval of each is [0, Σ_{k ∈ g} α_ik] at least, however
small the part of the weights in the null space is.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from headwise.measures.nullspace import exact_values
from headwise.types import Layer, once, once_per_text

NEAR = 1e-5  # how far apart two value vectors may be that are the same, in lengths of the longer one


@once
def shared(layer: Layer) -> Float64[Tensor, "batch head query"]:
    """The largest weight that a row has on keys that send the same; 0 where all that it sees send something else."""
    group = _groups(layer)
    weights = layer.alpha.double().unflatten(1, (group.shape[1], -1))
    if bool((group.sort(-1).values.diff(dim=-1) > 0).all()):
        return torch.zeros_like(weights[..., 0]).flatten(1, 2)
    seen = layer.visible[:, None, None].double().expand_as(weights)
    where = group[:, :, None, None].expand_as(weights)
    weight, count = (torch.zeros_like(weights).scatter_add(-1, where, of) for of in (weights, seen))
    return torch.where(count > 1, weight, 0.0).max(-1).values.flatten(1, 2)


@once_per_text
def _groups(layer: Layer) -> Int[Tensor, "batch kv_head key"]:
    """A number a key, the same for keys with one value vector.

    subtle: only neighbours on a random line are compared, so that nothing of n × n is made for it.
    """
    values = exact_values(layer)
    line = torch.randn(values.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = (values @ line.to(values.device)).argsort(dim=-1)
    lined = values.gather(2, order[..., None].expand_as(values))
    length = lined.norm(dim=-1)
    apart = lined.diff(dim=2).norm(dim=-1) > NEAR * torch.maximum(length[..., 1:], length[..., :-1])
    number = torch.nn.functional.pad(apart.long().cumsum(-1), (1, 0))
    return torch.zeros_like(order).scatter(-1, order, number)

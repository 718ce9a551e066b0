r"""What a head does to the vector of a key, as a matrix: f_h(x) = (x W_V + b_V) W_O,h.

W_V is found as W_O is, by what happens on the probe: the value projection is the linear module one of whose outputs'
columns *are* the columns of the values that attention is given, wherever they stand in a fused projection. It is what
the module does to unit vectors, and is proved by giving the probe's values again. Models that do something else to
their values first (clip, normalise) have no such matrix and get none.

subtle: x is what the value projection reads: the residual stream in post-norm models, its norm in pre-norm ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headwise.models.capture import Call, Site, at_least_float
from headwise.models.model import Model
from headwise.models.probe import Event, observe, probe_inputs
from headwise.models.proof import TOLERANCE
from headwise.models.surroundings import relative


class ValueMap(NamedTuple):
    """x ↦ x W_V + b_V of every value head, and how far it is from the probe's values, relative to the largest."""

    w_v: Float[Tensor, "kv_head d_model d_head"]
    b_v: Float[Tensor, "kv_head d_head"]
    error: float


def value_maps(model: Model) -> Mapping[tuple[str, int], ValueMap]:
    """The value projection of every attention call that has one, by stack and layer."""
    with torch.no_grad():
        timeline, _ = observe(model.hf, probe_inputs(model.hf))
        starts = [0, *(place for place, *_ in timeline.calls)]
        found = {
            (site.stack, site.index): _value_map(timeline.events[start:place], call)
            for site, start, (place, call, *_) in zip(model.proof.sites, starts, timeline.calls, strict=False)
        }
    return {where: value for where, value in found.items() if value is not None}


def singular_values(site: Site, value: ValueMap) -> Float64[Tensor, "head number"]:
    """Those of f_h as a linear map of (x, 1) to (f_h(x), 1), largest first; all but d_head + 1 are zero.

    The map is A B with A = [[W_V, 0], [b_V, 1]] and B = [[W_O, 0], [0, 1]] of d_head + 1 columns and rows, and with
    A = Q R and Bᵀ = P S its singular values are those of the small R Sᵀ.
    """
    w_o = site.circuit.w_o.double()
    groups = len(w_o) // len(value.w_v)
    affine = torch.cat([value.w_v.double(), value.b_v.double()[:, None]], dim=1).repeat_interleave(groups, dim=0)
    left = nn.functional.pad(affine, (0, 1))
    left[:, -1, -1] = 1
    right = nn.functional.pad(w_o, (0, 1, 0, 1))
    right[:, -1, -1] = 1
    r, s = (torch.linalg.qr(matrix, mode="r").R for matrix in (left, right.mT))
    return torch.linalg.svdvals(r @ s.mT)


def _value_map(events: list[Event], call: Call) -> ValueMap | None:
    """The last linear module before the call whose output holds the values' columns."""
    value = at_least_float(call.value)[0]  # kv_head key d_head
    wanted = value.transpose(0, 1).flatten(1)  # key, kv_head · d_head
    for at, (kind, module, out) in reversed(list(enumerate(events))):
        if kind == "out" and isinstance(module, nn.Linear | Conv1D) and out.numel() % len(wanted) == 0:
            columns = _columns(out.reshape(len(wanted), -1), wanted)
            if columns is not None:
                x = next(t for k, m, t in reversed(events[:at]) if k == "in" and m is module)
                return _proved(module, columns, x.reshape(len(wanted), -1), value, call.value.dtype)
    return None


def _columns(out: Float[Tensor, "key wide"], wanted: Float[Tensor, "key narrow"]) -> list[int] | None:
    """Where each wanted column stands in `out`, by equality of all its numbers."""
    place = {tuple(column): number for number, column in enumerate(out.T.tolist())}
    found = [place.get(tuple(column)) for column in wanted.T.tolist()]
    return None if None in found else found  # type: ignore[return-value] - no None is left


def _proved(
    module: nn.Module, columns: list[int], x: Float[Tensor, "key d_model"], value: Tensor, dtype: torch.dtype
) -> ValueMap | None:
    unit = torch.eye(x.shape[-1], dtype=dtype, device=x.device)
    bias = at_least_float(module(torch.zeros_like(unit[:1])))
    weight = at_least_float(module(unit)) - bias
    heads, _, size = value.shape
    w_v = weight[:, columns].unflatten(1, (heads, size)).transpose(0, 1).contiguous()
    b_v = bias[0, columns].unflatten(0, (heads, size)).contiguous()
    error = relative(torch.einsum("kd,hde->hke", x, w_v) + b_v[:, None], value)
    return ValueMap(w_v, b_v, error) if error <= TOLERANCE[dtype] else None

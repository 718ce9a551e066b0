"""What surrounds an attention call: its projection, the residual it is added to, and the norms around.

The output projection is the linear module whose input *is* the attention output; W_O is what it does to unit vectors.
The residual is the earlier tensor r for which a later module's input equals r + c · out (or r + c · norm(out)), and the
norm that reads this sum is recognised by what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headwise.models.capture import at_least_float
from headwise.models.follow import Product
from headwise.models.probe import Event, Timeline
from headwise.types import Circuit, Norm

HALF = (torch.float16, torch.bfloat16)
SAME = 1e-3  # relative; two tensors that differ by less are one


def shaped(events: list[Event], like: Tensor) -> list[Event]:
    """The events whose tensor has the size of `like`, in its shape (OPT folds batch and token into one axis)."""
    fits = (e for e in events if e[2].numel() == like.numel() and e[2].shape[-1] == like.shape[-1])
    return [(kind, module, tensor.reshape(like.shape)) for kind, module, tensor in fits]


def last_read(events: list[Event]) -> list[Event]:
    """What every module read last, which is what a pass keeps (XLNet has one dropout for words and for positions)."""
    last = {id(module): at for at, (kind, module, _) in enumerate(events) if kind == "in"}
    return [events[at] for at in sorted(last.values())]


class Projected(NamedTuple):
    """A linear module that reads what attention gave: where it fired, itself, what it read and gave."""

    at: int
    module: nn.Module
    read: Tensor
    gave: Tensor
    part: slice | None = None  # the columns of `read` that are the heads'; None: all of them


def find_projection(timeline: Timeline, place: int, out: Tensor, end: int) -> Projected | None:
    """The linear module that reads the output of call `place`.

    The first whose input *is* that output; else the first whose input was made of it by views and gates alone; else
    the first some columns of whose input it is (ConvBERT puts heads and convolutions side by side).
    """
    start = timeline.calls[place][0]
    linear = [
        (at, module, tensor)
        for at, (kind, module, tensor) in enumerate(timeline.events[start:end], start)
        if kind == "in" and isinstance(module, nn.Linear | Conv1D | Product)
    ]
    whole = [event for event in linear if event[2].numel() == out.numel()]
    direct = [(*event, None) for event in whole if torch.equal(event[2].flatten(), out.flatten())]
    gated = [(*event, None) for event in whole if timeline.readers.get(event[0]) == place]
    beside = ((*event, part) for event in linear if (part := columns_of(event[2], out)) is not None)
    for at, module, read, part in (*direct, *gated, *beside):
        gave = next(t for k, m, t in timeline.events[at:] if k == "out" and m is module)
        return Projected(at + 1, module, read, gave, part)
    return None


def columns_of(read: Tensor, out: Tensor) -> slice | None:
    """Where the columns of `out` [batch query head d_head] stand in the wider `read`; None where they do not."""
    step, size, width = out.shape[-1], out.shape[-1] * out.shape[-2], read.shape[-1]
    if width <= size or read.numel() * size != out.numel() * width:
        return None
    rows, wanted = read.reshape(-1, width), out.reshape(-1, size)
    starts = (start for start in range(0, width - size + 1, step) if torch.equal(rows[:, start : start + size], wanted))
    return next((slice(start, start + size) for start in starts), None)


def as_matrix(
    projection: nn.Module, *, heads: int, like: Tensor, part: slice | None = None, width: int = 0
) -> tuple[Tensor, Tensor]:
    """W_O [head d_head d_model] and b_O of any affine module, by what it does to unit vectors.

    W_O of a head is a slice of the projection's *input* axis; `part` are the heads' columns of its `width`. Of a plain
    matrix in half precision it is a view, as float32 copies of all would cost a sixth of the model.
    """
    part = part or slice(0, heads * like.shape[-1])
    plain = type(projection) in (nn.Linear, Conv1D) and type(cast("Tensor", projection.weight).detach()) is Tensor
    if plain and like.dtype in HALF and projection.weight.dtype == like.dtype:
        own, bias = cast("Tensor", projection.weight).detach(), cast("Tensor | None", projection.bias)
        weight = own if isinstance(projection, Conv1D) else own.T
        bias = weight.new_zeros(weight.shape[1]) if bias is None else bias.detach()
        return weight[part].unflatten(0, (heads, like.shape[-1])), at_least_float(bias)
    unit = torch.eye(max(width, part.stop), dtype=like.dtype, device=like.device)
    b_o = projection(torch.zeros_like(unit[:1]))
    w_o = at_least_float(projection(unit[part])) - at_least_float(b_o)
    return w_o.reshape(heads, like.shape[-1], -1).contiguous(), at_least_float(b_o)[0].contiguous()


def find_circuit(
    before: list[Event],
    after: list[Event],
    projected: Tensor,
    bare: Circuit,
    eps: float,
) -> tuple[nn.Module | None, nn.Module | None, Circuit]:
    """The residual's module, that of the last norm, and the circuit around the projection; bare where is no sum."""
    branches: list[tuple[Norm | None, Tensor]] = [(None, projected)]
    for kind, module, tensor in after:
        if kind == "in" and same(tensor, projected, eps) and (inner := as_norm(module, tensor, eps)) is not None:
            branches.append((inner, inner(projected)))
            break
    readers = [(m, t) for kind, m, t in after if kind == "in"]
    for inner, branch in reversed(branches):
        for kind, module, residual in before:
            scales = [scale_of(total, residual, branch, eps) for _, total in readers]
            if kind == "in" and any(scales):
                scale, total = next((s, t) for s, (_, t) in zip(scales, readers, strict=True) if s)
                norms = (as_norm(m, t, eps) for m, t in readers if same(t, total, eps))
                outer = next((norm for norm in norms if norm is not None), None)
                last_of, last, post = find_last(after, total, outer, eps)
                return module, last_of, Circuit(bare.stored, bare.b_o, scale, inner, outer, last, post)
    return None, None, bare


def find_last(
    after: list[Event], total: Tensor, outer: Norm | None, eps: float
) -> tuple[nn.Module | None, Norm | None, bool]:
    """The norm that reads the block's output, as module and numbers; whether feed-forward adds to outer(total).

    The block's output is the later tensor that equals outer(total) or `total` plus what some module gave in between.
    """
    start = next(at for at, (kind, _, t) in enumerate(after) if kind == "in" and same(t, total, eps))
    given: list[Tensor] = []
    for kind, module, tensor in after[start:]:
        if kind == "out":
            given.append(tensor)
        elif not same(tensor, total, eps) and (norm := as_norm(module, tensor, eps)) is not None:
            for post, residual in ((True, outer and outer(total)), (False, total)):
                if residual is not None and any(scale_of(tensor, residual, branch, eps) for branch in reversed(given)):
                    return module, norm, post
    return None, None, False


def scale_of(total: Tensor, residual: Tensor, branch: Tensor, eps: float = 2**-23) -> float:
    """The c for which total = residual + c · branch; 0 where there is none."""
    rest = total - residual
    c = float((rest * branch).sum() / branch.square().sum())
    if not abs(c) > 1e-3:
        return 0.0
    # subtle: where a residual holds a number in the thousands, its rounding is larger than what is added to it.
    rounding = 2 * eps * torch.maximum(total.abs(), residual.abs())
    apart = ((rest - c * branch).abs() - rounding).clamp(min=0)
    return c if float(apart.max() / branch.abs().max()) < max(SAME, 2 * eps) * abs(c) else 0.0


def as_norm(module: nn.Module, example: Tensor, eps: float) -> Norm | None:
    """The module as a LayerNorm or RMSNorm, recognised by its values on random inputs; None if it is neither."""
    if list(module.children()) or any(p.ndim != 1 for p in module.parameters()):
        return None
    tiny = next((float(getattr(module, n)) for n in ("eps", "variance_epsilon", "epsilon") if hasattr(module, n)), 1e-6)
    generator = torch.Generator().manual_seed(0)
    dtype = next((p.dtype for p in module.parameters()), example.dtype)
    first, second = torch.randn(2, 1, 1, example.shape[-1], generator=generator).to(example.device, dtype)
    try:
        bias, at_first, at_second = (at_least_float(module(x)) for x in (torch.zeros_like(first), first, second))
    except (RuntimeError, TypeError, ValueError):
        return None
    first, second = at_least_float(first), at_least_float(second)
    for centred in (True, False):
        bare = Norm(torch.ones_like(bias[0, 0]), torch.zeros_like(bias[0, 0]), tiny, centred)
        norm = Norm(((at_first - bias) / bare(first))[0, 0], bias[0, 0], tiny, centred)
        if same(norm(second), at_second, eps):
            return norm
    return None


def same(a: Tensor, b: Tensor, eps: float = 0.0) -> bool:
    """Equal up to the rounding of the model's own precision, whose step is `eps`.

    subtle: by the median too. Next to a channel in the thousands two different residuals differ by next to nothing.
    """
    if a.shape != b.shape:
        return False
    tolerance = max(SAME, 2 * eps)
    return relative(a, b) < tolerance and bool((a - b).abs().median() <= tolerance * b.abs().median())


def relative(a: Tensor, b: Tensor) -> float:
    """The largest difference over the largest number."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=torch.finfo(b.dtype).tiny))


def block_numbers(model: nn.Module, modules: Sequence[nn.Module]) -> tuple[list[int | None], nn.ModuleList | None]:
    """In which block each module stands, and the list of blocks; Nones where the blocks are not one list in order.

    The blocks are the longest list of modules that holds them all. Layers that share weights (ALBERT) have no number.
    """
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for blocks in sorted(lists, key=len, reverse=True):
        inside = [{id(part) for part in block.modules()} for block in blocks]
        numbers = [next((n for n, parts in enumerate(inside) if id(m) in parts), None) for m in modules]
        known = [number for number in numbers if number is not None]
        if len(known) == len(modules) and all(a < b for a, b in pairwise(known)):
            return numbers, blocks
    return [None] * len(modules), None

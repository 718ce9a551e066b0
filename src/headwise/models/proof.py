"""Find what surrounds every attention call of a model, and prove it, with no table of module names.

On a probe of five tokens every module's input is noted in order (models/probe.py), and from that list the projection,
the residual and the norms of each call are found (models/surroundings.py). Then, for every call,

    Σ_h α_h V_h W_O,h + b_O  =  the projection's own output,

and the model's output with our function in place equals its output without, on the probe and on a longer text. A model
that fails either is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headwise.errors import ModelError, ProofError
from headwise.models.capture import (
    OUTSIDE,
    Call,
    Site,
    Weighted,
    at_least_float,
    eager,
    evaluating,
    gate_of,
    quiet,
    watching,
)
from headwise.models.probe import (
    LONG_PROBE,
    LONG_TARGET_PROBE,
    PROBE,
    TARGET_PROBE,
    Timeline,
    checking,
    first_output,
    observe,
    position_limit,
    probe_inputs,
    reads_source_twice,
    without_cache,
)
from headwise.models.surroundings import (
    SAME,
    Projected,
    as_matrix,
    block_numbers,
    find_circuit,
    find_projection,
    last_read,
    relative,
    shaped,
)
from headwise.types import Circuit

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 2e-2}
NO_WEIGHTS = ("Linear", "Lightning", "Delta")  # of a class of attention: it mixes tokens without weights
OUTPUT_TOLERANCE = {**TOLERANCE, torch.float64: 1e-5}  # many families take the softmax in float32 whatever the dtype


@dataclass(frozen=True)
class Proof:
    """What was found, and how far the captured numbers are from the model's (relative to its largest number)."""

    sites: tuple[Site, ...]
    projection_error: float  # Σ_h α_h V_h W_O,h + b_O against the projection's output, worst call
    output_error: float  # the whole model with our function in place against the model as it came
    sdpa: bool = True  # torch's fused attention gives the same output, and so may run long texts
    blocks: bool = True  # a block of query rows by itself is what it is in the whole map
    bare: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by stack, the blocks that have no attention
    padding: bool = True  # padding changes nothing of a text; of ConvBERT, whose convolutions see it, it does
    unseen: tuple[str, ...] = ()  # classes of attention of which no call was seen: a stack that cannot be shown (LED)


def prove(model: PreTrainedModel) -> Proof:
    """Find and prove every attention call of `model`, or raise."""
    with checking(model, "looking at its weights"):
        check_finite(model)
    with torch.no_grad(), evaluating(model), quiet():
        with checking(model, "watching it read a probe"):
            timeline, sites, bare, projection_error = find(model)
        with checking(model, "comparing its output with and without watching"):
            output_error, sdpa, dtype = compare(model)
        with checking(model, "computing attention in blocks of rows"):
            blocks = all(rows_agree(call, alpha) for _, call, _, alpha in timeline.calls)
        padding = ignores_padding(model, dtype)
    tolerance = TOLERANCE[dtype]
    if not (projection_error <= tolerance and output_error <= OUTPUT_TOLERANCE[dtype]):
        raise ProofError(
            f"The captured attention of {model.config.model_type} must reproduce the model to {tolerance:g}, but the "
            f"projection differs by {projection_error:.1e} and the output by {output_error:.1e}; "
            "this model is not supported. `headwise list families` shows those that are."
        )
    left = unseen(model, sites, timeline)
    return Proof(sites, projection_error, output_error, sdpa, blocks, bare, padding, left)


def check_finite(model: PreTrainedModel) -> None:
    for name, parameter in model.named_parameters():
        numbers = parameter.detach()
        if type(numbers) not in (Tensor, nn.Parameter) and hasattr(numbers, "dequantize"):
            numbers = numbers.dequantize()  # torchao's packed weights cannot be summed
        half = numbers.dtype in (torch.float16, torch.bfloat16)
        wide = numbers.dtype if numbers.is_floating_point() and not half else torch.float32
        if not bool(numbers.sum(dtype=wide).isfinite()):
            raise ModelError(
                f"Weights must be finite numbers, but {name} holds NaN or infinity; load another checkpoint."
            )


def find(model: PreTrainedModel) -> tuple[Timeline, tuple[Site, ...], dict[str, tuple[int, ...]], float]:
    """Every call with what surrounds it, the blocks without attention, and the error of the worst projection."""
    # subtle: of a classifier the base model, so that source and target have lengths of their own
    seen: Any = model.base_model if reads_source_twice(model) else model
    timeline, _ = observe(seen, probe_inputs(seen))
    check_calls(model, timeline)
    if any(isinstance(call, Weighted) for _, call, *_ in timeline.calls):
        OUTSIDE.add(model)
    found = [examine(timeline, place, model) for place in range(len(timeline.calls))]
    sites, bare = number(tuple(site for site, _ in found), seen)
    check_lengths(model, sites, timeline)
    check_heads(model, sites)
    return timeline, sites, bare, max(error for _, error in found)


def check_heads(model: PreTrainedModel, sites: tuple[Site, ...]) -> None:
    """Maps of a stack are stacked by layer, so its layers must have equally many heads."""
    for stack in dict.fromkeys(site.stack for site in sites):
        sizes = {site.circuit.stored.shape[0]: site.index for site in sites if site.stack == stack}
        if len(sizes) > 1:
            raise ModelError(
                f"The layers of a stack must have equally many heads, as maps are one [layer head …], but in "
                f"{model.config.model_type} some have {' and some '.join(map(str, sorted(sizes)))}; it cannot be "
                "analysed."
            )


def check_lengths(model: PreTrainedModel, sites: tuple[Site, ...], timeline: Timeline) -> None:
    """So must they have equally many tokens: CANINE, Funnel and Swin put tokens together on the way."""
    sizes: dict[str, set[tuple[int, ...]]] = {}
    for site, (_, call, *_) in zip(sites, timeline.calls, strict=True):
        sizes.setdefault(site.stack, set()).add((len(call.query), call.length, call.key.shape[2]))
    read = {length for _, length, _ in sizes.get("encoder", ())} or {PROBE}
    if "cross" in sizes and {keys for *_, keys in sizes["cross"]} != read:
        raise ModelError(
            f"Cross-attention must be over the {max(read)} tokens of the source, but that of {model.config.model_type} "
            f"is over {', '.join(str(keys) for *_, keys in sorted(sizes['cross']))}: it pads them, or attends to "
            "source and target in one map; it cannot be analysed yet."
        )
    for stack, found in sizes.items():
        if len(found) > 1 or next(iter(found))[0] > 1:
            raise ModelError(
                f"The layers of a stack must attend over the same tokens, but {model.config.model_type} attends "
                f"within windows or puts tokens together on the way ({stack}: "
                f"{', '.join(f'{q} × {k} tokens in {n} windows' for n, q, k in sorted(found))}); it cannot be analysed."
            )


def compare(model: PreTrainedModel) -> tuple[float, bool, torch.dtype]:
    """The output watched against the output as it came: the error, whether SDPA agrees, and the dtype."""
    length = min(LONG_PROBE, position_limit(model) or LONG_PROBE)
    inputs = probe_inputs(model, length, min(LONG_TARGET_PROBE, length))
    known: dict[Any, Tensor] = {}  # of the model's own attention and of its eager one: a pass each, at most

    def forward() -> Tensor:
        way = model.config._attn_implementation_internal
        if way not in known:
            known[way] = first_output(model(**inputs, **without_cache(model)))
        return known[way]

    watched, by_sdpa = (output_by(model, inputs, sdpa=sdpa) for sdpa in (False, True))
    assert watched is not None
    sdpa = by_sdpa is not None and output_error(model, by_sdpa, forward) <= OUTPUT_TOLERANCE[watched.dtype]
    return output_error(model, watched, forward), sdpa, watched.dtype


def output_error(model: PreTrainedModel, watched: Tensor, forward: Callable[[], Tensor]) -> float:
    """How far `watched` is from the model's own output, relative to its largest number.

    subtle: in half precision SDPA and eager attention may be further apart than that by rounding alone; then the
    model's own eager attention, which nobody watches, is what it is compared with.
    """
    error = relative(at_least_float(watched), at_least_float(forward()))
    if watched.dtype in (torch.float16, torch.bfloat16) and not error <= OUTPUT_TOLERANCE[watched.dtype]:
        with eager(model):
            return relative(at_least_float(watched), at_least_float(forward()))
    return error


def output_by(model: PreTrainedModel, inputs: dict[str, Tensor], *, sdpa: bool) -> Tensor | None:
    """The output under our function; None where SDPA cannot be given what the model's own attention is given."""
    attend = (lambda call: (call.output(sdpa=True), None)) if sdpa else (lambda call: call.rows(0, call.length))
    try:
        with watching(model, attend):
            return first_output(model(**inputs, **without_cache(model)))
    except (RuntimeError, TypeError, ValueError):
        if not sdpa:
            raise
        return None


def ignores_padding(model: PreTrainedModel, dtype: torch.dtype) -> bool:
    """Whether the first tokens of a text come out the same with masked tokens behind them."""
    base: Any = model.base_model
    alone = probe_inputs(base)
    if not {"input_ids", "attention_mask"} <= set(alone):
        return True
    pad = getattr(model.config, "pad_token_id", None)
    fill = {"input_ids": pad if isinstance(pad, int) and pad >= 0 else 0, "attention_mask": 0}
    padded = {**alone, **{name: nn.functional.pad(alone[name], (0, 3), value=value) for name, value in fill.items()}}
    try:
        short, long = (at_least_float(first_output(base(**x, **without_cache(base)))) for x in (alone, padded))
        return relative(long[:, : short.shape[1]], short) <= OUTPUT_TOLERANCE[dtype]
    except Exception:  # it reads no padding at all: texts of unequal lengths are read one by one
        return False


def rows_agree(call: Call, alpha: Tensor) -> bool:
    """Whether the last row computed alone is the last row of the whole map."""
    try:
        alone = call.rows(call.length - 1, call.length)[1]
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    whole = alpha[:, :, -1:]
    return alone.shape == whole.shape and relative(alone.float(), whole.float()) < 1e-3


def check_calls(model: PreTrainedModel, timeline: Timeline) -> None:
    """There must be attention, and it must be softmax attention."""
    family, names = model.config.model_type, attention_classes(model)
    if not names and not timeline.calls:
        raise ModelError(
            f"A model must have attention, but {family} has no attention: its blocks mix tokens in another way, and "
            "there are no weights to show."
        )
    if not timeline.calls:
        raise ModelError(
            f"Attention must be a softmax whose weights are multiplied with the values, but that of {family} "
            f"({', '.join(sorted(names)[:3])}) is computed in another way; it cannot be analysed. `headwise list "
            "families` shows models that work."
        )


def unseen(model: nn.Module, sites: tuple[Site, ...], timeline: Timeline) -> tuple[str, ...]:
    """The classes of attention that ran and were not seen to attend: LED's encoder multiplies bands, not a map."""
    ran = {id(module) for _, module, _ in timeline.events}
    called = {id(site.module) for site in sites}
    seen = [m for m in model.modules() if any(id(part) in called for part in m.modules())]
    inside = {id(part) for m in seen if is_attention(m) for part in m.modules()} | {id(m) for m in seen}
    left = {type(m) for m in model.modules() if is_attention(m) and id(m) in ran - inside}
    left -= {type(m) for m in seen}
    return tuple(sorted(kind.__name__ for kind in left if not any(word in kind.__name__ for word in NO_WEIGHTS)))


def is_attention(module: nn.Module) -> bool:
    name = type(module).__name__
    return "Attention" in name or name.endswith("Attn")


def attention_classes(model: nn.Module) -> set[str]:
    """The classes of the model's modules that are attention by their name."""
    return {type(module).__name__ for module in model.modules() if is_attention(module)}


def examine(timeline: Timeline, place: int, model: PreTrainedModel) -> tuple[Site, float]:
    """One attention call: its projection, its circuit, and the error of the proof."""
    start, call, out, alpha = timeline.calls[place]
    end = timeline.calls[place + 1][0] if place + 1 < len(timeline.calls) else len(timeline.events)
    begin = timeline.calls[place - 1][0] if place else 0
    found = find_projection(timeline, place, at_least_float(out), end)
    if found is None:
        raise ModelError(
            f"An output projection must read the attention output, but in {model.config.model_type} something that is "
            f"not a gate is done to the output of {type(call.module).__name__} first (call {place}); it cannot be "
            "analysed. `headwise list families` shows models that work."
        )
    at, projection, read, projected, part = found
    w_o, b_o = as_matrix(projection, heads=alpha.shape[1], like=call.value, part=part, width=read.shape[-1])
    if part is not None:
        read, projected = heads_alone(found, b_o, call.value.dtype)
    gated = not torch.equal(read.flatten(), at_least_float(out).flatten())
    mixed = call.mixed(alpha)
    scaled = is_scaled(at_least_float(out), mixed)
    gated = gated or scaled
    mixed = mixed.transpose(1, 2)
    mixed = mixed * gate_of(read, mixed.transpose(1, 2) if scaled else out) if gated else mixed
    rebuilt = torch.einsum("bhqd,hde->bqe", mixed, at_least_float(w_o)) + b_o
    tokens_first = read.ndim == 3 and read.shape[:2] == (call.length, 1) != (1, call.length)
    projected = projected.reshape(rebuilt.shape)
    before = shaped(last_read(timeline.events[begin:start]), projected)
    later = shaped(timeline.events[at:end], projected)
    eps = torch.finfo(out.dtype).eps
    residual_of, last_of, circuit = None, None, Circuit(w_o, b_o, shared=True)
    if part is None:
        residual_of, last_of, circuit = find_circuit(before, later, projected, Circuit(w_o, b_o), eps)
    every_key = torch.ones(1, call.key.shape[2], dtype=torch.bool, device=call.key.device)
    causal = not bool(call.visible(every_key)[0, 0, -1])
    site = Site(
        stack_of(call, model), 0, call.module, projection, residual_of, circuit, causal, gated, scaled, part,
        tokens_first, last_of=last_of,
    )  # fmt: skip
    return site, relative(rebuilt, projected)


def heads_alone(found: Projected, b_o: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What the projection reads of the heads, and what it gives without the rest: by running it on the rest alone."""
    assert found.part is not None
    rest = found.read.clone()
    rest[..., found.part] = 0
    return found.read[..., found.part], found.gave - at_least_float(found.module(rest.to(dtype))) + b_o


def is_scaled(out: Tensor, mixed: Tensor) -> bool:
    """Whether out = s ⊙ Σ α V with one number s ≠ 1 a row and head (a sink that the weights do not count).

    subtle: g = read / Σ α V would make any output a gate of any weights, so it is looked at here whether s is one.
    """
    if relative(out, mixed) < SAME:
        return False
    s = (out * mixed).sum(-1, keepdim=True) / mixed.square().sum(-1, keepdim=True)
    return relative(s * mixed, out) < SAME


def stack_of(call: Call, model: PreTrainedModel) -> str:
    """Told by the lengths of the probe: a query of the decoder has 3 tokens, one of the encoder 5, or its frames."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return "self"
    if call.length != TARGET_PROBE:
        return "encoder"
    return "decoder" if call.key.shape[2] == TARGET_PROBE else "cross"


def number(sites: tuple[Site, ...], model: PreTrainedModel) -> tuple[tuple[Site, ...], dict[str, tuple[int, ...]]]:
    """Count the layers of each stack from zero; and the blocks of each stack that have no attention."""
    numbered: dict[int, Site] = {}
    bare: dict[str, tuple[int, ...]] = {}
    for stack in dict.fromkeys(site.stack for site in sites):
        places = [place for place, site in enumerate(sites) if site.stack == stack]
        at, blocks = block_numbers(model, [sites[place].module for place in places])
        for index, (place, block) in enumerate(zip(places, at, strict=True)):
            numbered[place] = replace(sites[place], index=index, block=block)
        if blocks is not None and stack != "cross":
            bare[stack] = tuple(n for n in range(len(blocks)) if n not in at)
            check_bare(model, {n: blocks[n] for n in bare[stack]})
    return tuple(numbered[place] for place in range(len(sites))), {s: blocks for s, blocks in bare.items() if blocks}


def check_bare(model: PreTrainedModel, blocks: Mapping[int, nn.Module]) -> None:
    """A block in which no attention was seen must have none (linear attention has no weights)."""
    for block, module in blocks.items():
        hidden = {name for name in attention_classes(module) if not any(kind in name for kind in NO_WEIGHTS)}
        if hidden:
            raise ModelError(
                f"All attention of a model must be seen, but that of block {block} of {model.config.model_type} "
                f"({', '.join(sorted(hidden)[:3])}) was not; it cannot be analysed."
            )

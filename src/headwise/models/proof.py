"""Find what surrounds every attention call of a model, and prove it, with no table of module names.

On a probe of five tokens every module's input is noted in order. The output projection of a call is the linear module
whose input *is* the attention output; W_O is what it does to unit vectors. The residual is the earlier tensor r for
which a later module's input equals r + c · out (or r + c · norm(out)), and the norm that reads this sum is recognised
by what it computes. Then, for every call,

    Σ_h α_h V_h W_O,h + b_O  =  the projection's own output,

and the model's output with our function in place equals its output without. A model that fails either is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headwise.errors import ModelError, ProofError
from headwise.models.capture import Call, Site, at_least_float, first_tensor, quiet, watching
from headwise.models.tiny import REFUSED
from headwise.types import Circuit, Norm

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 2e-2}
OUTPUT_TOLERANCE = {**TOLERANCE, torch.float64: 1e-5}  # many families take the softmax in float32 whatever the dtype
PROBE, TARGET_PROBE = 5, 3  # tokens; unequal, so that the shape of a call tells its stack


@dataclass(frozen=True)
class Proof:
    """What was found, and how far the captured numbers are from the model's (relative to its largest number)."""

    sites: tuple[Site, ...]
    projection_error: float  # Σ_h α_h V_h W_O,h + b_O against the projection's output, worst call
    output_error: float  # the whole model with our function in place against the model as it came


@dataclass
class Timeline:
    """The probe's forward pass as a list: what each module was given and gave, and each attention call."""

    events: list[tuple[str, nn.Module, Tensor]] = field(default_factory=list)
    calls: list[tuple[int, Call, Tensor, Tensor]] = field(default_factory=list)  # place, call, output, weights

    def watch(self, call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = call.rows(0, call.length)
        self.calls.append((len(self.events), call, out, alpha))
        return out, alpha

    def note(self, kind: str, module: nn.Module, tensor: object) -> None:
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            # A copy, as some models add to their residual in place.
            self.events.append((kind, module, at_least_float(tensor.detach()).clone()))


def prove(model: PreTrainedModel) -> Proof:
    """Find and prove every attention call of `model`, or raise."""
    if model.config.is_encoder_decoder and "SequenceClassification" in type(model).__name__:
        raise ModelError(
            "An encoder–decoder must be loaded as a base or translation model, but this one has a classification head, "
            "which reads the source twice; load it without a task."
        )
    check_finite(model)
    inputs = probe_inputs(model)
    with torch.no_grad():
        timeline, output = observe(model, inputs)
        with quiet():
            own = first_output(model(**inputs))
        check_calls(model, timeline)
        found = [examine(timeline, place, model) for place in range(len(timeline.calls))]
    proof = Proof(
        sites=number(tuple(site for site, _ in found)),
        projection_error=max(error for _, error in found),
        output_error=relative(at_least_float(output), at_least_float(own)),
    )
    tolerance = TOLERANCE[output.dtype]
    if not (proof.projection_error <= tolerance and proof.output_error <= OUTPUT_TOLERANCE[output.dtype]):
        raise ProofError(
            f"The captured attention of {model.config.model_type} must reproduce the model to {tolerance:g}, but the "
            f"projection differs by {proof.projection_error:.1e} and the output by {proof.output_error:.1e}; "
            "this model is not supported. `headwise list families` shows those that are."
        )
    return proof


def check_finite(model: PreTrainedModel) -> None:
    for name, parameter in model.named_parameters():
        wide = at_least_float(parameter.detach()[:0]).dtype if parameter.is_floating_point() else torch.float32
        if not bool(parameter.detach().sum(dtype=wide).isfinite()):
            raise ModelError(
                f"Weights must be finite numbers, but {name} holds NaN or infinity; load another checkpoint."
            )


def probe_inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    vocabulary = len(model.get_input_embeddings().weight)  # type: ignore[arg-type]
    ids = torch.arange(1, PROBE + 1, device=model.device)[None] * (vocabulary // (PROBE + 2))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :TARGET_PROBE]
    return inputs


def observe(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[Timeline, Tensor]:
    timeline = Timeline()
    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(
            lambda m, args, kwargs: timeline.note("in", m, first_tensor(args, kwargs)), with_kwargs=True))  # fmt: skip
        hooks.append(module.register_forward_hook(lambda m, _, out: timeline.note("out", m, out)))
    try:
        with watching(model, timeline.watch):
            output = first_output(model(**inputs))
    finally:
        for hook in hooks:
            hook.remove()
    return timeline, output


def first_output(output: object) -> Tensor:
    """The first tensor of a model output: hidden states of a base model, logits of a task model."""
    return next(value for value in output.values() if isinstance(value, Tensor))  # type: ignore[attr-defined]


def check_calls(model: PreTrainedModel, timeline: Timeline) -> None:
    config, calls = model.config, len(timeline.calls)
    layers = getattr(config, "num_hidden_layers", 0)
    if config.is_encoder_decoder:
        layers += 2 * (getattr(config, "decoder_layers", None) or getattr(config, "num_decoder_layers", layers))
    if calls == 0:
        why = REFUSED.get(config.model_type, f"{config.model_type} does not use transformers' attention registry")
        raise ModelError(f"{why}, so its numbers cannot be proved; `headwise list families` shows models that work.")
    if calls < layers:
        raise ModelError(
            f"All {layers} attention calls of {config.model_type} must be seen, but only {calls} were; this model "
            "cannot be analysed. `headwise list families` shows models that work."
        )


def examine(timeline: Timeline, place: int, model: PreTrainedModel) -> tuple[Site, float]:
    """One attention call: its projection, its circuit, and the error of the proof."""
    start, call, out, alpha = timeline.calls[place]
    end = timeline.calls[place + 1][0] if place + 1 < len(timeline.calls) else len(timeline.events)
    begin = timeline.calls[place - 1][0] if place else 0
    after = timeline.events[start:end]
    at, projection, projected = find_projection(after, at_least_float(out), model)
    w_o, b_o = as_matrix(projection, heads=alpha.shape[1], like=call.value)
    value = at_least_float(call.value).repeat_interleave(alpha.shape[1] // call.value.shape[1], dim=1)
    rebuilt = torch.einsum("bhqk,bhkd,hde->bqe", at_least_float(alpha), value, w_o) + b_o
    before, later = (shaped(events, projected) for events in (timeline.events[begin:start], after[at:]))
    residual_of, circuit = find_circuit(before, later, projected, Circuit(w_o, b_o))
    every_key = torch.ones(1, call.key.shape[2], dtype=torch.bool, device=call.key.device)
    causal = not bool(call.visible(every_key)[0, 0, -1])
    site = Site(stack_of(call, model), 0, call.module, projection, residual_of, circuit, causal)
    return site, relative(rebuilt, projected)


def shaped(events: list[tuple[str, nn.Module, Tensor]], like: Tensor) -> list[tuple[str, nn.Module, Tensor]]:
    """The events whose tensor has the size of `like`, in its shape (OPT folds batch and token into one axis)."""
    fits = (e for e in events if e[2].numel() == like.numel() and e[2].shape[-1] == like.shape[-1])
    return [(kind, module, tensor.reshape(like.shape)) for kind, module, tensor in fits]


def find_projection(
    events: list[tuple[str, nn.Module, Tensor]], out: Tensor, model: PreTrainedModel
) -> tuple[int, nn.Module, Tensor]:
    """The first linear module whose input is the attention output, where it fired, and what it gave."""
    for at, (kind, module, tensor) in enumerate(events):
        is_linear = kind == "in" and isinstance(module, nn.Linear | Conv1D) and tensor.numel() == out.numel()
        if is_linear and torch.equal(tensor.flatten(), out.flatten()):
            given = next(t for k, m, t in events[at:] if k == "out" and m is module)
            return at + 1, module, given
    raise ModelError(
        f"An output projection must read the attention output directly, but none does in {model.config.model_type}; "
        "this model cannot be analysed. `headwise list families` shows models that work."
    )


def as_matrix(projection: nn.Module, *, heads: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """W_O [head d_head d_model] and b_O of any affine module, by what it does to unit vectors.

    W_O of a head is a slice of the projection's *input* axis.
    """
    size = heads * like.shape[-1]
    unit = torch.eye(size, dtype=like.dtype, device=like.device)
    b_o = projection(torch.zeros_like(unit[:1]))
    w_o = at_least_float(projection(unit)) - at_least_float(b_o)
    return w_o.reshape(heads, like.shape[-1], -1).contiguous(), at_least_float(b_o)[0].contiguous()


def find_circuit(
    before: list[tuple[str, nn.Module, Tensor]],
    after: list[tuple[str, nn.Module, Tensor]],
    projected: Tensor,
    bare: Circuit,
) -> tuple[nn.Module | None, Circuit]:
    """The residual's module and the circuit around the projection; (None, bare) where no sum is found."""
    branches: list[tuple[Norm | None, Tensor]] = [(None, projected)]
    for kind, module, tensor in after:
        if kind == "in" and same(tensor, projected) and (inner := as_norm(module, tensor)) is not None:
            branches.append((inner, inner(projected)))
            break
    readers = [(m, t) for kind, m, t in after if kind == "in"]
    for inner, branch in reversed(branches):
        for kind, module, residual in before:
            scales = [scale_of(total, residual, branch) for _, total in readers]
            if kind == "in" and any(scales):
                scale, total = next((s, t) for s, (_, t) in zip(scales, readers, strict=True) if s)
                norms = (as_norm(m, t) for m, t in readers if same(t, total))
                outer = next((norm for norm in norms if norm is not None), None)
                last, post = find_last(after, total, outer)
                return module, Circuit(bare.w_o, bare.b_o, scale, inner, outer, last, post)
    return None, bare


def find_last(
    after: list[tuple[str, nn.Module, Tensor]], total: Tensor, outer: Norm | None
) -> tuple[Norm | None, bool]:
    """The norm that reads the block's output, and whether the feed-forward block adds to outer(total) (post-norm).

    The block's output is the later tensor that equals outer(total) or `total` plus what some module gave in between.
    """
    start = next(at for at, (kind, _, t) in enumerate(after) if kind == "in" and same(t, total))
    given: list[Tensor] = []
    for kind, module, tensor in after[start:]:
        if kind == "out":
            given.append(tensor)
        elif not same(tensor, total) and (norm := as_norm(module, tensor)) is not None:
            for post, residual in ((True, outer and outer(total)), (False, total)):
                if residual is not None and any(scale_of(tensor, residual, branch) for branch in reversed(given)):
                    return norm, post
    return None, False


def scale_of(total: Tensor, residual: Tensor, branch: Tensor) -> float:
    """The c for which total = residual + c · branch; 0 where there is none."""
    rest = total - residual
    c = float((rest * branch).sum() / branch.square().sum())
    return c if abs(c) > 1e-3 and same(rest, c * branch) else 0.0


def as_norm(module: nn.Module, example: Tensor) -> Norm | None:
    """The module as a LayerNorm or RMSNorm, recognised by its values on random inputs; None if it is neither."""
    if list(module.children()) or any(p.ndim != 1 for p in module.parameters()):
        return None
    eps = next((float(getattr(module, n)) for n in ("eps", "variance_epsilon", "epsilon") if hasattr(module, n)), 1e-6)
    generator = torch.Generator().manual_seed(0)
    dtype = next((p.dtype for p in module.parameters()), example.dtype)
    first, second = torch.randn(2, 1, 1, example.shape[-1], generator=generator).to(example.device, dtype)
    try:
        bias, at_first, at_second = (at_least_float(module(x)) for x in (torch.zeros_like(first), first, second))
    except (RuntimeError, TypeError, ValueError):
        return None
    first, second = at_least_float(first), at_least_float(second)
    for centred in (True, False):
        bare = Norm(torch.ones_like(bias[0, 0]), torch.zeros_like(bias[0, 0]), eps, centred)
        norm = Norm(((at_first - bias) / bare(first))[0, 0], bias[0, 0], eps, centred)
        if same(norm(second), at_second):
            return norm
    return None


def same(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of the model's own precision."""
    return a.shape == b.shape and relative(a, b) < 1e-3


def relative(a: Tensor, b: Tensor) -> float:
    """The largest difference over the largest number."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=torch.finfo(b.dtype).tiny))


def stack_of(call: Call, model: PreTrainedModel) -> str:
    """Told by the lengths of the probe: 5 × 5 encoder, 3 × 3 decoder, 3 × 5 cross-attention."""
    if not model.config.is_encoder_decoder:
        return "self"
    return {(PROBE, PROBE): "encoder", (TARGET_PROBE, TARGET_PROBE): "decoder"}.get(
        (call.length, call.key.shape[2]), "cross"
    )


def number(sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """Count the layers of each stack from zero."""
    counts: dict[str, int] = {}
    numbered = []
    for site in sites:
        index = counts.get(site.stack, 0)
        counts[site.stack] = index + 1
        numbered.append(replace(site, index=index))
    return tuple(numbered)

"""Passes of a model from its embedded input on: x ↦ e^1 … e^L, with tangents or with a graph for gradients.

x is the output of the embedding module, as `hidden_states[0]` has it. Where it enters the blocks is found, not looked
up by name: on the probe, every module that is *given* that very tensor; there x is put in its place. The head of a task
model is left out, as hidden tokens do not depend on it.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd import forward_ad

from headwise.attributions.tangents import NotSharedError, dual, forward_rules, tangent_of
from headwise.errors import ModelError
from headwise.models.capture import at_least_float, first_tensor, watching
from headwise.models.model import Model
from headwise.models.probe import probe_inputs, without_cache
from headwise.models.proof import TOLERANCE
from headwise.models.surroundings import relative
from headwise.types import Batch

Hidden = Float[Tensor, "batch token d_model"]
Tangents = Float[Tensor, "tangent batch token d_model"]
Inputs = Mapping[str, Tensor]
Entry = tuple[nn.Module, int]  # a module and which of its calls in a pass


def hidden_pass(model: Model, inputs: Inputs) -> tuple[Hidden, ...]:
    """x, e^1 … e^L of the first stack, by the model's own eager attention."""
    with watching(model.hf, lambda call: call.rows(0, call.length)), plain_experts(model):
        return trunk(model)(**trunk_inputs(inputs), **_options(model), output_hidden_states=True).hidden_states


@contextmanager
def plain_experts(model: Model) -> Iterator[None]:
    """Mixtures of experts one expert after the other: torch's grouped product knows no forward mode."""
    hf: Any = model.hf
    if not hf._can_set_experts_implementation():
        yield
        return
    before = hf.config._experts_implementation
    hf.set_experts_implementation("eager")
    try:
        yield
    finally:
        hf.set_experts_implementation(before)


def trunk(model: Model) -> nn.Module:
    """The model without its task's head; of an encoder–decoder the encoder."""
    base: Any = model.hf.base_model
    return base.get_encoder() if model.is_encoder_decoder else base


def trunk_inputs(inputs: Inputs) -> dict[str, Tensor]:
    """What the first stack reads of a batch's inputs."""
    return {name: tensor for name, tensor in inputs.items() if not name.startswith("decoder_")}


def _options(model: Model) -> dict[str, Any]:
    return {} if model.is_encoder_decoder else without_cache(trunk(model))


def embedded(model: Model, batch: Batch) -> Hidden:
    """x, cut off from the embedding module."""
    with torch.no_grad():
        return hidden_pass(model, batch.inputs)[0].detach()


def hidden_of(model: Model, inputs: Inputs, x: Tensor) -> tuple[Tensor, ...]:
    """e^1 … e^L as functions of `x`: differentiable, where x asks for it."""
    with entering(model, x):
        return hidden_pass(model, inputs)[1:]


def tangents_of(model: Model, inputs: Inputs, x: Hidden, tangents: Tangents) -> Iterator[Tangents]:
    """What each tangent of x becomes in e^1 … e^L, one layer after the other; the pass itself is computed once."""
    with torch.no_grad():
        if shares_primal(model):
            states = hidden_of(model, inputs, dual(x, tangents))
            return (tangent_of(state, len(tangents)) for state in states)
        return iter(repeated_tangents(model, inputs, x, tangents))


def repeated_tangents(model: Model, inputs: Inputs, x: Hidden, tangents: Tangents) -> list[Tangents]:
    """The same by torch's own forward mode, with a copy of the text for each tangent."""
    count = len(tangents)
    copies = {name: tensor.repeat(count, *[1] * (tensor.ndim - 1)) for name, tensor in inputs.items()}
    forward_rules()
    with torch.no_grad(), forward_ad.dual_level():
        point = forward_ad.make_dual(x.repeat(count, 1, 1), tangents.flatten(0, 1))
        moved = [forward_ad.unpack_dual(state) for state in hidden_of(model, copies, point)]
        found = [torch.zeros_like(m.primal) if m.tangent is None else m.tangent for m in moved]
    return [tangent.unflatten(0, (count, len(x))) for tangent in found]


@contextmanager
def entering(model: Model, x: Tensor) -> Iterator[None]:
    """Give `x` to the blocks in place of the embedded input."""
    calls: Counter[nn.Module] = Counter()
    places = set(entries(model))

    def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls[module] += 1
        if (module, calls[module]) not in places:
            return None
        return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

    with ExitStack() as stack:
        for module in {module for module, _ in places}:
            stack.callback(module.register_forward_pre_hook(replace, with_kwargs=True).remove)
        yield


_entries: weakref.WeakKeyDictionary[nn.Module, tuple[Entry, ...]] = weakref.WeakKeyDictionary()
_shares: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()


def entries(model: Model) -> tuple[Entry, ...]:
    """Every call of a pass that is given the embedded input itself; found once a model."""
    if model.hf not in _entries:
        _entries[model.hf] = _find_entries(model)
    return _entries[model.hf]


def _find_entries(model: Model) -> tuple[Entry, ...]:
    given: list[tuple[nn.Module, Tensor]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensor = first_tensor(args, kwargs)
        if tensor is not None:
            given.append((module, tensor))  # subtle: held, so that no later tensor can take its memory

    with ExitStack() as stack, torch.no_grad():
        for module in trunk(model).modules():
            stack.callback(module.register_forward_pre_hook(note, with_kwargs=True).remove)
        x = hidden_pass(model, probe_inputs(model.hf))[0]
    calls: Counter[nn.Module] = Counter()
    found = []
    for module, tensor in given:
        calls[module] += 1
        if tensor.shape == x.shape and tensor.data_ptr() == x.data_ptr():
            found.append((module, calls[module]))
    if not found:
        raise ModelError(
            f"Origins start at the tensor that the first block is given, but none of {model.name}'s modules is given "
            "its embedded input as it is; this model has mixing quantities and rollout only."
        )
    return tuple(found)


def shares_primal(model: Model) -> bool:
    """Whether `Dual` tensors go through this model and agree with torch's own forward mode on the probe."""
    if model.hf not in _shares:
        _shares[model.hf] = _agrees(model)
    return _shares[model.hf]


def _agrees(model: Model) -> bool:
    inputs = trunk_inputs(probe_inputs(model.hf))
    with torch.no_grad():
        states = hidden_pass(model, inputs)
        x = states[0].detach()
        generator = torch.Generator().manual_seed(0)
        tangents = torch.randn(2, *x.shape, generator=generator, dtype=torch.float32).to(x)
        try:
            moved = hidden_of(model, inputs, dual(x, tangents))
        except (NotSharedError, RuntimeError, TypeError, AttributeError):
            return False
    own = repeated_tangents(model, inputs, x, tangents)
    tolerance = TOLERANCE[x.dtype]
    same = (relative(at_least_float(tangent_of(m, 2)), at_least_float(o)) for m, o in zip(moved, own, strict=True))
    primals = (at_least_float(m.as_subclass(Tensor)) for m in moved)
    values = (relative(p, at_least_float(s)) for p, s in zip(primals, states[1:], strict=True))
    return all(error <= tolerance for error in (*same, *values))


def chunks(total: int, size: int) -> Iterator[slice]:
    """0 … total in steps of `size`."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def shares(sizes: Float[Tensor, "batch layer token input"], mask: Bool[Tensor, "batch token"]) -> Tensor:
    """Sizes as shares of their row; padding is zero, and a row in which nothing is left is NaN."""
    seen = mask[:, None, None, :] & mask[:, None, :, None]
    kept = torch.where(seen, sizes, 0.0)
    return torch.where(seen, kept / kept.sum(-1, keepdim=True), 0.0)

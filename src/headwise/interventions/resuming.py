"""Many changes of one text in one pass: the batch is the changes, and what lies below them is computed once.

A clean pass keeps what every block gave. A pass on copies of the text that differ only from some block on takes the
blocks below from there: their `forward` stands aside and returns what was kept, once for each copy. On the probe this
is compared with a pass that computes everything; a model in which the two do not agree computes everything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ModelError
from headwise.models.blocks import block_of
from headwise.models.capture import at_least_float
from headwise.models.editing import Place
from headwise.models.model import Model
from headwise.models.probe import without_cache
from headwise.models.proof import TOLERANCE, first_output, probe_inputs, relative

Inputs = Mapping[str, Tensor]
_shares: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Clean:
    """A pass without changes: the model's output, what each block gave in order, and the block of each place."""

    output: Any
    given: tuple[Any, ...]
    block: Mapping[Place, int]


def options(model: Model) -> dict[str, Any]:
    return without_cache(model.hf)


def clean_pass(model: Model, inputs: Inputs, **besides: bool) -> Clean:
    """Run the text once and keep what its blocks gave; `besides` is asked of the pass too."""
    given: list[Any] = []
    block: dict[Place, int] = {}
    places = iter([(site.stack, site.index) for site in model.proof.sites])
    with ExitStack() as stack:
        for module in {site.projection for site in model.proof.sites}:
            stack.callback(module.register_forward_hook(lambda *_: block.update({next(places): len(given)})).remove)
        for module in _blocks(model):
            stack.callback(module.register_forward_hook(lambda _m, _a, out: given.append(out)).remove)
        output = model.hf(**inputs, **options(model), **besides)
    return Clean(output, tuple(given), block)


def copies_of(inputs: Inputs, copies: int) -> dict[str, Tensor]:
    return {name: tensor.repeat(copies, *[1] * (tensor.ndim - 1)) for name, tensor in inputs.items()}


@contextmanager
def resumed(model: Model, clean: Clean, *, first: int, copies: int) -> Iterator[None]:
    """Blocks before number `first` return what they gave in the clean pass, for every copy."""
    if first == 0 or not shares(model):
        yield
        return
    turn = iter(range(len(clean.given)))

    def standing_aside(forward: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            at = next(turn)
            return _repeated(clean.given[at], copies) if at < first else forward(*args, **kwargs)

        return stand_in

    blocks = _blocks(model)
    before = [block.__dict__.get("forward") for block in blocks]
    for block in blocks:
        block.forward = standing_aside(block.forward)
    try:
        yield
    finally:
        for block, forward in zip(blocks, before, strict=True):
            del block.forward
            if forward is not None:
                block.forward = forward


def _repeated(given: Any, copies: int) -> Any:
    if isinstance(given, Tensor):
        return given.repeat(copies, *[1] * (given.ndim - 1)) if given.shape[:1] == (1,) else given
    return type(given)(_repeated(part, copies) for part in given) if isinstance(given, tuple | list) else given


def _blocks(model: Model) -> list[nn.Module]:
    return list(dict.fromkeys(block_of(model, site.module) for site in model.proof.sites))


def shares(model: Model) -> bool:
    """Whether passes of this model may be resumed: tried on the probe at every block."""
    if model.hf not in _shares:
        _shares[model.hf] = True  # so that the trial itself resumes
        _shares[model.hf] = _agrees(model)
    return _shares[model.hf]


def _agrees(model: Model) -> bool:
    if len({site.projection for site in model.proof.sites}) < len(model.proof.sites):
        return False  # layers that share a module (ALBERT) are told apart by counting its calls: none may be left out
    inputs = probe_inputs(model.hf)
    try:
        with torch.no_grad():
            clean = clean_pass(model, inputs)
            own = at_least_float(first_output(clean.output))
            for first in sorted(set(clean.block.values())):
                with resumed(model, clean, first=first, copies=2):
                    again = model.hf(**copies_of(inputs, 2), **options(model))
                both = at_least_float(first_output(again))
                if relative(both, own.expand_as(both)) > TOLERANCE[model.hf.dtype]:
                    return False
    except (RuntimeError, TypeError, ValueError, IndexError, StopIteration, ModelError):
        return False
    return True

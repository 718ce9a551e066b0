"""The blocks of a model, found by what they compute: which module's output is the feed-forward part of a layer.

On the probe, after the attention of a layer: the module whose output b is added to the residual, that is for which a
later tensor is  t = r + c · b  with r a tensor that was read after attention (pre- and post-norm models), or
t = r + out + c · b  with r read before it, where attention and feed-forward run in parallel.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headwise.errors import ModelError
from headwise.models.probe import Event, observe, probe_inputs
from headwise.models.surroundings import same, scale_of, shaped

if TYPE_CHECKING:
    from headwise.models.model import Model

Place = tuple[str, int]
_found: weakref.WeakKeyDictionary[nn.Module, Mapping[Place, nn.Module]] = weakref.WeakKeyDictionary()


def feed_forwards(model: Model) -> Mapping[Place, nn.Module]:
    """The module that gives each layer's feed-forward output; layers where none is found are left out.

    The feed-forward block of a decoder's layer stands after its cross-attention and is the decoder's.
    """
    if model.hf not in _found:
        _found[model.hf] = _search(model)
    return _found[model.hf]


def _search(model: Model) -> dict[Place, nn.Module]:
    with torch.no_grad():
        timeline, _ = observe(model.hf, probe_inputs(model.hf))
        starts = [start for start, *_ in timeline.calls]
        ends = [*starts[1:], len(timeline.events)]
        found: dict[Place, nn.Module] = {}
        crossed = "cross" in model.stacks
        for at, site in enumerate(model.proof.sites):
            if crossed and site.stack == "decoder":
                continue  # its feed-forward block comes after the cross-attention
            begin = starts[at - 1] if at else 0
            out = next(t for kind, m, t in timeline.events[starts[at] :] if kind == "out" and m is site.projection)
            before, after = timeline.events[begin : starts[at]], timeline.events[starts[at] : ends[at]]
            module = _added(shaped(before, out), shaped(after, out), out)
            if module is not None:
                found["decoder" if site.stack == "cross" else site.stack, site.index] = module
    return found


def _added(before: list[Event], after: list[Event], out: Tensor) -> nn.Module | None:
    """The module whose output is added to the residual after attention."""
    aside = [tensor + out for kind, _, tensor in before if kind == "in"]
    for at, (kind, module, branch) in enumerate(after):
        if kind != "out" or same(branch, out):
            continue
        earlier = [tensor for each, _, tensor in after[:at] if each == "in" and not same(tensor, out)]
        later = [tensor for each, _, tensor in after[at:] if each == "in" and not same(tensor, branch)]
        if any(scale_of(total, rest, branch) for total in later for rest in (*earlier, *aside)):
            return module
    return None


def block_of(model: Model, attention: nn.Module) -> nn.Module:
    """The block around an attention module: the outermost element of a list of modules that holds it."""
    for module in model.hf.modules():
        if isinstance(module, nn.ModuleList):
            for block in module:
                if any(part is attention for part in block.modules()):
                    return block
    raise ModelError(f"The blocks of a model must stand in a list, but those of {model.name} do not.")

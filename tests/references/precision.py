"""How fine a comparison may be: by what a model computes in, found by watching it, not by its name.

A float64 model whose family takes its softmax, its norms or its rotary angles in float32 (Llama and most after it do)
gives other last bits for a batch than for a single text, and which ones depends on the processor. So a test that
compares two ways through such a model may ask for float32's precision only, whatever the model's dtype.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import headwise as hw

IN_FLOAT64, WITH_FLOAT32_INSIDE = 1e-9, 1e-6


class _Narrowing(TorchDispatchMode):
    """Notices a step between float64 and a smaller float of a tensor that holds more than a constant."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        floats = {
            leaf.dtype
            for leaf in tree_leaves((args, kwargs, out))
            if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel() > 1
        }
        self.seen |= torch.float64 in floats and len(floats) > 1
        return out


def float32_inside(model: hw.Model, text: str = "The sea is big, it is said.") -> bool:
    """Whether a float64 model passes through float32 on its way."""
    both = model.is_encoder_decoder
    batch = model.batch([model.encode(text)], [model.encode_target(text)] if both else [])
    with torch.no_grad(), _Narrowing() as watch:
        model.run(batch, lambda _: None)
    return watch.seen


def nearness(model: hw.Model) -> float:
    """The relative difference that two ways through a float64 `model` may have."""
    remembered = model.__dict__.setdefault("_nearness", {})
    if not remembered:
        remembered["relative"] = WITH_FLOAT32_INSIDE if float32_inside(model) else IN_FLOAT64
    return remembered["relative"]

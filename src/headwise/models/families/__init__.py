"""Families whose attention does not go through transformers' registry, one file each.

A family file has `eager_attention_forward` and a `forward` that calls the attention function it is given; for the
time of a capture that `forward` stands in for the module's own. The proof at load compares the two.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transformers import PreTrainedModel

STAND_INS: Mapping[str, str] = {"mpnet": "headwise.models.families.mpnet"}


@contextmanager
def dispatching(model: PreTrainedModel, attention: Callable[..., Any]) -> Iterator[None]:
    """Make the attention modules of `model` call `attention`; most families do so by themselves."""
    where = STAND_INS.get(model.config.model_type)
    if where is None:
        yield
        return
    family = importlib.import_module(where)
    modules = [module for module in model.modules() if isinstance(module, family.MODULE)]
    before = [module.__dict__.get("forward") for module in modules]  # one stands there where captures are nested
    for module in modules:
        module.forward = family.forward_of(module, attention)
    try:
        yield
    finally:
        for module, forward in zip(modules, before, strict=True):
            del module.forward  # the class's own forward shows through again
            if forward is not None:
                module.forward = forward

"""The same architecture without its training: what a probe finds there is not the model's knowledge.

Clark et al. 2019 §5: word and position embeddings stay as trained, all other weights are drawn anew, as the family is
initialised. Such a network attends nearly evenly, as its weights are small; `shuffled` is the stricter control: every
weight tensor keeps its numbers, and so its size, in random order.
"""

from __future__ import annotations

from copy import deepcopy
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers import PreTrainedModel

from headwise.models.capture import quiet
from headwise.models.load import load
from headwise.models.model import Model

_COPIES: WeakKeyDictionary[PreTrainedModel, dict[tuple[str, int], Model]] = WeakKeyDictionary()


def untrained(model: Model, seed: int) -> Model:
    """A randomly initialised copy, made once a model and seed."""
    return _copy(model, "drawn anew", seed)


def shuffled(model: Model, seed: int) -> Model:
    """A copy with the numbers of every weight in random order, made once a model and seed."""
    return _copy(model, "shuffled", seed)


def _copy(model: Model, kind: str, seed: int) -> Model:
    copies = _COPIES.setdefault(model.hf, {})
    if (kind, seed) not in copies:
        fresh = {"drawn anew": drawn_anew, "shuffled": in_random_order}[kind](model.hf, seed)
        copies[kind, seed] = load((fresh, model.tokenizer))
    return copies[kind, seed]


def drawn_anew(trained: PreTrainedModel, seed: int) -> PreTrainedModel:
    """A model of the same configuration, initialised as its family is, with the embeddings of `trained`."""
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        fresh = type(trained)(deepcopy(trained.config))
    fresh.to(device=trained.device, dtype=trained.dtype)  # type: ignore[arg-type] - a decorator hides its signature
    fresh.eval()
    tables = {name: module for name, module in trained.named_modules() if isinstance(module, nn.Embedding)}
    for name, module in fresh.named_modules():
        if name in tables:
            assert isinstance(module, nn.Embedding)
            module.weight.data.copy_(tables[name].weight.data)
    return fresh


def in_random_order(trained: PreTrainedModel, seed: int) -> PreTrainedModel:
    """A model with the numbers of every parameter but the embeddings' shuffled; tied weights stay tied."""
    fresh = deepcopy(trained).eval()
    draw = torch.Generator().manual_seed(seed)
    kept = {
        id(weight) for module in fresh.modules() if isinstance(module, nn.Embedding) for weight in module.parameters()
    }
    for weight in fresh.parameters():
        if id(weight) not in kept:
            order = torch.randperm(weight.numel(), generator=draw).to(weight.device)
            weight.data.copy_(weight.data.flatten()[order].view_as(weight))
    return fresh

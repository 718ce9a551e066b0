"""The same architecture without its training: what a probe finds there is not the model's knowledge.

Clark et al. 2019 §5: word and position embeddings stay as trained, all other weights are drawn anew.
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

_COPIES: WeakKeyDictionary[PreTrainedModel, dict[int, Model]] = WeakKeyDictionary()


def untrained(model: Model, seed: int) -> Model:
    """A randomly initialised copy, made once a model and seed."""
    copies = _COPIES.setdefault(model.hf, {})
    if seed not in copies:
        copies[seed] = load((drawn_anew(model.hf, seed), model.tokenizer))
    return copies[seed]


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

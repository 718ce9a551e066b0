"""A task model under other attention: its forward pass with α replaced in some layers, all else as it is.

The output of a head is α V for whatever α, which the proof at load has checked, so the model's own W_O, residuals,
norms and feed-forward parts act on it as they always do. Later layers compute query, key and value from what they then
read; where their α is replaced as well, it is the given one that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES

from headwise.attributions.prediction import head_of, last_tokens
from headwise.models.capture import Call, watching
from headwise.models.model import Model
from headwise.models.probe import without_cache
from headwise.types import Batch, Layer

Maps = Float[Tensor, "batch layer head query key"]


def tags_tokens(model: Model) -> bool:
    """Whether the model predicts a label for every token."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    return bool(names & set(MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES.values()))


def check_predicts(model: Model) -> None:
    """Raise, with what to load, where there is no prediction that could change."""
    if not tags_tokens(model):
        head_of(model)


def own_attention(model: Model, batch: Batch) -> tuple[Maps, Bool[Tensor, "batch query key"]]:
    """α of all layers of the first stack, zero in rows of padding, and the pairs that are seen in every layer."""
    layers: list[Layer] = []
    with torch.no_grad():
        model.run(batch, layers.append, rows=0, wanted=lambda site: site.stack == model.stacks[0])
    seen = torch.stack([layer.visible for layer in layers]).all(0)
    return torch.stack([layer.alpha for layer in layers], dim=1), seen


def log_probabilities(
    model: Model, batch: Batch, maps: Maps | None = None
) -> tuple[Float[Tensor, "batch place choice"], Bool[Tensor, "batch place"]]:
    """What the model says at its places (every token of a token classifier, one place otherwise), and which count."""
    with substituting(model, maps):
        logits = model.hf(**batch.inputs, **without_cache(model.hf)).logits
    if tags_tokens(model):
        return logits.log_softmax(-1), batch.mask
    if head_of(model) == "causal-lm":
        logits = logits[torch.arange(len(logits)), last_tokens(batch.inputs["attention_mask"])]
    return logits.log_softmax(-1)[:, None], torch.ones(len(logits), 1, dtype=torch.bool, device=logits.device)


@contextmanager
def substituting(model: Model, maps: Maps | None) -> Iterator[None]:
    """Every attention call of the first stack weighs its values by `maps`; None leaves the model alone."""
    calls = iter(range(model.layers()))

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        if maps is None:
            return call.rows(0, call.length)
        alpha = maps[:, next(calls)].to(call.value.dtype)
        value = call.value.repeat_interleave(alpha.shape[1] // call.value.shape[1], dim=1)
        return (alpha @ value).transpose(1, 2).contiguous(), alpha

    with watching(model.hf, watch):
        yield

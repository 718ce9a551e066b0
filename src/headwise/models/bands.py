"""Longformer and the encoder of LED: a band of keys as a mask.

Their attention multiplies chunks of a band and never has an n × n map. While a model is watched, each such layer does
the same by a map: keys further away than half the window are masked, and the text is not padded to whole windows. The
proof compares the output with that of the model's own chunks. Tokens with global attention have rows of another kind
(their own queries, keys and *values*), so that one map and one set of values do not say what comes out: refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ModelError

LAYERS = ("LongformerSelfAttention", "LEDEncoderSelfAttention")
PADDING = "_pad_to_window_size"

Attention = Callable[..., tuple[Tensor, Tensor | None]]


@contextmanager
def banded(model: nn.Module, attention: Attention) -> Iterator[None]:
    """For the time of a pass every layer that multiplies bands calls `attention` with a mask; then all is as before."""
    layers = [module for module in model.modules() if type(module).__name__ in LAYERS]
    changes: list[tuple[nn.Module, str, Any]] = [(module, "forward", _forward(module, attention)) for module in layers]
    if layers:
        changes += [(module, PADDING, _unpadded) for module in model.modules() if hasattr(module, PADDING)]
    before = [(module, name, vars(module).get(name)) for module, name, _ in changes]
    try:
        for module, name, ours in changes:
            vars(module)[name] = ours
        yield
    finally:
        for module, name, theirs in before:
            vars(module).pop(name)
            if theirs is not None:  # captures may be nested
                vars(module)[name] = theirs


def in_band(length: int, half: int, device: torch.device) -> Tensor:
    """Whether a key is at most `half` tokens away: [query key].

    >>> in_band(3, 1, torch.device("cpu")).tolist()
    [[True, True, False], [True, True, True], [False, True, True]]
    """
    at = torch.arange(length, device=device)
    return (at[:, None] - at).abs() <= half


def softmaxed(
    _module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, scaling: float, **_: Any
) -> tuple[Tensor, Tensor]:
    """Plain attention, its softmax in float32 as that of the chunks: (output [batch query head d_head], weights)."""
    scores = query @ key.transpose(-1, -2) * scaling + mask
    alpha = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    return (alpha @ value).transpose(1, 2), alpha


def _forward(layer: Any, attention: Attention) -> Callable[..., tuple[Tensor, ...]]:
    def forward(
        hidden_states: Tensor, attention_mask: Tensor, is_global_attn: bool | None = None, **_: Any
    ) -> tuple[Tensor, ...]:
        if is_global_attn:
            raise ModelError(
                f"A row of attention must mix the values that all others mix, but in {layer.config.model_type} tokens "
                "with global attention have values of their own (value_global); load it without a task, where no token "
                "has global attention."
            )
        query, key, value = (
            project(hidden_states).unflatten(-1, (layer.num_heads, layer.head_dim)).transpose(1, 2)
            for project in (layer.query, layer.key, layer.value)
        )
        seen = in_band(query.shape[2], layer.one_sided_attn_window_size, query.device)
        seen = seen[None, None] & (attention_mask >= 0)[:, None, None]
        mask = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, torch.finfo(query.dtype).min)
        out = attention(layer, query, key, value, mask, eager=softmaxed, scaling=1 / math.sqrt(layer.head_dim))[0]
        return (out.flatten(2),)

    return forward


def _unpadded(input_ids: Tensor, attention_mask: Tensor, **given: Any) -> tuple[Any, ...]:
    """In the place of padding to whole windows: everything as it came, in the order of the model's own function."""
    rest = [given[name] for name in ("token_type_ids", "position_ids", "inputs_embeds") if name in given]
    return (0, input_ids, attention_mask, *rest)

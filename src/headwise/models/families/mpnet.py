"""MPNet: BERT's attention plus one position bias that all layers share, computed inside its own module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

MODULE = MPNetSelfAttention


def eager_attention_forward(
    _module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, bias: Tensor | None, **_: Any
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √d + bias + mask) v."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    for term in (bias, mask):
        scores = scores if term is None else scores + term
    alpha = torch.softmax(scores, dim=-1)
    return (alpha @ value).transpose(1, 2).contiguous(), alpha


def forward_of(module: MPNetSelfAttention, attention: Callable[..., Any]) -> Callable[..., Any]:
    """The module's forward, with the attention itself handed to `attention`."""

    def forward(hidden_states, attention_mask=None, position_bias=None, output_attentions=False, **_: Any):
        shape = (*hidden_states.shape[:-1], -1, module.attention_head_size)
        query, key, value = (p(hidden_states).view(shape).transpose(1, 2) for p in (module.q, module.k, module.v))
        out, alpha = attention(
            module, query, key, value, attention_mask, eager=eager_attention_forward, bias=position_bias
        )
        out = module.o(out.reshape(*hidden_states.shape[:-1], -1))
        return (out, alpha) if output_attentions else (out,)

    return forward

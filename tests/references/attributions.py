"""Origins the long way: whole Jacobians by autograd, blocks run again one key at a time."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

import headwise as hw
from headwise.models.tiny import tiny_model
from headwise.types import Batch


@cache
def double(family: str, task: str | None = None) -> hw.Model:
    """A tiny model in float64."""
    hf, tokenizer = tiny_model(family, task=task)
    return hw.load((hf.double(), tokenizer))


def hidden(family: str, hf: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """e^1 … e^L of one text without padding from x, by calling the family's own modules."""
    if family == "bert":
        states, mask = [x], torch.zeros(1, 1, x.shape[1], x.shape[1], dtype=x.dtype)
        for block in hf.encoder.layer:
            out = block(states[-1], mask)
            states.append(out[0] if isinstance(out, tuple) else out)
        return states[1:]
    stack = hf.get_encoder() if hf.config.is_encoder_decoder else hf
    return list(stack(inputs_embeds=x, output_hidden_states=True).hidden_states[1:])


def jacobians(family: str, hf: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """∂e^l/∂x of one text, [token d_out input d_in] a layer."""
    hf.set_attn_implementation("eager")
    layers = len(hidden(family, hf, x))
    found = [torch.autograd.functional.jacobian(lambda p, at=at: hidden(family, hf, p)[at], x) for at in range(layers)]
    return [jacobian[0, :, :, 0] for jacobian in found]


def shares(sizes: Tensor) -> Tensor:
    return sizes / sizes.sum(-1, keepdim=True)


def hidden_token(jacobian: Tensor, norm: str) -> Tensor:
    """[token input] of one layer."""
    if norm == "sum":
        return shares(jacobian.sum(1).norm(dim=-1))
    blocks = jacobian.permute(0, 2, 1, 3)
    sizes = blocks.square().sum((-1, -2)).sqrt() if norm == "frobenius" else torch.linalg.svdvals(blocks)[..., 0]
    return shares(sizes)


def value_zeroing(hf: torch.nn.Module, text: Batch) -> Tensor:
    """BERT's blocks again, one key's value taken away at a time: [layer query key]."""
    hf.set_attn_implementation("eager")
    states = hf(**text.inputs, output_hidden_states=True).hidden_states
    n = states[0].shape[1]
    maps = torch.zeros(len(states) - 1, n, n, dtype=torch.float64)
    for layer, block in enumerate(hf.encoder.layer):
        for key in range(n):
            out = _without(block, states[layer], key)
            maps[layer, :, key] = 1 - torch.cosine_similarity(out.double(), states[layer + 1][0].double(), dim=-1)
    return shares(maps)


def _without(block: torch.nn.Module, state: Tensor, key: int) -> Tensor:
    def zero(_module: torch.nn.Module, _args: object, value: Tensor) -> Tensor:
        value = value.clone()
        value[:, key] = 0
        return value

    handle = block.attention.self.value.register_forward_hook(zero)
    try:
        out = block(state, None)
    finally:
        handle.remove()
    return (out[0] if isinstance(out, tuple) else out)[0]


def globenc_products(hf: torch.nn.Module, text: Batch) -> Tensor:
    """GlobEnc as released, for BERT: each u_ij by itself through both norms, N_l … N_0 multiplied, then shares."""
    hf.set_attn_implementation("eager")
    read: dict[torch.nn.Module, Tensor] = {}
    norms = [m for block in hf.encoder.layer for m in (block.attention.output.LayerNorm, block.output.LayerNorm)]
    hooks = [m.register_forward_pre_hook(lambda m, args: read.__setitem__(m, args[0][0].double())) for m in norms]
    out = hf(**text.inputs, output_hidden_states=True, output_attentions=True)
    for hook in hooks:
        hook.remove()
    product, rolled = None, []
    for block, state, alpha in zip(hf.encoder.layer, out.hidden_states, out.attentions, strict=False):
        step = _lengths_of_block(block, state[0].double(), alpha[0].double(), read)
        product = step if product is None else step @ product
        rolled.append(shares(product))
    return torch.stack(rolled)


def _lengths_of_block(block: torch.nn.Module, x: Tensor, alpha: Tensor, read: dict[torch.nn.Module, Tensor]) -> Tensor:
    attention, heads, n = block.attention, alpha.shape[0], len(x)
    value = attention.self.value(x).reshape(n, heads, -1)
    w_o = attention.output.dense.weight.double().T.reshape(heads, value.shape[-1], -1)
    found = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            u = sum(alpha[h, i, j] * (value[j, h] @ w_o[h]) for h in range(heads)) + (x[i] if i == j else 0)
            for norm in (attention.output.LayerNorm, block.output.LayerNorm):
                sigma = (read[norm][i].var(unbiased=False) + norm.eps).sqrt()
                u = (u - u.mean()) / sigma * norm.weight.double()
            found[i, j] = u.norm()
    return found

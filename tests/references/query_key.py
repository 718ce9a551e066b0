"""Queries and keys of the first layer, from the formulas alone, in float64 loops: GPT-2 and Llama (by halves)."""

from __future__ import annotations

import math

import numpy as np


def gpt2_first_layer(weights: dict[str, np.ndarray], token: int, place: int, head: int, heads: int) -> np.ndarray:
    """[2, d_head]: the query and the key of one token."""
    x = weights["wte.weight"][token] + weights["wpe.weight"][place]
    d, size = len(x), len(x) // heads
    normed = weights["h.0.ln_1.weight"] * (x - x.mean()) / math.sqrt(x.var() + 1e-5) + weights["h.0.ln_1.bias"]
    made = []
    for part in range(2):
        columns = range(part * d + head * size, part * d + (head + 1) * size)
        w, b = weights["h.0.attn.c_attn.weight"], weights["h.0.attn.c_attn.bias"]
        made.append([sum(normed[i] * w[i, c] for i in range(d)) + b[c] for c in columns])
    return np.array(made)


def llama_first_layer(
    weights: dict[str, np.ndarray], token: int, place: int, *, head: int, group: int, size: int, eps: float, base: float
) -> np.ndarray:
    """[2, d_head]: the query of `head` and the key that it shares with its group, each turned by its place."""
    x = weights["embed_tokens.weight"][token]
    normed = weights["layers.0.input_layernorm.weight"] * x / math.sqrt((x * x).mean() + eps)
    made = []
    for name, at in (("q_proj", head), ("k_proj", head // group)):
        flat = weights[f"layers.0.self_attn.{name}.weight"][at * size : (at + 1) * size] @ normed
        turned = np.zeros(size)
        for i in range(size // 2):
            angle = place / base ** (2 * i / size)
            a, b = flat[i], flat[i + size // 2]
            turned[i] = a * math.cos(angle) - b * math.sin(angle)
            turned[i + size // 2] = b * math.cos(angle) + a * math.sin(angle)
        made.append(turned)
    return np.array(made)

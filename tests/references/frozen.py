"""The frozen network of a two-layer GPT-2 as plain matrices: the residual stream is R · vec(x) + c, block by block.

Written from the formulas alone, in float64 numpy, with no gradient: attention A_h ⊗ (W_V,h W_O,h), LayerNorm
diag(γ)/σ (I − 11ᵀ/d), feed-forward W_2ᵀ diag(f(z)/z) W_1ᵀ, each with the numbers of a naive forward pass.
"""

from __future__ import annotations

import numpy as np


def gelu(z: np.ndarray) -> np.ndarray:
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def logits_map(weights: dict[str, np.ndarray], ids: list[int], heads: int, layers: int) -> tuple[np.ndarray, ...]:
    """(R [n·vocabulary, n·d], c [n·vocabulary], x [n·d]): logits = R x + c, x = word + position embeddings."""
    n = len(ids)
    x = weights["wte"][ids] + weights["wpe"][:n]
    d = x.shape[1]
    r, c, state = np.eye(n * d), np.zeros(n * d), x.copy()
    for layer in range(layers):
        w = {k.removeprefix(f"h.{layer}."): v for k, v in weights.items() if k.startswith(f"h.{layer}.")}
        for part in (attention, feed_forward):
            m, b, state = part(state, w, heads)
            r, c = m @ r, m @ c + b
    norm, bias, state = layer_norm(state, weights["ln_f.weight"], weights["ln_f.bias"])
    head = np.kron(np.eye(n), weights["lm_head"])
    return head @ norm @ r, head @ (norm @ c + bias), x.ravel()


def layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, d = x.shape
    m = np.zeros((n * d, n * d))
    for i in range(n):
        sigma = np.sqrt(x[i].var() + 1e-5)
        m[i * d : (i + 1) * d, i * d : (i + 1) * d] = np.diag(gain) @ (np.eye(d) - 1 / d) / sigma
    b = np.tile(bias, n)
    return m, b, (m @ x.ravel() + b).reshape(n, d)


def attention(x: np.ndarray, w: dict[str, np.ndarray], heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x + attention(norm(x)) as a matrix, a vector and its value."""
    n, d = x.shape
    size = d // heads
    norm, b, y = layer_norm(x, w["ln_1.weight"], w["ln_1.bias"])
    qkv = y @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
    total, shift = np.zeros((n * d, n * d)), np.tile(w["attn.c_proj.bias"], n)
    for h in range(heads):
        q, k = (qkv[:, side * d + h * size : side * d + (h + 1) * size] for side in (0, 1))
        scores = q @ k.T / np.sqrt(size)
        scores[np.triu_indices(n, 1)] = -np.inf
        a = np.exp(scores - scores.max(1, keepdims=True))
        a /= a.sum(1, keepdims=True)
        columns = slice(2 * d + h * size, 2 * d + (h + 1) * size)
        w_o = w["attn.c_proj.weight"][h * size : (h + 1) * size]
        total += np.kron(a, (w["attn.c_attn.weight"][:, columns] @ w_o).T)
        shift += np.tile(w["attn.c_attn.bias"][columns] @ w_o, n)  # rows of a sum to 1
    m = np.eye(n * d) + total @ norm
    bias = total @ b + shift
    return m, bias, (m @ x.ravel() + bias).reshape(n, d)


def feed_forward(x: np.ndarray, w: dict[str, np.ndarray], _heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, d = x.shape
    norm, b, y = layer_norm(x, w["ln_2.weight"], w["ln_2.bias"])
    z = y @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"]
    inner, shift = np.zeros((n * d, n * d)), np.zeros(n * d)
    for i in range(n):
        ratio = np.diag(gelu(z[i]) / z[i])
        rows = slice(i * d, (i + 1) * d)
        inner[rows, rows] = w["mlp.c_proj.weight"].T @ ratio @ w["mlp.c_fc.weight"].T
        shift[rows] = w["mlp.c_proj.weight"].T @ ratio @ w["mlp.c_fc.bias"] + w["mlp.c_proj.bias"]
    m, bias = np.eye(n * d) + inner @ norm, inner @ b + shift
    return m, bias, (m @ x.ravel() + bias).reshape(n, d)

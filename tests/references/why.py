"""The score of one cell of layer 1 of a two-layer GPT-2, part by part, in float64 numpy and without a gradient.

The hidden token at a place is written down as the sum that it is; each summand goes through the norm (with the σ of the
whole), through W_Q or W_K, and is multiplied with the whole other side.
"""

from __future__ import annotations

import numpy as np

from references.frozen import gelu

Part = tuple[str, int | None]  # component and place


def normed(x: np.ndarray, gain: np.ndarray, sigma: float) -> np.ndarray:
    return gain * (x - x.mean()) / sigma


def score_parts(
    weights: dict[str, np.ndarray], ids: list[int], heads: int, cell: tuple[int, int, int]
) -> tuple[float, dict[Part, float], dict[Part, float]]:
    """(score, parts on the query's side, parts on the key's)."""
    head, query, key = cell
    x = weights["wte"][ids] + weights["wpe"][: len(ids)]
    summands = [after_layer_0(weights, x, place, heads) for place in range(len(ids))]
    w = {k.removeprefix("h.1."): v for k, v in weights.items() if k.startswith("h.1.")}
    size = x.shape[1] // heads
    made = {}
    for name, place, side in (("q", query, 0), ("k", key, 1)):
        columns = slice(side * x.shape[1] + head * size, side * x.shape[1] + (head + 1) * size)
        matrix, bias = w["attn.c_attn.weight"][:, columns], w["attn.c_attn.bias"][columns]
        whole = sum(summands[place].values())
        sigma = np.sqrt(whole.var() + 1e-5)
        found = {part: normed(v, w["ln_1.weight"], sigma) @ matrix for part, v in summands[place].items()}
        found["bias", None] = found["bias", None] + w["ln_1.bias"] @ matrix + bias
        made[name] = found
    q, k = sum(made["q"].values()), sum(made["k"].values())
    return (
        float(q @ k) / np.sqrt(size),
        {part: float(v @ k) / np.sqrt(size) for part, v in made["q"].items()},
        {part: float(q @ v) / np.sqrt(size) for part, v in made["k"].items()},
    )


def after_layer_0(weights: dict[str, np.ndarray], x: np.ndarray, place: int, heads: int) -> dict[Part, np.ndarray]:
    """What the hidden token of a place is the sum of, after the first block."""
    w = {k.removeprefix("h.0."): v for k, v in weights.items() if k.startswith("h.0.")}
    d = x.shape[1]
    size = d // heads
    y = np.stack([normed(row, w["ln_1.weight"], np.sqrt(row.var() + 1e-5)) for row in x]) + w["ln_1.bias"]
    qkv = y @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
    found: dict[Part, np.ndarray] = {("embedding", place): x[place], ("bias", None): w["attn.c_proj.bias"]}
    for h in range(heads):
        q, k, v = (qkv[:, part * d + h * size : part * d + (h + 1) * size] for part in range(3))
        scores = q[place] @ k[: place + 1].T / np.sqrt(size)
        a = np.exp(scores - scores.max())
        a /= a.sum()
        for j in range(place + 1):
            found[f"L0.H{h}", j] = a[j] * v[j] @ w["attn.c_proj.weight"][h * size : (h + 1) * size]
    middle = sum(found.values())
    z = normed(middle, w["ln_2.weight"], np.sqrt(middle.var() + 1e-5)) + w["ln_2.bias"]
    z = z @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"]
    found["feed-forward 0", place] = gelu(z) @ w["mlp.c_proj.weight"] + w["mlp.c_proj.bias"]
    return found

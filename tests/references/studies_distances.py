"""Head distances the slow way: Hugging Face's own maps of one text at a time, all kept, two logarithms a pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import headwise as hw
from references.captures import HF_NAMES, plain_forward


def distances(model: hw.Model, texts: Sequence[tuple[str, str | None]], stack: str) -> tuple[np.ndarray, int]:
    """Σ JS over all rows of all texts between all heads of a stack, and the number of rows."""
    total, rows = 0.0, 0
    for text, pair in texts:
        maps = _maps(model, text, pair, stack)
        for row in range(maps.shape[1]):
            seen = row + 1 if model.causal or stack == "decoder" else maps.shape[2]
            p = maps[:, row, :seen]
            total, rows = total + all_pairs(0.999 * p / p.sum(-1, keepdims=True) + 0.001 / seen), rows + 1
    return np.asarray(total), rows


def all_pairs(p: np.ndarray) -> np.ndarray:
    """JS(p_a, p_b) = ½ Σ p_a log(p_a/m) + ½ Σ p_b log(p_b/m) of rows [head key], float64."""
    p = p.astype(np.float64)
    heads = range(len(p))
    result = np.zeros((len(p), len(p)))
    for a in heads:
        for b in heads:
            m = (p[a] + p[b]) / 2
            result[a, b] = (p[a] * np.log(p[a] / m)).sum() / 2 + (p[b] * np.log(p[b] / m)).sum() / 2
    return result


def _maps(model: hw.Model, text: str, pair: str | None, stack: str) -> np.ndarray:
    """[layer·head query key] of one text."""
    if model.is_encoder_decoder:
        assert pair is not None
        batch = model.batch([model.encode(text)], [model.encode_target(pair)])
    else:
        batch = model.batch([model.encode(text, pair)])
    attentions = plain_forward(model.hf, batch.inputs)[HF_NAMES[stack]]
    return np.concatenate([alpha[0].double().numpy() for alpha in attentions])

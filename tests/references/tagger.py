"""The tagger word by word in float64, one member and one unpadded sentence at a time; and a made-up chunking task."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.studies.adversary.tagging.conll import Sentence


def norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def tagged(member: dict[str, Tensor], vectors: Tensor, rows: list[list[int]], heads: int, layers: int, near: int):
    """Tag scores [word tag] and attention [layer head query key] of one sentence."""
    p = {name: value.double().numpy() for name, value in member.items()}
    x = []
    for vector, own in zip(vectors.double().numpy(), rows, strict=True):
        bag = sum((p["rows"][row] for row in own if row), np.zeros(p["rows"].shape[1]))
        x.append(np.concatenate([vector, bag]) @ p["in"] + p["in_b"])
    n, width, maps = len(x), len(x[0]), []
    size = width // heads
    for layer in range(layers):
        w = {name.removeprefix(f"{layer}."): value for name, value in p.items()}
        z = [norm(row) for row in x]
        query, key = [row @ w["qk"][:, :width] for row in z], [row @ w["qk"][:, width:] for row in z]
        value = [row @ w["v"] + w["v_b"] for row in z]
        alpha, fresh = np.zeros((heads, n, n)), []
        for i in range(n):
            context = []
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                scores = [
                    query[i][part] @ key[j][part] / np.sqrt(size)
                    + 4 * w["near"][head, np.clip(j - i, -near, near) + near]
                    for j in range(n)
                ]
                weights = np.exp(scores) / np.exp(scores).sum()
                alpha[head, i] = weights
                context.append(sum(weights[j] * value[j][part] for j in range(n)))
            stream = x[i] + np.concatenate(context) @ w["o"] + w["o_b"]
            inner = np.maximum(norm(stream) @ w["1"] + w["1_b"], 0)
            fresh.append(stream + inner @ w["2"] + w["2_b"])
        x = fresh
        maps.append(alpha)
    return np.stack([norm(row) @ p["tag"] + p["tag_b"] for row in x]), np.stack(maps)


def made_up(count: int, seed: int) -> list[Sentence]:
    """Sentences in which a phrase is `the` and the one word after it: a tagger must look at the word before."""
    generator = torch.Generator().manual_seed(seed)
    words = ["the", "cat", "sat", "mat", "on"]
    found = []
    for _ in range(count):
        length = int(torch.randint(3, 10, (), generator=generator))
        chosen = [words[int(at)] for at in torch.randint(0, len(words), (length,), generator=generator)]
        tags = []
        for at, word in enumerate(chosen):
            tags.append("B-NP" if word == "the" else "I-NP" if at and chosen[at - 1] == "the" else "O")
        found.append(Sentence(tuple(chosen), ("X",) * length, tuple(tags), 1))
    return found

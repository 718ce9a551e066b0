"""Loops for what the probes compute at once: scores of a head, trees by trying all of them, distances by walking."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np


def naive_attention_score(weights: Mapping[str, np.ndarray], maps: np.ndarray, dependent: int, head: int) -> float:
    """Σ_k w_k α_ij + u_k α_ji, head −1 being the root, for maps [from, to, head] that open with two special tokens."""
    w, u, (s, e, b) = weights["head_to_dependent"], weights["dependent_to_head"], weights["root"]
    j = 2 + dependent

    def pair(i: int) -> float:
        return sum(w[k] * maps[i, j, k] + u[k] * maps[j, i, k] for k in range(len(w)))

    return s * pair(0) + e * pair(1) + b if head < 0 else pair(2 + head)


def naive_vectors_score(
    weights: Mapping[str, np.ndarray], maps: np.ndarray, vectors: np.ndarray, dependent: int, head: int
) -> float:
    """Σ_k W_k·[v_i; v_j; 1] α_ij + U_k·[v_i; v_j; 1] α_ji; the root's vector is zero."""
    s, e, b = weights["root"]
    j, v_j = 2 + dependent, vectors[dependent]

    def pair(i: int, v_i: np.ndarray) -> float:
        total = 0.0
        for k in range(maps.shape[-1]):
            down = weights["down_of_head"][:, k] @ v_i + weights["down_of_dependent"][:, k] @ v_j
            up = weights["up_of_head"][:, k] @ v_i + weights["up_of_dependent"][:, k] @ v_j
            total += (down + weights["head_to_dependent"][k]) * maps[i, j, k]
            total += (up + weights["dependent_to_head"][k]) * maps[j, i, k]
        return total

    nothing = np.zeros_like(v_j)
    return s * pair(0, nothing) + e * pair(1, nothing) + b if head < 0 else pair(2 + head, vectors[head])


def naive_distance_score(weights: Mapping[str, np.ndarray], vectors: np.ndarray, dependent: int, head: int) -> float:
    """a·tanh(A v_i + B v_j + D d_ij + c); for the root a vector of its own in place of A v_i + D d_ij."""
    hidden = weights["bias"] + vectors[dependent] @ weights["of_dependent"]
    if head < 0:
        return float(weights["out"] @ np.tanh(hidden + weights["root"]))
    ahead = head - dependent
    share = ahead / len(vectors)
    features = [max(share, 0), max(-share, 0), *(float(ahead == offset) for offset in (-2, -1, 0, 1, 2))]
    return float(
        weights["out"]
        @ np.tanh(hidden + vectors[head] @ weights["of_head"] + np.array(features) @ weights["of_distance"])
    )


def naive_loss(scores: Sequence[Sequence[float]], candidates: Sequence[int]) -> float:
    """−Σ log softmax at the wanted candidate; −∞ scores are no candidates."""
    total = 0.0
    for row, wanted in zip(scores, candidates, strict=True):
        total += math.log(sum(math.exp(score) for score in row)) - row[wanted]
    return total


def every_tree(words: int) -> Iterator[tuple[int, ...]]:
    """All trees over the words with one root, as heads with −1 for the root."""
    for heads in itertools.product(range(-1, words), repeat=words):
        if heads.count(-1) == 1 and all(_reaches_root(heads, word) for word in range(words)):
            yield heads


def _reaches_root(heads: Sequence[int], word: int) -> bool:
    for _ in heads:
        word = heads[word]
        if word < 0:
            return True
    return False


def naive_best_tree(scores: np.ndarray) -> tuple[int, ...]:
    """The tree of the largest sum, found by trying all; column 0 of the scores is the root's."""
    return max(every_tree(len(scores)), key=lambda heads: sum(scores[w, h + 1] for w, h in enumerate(heads)))


def naive_tree_distance(heads: Sequence[int], left: int, right: int) -> int:
    """Arcs between two words: both walk up to where their paths meet."""
    paths = []
    for word in (left, right):
        path = [word]
        while heads[path[-1]] >= 0:
            path.append(heads[path[-1]])
        paths.append(path)
    return min(a + b for a, x in enumerate(paths[0]) for b, y in enumerate(paths[1]) if x == y)


def naive_spanning_arcs(distances: np.ndarray, kept: Sequence[bool]) -> float:
    """The least sum of distances over all undirected trees of the kept words."""
    words = [word for word, keep in enumerate(kept) if keep]
    return min(
        sum(distances[words[w], words[h]] for w, h in enumerate(heads) if h >= 0) for heads in every_tree(len(words))
    )

"""The structural probe: distances against a loop, and a tree that was put into the vectors is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.studies.probe.structural import Scale, Scaled, StructuralTraining, distances, fitted, squared_distances
from headwise.studies.probe.trees import nearest_tree, tree_distances, undirected


def random_tree(words: int, random: np.random.Generator) -> np.ndarray:
    return np.array([-1, *(int(random.integers(0, word)) for word in range(1, words))])


def embedded(heads: np.ndarray, dimensions: int) -> torch.Tensor:
    """One unit vector an arc, added up from the root: squared distances between words are distances in the tree."""
    rows = np.zeros((len(heads), dimensions))
    for word, head in enumerate(heads):
        if head >= 0:
            rows[word] = rows[head]
            rows[word, word] += 1
    return torch.from_numpy(rows).float()


def test_squared_distances_are_those_of_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 5, 3, 7, generator=generator)
    maps = torch.randn(2, 3, 7, 4, generator=generator)
    found = squared_distances(hidden, maps)
    for r, layer, b, i, j in np.ndindex(2, 3, 2, 5, 5):
        apart = (hidden[b, i, layer] - hidden[b, j, layer]).double() @ maps[r, layer].double()
        assert float(found[r, layer, b, i, j]) == pytest.approx(float(apart @ apart), rel=1e-3, abs=1e-4)


def test_a_tree_in_the_vectors_is_found_in_its_layer_only() -> None:
    random = np.random.default_rng(0)
    mixing = torch.from_numpy(np.linalg.qr(random.normal(size=(12, 12)))[0]).float()
    trees = [random_tree(int(random.integers(4, 10)), random) for _ in range(150)]
    hidden = []
    for heads in trees:
        noise = torch.from_numpy(random.normal(size=(len(heads), 12))).float()
        told = torch.cat([embedded(heads, 10), 3 * noise[:, :2]], dim=-1) @ mixing  # two dimensions are only noise
        hidden.append(torch.stack([noise, told], dim=1))
    gold = [torch.from_numpy(tree_distances(heads)).float()[None] for heads in trees]
    scale = Scale.of(hidden[:110])
    scaled = [*Scaled(hidden, scale)]
    maps = fitted(scaled[:110], gold[:110], StructuralTraining(rank=10, epochs=60, rate=0.01, batch=10))
    right, total = np.zeros(2), 0
    for heads, found in zip(trees[110:], distances(maps, scaled[110:]), strict=True):
        kept = np.ones(len(heads), dtype=bool)
        arcs = undirected(heads, kept=kept)
        total += len(arcs)
        for layer in range(2):
            right[layer] += len(arcs & nearest_tree(found[0, layer].double().numpy(), kept=kept))
    assert right[1] / total > 0.9
    assert right[0] / total < 0.6


def test_the_scale_makes_every_dimension_standard_and_leaves_constants_alone() -> None:
    random = np.random.default_rng(1)
    rows = torch.from_numpy(random.normal(3, 7, size=(50, 2, 3))).float()
    rows[:, 1, 2] = 5.0
    scale = Scale.of([rows[:20], rows[20:]])
    found = torch.cat([scale(rows[:20]), scale(rows[20:])])
    torch.testing.assert_close(found.mean(0), torch.zeros(2, 3), atol=1e-5, rtol=0)
    expected = torch.ones(2, 3)
    expected[1, 2] = 0
    torch.testing.assert_close(found.std(0, correction=0), expected, atol=1e-4, rtol=0)

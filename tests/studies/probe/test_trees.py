"""Trees against trying all of them, and small ones by hand."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.errors import InputError
from headwise.studies.probe import trees
from headwise.studies.probe.trees import (
    best_heads,
    best_tree,
    has_tree_decoder,
    nearest_tree,
    right_branching,
    tree_distances,
    undirected,
)
from references.probes_dependency import (
    every_tree,
    naive_best_tree,
    naive_spanning_arcs,
    naive_tree_distance,
)

needs_decoder = pytest.mark.skipif(not has_tree_decoder(), reason="ufal.chu_liu_edmonds is not installed")


def some_scores(words: int, seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(words, words + 1)) * 5
    scores[np.arange(words), np.arange(words) + 1] = -np.inf
    return scores


@needs_decoder
@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_the_best_tree_is_the_best_of_all(words: int) -> None:
    for seed in range(20):
        scores = some_scores(words, seed)
        assert tuple(best_tree(scores)) == naive_best_tree(scores)


@needs_decoder
def test_a_tree_has_one_root_even_where_every_word_would_be_one() -> None:
    scores = some_scores(5, 0)
    scores[:, 0] += 1e4
    assert (best_heads(scores) == -1).all()
    assert (best_tree(scores) == -1).sum() == 1
    assert tuple(best_tree(scores)) == naive_best_tree(scores)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"headwise\[trees\]"):
        best_tree(some_scores(3, 0))


def test_best_heads_by_hand() -> None:
    assert best_heads(np.array([[3.0, -np.inf, 1.0], [0.0, 2.0, -np.inf]])).tolist() == [-1, 0]


def test_right_branching_by_hand() -> None:
    assert right_branching(4).tolist() == [1, 2, 3, -1]
    assert right_branching(1).tolist() == [-1]


@pytest.mark.parametrize("words", [1, 2, 5])
def test_tree_distances_by_walking(words: int) -> None:
    for heads in list(every_tree(words))[:40]:
        expected = [[naive_tree_distance(heads, i, j) for j in range(words)] for i in range(words)]
        assert tree_distances(heads).tolist() == expected


def test_the_nearest_tree_of_a_tree_is_that_tree() -> None:
    heads, kept = (1, 4, 1, 2, -1, 4, 5), np.ones(7, dtype=bool)
    assert nearest_tree(tree_distances(heads), kept=kept) == undirected(heads, kept=kept)


def test_the_nearest_tree_is_the_shortest_of_all_and_takes_zero_for_a_distance() -> None:
    for seed in range(10):
        half = np.random.default_rng(seed).integers(0, 5, size=(6, 6)).astype(float)
        distances, kept = half + half.T, np.array([True, True, False, True, True, True])
        arcs = nearest_tree(distances, kept=kept)
        assert len(arcs) == 4
        assert sum(distances[tuple(arc)] for arc in map(sorted, arcs)) == naive_spanning_arcs(distances, kept.tolist())


def test_arcs_to_words_that_are_left_out_do_not_count() -> None:
    kept = np.array([True, True, True, False])
    assert undirected((1, -1, 1, 2), kept=kept) == {frozenset((0, 1)), frozenset((1, 2))}

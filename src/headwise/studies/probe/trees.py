"""Dependency trees: the best one for given scores, distances within one, and how many arcs two have in common.

Heads are word numbers from zero, −1 for the root. Scores have a row a dependent; their first column is the root's, and
column 1 + i that of word i as the head.

The maximum spanning arborescence is that of Chu & Liu (1965) and Edmonds (1967) as written in C++ for TurboParser
(package `ufal.chu_liu_edmonds`, GPLv3, optional), made single-rooted by re-weighting (Stanojević & Cohen 2021,
https://aclanthology.org/2021.emnlp-main.823): taking the same large number from every arc of the root leaves the order
of single-rooted trees as it is and puts all others below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

from headwise.errors import InputError

ROOT = -1
Scores = Float[np.ndarray, "word candidate"]
Heads = Int[np.ndarray, " word"]


def best_heads(scores: Scores) -> Heads:
    """The best candidate of every word on its own (argmax); cycles and several roots may come of it."""
    return scores.argmax(-1) + ROOT


def has_tree_decoder() -> bool:
    """Whether the package that finds spanning trees is installed."""
    return find_spec("ufal") is not None and find_spec("ufal.chu_liu_edmonds") is not None


def best_tree(scores: Scores) -> Heads:
    """The heads of the tree with one root whose arcs have the largest sum; a word is never its own head."""
    if not has_tree_decoder():
        raise InputError(
            "Spanning trees need the package ufal.chu_liu_edmonds, which is not installed; run "
            "pip install 'headwise[trees]' (GPLv3), or decode by argmax."
        )
    from ufal.chu_liu_edmonds import chu_liu_edmonds  # pyright: ignore[reportAttributeAccessIssue] no stubs

    words = len(scores)
    square = np.full((words + 1, words + 1), np.nan)
    square[1:] = np.where(np.isfinite(scores), scores, np.nan)
    square[np.arange(words) + 1, np.arange(words) + 1] = np.nan  # the decoder skips what is NaN
    square[1:, 0] -= (words + 1) * (np.nanmax(square[1:]) - np.nanmin(square[1:]) + 1)
    heads, _ = chu_liu_edmonds(square)
    return np.array(heads[1:]) + ROOT


def right_branching(words: int) -> Heads:
    """Every word's head is the next one; the last word is the root."""
    return np.append(np.arange(1, words), ROOT)


def tree_distances(heads: Sequence[int] | Heads) -> Float[np.ndarray, "word other"]:
    """The number of arcs between every two words of a tree, whatever their direction."""
    words = len(heads)
    arcs = np.zeros((words, words))
    for word, head in enumerate(heads):
        if head != ROOT:
            arcs[word, head] = 1
    return shortest_path(arcs, directed=False, unweighted=True)


def nearest_tree(distances: Float[np.ndarray, "word other"], *, kept: Bool[np.ndarray, " word"]) -> set[frozenset[int]]:
    """The undirected arcs of the minimum spanning tree of the words that are `kept`."""
    words = np.flatnonzero(kept)
    among = distances[np.ix_(words, words)]
    # subtle: to scipy a zero is no arc; the same number added to every arc changes nothing else.
    found = minimum_spanning_tree(np.triu(among - among.min(initial=0) + 1, k=1)).tocoo()
    return {frozenset((int(words[i]), int(words[j]))) for i, j in zip(found.row, found.col, strict=True)}


def undirected(heads: Sequence[int] | Heads, *, kept: Bool[np.ndarray, " word"]) -> set[frozenset[int]]:
    """The arcs of a tree without their direction, of those words that are `kept` at both ends."""
    pairs = ((word, int(head)) for word, head in enumerate(heads))
    return {frozenset(pair) for pair in pairs if pair[1] != ROOT and kept[pair[0]] and kept[pair[1]]}

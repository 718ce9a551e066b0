"""Word alignment the slow way: float64, loops over pairs, words, tokens and heads, every vector formed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from headwise.text.alignments import Pair
from headwise.traces import Trace
from headwise.types import Layer
from references.quantities import effective, numbers, sent


def token_maps(layer: Layer) -> dict[tuple[str, int | None], np.ndarray]:
    """Every map [query key] of a cross-attention layer of one pair, by quantity and head."""
    alpha, vectors = numbers(layer.alpha)[0], sent(layer, 0)
    heads, queries, keys = alpha.shape
    weights = {"raw": alpha, "effective": effective(layer)[0]}
    maps: dict[tuple[str, int | None], np.ndarray] = {
        (quantity, head): own[head] for quantity, own in weights.items() for head in range(heads)
    }
    maps |= {(quantity, None): own.mean(0) for quantity, own in weights.items()}
    given = np.zeros((queries, keys, vectors[0].shape[1]))
    for query in range(queries):
        for key in range(keys):
            each = [alpha[head, query, key] * vectors[head][key] for head in range(heads)]
            given[query, key] = sum(each)
            for head in range(heads):
                own = maps.setdefault(("norm", head), np.zeros((queries, keys)))
                own[query, key] = np.sqrt((each[head] ** 2).sum())
    maps["norm-sum", None] = np.sqrt((given**2).sum(-1))
    maps["alti", None] = nearness(layer, given)
    return maps


def nearness(layer: Layer, given: np.ndarray) -> np.ndarray:
    """‖y‖₁ − ‖y − u‖₁ where nothing stands between attention and the sum."""
    circuit = layer.circuit
    assert circuit.inner is None
    assert layer.residual is not None
    result = np.zeros(given.shape[:2])
    for query, (residual, out) in enumerate(zip(numbers(layer.residual)[0], numbers(layer.out)[0], strict=True)):
        y, u = residual + circuit.scale * out, circuit.scale * given[query]
        if circuit.post:
            norm = circuit.outer
            assert norm is not None
            gain, bias = numbers(norm.gain), numbers(norm.bias)
            middle = (lambda x: x - x.mean(-1, keepdims=True)) if norm.centred else (lambda x: x)
            sigma = np.sqrt((middle(y) ** 2).mean() + norm.eps)
            y, u = gain * middle(y) / sigma + bias, gain * middle(u) / sigma
        result[query] = np.abs(y).sum() - np.abs(y - u).sum(-1)
    return result


def owners(tokens: Sequence[tuple[tuple[int, int], bool]], text: str) -> list[int | None]:
    """The word of each token by its characters; None for special tokens. A blank goes with the word after it."""
    word_at, word = {}, -1
    for at, char in enumerate(text):
        if not char.isspace():
            word += at == 0 or text[at - 1].isspace()
            word_at[at] = word
    found: list[int | None] = []
    for (start, stop), special in tokens:
        inside = [word_at[at] for at in range(start, stop) if at in word_at]
        after = [word_at[at] for at in range(start, len(text)) if at in word_at]
        found.append(None if special else (inside or after)[0])
    return found


def word_scores(trace: Trace, pair: Pair, tokens: np.ndarray, position: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores [target word, source word], and of each target word the highest score of a special token."""
    assert trace.target is not None
    sources = owners(list(zip(trace.text.offsets, trace.text.special, strict=True)), pair.source)
    targets = owners(list(zip(trace.target.offsets, trace.target.special, strict=True)), pair.target)
    spoken = targets if position == "input" else [*targets[1:], None]
    scores = np.zeros((len(pair.target.split()), len(pair.source.split())))
    special = np.full(len(scores), -np.inf)
    for word in range(len(scores)):
        rows = [row for row, own in enumerate(spoken) if own == word]
        mean = sum(tokens[row] for row in rows) / len(rows)
        for key, own in enumerate(sources):
            if own is None:
                special[word] = max(special[word], mean[key])
            else:
                scores[word, own] += mean[key]
    return scores, special


def argmax_links(scores: np.ndarray, special: np.ndarray) -> set[tuple[int, int]]:
    """(source, target) of each target word's highest source word, if no special token is higher."""
    return {(int(row.argmax()), t) for t, row in enumerate(scores) if row.max() >= special[t]}


def can_grow(links: set[tuple[int, int]], either: set[tuple[int, int]]) -> bool:
    """Whether some neighbour of a link, which one side found, would link a word that is not linked yet."""
    rows, words = {row for row, _ in links}, {word for _, word in links}
    return any(
        max(abs(row - r), abs(word - w)) == 1 and (row not in rows or word not in words)
        for row, word in either - links
        for r, w in links
    )


def grow_diag(e2f: set[tuple[int, int]], f2e: set[tuple[int, int]], en: int, fn: int) -> set[tuple[int, int]]:
    """Koehn's pseudo-code line by line (Koehn et al. 2003; GROW-DIAG of the manual of Moses): (e, f) by (e, f)."""
    neighboring = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    alignment = e2f & f2e
    added = True
    while added:  # iterate until no new points added
        added = False
        for e in range(en):
            for f in range(fn):
                if (e, f) not in alignment:
                    continue
                for step in neighboring:
                    new = (e + step[0], f + step[1])
                    e_aligned, f_aligned = (any(point[side] == new[side] for point in alignment) for side in (0, 1))
                    if (not e_aligned or not f_aligned) and new in e2f | f2e:
                        alignment.add(new)
                        added = True
    return alignment


def pairs_of(links: torch.Tensor) -> set[tuple[int, int]]:
    """Rows and words of the links of the first text and map."""
    return {(int(row), int(word)) for row, word in torch.nonzero(links[0, 0])}

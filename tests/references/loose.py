"""How far a weight may go while the output stays within ε, by single moves in plain loops."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, arange, cartesian_prod, float64, zeros

from headwise.types import Layer

EPSILON, KEYS, NEIGHBOURS = 0.01, 3, 8


def moves(alpha: Tensor, value: Tensor, seen: list[int], key: int) -> tuple[Tensor, Tensor]:
    """The distributions with the most and the least weight on `key` that moves of weight to and from near keys give.

    The near keys are the nearest of the text, of which a row that does not see them all has fewer.
    """
    budget = EPSILON * float((alpha[seen] @ value[seen]).norm())
    near = sorted((float((of - value[key]).norm()), j) for j, of in enumerate(value) if j != key)[:NEIGHBOURS]
    others = [(apart, j) for apart, j in near if j in seen]
    most, left = alpha.clone(), budget
    for apart, other in others:
        moved = float(alpha[other]) if apart < 1e-9 else min(float(alpha[other]), left / apart)
        left = max(0.0, left - moved * apart)
        most[key], most[other] = most[key] + moved, most[other] - moved
    least = alpha.clone()
    if others:
        apart, other = others[0]
        moved = float(alpha[key]) if apart < 1e-9 else min(float(alpha[key]), budget / apart)
        least[key], least[other] = least[key] - moved, least[other] + moved
    return most, least


def rows_of(layer: Layer) -> Iterator[tuple[tuple[int, int, int], Tensor, Tensor, list[int]]]:
    heads = layer.alpha.shape[1] // layer.value.shape[1]
    for text, head, row in cartesian_prod(*map(arange, layer.alpha.shape[:3])).tolist():
        there = layer.key_mask[text]
        value, alpha = layer.value[text, head // heads, there].double(), layer.alpha[text, head, row, there].double()
        yield (text, head, row), alpha, value, layer.visible[text, row, there].nonzero()[:, 0].tolist()


def naive(layer: Layer) -> Tensor:
    found = zeros(layer.alpha.shape[:3], dtype=float64)
    for place, alpha, value, seen in rows_of(layer):
        for key in sorted(seen, key=lambda at: -float(alpha[at]))[:KEYS]:
            most, least = moves(alpha, value, seen, key)
            found[place] = max(float(found[place]), float(most[key] - least[key]))
    return found

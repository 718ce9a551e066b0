"""The study `mixing` by loops over texts, layers and tokens, in float64."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GROUP_OF = {1: "1", 2: "2", 3: "3", 4: "4–5", 5: "4–5", **dict.fromkeys(range(6, 11), "6–10")}


@dataclass(frozen=True)
class Text:
    """Maps [layer token input], which tokens are special, and the tag of each token."""

    maps: np.ndarray
    special: Sequence[bool]
    tags: Sequence[str | None]


def naive(texts: Sequence[Text], *, causal: bool) -> dict[tuple, float | list[float]]:
    """Facts by (kind, layer, group): lists of single values for own and rank, means and shares for the rest."""
    values: dict[tuple, list[float]] = defaultdict(list)
    totals: dict[tuple, float] = defaultdict(float)
    for text in texts:
        layers, length, _ = text.maps.shape
        for layer in range(layers):
            for j in range(length):
                row = text.maps[layer, j]
                inputs = [i for i in range(length) if i <= j or not causal]
                if len(inputs) < 2 or np.isnan(row).any():
                    continue
                _row(values, totals, text, layer, j, row, inputs)
                if j == 0 and not causal and text.special[0]:
                    _first(totals, text, layer, row)
    facts: dict[tuple, float | list[float]] = dict(values)
    for kind in ("each", "total"):
        for key, found in values.items():
            if key[0] == kind:
                facts[key] = float(np.mean(found))
    for kind, layer, group in totals:
        whole = sum(value for (k, n, _), value in totals.items() if (k, n) == (kind, layer))
        facts[kind, layer, group] = totals[kind, layer, group] / whole
    return facts


def _row(values, totals, text: Text, layer: int, j: int, row: np.ndarray, inputs: Sequence[int]) -> None:
    rank = 1 + sum(row[i] > row[j] for i in inputs)
    for kind, value in (("own", row[j]), ("rank", rank)):
        values[kind, layer, ""].append(float(value))
        if text.tags[j] is not None:
            values[f"tag-{kind}", layer, text.tags[j]].append(float(value))
    near: dict[str, list[float]] = defaultdict(list)
    for i in inputs:
        if i != j:
            near[GROUP_OF.get(abs(i - j), "11+")].append(float(row[i]))
            totals["offset", layer, _place(i - j, 50, -50)] += float(row[i])
    for group in ("1", "2", "3", "4–5", "6–10", "11+"):
        values["total", layer, group].append(sum(near[group]))
        if near[group]:
            values["each", layer, group].append(float(np.mean(near[group])))


def _first(totals, text: Text, layer: int, row: np.ndarray) -> None:
    separator = next((i for i in range(1, len(row)) if text.special[i]), None)
    for i in range(1, len(row)):
        totals["to-first", layer, _place(i, 100, 1)] += float(row[i])
        if separator is not None:
            totals["to-first-by-separator", layer, _place(i - separator, 50, -50)] += float(row[i])


def _place(at: int, high: int, low: int) -> str:
    return f">{high}" if at > high else f"<{low}" if at < low else str(at)

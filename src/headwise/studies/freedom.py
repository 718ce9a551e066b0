"""How free a row of weights is, over a corpus (Brunner et al. 2020 §3.3): what the study `nullspace` adds when asked.

Distributions b ≥ 0, Σ b = 1 with the same output as a row's weights a over its n keys (measures/simplex.py) have

    directions   n − rank([T, 1]) of them; a row without any is unique
    width        of a key's interval: the largest less the smallest weight that any such b gives the key, 0 for a row
                 that is unique; at most 1

Rows and directions are counted for every row and head. An interval takes two linear programmes, so widths are of some
rows of each text and layer, in one head each, of KEYS keys and of the key with the largest weight, all drawn by a hash
of the document, the layer and the draw: whatever the batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from torch import Tensor

from headwise.measures.nullspace import keys_seen, seen_values, simplex_rank
from headwise.measures.simplex import ends
from headwise.plots.lines import line_by
from headwise.plots.theme import themed
from headwise.stats import Groups, Sums, merge
from headwise.stats.reservoir import hashed
from headwise.studies.state import State, Stats, at
from headwise.studies.study import Reading
from headwise.types import Layer

KEYS = 4
KEYS_SEEN = "free_keys"
TINY = 1e-9
DRAWS = 2**12  # more than any text has rows asked for, any model has layers
Bucket = Callable[[Int[Tensor, "..."]], Int[Tensor, "..."]]
WHAT = {
    "free_rows": "share of rows with freedom",
    "free_directions": "free directions of a row",
    "width": "width of a key's interval",
    "width_top": "width of the largest weight's interval",
}


def freedom(layer: Layer, reading: Reading, bucket: Bucket, buckets: int, rows: int, seed: int) -> Stats:
    """Sums by bucket of the keys that a row sees, heads together."""
    seen = keys_seen(layer)[:, None]
    directions = (seen - simplex_rank(layer)).double()
    real = layer.query_mask[:, None].double().expand_as(directions)
    over = Groups(bucket(seen).expand(directions.shape), (buckets,))
    state: Stats = {
        at(KEYS_SEEN, layer): Sums.of(seen.expand(directions.shape).double(), real, over=over),
        at("free_rows", layer): Sums.of((directions > 0).double(), real, over=over),
        at("free_directions", layer): Sums.of(directions, real, over=over),
    }
    found = torch.tensor([widths(layer, *where) for where in drawn(layer, reading, rows, seed)], dtype=torch.float64)
    counts, *values = found.reshape(-1, 3).T
    cells = Groups(bucket(counts.long()), (buckets,))
    for name, value in zip(("width", "width_top"), values, strict=True):
        state[at(name, layer)] = Sums.of(value, torch.ones_like(value), over=cells)
    return state


def drawn(layer: Layer, reading: Reading, rows: int, seed: int) -> Iterator[tuple[int, int, int, int]]:
    """(text, row of this block, head, seed of the keys)."""
    for text, document in enumerate(reading.documents.tolist()):
        ids = torch.arange(rows) + (document * DRAWS + layer.index) * DRAWS
        length, heads = len(reading.queries(layer)[text]), layer.alpha.shape[1]
        chosen = hashed(ids, seed).remainder(length) - layer.first_row
        for number, row, head in zip(ids.tolist(), chosen.tolist(), hashed(ids, seed + 1).tolist(), strict=True):
            if 0 <= row < layer.alpha.shape[2]:
                yield text, row, head % heads, number


def widths(layer: Layer, text: int, row: int, head: int, number: int) -> tuple[int, float, float]:
    """How many keys a row sees; the mean width of some of them, and that of the one with the largest weight."""
    seen = layer.visible[text, row]
    values = seen_values(layer)[text]
    mine = values[head // (layer.alpha.shape[1] // len(values))][seen].double().cpu().numpy()
    alpha = layer.alpha[text, head, row][seen].double().cpu().numpy()
    keys = np.random.default_rng(number).permutation(len(alpha))[:KEYS]
    found = {key: width(alpha, mine, key) for key in {*keys.tolist(), int(alpha.argmax())}}
    return len(alpha), float(np.mean([found[key] for key in keys.tolist()])), found[int(alpha.argmax())]


def width(alpha: np.ndarray, values: np.ndarray, key: int) -> float:
    low, high = ends(alpha, values, key)
    return float(high[key] - low[key])


def freedom_facts(state: State, stack: str) -> Iterator[tuple[int | None, str, float | None, str, float]]:
    """(layer, its name, length, what, value) of each layer and of all, by bucket and over all lengths (None).

    `rows_drawn`: behind a width. Lengths are the mean keys of a bucket; one without rows is left out.
    """
    each = {what: state.by_layer(Sums, what, stack) for what in (KEYS_SEEN, *WHAT)}
    layers = [dict(zip(each, sums, strict=True)) for sums in zip(*each.values(), strict=True)]
    for layer, found in enumerate(layers):
        yield from ((layer, f"L{layer}", *fact) for fact in _by_bucket(found))
    if layers:
        together = {what: merge(sums) for what, sums in each.items()}
        yield from ((None, "all", *fact) for fact in _by_bucket(together))


def _by_bucket(found: dict[str, Sums]) -> Iterator[tuple[float | None, str, float]]:
    for length, bucket in [(None, slice(None)), *((size, slice(n, n + 1)) for n, size in _lengths(found))]:
        for what in WHAT:
            total, weight = (float(part[bucket].sum()) for part in (found[what].total, found[what].weight))
            if weight:
                yield length, what, total / weight
        yield length, "rows_drawn", float(found["width"].weight[bucket].sum())


def _lengths(found: dict[str, Sums]) -> list[tuple[int, float]]:
    return [(n, size) for n, size in enumerate(found[KEYS_SEEN].mean.tolist()) if size == size]


def drawn_freedom(table: pl.DataFrame, where: str, size: int) -> dict[str, Any]:
    """`freedom`: the four numbers along the keys that a row sees, a line a layer."""
    rows = table.filter(
        (pl.col("paper") == "§3.3") & pl.col("length").is_not_null() & pl.col("layer").is_not_null()
    ).sort("layer", "length")
    if rows.is_empty():
        return {}
    tops = _tops(rows)
    charts = [
        line_by(rows.filter(pl.col("what") == what).select("layer", "length", "value"), "length",
                titles=("keys seen (tokens)", title), colour="layer", ends=(0.0, tops[what]))
        for what, title in WHAT.items() if what in set(rows["what"])
    ]  # fmt: skip
    grid = charts[0] if len(charts) == 1 else _in_pairs(charts)
    return {"freedom": themed(
        grid, f"{where}: how free a row of weights is (head size {size})",
        "Above: rows for which other weights give the same output, and in how many directions they can move (mean over "
        "rows and heads).",
        "Below: how far such weights differ for one key, mean of a sample of rows and keys; 1: it may have all or "
        "nothing. One line a layer.",
    )}  # fmt: skip


def _tops(rows: pl.DataFrame) -> dict[str, float]:
    """Where the scales end: 1 for a share, the next tenth for both widths, the most directions."""
    most = dict(rows.group_by("what").agg(pl.col("value").max()).iter_rows())
    widest = math.ceil(10 * max(most.get("width", 0.0), most.get("width_top", 0.0), 0.1) - TINY) / 10
    return {
        "free_rows": 1.0,
        "free_directions": max(most["free_directions"], 1.0),
        "width": widest,
        "width_top": widest,
    }


def _in_pairs(charts: list[Any]) -> Any:
    return alt.vconcat(*(alt.hconcat(*charts[first : first + 2]) for first in range(0, len(charts), 2)))

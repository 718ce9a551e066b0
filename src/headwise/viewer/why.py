"""Why a head looks there, for a page: the largest parts of the scores of some cells, as plain numbers and text.

A file holds the strongest cells of the heads that the page tells of; a served page asks for any other by a click.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from headwise.errors import HeadwiseError
from headwise.explanations.query_key import QueryKey
from headwise.explanations.why import SIDES, Cell, Why, whys
from headwise.traces import Trace
from headwise.viewer.payload import Page, Stack, pretty, rounded

CELLS, HEADS = 3, 4  # of each head; heads a stack
TOKENS = 128  # of a text up to which a page has them unasked
NARROW = 1e-4  # a weight that moves less is pinned down
PARTS = 6  # told of each side; the others are one number


def with_whys(page: Page, trace: Any) -> Page:
    """`page` with the reasons for the strongest cells of its telling heads, where the trace can run its model."""
    if not isinstance(trace, Trace) or trace.model is None:
        return page
    stacks, missing = [], list(page.missing)
    for stack in page.stacks:
        try:
            cells = list(strongest(stack)) if len(stack.keys) <= TOKENS else []
            with trace.as_read():
                found = whys(trace, cells)
            stacks.append(replace(stack, why=tuple(told(one, rivals(trace, one.cell)) for one in found)))
        except HeadwiseError as error:
            stacks.append(stack)
            missing.append(("why a head looks there", str(error)))
    return replace(page, stacks=tuple(stacks), missing=tuple(dict.fromkeys(missing)))


def strongest(stack: Stack) -> Iterator[Cell]:
    """The largest weights between two words, of the heads that are told."""
    maps = next((each for each in stack.quantities if each.name == "raw"), None)
    if maps is None:
        return
    words = np.ix_(~np.array(stack.queries.special), ~np.array(stack.keys.special))
    for one in stack.telling[:HEADS]:
        alpha = np.full(maps.values.shape[2:], -np.inf)
        alpha[words] = maps.values[maps.layers.index(one.layer), maps.heads.index(one.head)][words]
        order = np.argsort(-np.nan_to_num(alpha, nan=-np.inf), axis=None, kind="stable")[:CELLS]
        for query, key in zip(*np.unravel_index(order, alpha.shape), strict=True):
            if alpha[query, key] > 0:
                yield Cell(stack.name, one.layer, one.head, int(query), int(key))


def cell_told(trace: Trace, stack: str, layer: int, head: int, query: int, key: int) -> dict[str, Any]:
    """What a page is told of a cell that was clicked."""
    found = trace.why(layer, head, query, key, stack=stack)
    return told(found, rivals(trace, found.cell))


def rivals(trace: Trace, cell: Cell) -> dict[str, Any] | None:
    """The weights of the cell's query, as they are and at both ends of the cell's interval; None where it has none."""
    found = trace.rival_weights(cell.layer, cell.head, cell.query, cell.key, stack=cell.stack)
    low, high = (float(row[cell.key]) for row in (found.low, found.high))
    if high - low < NARROW:
        return None
    rows = {name: rounded(getattr(found, name).cpu().numpy()) for name in ("own", "low", "high")}
    return {**rows, "change": rounded(found.change)}


def told(found: Why, ends: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One cell as JSON: its place, score and weight, of each side the largest parts and the sum of others; `rivals`."""
    cell = found.cell
    return {
        "at": [cell.layer, cell.head, cell.query, cell.key],
        "score": rounded(found.score),
        "weight": rounded(found.weight),
        "sides": [_side(found, side) for side in SIDES],
        "rivals": ends,
        "product": None if found.query_key is None else product(found.query_key),
    }


def product(found: QueryKey) -> dict[str, Any]:
    """Query · key as JSON: of each dimension (or pair) its numbers in the query, in the key, and their product."""
    table, rows = found.table, found.joined().to_dicts()
    names = [[int(d) for d in row["dimensions"].split("+")] for row in rows]
    queries, keys = ([[rounded(column[d]) for d in pair] for pair in names]
                     for column in (table["query"].to_list(), table["key"].to_list()))  # fmt: skip
    parts = [[*each, rounded(row["product"])] for *each, row in zip(names, queries, keys, rows, strict=True)]
    return {"dot": rounded(found.dot), "times": rounded(found.times), "added": rounded(found.added), "parts": parts}


def _side(found: Why, side: str) -> dict[str, Any]:
    ordered = found.table.filter(side=side).sort(pl.col("part").abs(), descending=True, maintain_order=True)
    first, others = ordered.head(PARTS), ordered.slice(PARTS)
    parts = [
        [row["component"], row["token"] and pretty(row["token"]), rounded(row["part"])] for row in first.to_dicts()
    ]
    return {"parts": parts, "others": len(others), "rest": rounded(float(others["part"].sum()))}

"""Why a head looks there, for a page: the largest parts of the scores of some cells, as plain numbers and text.

A file holds the strongest cells of the heads that the page tells of and, where their weights are not unique, a cell
whose weight can be dragged (room.py); a served page asks for any other by a click.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from headwise.errors import HeadwiseError
from headwise.explanations.query_key import QueryKey
from headwise.explanations.why import SIDES, Cell, Why, whys
from headwise.text.written import pretty
from headwise.traces import Trace
from headwise.viewer.payload import Page, Stack, numbered, rounded
from headwise.viewer.room import ROOM, Head, said, searched

CELLS, HEADS = 3, 4  # of each head; heads a stack
TOKENS = 128  # of a text up to which a page has them unasked
NARROW = 1e-4  # a weight that moves less is pinned down
PARTS = 6  # told of each side; the others are one number


def with_whys(page: Page, trace: Any) -> Page:
    """`page` with the reasons for some cells of its telling heads, where the trace can run its model."""
    if not isinstance(trace, Trace) or trace.model is None:
        return page
    stacks, missing = [], list(page.missing)
    for stack in page.stacks:
        try:
            stacks.append(replace(stack, why=_reasons(stack, trace) if len(stack.keys) <= TOKENS else ()))
        except HeadwiseError as error:
            stacks.append(stack)
            missing.append(("why a head looks there", str(error)))
    return replace(page, stacks=tuple(stacks), missing=tuple(dict.fromkeys(missing)))


def _reasons(stack: Stack, trace: Trace) -> tuple[Mapping[str, Any], ...]:
    cells = list(strongest(stack))
    if not cells:
        return ()
    search = searched(trace, stack.name, doubtful(stack))
    cells = list(dict.fromkeys([*cells, *(cell for cell in search.found.values() if cell is not None)]))
    with trace.as_read():
        reasons = whys(trace, cells)
    ends = [rivals(trace, cell) for cell in cells]
    roomy = {(cell.layer, cell.head): cell for cell, end in zip(cells, ends, strict=True) if has_room(end, cell)}
    widest = {head: cell for head, cell in search.found.items() if cell is not None}
    search = replace(search, found={**search.found, **roomy, **widest})
    return tuple(
        told(
            one,
            end,
            names=names_of(trace, cell),
            room=None if has_room(end, cell) else said((cell.layer, cell.head), search),
        )
        for one, cell, end in zip(reasons, cells, ends, strict=True)
    )


def doubtful(stack: Stack) -> list[Head]:
    """The telling heads whose lamp does not say that their weights are the only ones."""
    if stack.facts is None or not stack.quantities:
        return []
    maps, lit = stack.quantities[0], stack.facts.lamps
    heads = [(one.layer, one.head) for one in stack.telling]
    places = [(maps.layers.index(layer), maps.heads.index(head)) for layer, head in heads]
    return [head for head, place in zip(heads, places, strict=True) if lit[place].unique.colour != "green"]


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
    ends, names = rivals(trace, found.cell), names_of(trace, found.cell)
    if has_room(ends, found.cell):
        return told(found, ends, names=names)
    search = searched(trace, found.cell.stack, [(layer, head)], least=HEADS)
    return told(found, ends, names=names, room=said((layer, head), search))


def has_room(ends: Mapping[str, Any] | None, cell: Cell) -> bool:
    """Whether dragging the weight shows something."""
    return ends is not None and ends["high"][cell.key] - ends["low"][cell.key] >= ROOM


def rivals(trace: Trace, cell: Cell) -> dict[str, Any] | None:
    """The weights of the cell's query, as they are and at both ends of the cell's interval; None where it has none."""
    found = trace.rival_weights(cell.layer, cell.head, cell.query, cell.key, stack=cell.stack)
    low, high = (float(row[cell.key]) for row in (found.low, found.high))
    if high - low < NARROW:
        return None
    rows = {name: rounded(getattr(found, name).cpu().numpy()) for name in ("own", "low", "high")}
    return {**rows, "change": rounded(found.change)}


def told(
    found: Why,
    ends: Mapping[str, Any] | None = None,
    *,
    names: Mapping[str, Sequence[str]] | None = None,
    room: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One cell as JSON: its place, score and weight, of each side the largest parts and the sum of others; `rivals`,
    and where its weight has no room, where there is some. `names` are those of the tokens (`names_of`).
    """
    cell = found.cell
    return {
        "at": [cell.layer, cell.head, cell.query, cell.key],
        "score": rounded(found.score),
        "weight": rounded(found.weight),
        "sides": [_side(found, side, names or {}) for side in SIDES],
        "rivals": ends,
        "room": room,
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


def names_of(trace: Trace, cell: Cell) -> dict[str, list[str]]:
    """What tokens are called: those of the cell's query and key, and those that the heads of each stack read."""
    texts = {"query": trace.queries(cell.stack), "key": trace.keys(cell.stack)}
    texts |= {stack: trace.keys(stack) for stack in trace.stacks}
    return {name: numbered([pretty(token) for token in text.tokens]) for name, text in texts.items()}


def _named(row: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> str | None:
    """The token that a part comes from: of a head one that it read, else the query or the key itself."""
    if row["token"] is None:
        return None
    tokens = names.get(row["side"] if row["head"] is None else row["stack"])
    return tokens[int(row["place"])] if tokens else pretty(row["token"])


def _side(found: Why, side: str, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    ordered = found.table.filter(side=side).sort(pl.col("part").abs(), descending=True, maintain_order=True)
    first, others = ordered.head(PARTS), ordered.slice(PARTS)
    parts = [[row["component"], _named(row, names), rounded(row["part"])] for row in first.to_dicts()]
    return {"parts": parts, "others": len(others), "rest": rounded(float(others["part"].sum()))}

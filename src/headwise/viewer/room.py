"""Where a weight has room: the cells of a head that can be dragged, for whoever asked of one that cannot.

A head's other distributions with the same output are looked for row by row (`trace.alternative_attention`); the row
that moves most is asked for all its intervals (`trace.attention_interval`), and its widest is the cell. That is a
search: it may miss a wider one. That a head has none is proved only where each of its rows is the only distribution
with its output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.explanations.why import Cell
from headwise.lamps import WIDTH_SMALL
from headwise.traces import Trace

Head = tuple[int, int]
ROOM = WIDTH_SMALL  # of a weight, from where dragging it shows something
TIMES = 5  # an interval is hardly ever wider than this many times the largest move that was found
LONGEST = 128  # tokens up to which other weights are looked for unasked: each row is a linear programme
BESIDE = "Its lamp Unique? also counts weights that may be negative and outputs that are nearly the same."


def affordable(n: int) -> int:
    """How many heads' other weights a few seconds buy: one head of 60 tokens takes half a second."""
    return 0 if n > LONGEST else max(1, 6 * 60**2 // max(n, 1) ** 2)


def roomiest(trace: Trace, stack: str, head: Head) -> Cell | None:
    """The cell of a head with the widest interval, as far as a search finds it; None where it is below ROOM."""
    own = trace.attention("raw", stack=stack)[head]
    other = trace.alternative_attention(*head, stack=stack).alpha
    moved = (other - own).abs().nan_to_num().amax(-1)
    query = int(moved.argmax())
    if moved[query] < ROOM / TIMES:
        return None
    low, high = trace.attention_interval(*head, query, stack=stack)
    key = int((high - low).argmax())
    return Cell(stack, *head, query, key) if high[key] - low[key] >= ROOM else None


def open_heads(trace: Trace, stack: str) -> list[Head]:
    """Heads with a row that is not the only distribution with its output, the most spread rows first."""
    alpha = np.nan_to_num(trace.attention("raw", stack=stack).cpu().numpy())
    spread = -(alpha * np.log(np.maximum(alpha, 1e-30))).sum(-1).mean(-1)
    free = np.asarray(trace.nullspace(stack=stack).identifiable_rows.cpu()) < 1
    return sorted(((int(layer), int(head)) for layer, head in np.argwhere(free)), key=lambda place: -spread[place])


@dataclass(frozen=True)
class Search:
    """`free`: heads that may have room; `found`: of those searched the roomiest cell, None where none has room."""

    free: Sequence[Head]
    found: Mapping[Head, Cell | None]


def searched(trace: Trace, stack: str, first: Sequence[Head], *, least: int = 1) -> Search:
    """The roomiest cell of each of these heads and, while none has room, of others, as far as a few seconds go.

    `least`: of heads that are searched in any text that is not too long.
    """
    free, found = open_heads(trace, stack), dict[Head, Cell | None]()
    few = affordable(len(trace.keys(stack)))
    left = max(few, least) if few else 0
    for head in dict.fromkeys([*(head for head in first if head in free), *free]):
        if len(found) == left or (head not in first and any(found.values())):
            break
        found[head] = roomiest(trace, stack, head)
    return Search(free, found)


def said(head: Head, search: Search) -> dict[str, Any]:
    """What is told of a cell without room: where there is some, and how sure it is that there is none."""
    here = search.found.get(head)
    if here is not None:
        return _room("This head has room elsewhere, as in", here)
    if head not in search.free:
        own = "No weight of this head has any: each of its rows is the only distribution with its output."
    elif head in search.found:
        own = f"A search of all rows of this head found no weight that may move by {ROOM} or more."
    else:
        own = "The other cells of this head were not searched."
    if others := [cell for cell in search.found.values() if cell is not None]:
        which = "Another head has" if len(others) == 1 else "Other heads have"
        return _room(f"{own} {BESIDE} {which} room, as in", *others)
    if not search.free:
        return _room(f"{own} {BESIDE} So it is for every head, on this text.")
    return _room(f"{own} {BESIDE} {_none(len(search.found), len(search.free))}")


def _none(asked: int, free: int) -> str:
    """Of the heads that may have room, how many were searched."""
    may = "1 head may have room" if free == 1 else f"{free} heads may have room"
    if not asked:
        return f"On this text {may}; none was searched."
    return f"On this text {may}; {asked} {'was' if asked == 1 else 'were'} searched, and none was found."


def _room(says: str, *cells: Cell) -> dict[str, Any]:
    return {"says": says, "cells": [[cell.layer, cell.head, cell.query, cell.key] for cell in cells]}

"""Why a head looks there, for a page: the largest parts of the scores of some cells, as plain numbers and text.

A file holds the strongest cells of the heads that the page tells of; a served page asks for any other by a click.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from headwise.errors import HeadwiseError
from headwise.explanations.why import SIDES, Cell, Why, whys
from headwise.traces import Trace
from headwise.viewer.payload import Page, Stack, pretty, rounded

CELLS, HEADS = 3, 4  # of each head; heads a stack
TOKENS = 128  # of a text up to which a page has them unasked
PARTS = 6  # told of each side; the others are one number


def with_whys(page: Page, trace: Any) -> Page:
    """`page` with the reasons for the strongest cells of its telling heads, where the trace can run its model."""
    if not isinstance(trace, Trace) or trace.model is None or trace.change:
        return page
    stacks, missing = [], list(page.missing)
    for stack in page.stacks:
        try:
            cells = list(strongest(stack)) if len(stack.keys) <= TOKENS else []
            stacks.append(replace(stack, why=tuple(told(found) for found in whys(trace, cells))))
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


def told(found: Why) -> dict[str, Any]:
    """One cell as JSON: where it is, its score and weight, and of each side the largest parts and the sum of others."""
    cell = found.cell
    return {
        "at": [cell.layer, cell.head, cell.query, cell.key],
        "score": rounded(found.score),
        "weight": rounded(found.weight),
        "sides": [_side(found, side) for side in SIDES],
    }


def _side(found: Why, side: str) -> dict[str, Any]:
    ordered = found.table.filter(side=side).sort(pl.col("part").abs(), descending=True, maintain_order=True)
    first, others = ordered.head(PARTS), ordered.slice(PARTS)
    parts = [
        [row["component"], row["token"] and pretty(row["token"]), rounded(row["part"])] for row in first.to_dicts()
    ]
    return {"parts": parts, "others": len(others), "rest": rounded(float(others["part"].sum()))}

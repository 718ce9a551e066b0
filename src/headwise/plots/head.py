"""One head of one text: raw, effective, null and norm maps side by side, and what the map pins down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import polars as pl

from headwise.plots.maps import heat_map, map_table, numbered, whiskers
from headwise.plots.theme import themed

if TYPE_CHECKING:
    from headwise.models.trace import NullSpace, Trace

PANELS = {
    "raw": "Raw: the weights",
    "effective": "Effective: the part that reaches the output",
    "null": "Null: the part that changes nothing",
    "norm": "Norm: weight × size of the vector sent",
}
LONGEST_WHISKERS = 160  # keys; two linear programmes each


def head_figure(
    trace: Trace, layer: int, head: int, *, query: int | None = None, words: bool = False, stack: str | None = None
) -> Any:
    """The four maps of a head and, for one query, the interval of every weight (C fig6 and beyond)."""
    row = [candidate.index for candidate in trace.of(stack)].index(layer)
    maps = {name: _map(trace, name, words, stack)[row, head] for name in PANELS}
    queries, keys = trace.queries(stack), trace.keys(stack)
    froms, tos = (queries.words, keys.words) if words else (queries.tokens, keys.tokens)
    top = max(float(np.abs(maps[name]).max()) for name in ("raw", "effective", "null"))
    size = int(np.clip(15 * max(len(froms), len(tos)), 240, 520))
    units = {"effective": "weight (also raw, null)", "norm": "length of α f(x)"}
    panels = [
        heat_map(
            map_table(matrix, froms, tos, name), title=PANELS[name], unit=units.get(name), size=size,
            signed=name != "norm", top=float(matrix.max()) if name == "norm" else top,
        )
        for name, matrix in maps.items()
    ]  # fmt: skip
    rows = [alt.hconcat(*pair).resolve_scale(color="independent") for pair in (panels[:2], panels[2:])]
    chart = alt.vconcat(*rows, spacing=24)
    facts = trace.nullspace(stack=stack)
    if len(keys) <= LONGEST_WHISKERS:
        query = _telling_query(trace, row, head, stack) if query is None else query
        chart = alt.vconcat(chart, _whiskers(trace, layer, head, query, stack, 2 * size + 80), spacing=24)
    title = f"{trace.model_name}, layer {layer}, head {head} (L{layer}.H{head})"
    return themed(chart.resolve_scale(color="independent"), title, *caption(facts, row, head))


def caption(facts: NullSpace, row: int, head: int) -> list[str]:
    """Plain words on whether this map may be read as an explanation."""
    rank, free = int(facts.rank[row, head]), int(facts.simplex_dim[row, head])
    share, pearson = float(facts.null_share[row, head]), float(facts.pearson[row, head])
    size = f"{facts.n} tokens, head size {facts.d_head}, rank {rank}."
    if bool(facts.identifiable[row, head]):
        return [f"{size} No other distribution gives this output: the weights are unique,",
                "effective equals raw, and the null map is empty. The norms may still tell another story."]  # fmt: skip
    return [
        f"{size} Distributions with the same output have {free} free directions: the weights are NOT unique.",
        f"{share:.0%} of the squared weights lie in the null space and change nothing; "
        f"raw and effective correlate at {pearson:.2f}.",
    ]


def _map(trace: Trace, name: str, words: bool, stack: str | None) -> np.ndarray:
    maps = trace.words(name, stack=stack) if words else trace.attention(name, stack=stack)
    return maps.numpy()


def _telling_query(trace: Trace, row: int, head: int, stack: str | None) -> int:
    """The query, special tokens aside, whose weights lie most in the null space."""
    share = np.square(trace.attention("null", stack=stack)[row, head].numpy()).sum(-1)
    special = np.array(trace.queries(stack).special)
    return int(np.where(special & ~special.all(), -1.0, share).argmax())


def _whiskers(trace: Trace, layer: int, head: int, query: int, stack: str | None, width: int) -> Any:
    low, high = trace.attention_interval(layer, head, query, stack=stack)
    row = [candidate.index for candidate in trace.of(stack)].index(layer)
    table = pl.DataFrame(
        {
            "key": numbered(trace.keys(stack).tokens),
            "raw": trace.attention("raw", stack=stack)[row, head, query].numpy().astype(float),
            "effective": trace.attention("effective", stack=stack)[row, head, query].numpy().astype(float),
            "low": low.numpy().astype(float),
            "high": high.numpy().astype(float),
        }
    )
    token = trace.queries(stack).tokens[query]
    title = (
        f"From “{token}” (token {query}): grey bars span every weight that some distribution with the same output gives"
    )
    return whiskers(table, title=title, width=width)

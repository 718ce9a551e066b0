"""`trace.figure`: raw, effective, null and norm maps of one head, and what the map pins down."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headwise.lamps import ALONE, ASKED, Lamps, summed_up_of
from headwise.models.packaged import called
from headwise.quantities import ATTENTION
from headwise.results.shown import number
from headwise.studies.tables import counted
from headwise.text.written import pretty
from headwise.traces import WAYS, NullSpace, Trace
from headwise.traces.lamps import trace_lamps

if TYPE_CHECKING:
    from headwise.plots.head import Panel, Row

PANELS = {
    "raw": "Raw: the weights",
    "effective": "Effective: the part that reaches the output",
    "null": "Null: the part that changes nothing",
    "norm": "Norm: weight × size of the vector sent",
}
LEGENDS = {"effective": "weight (also raw, null)", "norm": "length of α f(x)"}
NOTHING = 1e-5  # of a weight
LINE = 108  # characters of a line under the title
LONGEST_WHISKERS = 160  # keys; two linear programmes each


@WAYS.add("figure", "A head's four maps, and for one query the interval of every weight.")
def figure(
    trace: Trace, layer: int, head: int, *, query: int | None = None, words: bool = False, stack: str | None = None
) -> Any:
    """The chart of one head; `query` is by default the one whose weights lie most in the null space."""
    from headwise.plots.head import head_figure  # altair takes its time, and a page needs none

    place = [candidate.index for candidate in trace.of(stack)].index(layer)
    queries, keys = trace.queries(stack), trace.keys(stack)
    froms, tos = (queries.words, keys.words) if words else (_read(queries.tokens), _read(keys.tokens))
    query = telling_query(trace, place, head, stack) if query is None else query
    row = pinned_down(trace, layer, head, query, stack) if len(keys) <= LONGEST_WHISKERS else None
    return head_figure(
        panels(trace, place, head, words, stack), froms, tos, row=row,
        title=f"{called(trace.model_name)}{trace.changed_by}, layer {layer}, head {head} (L{layer}.H{head})",
        caption=[
            *caption(trace.nullspace(stack=stack), place, head),
            *wrap(judged(trace_lamps(trace, stack=stack)[place][head]), LINE),
        ],
    )  # fmt: skip


def panels(trace: Trace, place: int, head: int, words: bool, stack: str | None) -> list[Panel]:
    """The four maps; raw, effective and null share one scale, which is signed. Where nothing is null there are two."""
    from headwise.plots.head import Panel

    maps = {name: _map(trace, name, words, stack)[place, head] for name in PANELS}
    if np.abs(maps["null"]).max() < NOTHING:
        del maps["effective"], maps["null"]
    weights = [np.abs(maps[name]).max() for name in maps if ATTENTION.entry(name).unit == "weight"]
    return [
        Panel(
            name, PANELS[name], matrix, signed=(weight := ATTENTION.entry(name).unit == "weight") and len(maps) > 2,
            top=float(max(weights)) if weight else float(matrix.max()),
            unit="weight" if name == "raw" and len(maps) == 2 else LEGENDS.get(name),
        )
        for name, matrix in maps.items()
    ]  # fmt: skip


def caption(facts: NullSpace, place: int, head: int) -> list[str]:
    """Plain words on whether this map may be read as an explanation."""
    rank, free = int(facts.rank[place, head]), int(facts.simplex_dim[place, head])
    share, pearson = float(facts.null_share[place, head]), float(facts.pearson[place, head])
    size = f"{counted(facts.n, 'token')}, head size {facts.d_head}, rank {rank}."
    if facts.n == 1:
        return [size]
    if bool(facts.identifiable[place, head]):
        return [f"{size} No other distribution gives exactly this output: effective equals raw, and nothing is null."]
    return [
        f"{size} Distributions with the same output have {free} free directions: the weights are NOT unique.",
        f"{number(share, '.0%')} of the squared weights lie in the null space and change nothing; "
        f"raw and effective correlate at {number(pearson)}.",
    ]


def judged(found: Lamps) -> str:
    """What its lamps come to, and those of them that are not green, as every page says it."""
    if found.unique.says == ALONE:
        return ALONE
    doubts = [f"{ASKED[lamp.question]} {lamp.says}" for lamp in found if lamp.colour in ("red", "amber")]
    return " ".join([summed_up_of([found.showing], sinks=int(found.sink)), *doubts])


def telling_query(trace: Trace, place: int, head: int, stack: str | None) -> int:
    """The query, special tokens aside, whose weights lie most in the null space."""
    share = np.square(trace.attention("null", stack=stack)[place, head].cpu().numpy()).sum(-1)
    special = np.array(trace.queries(stack).special)
    return int(np.where(special & ~special.all(), -1.0, share).argmax())


def pinned_down(trace: Trace, layer: int, head: int, query: int, stack: str | None) -> Row:
    """The weights of one query, their effective part and the interval of every weight."""
    from headwise.plots.head import Row
    from headwise.plots.maps import numbered

    low, high = trace.attention_interval(layer, head, query, stack=stack)
    place = [candidate.index for candidate in trace.of(stack)].index(layer)
    table = pl.DataFrame(
        {
            "key": numbered(_read(trace.keys(stack).tokens)),
            "raw": trace.attention("raw", stack=stack)[place, head, query].cpu().numpy().astype(float),
            "effective": trace.attention("effective", stack=stack)[place, head, query].cpu().numpy().astype(float),
            "low": low.cpu().numpy().astype(float),
            "high": high.cpu().numpy().astype(float),
        }
    )
    token = pretty(trace.queries(stack).tokens[query])
    title = (
        f"From “{token}” (token {query}): grey bars span every weight that some distribution with the same output gives"
    )
    return Row(title, table)


def _read(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens as people read them."""
    return tuple(pretty(token) for token in tokens)


def _map(trace: Trace, name: str, words: bool, stack: str | None) -> np.ndarray:
    maps = trace.words(name, stack=stack) if words else trace.attention(name, stack=stack)
    return maps.cpu().numpy()

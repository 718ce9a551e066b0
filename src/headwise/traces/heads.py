"""One row a head: how broad it is, where its attention goes, and whether its weights can be believed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import torch
from torch import Tensor

from headwise.lamps import QUESTIONS, Head, lamps
from headwise.measures import rows
from headwise.quantities import find
from headwise.traces.lamps import readings
from headwise.traces.trace import Trace

NULL_SPACE = (
    "rank", "null_dim", "simplex_dim", "pearson", "null_share", "identifiable", "smallest_kept", "largest_dropped",
)  # fmt: skip


def head_table(trace: Trace, quantity: str = "raw", *, stack: str | None = None) -> pl.DataFrame:
    """Per layer and head: entropy in nats, mean attention to special tokens and neighbours, null-space facts.

    `special`, `first`, `previous`, `current` and `next` are in the unit of the quantity (for raw, probability); entropy
    is there for distributions only. `carried`, `parked`, `sent`, the three `lamp_` columns and `show` are what
    headwise.lamps says of the raw map. Mixing quantities have one row a layer, no null-space columns and no lamps.
    """
    maps = trace.quantity(quantity, stack=stack)
    layers = [layer.index for layer in trace.of(stack)]
    heads = range(maps.shape[1])
    where = [(layer, head) for layer in layers for head in heads]
    merged = maps.shape[1] == 1 != trace.of(stack)[0].alpha.shape[1]
    table = {
        "layer": [layer for layer, _ in where],
        "head": [None if merged else head for _, head in where],
        "name": [f"L{layer}" if merged else f"L{layer}.H{head}" for layer, head in where],
        **{name: column.flatten().tolist() for name, column in _columns(trace, maps, quantity, stack).items()},
    }
    if merged:
        return pl.DataFrame(table, schema_overrides={"head": pl.Int64})
    facts = trace.nullspace(stack=stack)
    for name in NULL_SPACE:
        table[name] = getattr(facts, name).flatten().tolist()
    read = [head for row in readings(trace, stack=stack) for head in row]
    table |= {name: [getattr(head, name) for head in read] for name in ("loose", "carried", "parked", "sent")}
    return with_lamps(pl.DataFrame(table, schema_overrides={"head": pl.Int64}), read)


def with_lamps(table: pl.DataFrame, read: Sequence[Head]) -> pl.DataFrame:
    """Of every head the colours of its lamps, which are held back, whether its map may be shown, where a sink parks."""
    lit = [lamps(head) for head in read]
    columns = {f"lamp_{name}": [getattr(found, name).colour for found in lit] for name in QUESTIONS}
    columns |= {"held": [", ".join(lamp.question for lamp in found if lamp.held) or None for found in lit]}
    columns |= {"show": [found.showing for found in lit]}
    columns |= {"sink": [head.on if found.sink else None for found, head in zip(lit, read, strict=True)]}
    return table.with_columns(pl.Series(name, values, pl.String) for name, values in columns.items())


def _columns(trace: Trace, maps: Tensor, quantity: str, stack: str | None) -> dict[str, Tensor]:
    keys = trace.keys(stack)
    special = torch.tensor(keys.special, device=maps.device).expand(len(maps), -1)
    first = torch.arange(len(keys), device=maps.device).expand(len(maps), -1) == 0
    counted = torch.ones(len(maps), maps.shape[2], dtype=torch.bool, device=maps.device)
    columns = {"entropy": rows.entropy(maps)} if find(quantity).distribution else {}
    columns |= {"special": rows.mass(maps, special), "first": rows.mass(maps, first)}
    if stack != "cross":
        offsets = {"previous": -1, "current": 0, "next": 1}
        columns |= {name: rows.at_offset(maps, offset) for name, offset in offsets.items()}
    return {name: rows.mean_rows(column, counted) for name, column in columns.items()}

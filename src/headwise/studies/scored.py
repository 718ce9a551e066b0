"""Scores of heads and baselines as a table: one row a label, way and predictor, the best one marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.stats import Sums
from headwise.studies.hits import best_cell, from_bytes
from headwise.studies.study import State
from headwise.studies.tables import first_stack

ENOUGH, NAMED = 50, 4  # examples of a label for it to be spoken of; labels that are
COLUMNS = ("chosen_accuracy", "accuracy", "low", "high", "chosen_count", "count")


def scored_rows(
    state: State,
    stack: str,
    quantity: str,
    ways: Sequence[str],
    *,
    what: str,
    names: Sequence[str] | None = None,
    compete: bool = True,
) -> pl.DataFrame:
    """Rows of all heads under a quantity, or with `names` of the predictors of a baseline (which has no layers).

    `what` names the column of the labels. `best` is true at the predictor with the largest `chosen_accuracy` of its
    label, over all ways if they `compete`, else one a way; nowhere where the choosing part has no example.
    """
    labels = from_bytes(state.pieces(f"labels@{stack}").tensors[0])
    parts = {part: _of(state, part, quantity, stack, baseline=names is not None) for part in ("chosen", "scored")}
    ends = {end: _mean(_of(state, end, quantity, stack, baseline=names is not None)) for end in ("low", "high")}
    cells = {
        "chosen_accuracy": _mean(parts["chosen"]),
        "accuracy": _mean(parts["scored"]),
        **ends,
        "chosen_count": torch.stack([sums.weight for sums in parts["chosen"]]),
        "count": torch.stack([sums.weight for sums in parts["scored"]]),
    }
    shape = tuple(cells["accuracy"].shape)  # layer label way head
    layer, label, way, head = (index.ravel() for index in np.indices(shape))
    best = _best(cells["chosen_accuracy"], compete)
    is_head = names is None
    return pl.DataFrame(
        {
            "stack": [stack] * layer.size,
            "quantity": [quantity] * layer.size,
            what: np.array(labels, dtype=object)[label].tolist(),
            "direction": np.array(ways, dtype=object)[way].tolist(),
            "layer": layer.tolist() if is_head else [None] * layer.size,
            "head": head.tolist() if is_head else [None] * layer.size,
            "name": [f"L{at}.H{number}" for at, number in zip(layer, head, strict=True)]
            if names is None
            else [names[number] for number in head],
            "best": best.ravel(),
            **{name: cells[name].numpy().ravel() for name in COLUMNS},
        },
        schema_overrides={"layer": pl.Int64, "head": pl.Int64},
    ).cast({"chosen_count": pl.Int64, "count": pl.Int64})


def best_heads(table: pl.DataFrame, what: str) -> str:
    """The heads that score best, each with its label and of how many examples, in a sentence."""
    best = first_stack(table).filter(pl.col("best") & (pl.col("quantity") == "raw") & (pl.col("count") >= ENOUGH))
    top = best.filter(~pl.col(what).str.starts_with("all")).sort("accuracy", descending=True).head(NAMED)
    named = ", ".join(
        f"{row[what]} {row['name']} ({row['accuracy']:.0%} of {row['count']:,})" for row in top.iter_rows(named=True)
    )
    told = named or f"none with {ENOUGH} examples"
    return f"Best heads, chosen on one part of the texts and scored on the other: {told}."


def _best(chosen: Float[Tensor, "layer label way head"], compete: bool) -> Bool[np.ndarray, "layer label way head"]:
    """True at the best cell of each label, or of each label and way."""
    best = np.zeros(tuple(chosen.shape), dtype=bool)
    groups = [slice(None)] if compete else [slice(way, way + 1) for way in range(chosen.shape[2])]
    for label in range(chosen.shape[1]):
        for ways in groups:
            part = chosen[:, label, ways]
            if bool(part.isfinite().any()):
                best[:, label, ways][best_cell(part)] = True
    return best


def _of(state: State, part: str, quantity: str, stack: str, *, baseline: bool) -> list[Sums]:
    name = f"{part} {quantity}"
    return [state.sums(f"{name}@{stack}")] if baseline else state.by_layer(Sums, name, stack)


def _mean(layers: Sequence[Sums]) -> Float[Tensor, "layer label way head"]:
    return torch.stack([sums.mean for sums in layers])

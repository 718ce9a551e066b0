"""The table of `ablation`: means over texts with 95 % bootstrap intervals over texts, and rank correlations over heads.

| part | a row is | value |
|---|---|---|
| head | a head under one way | the change of what the model does |
| attention, feed-forward | a layer's block at its mean | the same |
| correlation | a statistic of heads | Spearman's ρ with the effect of the first way, over all heads |
| curve | so many heads removed in an order | the change of what the model does |

`unit` is that of the value: nats or 1 − cos. `estimate`, `entropy`, `norm` and `null` stand in the rows of heads. `low`
and `high` bound the middle 95 % of 1000 resamples of the texts; they are empty for fewer than six texts, of which all
may lie on one side of 0 by chance in more than one of twenty draws (2 · 2⁻⁵).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.stats import Pieces
from headwise.stats.spearman import spearman
from headwise.studies.study import Setting, State


class Statistic(NamedTuple):
    """A number of a head's attention that may tell whether the head matters: in a sentence, and in a legend."""

    phrase: str
    label: str


STATISTICS = {
    "entropy": Statistic("the entropy of its attention", "entropy of its attention"),
    "norm": Statistic("the length of what it sends", "length of what it sends"),
    "null": Statistic("its null share", "share of the null space"),
}
WAYS = ("mean", "zero", "resample")
PARTS = ("attention", "feed-forward")
STACKS = ("self", "encoder", "decoder", "cross")  # the order of the columns
RESAMPLES, FEWEST = 1000, 6
SCHEMA = {
    "part": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String, "way": pl.String,
    "number": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "estimate": pl.Float64,
    **dict.fromkeys(STATISTICS, pl.Float64), "removed": pl.Int64, "texts": pl.Int64, "unit": pl.String,
}  # fmt: skip
Array = np.ndarray


def table_of(state: State, setting: Setting, *, ways: Sequence[str], seed: int, unit: str | None) -> pl.DataFrame:
    if "effect" not in state:
        return pl.DataFrame(schema=SCHEMA)
    effect = stacked(state, "effect").numpy()  # text way number head
    numbers = ("loss", "probability", "accuracy") if effect.shape[2] == 3 else ("effect",)
    weights = resampled(len(effect), seed)
    rows = [
        *_heads(state, effect, setting, ways, numbers, weights),
        *_blocks(stacked(state, "block").numpy(), setting, numbers, weights),
        *_correlations(state, effect[:, 0, 0], weights),
        *_curves(state, seed),
    ]
    return pl.DataFrame([{"texts": len(effect), "unit": _unit(row, unit), **row} for row in rows], schema=SCHEMA)


def _unit(row: Mapping[str, Any], unit: str | None) -> str | None:
    """Rank correlations have none, and of a classifier's numbers only the loss is in nats."""
    if row.get("number") in ("probability", "accuracy"):
        return "of 1"
    return None if row["part"] == "correlation" else unit


def stacked(state: State, name: str) -> Float64[Tensor, "text ..."]:
    return torch.cat([tensor.double() for tensor in state.pieces(name).tensors])


def effects_of(
    state: State, stacks: Mapping[str, Sequence[int]], stack: str
) -> tuple[tuple[int, ...], list[Float64[Array, "document head one"]]]:
    """The documents' numbers, and layer by layer the effect of each head in each of them, by the first way.

    `stacks` has the layers and heads of each stack.
    """
    effect = stacked(state, "effect")[:, 0, 0].numpy()
    before = [name for name in STACKS[: STACKS.index(stack)] if name in stacks]
    start = sum(stacks[name][0] * stacks[name][1] for name in before)
    layers, heads = stacks[stack][:2]
    own = effect[:, start : start + layers * heads].reshape(len(effect), layers, heads, 1)
    return tuple(state.pieces("effect").numbers), list(own.transpose(1, 0, 2, 3))


def resampled(texts: int, seed: int) -> Array | None:
    """Weights [resample text] that sum to 1 in every row; None where there are too few texts."""
    if texts < FEWEST:
        return None
    return np.random.default_rng(seed).multinomial(texts, np.full(texts, 1 / texts), size=RESAMPLES) / texts


def ends(values: Array) -> tuple[Any, Any]:
    """The middle 95 % along the first axis; NaN where nothing is known (a null share that is 0 everywhere)."""
    unknown = np.isnan(values).all(0)
    low, high = np.nanquantile(np.where(unknown, 0.0, values), [0.025, 0.975], axis=0)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _bounds(values: Array, weights: Array | None) -> tuple[list[Any], list[Any]]:
    """Of the mean over texts (first axis) of values [text cell]."""
    if weights is None:
        return [None] * values.shape[1], [None] * values.shape[1]
    low, high = ends(weights @ values)
    return low.tolist(), high.tolist()


def _where(setting: Setting) -> list[tuple[str, int, int]]:
    """Stack, layer and head of every column."""
    return [
        (stack, layer, head)
        for stack, (layers, heads, _) in setting.stacks.items()
        for layer in range(layers)
        for head in range(heads)
    ]


def _heads(
    state: State, effect: Array, setting: Setting, ways: Sequence[str], numbers: Sequence[str], weights: Array | None
) -> Iterator[Mapping[str, Any]]:
    beside = {name: stacked(state, name).mean(0).tolist() for name in ("estimate", *STATISTICS)}
    for way, by_number in zip(ways, effect.transpose(1, 2, 0, 3), strict=True):
        for number, values in zip(numbers, by_number, strict=True):
            low, high = _bounds(values, weights)
            for at, (stack, layer, head) in enumerate(_where(setting)):
                extra = {name: column[at] for name, column in beside.items()}
                extra["estimate"] = extra["estimate"] if way == ways[0] and number == numbers[0] else None
                yield {"part": "head", "stack": stack, "layer": layer, "head": head, "name": f"L{layer}.H{head}",
                       "way": way, "number": number, "value": float(values[:, at].mean()), "low": low[at],
                       "high": high[at], **extra}  # fmt: skip


def _blocks(
    block: Array, setting: Setting, numbers: Sequence[str], weights: Array | None
) -> Iterator[Mapping[str, Any]]:
    layers = [(stack, layer) for stack, sizes in setting.stacks.items() for layer in range(sizes[0])]
    for part, by_number in zip(PARTS, block.transpose(1, 2, 0, 3), strict=True):
        for number, values in zip(numbers, by_number, strict=True):
            low, high = _bounds(values, weights)
            for at, (stack, layer) in enumerate(layers):
                if part == "feed-forward" and (stack == "cross" or not values[:, at].any()):
                    continue  # a layer in which no feed-forward block was found, or that has none of its own
                yield {"part": part, "stack": stack, "layer": layer, "name": f"L{layer}", "way": "mean",
                       "number": number, "value": float(values[:, at].mean()), "low": low[at],
                       "high": high[at]}  # fmt: skip


def _correlations(state: State, effect: Array, weights: Array | None) -> Iterator[Mapping[str, Any]]:
    """Of means over texts; in a resample both the effect and the statistic are those of the drawn texts."""
    for name in ("estimate", *STATISTICS):
        beside = stacked(state, name).numpy()
        low = high = None
        if weights is not None:
            low, high = (float(end) for end in ends(spearman(weights @ effect, weights @ beside)))
        rho = float(spearman(effect.mean(0), beside.mean(0)))
        yield {"part": "correlation", "name": name, "value": rho, "low": low, "high": high}


def _curves(state: State, seed: int) -> Iterator[Mapping[str, Any]]:
    for order, pieces in state.after(Pieces, "curve@"):
        values = torch.cat(pieces.tensors).double().mean(1)  # text step: the mean over draws
        counts = stacked(state, "steps")[0].long().tolist()
        low, high = _bounds(values.numpy(), resampled(len(values), seed))
        for at, removed in enumerate(counts):
            yield {"part": "curve", "name": order, "removed": removed, "value": float(values[:, at].mean()),
                   "low": low[at], "high": high[at], "texts": len(values)}  # fmt: skip

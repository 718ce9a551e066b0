"""Scores of heads and baselines, from bits, as a table: one row a label, way and predictor, the best one marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.models.model import Model
from headwise.results.shown import finite, number
from headwise.stats import Pieces, Sums
from headwise.studies.hits import Questions, best_cell, chooses, from_bits, from_bytes, to_bytes
from headwise.studies.study import State, Stats
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


@runtime_checkable
class Chooses(Protocol):
    """The settings of a study that chooses heads on some documents and scores them on others."""

    @property
    def quantities(self) -> tuple[str, ...]: ...
    @property
    def choose(self) -> float: ...
    @property
    def choose_first(self) -> int: ...
    @property
    def resamples(self) -> int: ...
    @property
    def seed(self) -> int: ...


def scores_of_heads(
    study: Chooses,
    state: State,
    model: Model,
    say: Callable[[str], None],
    *,
    asked: str,
    lost: str,
    labels: Callable[[str], Sequence[str]],
    beside: Callable[[str], Mapping[str, Bool[Tensor, "item _ _"]]],
) -> Stats:
    """Bits into scores: chosen, scored, and the ends of the interval; of single documents nothing is kept.

    `asked` names the pieces with the questions, `labels` tells the sets that one is in, `lost` what could not be asked;
    `beside` gives the hits of other predictors of a stack.
    """
    result: Stats = {}
    for stack in model.stacks:
        if f"{asked}@{stack}.0" not in state:
            continue
        pieces = state.pieces(f"{asked}@{stack}.0")
        questions = Questions.of(
            [labels(one) for one in from_bytes(torch.cat(pieces.tensors))],
            [len(piece) for piece in pieces.tensors],
            chooses(pieces.numbers, study.choose, study.choose_first),
            resamples=study.resamples,
            seed=study.seed,
        )
        result[f"labels@{stack}"] = Pieces.of({0: to_bytes(questions.labels)})
        result[f"{lost}@{stack}"] = state[f"{lost}@{stack}.0"]
        for name, hits in beside(stack).items():
            result |= {f"{part} {name}@{stack}": sums for part, sums in questions.scores(hits).items()}
        for index in range(model.layers(stack)):
            say(f"scoring layer {index + 1} of {model.layers(stack)}")
            for quantity in study.quantities:
                bits = torch.cat(state.pieces(f"hits {quantity}@{stack}.{index}").tensors)
                scores = questions.scores(from_bits(bits, model.heads(stack)))
                result |= {f"{part} {quantity}@{stack}.{index}": sums for part, sums in scores.items()}
    return result


def best_heads(table: pl.DataFrame, what: str) -> str:
    """The heads that score best, each with its label and of how many examples, in a sentence."""
    best = finite(first_stack(table), "accuracy").filter(
        pl.col("best") & (pl.col("quantity") == "raw") & (pl.col("count") >= ENOUGH)
    )
    top = best.filter(~pl.col(what).str.starts_with("all")).sort("accuracy", descending=True).head(NAMED)
    named = ", ".join(
        f"{row[what]} {row['name']} ({number(row['accuracy'], '.0%')} of {row['count']:,})"
        for row in top.iter_rows(named=True)
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

"""The table of the identity study: one row a fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from scipy.special import stdtrit
from torch import Tensor

from headwise.stats import Sums
from headwise.studies.identity.learned import SETS
from headwise.studies.identity.recovery import READINGS
from headwise.studies.identity.tokens import MEASURES, TAGS
from headwise.studies.study import State

SCHEMA = {
    "what": pl.String,  # rate, tag, frequency, attribution
    "map": pl.String,
    "distance": pl.String,
    "target": pl.String,
    "offset": pl.Int64,
    "layer": pl.Int64,  # the map was learned from
    "tested": pl.Int64,  # the layer it was tested on
    "set": pl.String,
    "group": pl.String,  # part of speech, frequency, measure
    "value": pl.Float64,
    "low": pl.Float64,  # 95 % interval of the mean over folds (Student's t), cut at 0 and 1
    "high": pl.Float64,
    "word": pl.Float64,  # the rate where the same word elsewhere counts as right
    "ceiling": pl.Float64,  # what a perfect map would score: below 1 where words of a sentence share their x
    "chance": pl.Float64,
    "word_chance": pl.Float64,
    "count": pl.Float64,  # tokens, summed over folds
    "epochs": pl.Float64,  # of training until the weights that were kept, mean over folds
    "width": pl.Int64,
}
Row = dict[str, Any]


def identity_table(state: State, target: str) -> pl.DataFrame:
    layers = [int(number) for number in state.sums("layers").total]
    width = int(state.sums("sizes").total[0])
    rows: list[Row] = []
    for key in state:
        what, _, name = key.partition(".")
        if what == "rate":
            rows += _rates(state, name, layers)
        elif what in ("tag", "frequency", "attribution"):
            rows += _groups(what, name, state.sums(key), layers)
    return pl.DataFrame([{"target": target, "width": width, **row} for row in rows], schema=SCHEMA)


def interval(rates: Tensor) -> tuple[float, float]:
    """95 % interval of the mean of the folds' rates; the folds share training sentences, so it is a rough one."""
    folds = rates.numel()
    if folds < 2:
        return float("nan"), float("nan")
    half = float(stdtrit(folds - 1, 0.975)) * float(rates.std()) / folds**0.5
    return float(rates.mean()) - half, float(rates.mean()) + half


def _rates(state: State, name: str, layers: list[int]) -> Iterator[Row]:
    map_, distance, offset = name.split(".")
    rate, chance = state.sums(f"rate.{name}"), state.sums(f"chance.{offset}").mean
    epochs = state.sums(f"epochs.{name}").total.mean(-1).tolist() if f"epochs.{name}" in state else [None] * len(layers)
    position, word, possible = (rate.mean[READINGS.index(reading)] for reading in READINGS)
    for number, set_ in enumerate(SETS):
        for row, layer in enumerate(layers):
            for column, tested in enumerate(layers):
                folds = position[number, row, column]
                if folds.isnan().all():
                    continue
                low, high = interval(folds)
                yield {
                    "what": "rate", "map": map_, "distance": distance, "offset": int(offset), "layer": layer,
                    "tested": tested, "set": set_, "value": float(folds.mean()),
                    "low": max(low, 0.0), "high": min(high, 1.0),  # NaN, which comes first, stays
                    "word": float(word[number, row, column].mean()),
                    "ceiling": float(possible[number, row, column].mean()), "chance": float(chance[0]),
                    "word_chance": float(chance[1]), "count": float(rate.weight[0, number, row, column].sum()),
                    "epochs": epochs[row],
                }  # fmt: skip


def _groups(what: str, name: str, sums: Sums, layers: list[int]) -> Iterator[Row]:
    map_, distance = name.split(".")
    names = {"tag": TAGS, "attribution": MEASURES}.get(what) or [_octave(k) for k in range(sums.total.shape[1])]
    for row, layer in enumerate(layers):
        for column, group in enumerate(names):
            if sums.weight[row, column] > 0:
                yield {
                    "what": what, "map": map_, "distance": distance, "offset": 0, "layer": layer, "tested": layer,
                    "set": "test", "group": group, "value": float(sums.mean[row, column]),
                    "count": None if what == "attribution" else float(sums.weight[row, column]),
                }  # fmt: skip


def _octave(k: int) -> str:
    """1, 2–3, 4–7, …"""
    return "1" if k == 0 else f"{2**k}–{2 ** (k + 1) - 1}"

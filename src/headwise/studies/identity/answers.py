"""How many tokens are found again, in words."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headwise.results.shown import finite
from headwise.studies.answers import MIXING, Answer
from headwise.studies.study import Setting
from headwise.studies.tables import counted, percents

WORDS = {
    "linear": "A linear map still finds a token's own place among its sentence in {} of the cases, layer by layer{}.",
    "none": "Without a map, by the nearest vector alone: {}{}.",
}


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG001 - n is the table's own
    for kind, words in WORDS.items():
        rows = finite(own_layers(table, kind), "value")
        if len(rows):
            n = int(rows["count"].max())  # type: ignore[arg-type]
            yield Answer(MIXING, words.format(percents(rows["value"]), f" ({counted(n, 'token')})"))


def own_layers(table: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Rates by cosine distance on the layer that a map was learned on (or that needs none), layer by layer."""
    return table.filter(
        (pl.col("what") == "rate") & (pl.col("map") == kind) & (pl.col("distance") == "cosine")
        & (pl.col("layer") == pl.col("tested")) & (pl.col("offset") == 0) & (pl.col("set") == "test")
    ).sort("tested")  # fmt: skip

"""How many tokens are found again, in words."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headwise.results.shown import finite
from headwise.studies.answers import MIXING, Answer
from headwise.studies.study import Setting
from headwise.studies.tables import counted, percents

LEARNED = 100  # texts that it takes to learn a map, as in the claims of the papers
WORDS = {
    "linear": "A linear map still finds a token's own place among its sentence in {} of the cases, layer by layer{}.",
    "none": "Without a map, by the nearest vector alone: {}{}.",
}


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
    texts = setting.tokens["documents"]
    for kind, words in WORDS.items():
        rows = finite(own_layers(table, kind), "value")
        if len(rows):
            n = int(rows["count"].max())  # type: ignore[arg-type]
            said = words.format(percents(rows["value"]), f" ({counted(n, 'token')})")
            yield Answer(MIXING, said if kind == "none" or texts >= LEARNED else _unlearned(texts))


def _unlearned(texts: int) -> str:
    """Instead of rates that tell how little was learned, and nothing of the model.

    >>> _unlearned(6)
    "Whether a linear map still finds a token's own place is undecided: 6 texts, and a map to learn takes 100."
    """
    why = f"{counted(texts, 'text')}, and a map to learn takes {LEARNED}"
    return f"Whether a linear map still finds a token's own place is undecided: {why}."


def own_layers(table: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Rates by cosine distance on the layer that a map was learned on (or that needs none), layer by layer."""
    return table.filter(
        (pl.col("what") == "rate") & (pl.col("map") == kind) & (pl.col("distance") == "cosine")
        & (pl.col("layer") == pl.col("tested")) & (pl.col("offset") == 0) & (pl.col("set") == "test")
    ).sort("tested")  # fmt: skip

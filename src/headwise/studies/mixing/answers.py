"""How much of a token is left in its place, in words: whether a weight on a hidden token is one on its word."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from headwise.studies.answers import BELIEVE, MIXING, Answer, Number, Vote
from headwise.studies.tables import counted, percent, percents

OWN = 0.5  # the median share of itself in the last layer from which a hidden token passes for its word


def answers(table: pl.DataFrame, texts: int) -> Iterator[Answer]:
    """Of the `texts` that were asked; layers in which most tokens have no origin are left out."""
    own = [value for value in rows_of(table, "own", "median") if math.isfinite(value)]
    lost = [value for value in rows_of(table, "not-own", "share") if math.isfinite(value)]
    if not own:
        return
    chance, of = rows_of(table, "own", "chance")[0], counted(texts, "text")
    yield Answer(
        MIXING,
        f"A token's own share in its hidden vector, layer by layer: {percents(own)} (median over the tokens of {of}; "
        f"an even mixture would be {percent(chance)}).",
        f"From the first layer on: the median token is {percent(own[0])} itself after it, and {percent(own[-1])} after "
        "the last.",
    )
    if lost:
        yield Answer(
            MIXING, f"Hidden tokens whose largest part is another token's: {percents(lost)}, layer by layer ({of})."
        )
    still = own[-1] >= OWN
    blurred = f"after the last layer the median hidden token is {percent(own[-1])} its own word"
    because = f"{'hidden tokens are still mostly their own words' if still else blurred} ({of})"
    says = "of the median hidden token is its own word after the last layer"
    share = Number("own_share", says, own[-1], None, None, texts)
    yield Answer(
        BELIEVE,
        f"Weights are given to hidden tokens: the median one is {percent(own[-1])} its own word after the last layer "
        f"({of}).",
        vote=Vote("words", "yes" if still else "with care", because, (share,), turns=(OWN,)),
    )


def rows_of(table: pl.DataFrame, kind: str, statistic: str) -> list[float]:
    """One number a layer, over all tokens."""
    rows = table.filter((pl.col("kind") == kind) & (pl.col("statistic") == statistic) & (pl.col("group") == ""))
    return rows.filter(pl.col("layer").is_not_null()).sort("layer")["value"].to_list()

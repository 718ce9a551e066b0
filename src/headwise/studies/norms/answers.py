"""Whether weights go where the vectors are long: what a large weight on a short vector is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from headwise.results.shown import finite
from headwise.studies.answers import BELIEVE, Answer, Number, Vote, graded
from headwise.studies.study import Setting
from headwise.studies.tables import counted, first_stack, percent

PARKS = ("first", "separator")
NAMES = {"first": "the first token", "separator": "separators"}
MUCH, SOME = (
    0.3,
    0.1,
)  # by so much the weight's share may differ from the share of the lengths: from there no, with care


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
    kind, weight, norm = parked_shares(finite(first_stack(table), "value"))
    if not math.isfinite(weight - norm):
        return
    verdict = graded(-round(abs(weight - norm), 9), care=-MUCH, yes=-SOME)
    what = f"{NAMES[kind]} take{'s' if kind == 'first' else ''} {percent(weight)} of the weight"
    texts, name = setting.tokens["documents"], NAMES[kind]
    carried = f"carr{'ies' if kind == 'first' else 'y'} {percent(norm)} of the lengths"
    meaning = f"{what} and {carried}, those of all heads added up ({counted(texts, 'text')})"
    numbers = (
        Number("parked_weight", f"of the weight goes to {name}", weight, None, None, texts),
        Number("parked_length", f"of the lengths of all heads, added up, comes from {name}", norm, None, None, texts),
    )
    yield Answer(
        BELIEVE,
        f"{name.capitalize()}: {percent(weight)} of all weight, {percent(norm)} of the length of the vectors "
        f"that the weights carry ({counted(texts, 'text')}). A large weight on a short vector "
        "moves little.",
        vote=Vote(
            "parked", verdict, meaning, numbers, turns=tuple(norm + way * by for way in (-1, 1) for by in (SOME, MUCH))
        ),
    )


def parked_shares(table: pl.DataFrame) -> tuple[str, float, float]:
    """The special kind of token with most of the weight, its share of all weight, and of the summed lengths.

    NaN where no weight, or no length, is known of any.
    """
    weights, norms = (by_category(table, what) for what in ("alpha", "norm"))
    known = [kind for kind in PARKS if kind in weights and kind in norms]
    if not known or not sum(weights.values()) or not sum(norms.values()):
        return PARKS[0], math.nan, math.nan
    kind = max(known, key=lambda kind: weights[kind])
    return kind, weights[kind] / sum(weights.values()), norms[kind] / sum(norms.values())


def by_category(table: pl.DataFrame, what: str) -> dict[str, float]:
    """Mean over layers of what goes to each category."""
    rows = table.filter((pl.col("paper") == "fig3") & (pl.col("what") == what) & (pl.col("category") != "all"))
    means = rows.group_by("category", maintain_order=True).agg(pl.col("value").mean())
    return dict(zip(means["category"].to_list(), means["value"].to_list(), strict=True))

"""Whether the raw weights are those that reach a head's output, and how much of them changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from headwise.lamps import NULL_LARGE
from headwise.results.shown import finite
from headwise.studies.answers import BELIEVE, NOISE, Answer, Number, Vote, graded
from headwise.studies.study import Setting
from headwise.studies.tables import counted, first_stack, percent

ALIKE, PARTLY = 0.9, 0.5  # Pearson's r of raw and effective from which they say the same, or some of it
HALF, SOME = 0.5, 0.001  # of the squared weights: a good part, and any that is worth a name
FEW = 10  # numbers below it are told with one decimal
MEANING = {
    "yes": "hardly any of the raw weights changes nothing in a head's output",
    "with care": "a good part of the raw weights changes nothing in a head's output",
    "no": "most of what the raw weights show changes nothing in a head's output",
}


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
    table, size = first_stack(table), next(iter(setting.stacks.values()))[2]
    yield from _believed(table, size, setting)
    share = finite(table, "value").filter((pl.col("what") == "null_share") & pl.col("head").is_not_null()).sort("value")
    if len(share):
        half = share.filter(pl.col("value") > HALF)
        most = share.row(-1, named=True)
        headline = (
            f"In {len(half)} of {len(share)} heads over half of the squared weights change nothing "
            f"({counted(setting.tokens['documents'], 'text')})."
        )
        where = f"{percent(most['value'])}, in {most['name']}"
        top = f"The most of a head's squared weights that changes nothing is {where}."
        none = f"In no head {percent(SOME)} of the squared weights or more change nothing."
        yield Answer(NOISE, top if most["value"] >= SOME else none, headline)


def _believed(table: pl.DataFrame, size: int, setting: Setting) -> Iterator[Answer]:
    """How free the weights are at these lengths, and what that does to them; every row and every head counts once."""
    texts, length = setting.tokens["documents"], setting.tokens["tokens"] / setting.tokens["documents"]
    each = table.filter(pl.col("head").is_not_null())
    free, unique, agreed = (
        finite(each, "value").filter(pl.col("what") == what)["value"]
        for what in ("null_dim", "identifiable_rows", "pearson")
    )
    if len(free):
        yield Answer(
            BELIEVE,
            f"A head passes on {size} numbers a token, and the {counted(texts, 'text')} have {length:.0f} tokens on "
            f"average: a row of weights can be moved in {_few(free.mean())} directions, in the mean over rows, and the "
            f"head's output stays the same; {percent(float(unique.mean()))} of all rows, those of all texts together, "  # type: ignore[arg-type]
            "have weights that no others can replace.",
        )
    if not len(agreed):
        yield Answer(BELIEVE, "These texts are too short to tell raw and effective attention apart.")
        return
    r, sd, good = float(agreed.mean()), agreed.std(), _alike(each)  # type: ignore[arg-type]
    most = f"at most {percent(NULL_LARGE)} without effect"
    heads = f"{len(good)} of {counted(len(agreed), 'head')} with {ALIKE} or more and {most}"
    verdict = graded(r, care=PARTLY, yes=ALIKE)
    alike = Number("pearson", "is r of raw and effective weights, mean over heads", r, None, None, texts, share=False)
    because = f"{MEANING[verdict]} (mean r = {r:.2f}, {counted(texts, 'text')}; {heads})"
    spread = f" ± {sd:.2f}" if len(agreed) > 1 else ""
    yield Answer(
        BELIEVE,
        f"Raw weights and effective weights, the part of them that the output depends on, correlate with r = {r:.2f}"
        f"{spread} over {counted(len(agreed), 'head')} (mean ± standard deviation).",
        vote=Vote("alike", verdict, because, (alike,), good, len(agreed), (PARTLY, ALIKE)),
    )


def _alike(each: pl.DataFrame) -> tuple[str, ...]:
    """Heads of whose map hardly anything is without effect: by r, and by the share of the squared weights."""
    r, share = (dict(finite(each, "value").filter(what=what).select("name", "value").iter_rows())
                for what in ("pearson", "null_share"))  # fmt: skip
    return tuple(name for name in r if r[name] >= ALIKE and share.get(name, 0.0) <= NULL_LARGE)


def _few(number: Any) -> str:
    return f"{number:.1f}" if number < FEW else f"{number:.0f}"

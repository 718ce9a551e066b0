"""Which heads matter, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from headwise.lamps import MATTERS_LITTLE
from headwise.results.shown import finite, number, shown
from headwise.studies.ablation.facts import STATISTICS
from headwise.studies.answers import BELIEVE, Answer, Verdict, Vote
from headwise.studies.study import Setting
from headwise.studies.tables import counted, percent

MATTER = "Which heads matter?"
TELLS, HINTS = 0.6, 0.3  # |ρ| from which a statistic tells which heads matter, or only hints at it
FEW = 5
MOST = 0.9  # of the heads that must matter for sure, or not matter for sure, for a plain answer


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
    heads = finite(table, "value").filter(part="head")
    heads = (
        heads.filter((pl.col("way") == heads["way"][0]) & (pl.col("number") == heads["number"][0]))
        if len(heads)
        else heads
    )
    if heads.is_empty():
        return
    texts = counted(int(heads["texts"][0]), "text")
    order = heads.sort("value", descending=True)
    sure = finite(heads, "low").filter(pl.col("low") > 0)
    top, total = order.head(FEW), float(heads["value"].clip(lower_bound=0).sum())
    share = float(top["value"].clip(lower_bound=0).sum()) / total if total else 0.0
    several = len(setting.stacks) > 1
    names = ", ".join(f"{row['stack']} {row['name']}" if several else row["name"] for row in top.iter_rows(named=True))
    unknown = finite(heads, "low").is_empty()
    said = (
        f"{texts} are too few for intervals" if unknown else f"{len(sure)} of {len(heads)} heads make it worse for sure"
    )
    yield Answer(
        MATTER,
        f"Taken away alone, {said}; the {len(top)} that matter most ({names}) make up {percent(share)} of the sum over "
        f"all heads ({texts}).",
        headline=f"{names.split(', ')[0]} matters most; {len(top)} of {len(heads)} heads make up {percent(share)} of "
        "all effects.",
    )
    yield from _statistics(table, texts)
    if not unknown:
        yield _voted(heads, texts)


def _voted(heads: pl.DataFrame, texts: str) -> Answer:
    """Whether heads matter alone: by the threshold below which the lamp *matters?* is red, for sure."""
    heads = shown(heads)  # what is not known is no evidence
    needed = heads.filter((pl.col("low") >= MATTERS_LITTLE) | (pl.col("high") <= -MATTERS_LITTLE)).height
    idle = heads.filter((pl.col("low") > -MATTERS_LITTLE) & (pl.col("high") < MATTERS_LITTLE)).height
    verdict: Verdict = "yes" if needed >= MOST * heads.height else "no" if idle >= MOST * heads.height else "with care"
    clause = (
        f"{needed} of {heads.height} heads change the answer for sure when taken away alone, {idle} for sure do not "
        f"(by {MATTERS_LITTLE} or more; {texts})"
    )
    return Answer(BELIEVE, f"Do the heads matter to the answer? {clause}.", vote=Vote("heads", verdict, clause))


def _statistics(table: pl.DataFrame, texts: str) -> Iterator[Answer]:
    rho = {row["name"]: row for row in table.filter(part="correlation").iter_rows(named=True)}
    known = {name: rho[name] for name in STATISTICS if name in rho and math.isfinite(rho[name]["value"])}
    if not known:
        return
    best = max(known, key=lambda name: abs(known[name]["value"]))
    value = known[best]["value"]
    verdict = "tells" if abs(value) >= TELLS else "hints at" if abs(value) >= HINTS else "does not tell"
    between = "" if known[best]["low"] is None else f", {number(known[best]['low'])} to {number(known[best]['high'])}"
    guess = rho["estimate"]["value"] if "estimate" in rho else float("nan")
    first = f" One backward pass tells it with ρ = {guess:.2f}." if math.isfinite(guess) else ""
    yield Answer(
        MATTER,
        f"Of what can be read off its attention, {STATISTICS[best].phrase} says most about a head, and {verdict} "
        f"whether it matters (ρ = {value:.2f}{between}; {texts}).{first}",
    )

"""Which heads matter, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from headwise.lamps import MATTERS_LITTLE
from headwise.results.shown import finite, number, shown
from headwise.studies.ablation.facts import FEWEST, STATISTICS
from headwise.studies.answers import BELIEVE, COUNTED, Answer, Number, Verdict, Vote
from headwise.studies.study import Setting
from headwise.studies.tables import counted, percent

MATTER = "Which heads matter?"
TELLS, HINTS = 0.6, 0.3  # |ρ| from which a statistic tells which heads matter, or only hints at it
FEW = 5
MOST = 0.9  # of the heads that must clearly matter, or clearly not, for a plain answer
PUT = {"mean": "at its mean", "zero": "at zero", "resample": "as in another text"}  # what stands in a head's place


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
    top, total = order.head(FEW), float(heads["value"].clip(lower_bound=0).sum())
    share = float(top["value"].clip(lower_bound=0).sum()) / total if total else 0.0
    several = len(setting.stacks) > 1
    names = ", ".join(_names(top, several))
    first = names.split(", ")[0]
    unknown = finite(heads, "low").is_empty()
    needed, _ = clear(heads)
    said = (
        f"{texts} are too few for intervals, which take {FEWEST}"
        if unknown
        else f"{needed} of {len(heads)} heads clearly change what the model does (interval beyond {least(heads)})"
    )
    yield Answer(
        MATTER,
        f"Taken away alone ({PUT[heads['way'][0]]}), {said}; the {len(top)} that matter most ({names}) make up "
        f"{percent(share)} of the sum over all heads ({texts}).",
        headline=f"{first} matters most; {len(top)} of {len(heads)} heads make up {percent(share)} of all effects."
        if needed or unknown
        else f"No head clearly changes what the model does when taken away alone; {first} comes nearest.",
    )
    yield from _statistics(table, texts)
    if not unknown:
        yield _voted(heads, texts, several)
    elif (read := int(heads["texts"][0])) < FEWEST:
        yield _undecided(read)


def _names(heads: pl.DataFrame, several: bool) -> tuple[str, ...]:
    """With the stack, where there are several."""
    return tuple(f"{row['stack']} {row['name']}" if several else row["name"] for row in heads.iter_rows(named=True))


def _voted(heads: pl.DataFrame, texts: str, several: bool) -> Answer:
    """Whether heads matter alone: by the threshold below which the lamp *matters?* is red."""
    needed, idle = clear(heads)
    verdict: Verdict = "yes" if needed >= MOST * heads.height else "no" if idle >= MOST * heads.height else "with care"
    clause = (
        f"{needed} of {heads.height} heads clearly move {moved_of(heads)} when taken away alone (interval beyond "
        f"{least(heads)}), {idle} clearly do not (interval within it); each {PUT[heads['way'][0]]}, {texts}"
    )
    says = f"of the heads clearly move {moved_of(heads)} when taken away alone"
    share = Number("needed_share", says, needed / heads.height, None, None, int(heads["texts"][0]), without=COUNTED)
    vote = Vote("heads", verdict, clause, (share,), _names(needed_of(heads), several), heads.height)
    return Answer(BELIEVE, f"Do the heads matter to the answer? {clause}.", vote=vote)


def _undecided(texts: int) -> Answer:
    """Of fewer texts than a head's interval takes (facts.py says why), though other votes take fewer."""
    why = f"n = {texts}, and a head's own interval takes {FEWEST} texts"
    return Answer(BELIEVE, f"Do the heads matter to the answer? Undecided: {why}.", undecided=Vote("heads", "no", why))


def clear(heads: pl.DataFrame) -> tuple[int, int]:
    """How many heads clearly change what the model does (interval beyond ±0.001), and how many do not (within it).

    subtle: a distance is never below 0, nor is its interval, so that "above 0" would count every head.
    """
    idle = shown(heads).filter((pl.col("low") > -MATTERS_LITTLE) & (pl.col("high") < MATTERS_LITTLE))
    return needed_of(heads).height, idle.height


def needed_of(heads: pl.DataFrame) -> pl.DataFrame:
    """Those that clearly change what the model does; what is not known is no evidence."""
    return shown(heads).filter((pl.col("low") >= MATTERS_LITTLE) | (pl.col("high") <= -MATTERS_LITTLE))


def least(heads: pl.DataFrame) -> str:
    """The threshold with its unit, where the table knows it: 0.001 nats, or 0.001 (1 − cos)."""
    return amount(f"{MATTERS_LITTLE}", unit_of(heads))


def moved_of(heads: pl.DataFrame) -> str:
    """What was measured, which is not the answer: a label may stay while its loss moves."""
    return {"nats": "the loss", "1 − cos": "the vector"}.get(unit_of(heads) or "", "what the model gives")


def unit_of(table: pl.DataFrame) -> str | None:
    """That of its first row; tables of before had none."""
    return table["unit"][0] if len(table) and "unit" in table.columns else None


def amount(value: str, unit: str | None) -> str:
    """
    >>> amount("0.0028", "1 − cos"), amount("1.5", "nats"), amount("2", None)
    ('0.0028 (1 − cos)', '1.5 nats', '2')
    """
    return f"{value} ({unit})" if unit == "1 − cos" else f"{value} {unit}" if unit else value


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

"""The first page: questions, each answered in plain words by what the studies declare, and the verdict of their votes.

Every answer is a study's own (`Study.answers`), made of its table; what was not run is not spoken of. Whether attention
may be read as an explanation is decided by the worst vote, and the sentence says whose it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from headwise.engine.run import setting_of
from headwise.results import Result
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE, DOING, MIXING, NOISE, QUESTIONS, VERDICTS, Answer, Vote, counting
from headwise.studies.tables import counted

Results = Mapping[str, Result]
MATTERS = "matters"  # the test of what attention names against the model's answer
LAMPS, ABLATION = "lamps", "ablation"
UNASKED = f"Whether the heads matter was not asked ({ABLATION} asks)."
WITHOUT_HEADLINE = {
    BELIEVE: "Nothing that was run decides this.",
    DOING: "Each head's attention by position and by kind of token is in the section on where heads look.",
    MIXING: "Where a hidden token's word can still be told is in the sections below.",
    NOISE: "Heads that repeat each other or park their attention.",
}


@dataclass(frozen=True)
class Card:
    """`short` answers the question; each line of `because` says a number and the study that it comes from."""

    question: str
    short: str
    because: tuple[tuple[str, str], ...]  # text, study


def cards(results: Results, left_out: Mapping[str, str] | None = None) -> list[Card]:
    """The questions that the results say something of, in the order of the page."""
    found = [(name, answer) for name, result in results.items() for answer in answers_of(name, result)]
    asked = dict.fromkeys([*QUESTIONS, *(answer.question for _, answer in found)])
    drawn = [card(question, of, left_out or {}) for question in asked
             if (of := [(name, answer) for name, answer in found if answer.question == question])]  # fmt: skip
    return [_unasked(one) if one.question == BELIEVE and ABLATION not in results else one for one in drawn]


def _unasked(found: Card) -> Card:
    """With what the lamps did not ask, where no other study did."""
    lit = any(study == LAMPS for _, study in found.because)
    return replace(found, because=(*found.because, (UNASKED, ABLATION))) if lit else found


def answers_of(name: str, result: Result) -> list[Answer]:
    """What the study says of its result; a vote of too few texts does not count."""
    read = result.manifest["documents"]
    return [counting(answer, read) for answer in said_of(name, result, result.table)]


def said_of(name: str, result: Result, table: pl.DataFrame) -> list[Answer]:
    """What the study says of a table as this result's."""
    study = STUDIES[name].from_settings(result.manifest["settings"])
    return list(study.answers(table, setting_of(result.manifest)))


def card(question: str, found: Sequence[tuple[str, Answer]], left_out: Mapping[str, str]) -> Card:
    lines = [(answer.says, name) for name, answer in found]
    if question != BELIEVE:
        headlines = [answer.headline for _, answer in found if answer.headline]
        return Card(question, headlines[0] if headlines else WITHOUT_HEADLINE.get(question, ""), tuple(lines))
    votes = [(name, answer.vote) for name, answer in found if answer.vote is not None]
    undecided = [(name, answer.undecided) for name, answer in found if answer.undecided is not None]
    return Card(question, verdict(votes, undecided), (*lines, *_not_measured([*votes, *undecided], left_out)))


def verdict(votes: Sequence[tuple[str, Vote]], undecided: Sequence[tuple[str, Vote]] = ()) -> str:
    """The worst vote decides; where nothing was said of the model's answer, a yes is of the heads' mean only.

    >>> verdict([("nullspace", Vote("unique", "yes", "a")), ("norms", Vote("carries", "no", "b"))])
    'No, not the raw weights: b. Decided by norms, of 2 tests.'
    >>> verdict([], [("norms", Vote("carries", "no", "n = 1, and it takes 4 texts"))])
    'Undecided: norms (n = 1, and it takes 4 texts).'
    """
    unsure = _unsure(undecided)
    if not votes:
        return f"Undecided: {unsure}." if unsure else WITHOUT_HEADLINE[BELIEVE]
    worst = min((vote.verdict for _, vote in votes), key=VERDICTS.index)
    deciding = [(name, vote) for name, vote in votes if vote.verdict == worst]
    matters = any(vote.tested == MATTERS for _, vote in votes)
    yes = "Yes, as far as was measured" if matters else "In the mean over heads, yes"
    lead = {"no": "No, not the raw weights", "with care": "With care", "yes": yes}[worst]
    reasons = "; ".join(vote.because for _, vote in deciding)
    names = ", ".join(dict.fromkeys(name for name, _ in deciding))
    tests = "its one test" if len(votes) == 1 else f"of {len(votes)} tests"
    apart = f"; undecided: {unsure}" if unsure else ""
    return f"{lead}: {reasons}. Decided by {names}, {tests}{apart}."


def _unsure(undecided: Sequence[tuple[str, Vote]]) -> str:
    """Who would vote but for too few texts: lamps, norms (n = 1, and it takes 4 texts)."""
    whys = dict.fromkeys(vote.because for _, vote in undecided)
    named = {why: dict.fromkeys(name for name, vote in undecided if vote.because == why) for why in whys}
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in named.items())


def _not_measured(votes: Sequence[tuple[str, Vote]], left_out: Mapping[str, str]) -> list[tuple[str, str]]:
    """Says that no test asked the model for its answer, and what such a test lacked: never what was given."""
    if any(vote.tested == MATTERS for _, vote in votes):
        return []
    lacking = [(name, why) for name, why in left_out.items() if name in STUDIES and MATTERS in STUDIES[name].votes_on]
    if not lacking:
        return []
    name, why = lacking[0]
    return [(f"Whether what attention names matters to the model's answer was not measured. {why}", name)]


def summary(results: Results) -> dict[str, Any]:
    """What the page's head says of the run."""
    manifest = next(iter(results.values())).manifest
    stacks = ", ".join(f"{name} {layers} × {heads}" for name, (layers, heads, _) in manifest["stacks"].items())
    return {
        "model": manifest["model"]["name"], "type": manifest["model"]["type"], "stacks": stacks,
        "corpus": manifest["plan"]["corpus"]["name"], "documents": manifest["documents"], "tokens": manifest["tokens"],
        "skipped": dict(manifest["skipped"]),
        "proof": manifest["proof"]["projection_error"], "watched": manifest["proof"].get("text"),
    }  # fmt: skip


def texts_read(facts: Mapping[str, Any]) -> str:
    """How many texts and tokens, and which texts were left out.

    >>> texts_read({"documents": 46, "tokens": 1200, "skipped": {"too many tokens": 1, "empty": 1}})
    '46 texts, 1,200 tokens; left out: 1 (too many tokens), 1 (empty)'
    """
    gone = ", ".join(f"{count:,} ({reason})" for reason, count in facts["skipped"].items())
    return f"{counted(facts['documents'], 'text')}, {counted(facts['tokens'], 'token')}" + (
        f"; left out: {gone}" if gone else ""
    )

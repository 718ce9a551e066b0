"""Intervals of the numbers that a vote rests on, where its study makes none: the jackknife over parts of the texts.

The run writes each study's table without one part of the texts at a time (engine/parts.py); the study's own answer to
such a table has the number without that part, θ₍ⱼ₎, and papers/verdict.py makes the interval of them. A part that
changes nothing was not asked (a study may read the first few texts alone) and is no part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import polars as pl

from headwise.engine.parts import FEWEST
from headwise.papers.verdict import jackknife
from headwise.studies.answers import Answer, Number, Vote
from headwise.studies.tables import percent
from headwise.text.corpus import CorpusSpec

PARTS = 8  # of the texts, one left out at a time
MOST = 64  # texts a shard; parts are made of whole shards


def shard_size(corpus: CorpusSpec) -> int:
    """So few texts a shard that there are PARTS of them, where there are as many texts."""
    texts = sum(1 for _ in islice(corpus.documents(), PARTS * MOST))
    return max(1, texts // PARTS)


Said = Callable[[pl.DataFrame], list[Answer]]


def with_intervals(vote: Vote, tables: Sequence[pl.DataFrame], answered: Said) -> Vote:
    """The vote with an interval for every number that has none, or the reason why there is none."""
    if all(number.low is not None or number.without for number in vote.numbers):
        return near_a_turn(vote)
    others = [[number for answer in answered(table) if answer.vote is not None and answer.vote.tested == vote.tested
               for number in answer.vote.numbers] for table in tables]  # fmt: skip
    return near_a_turn(replace(vote, numbers=tuple(bounded(number, others) for number in vote.numbers)))


def near_a_turn(vote: Vote) -> Vote:
    """The vote, saying so where it might turn within the interval of the number that it goes by."""
    first = vote.numbers[0] if vote.numbers else None
    if first is None or first.low is None or first.high is None:
        return vote
    inside = [percent(turn) if first.share else f"{turn:g}" for turn in vote.turns if first.low < turn < first.high]
    if not inside:
        return vote
    return replace(vote, because=f"{vote.because}; close: its interval holds {' and '.join(inside)}, where this turns")


def of_enough(number: Number) -> Number:
    """Without the interval that too few texts have, unless it is a count; the cell says why."""
    if number.n >= FEWEST or number.without:
        return number
    return replace(number, low=None, high=None, without=f"too few texts ({number.n:,})")


def bounded(number: Number, others: Sequence[Sequence[Number]]) -> Number:
    """The number with its interval, from what it is without each part; a number that a part lacks has none."""
    if number.low is not None or number.without:
        return number
    found = [one.value for part in others for one in part if (one.name, one.says) == (number.name, number.says)]
    moved = [value for value in found if value != number.value]
    if number.n < FEWEST:
        return replace(number, without=f"too few texts ({number.n:,})")
    if len(others) < FEWEST:
        return replace(number, without=f"the run kept {len(others) or 'no'} parts of its texts")
    if 0 < len(moved) < FEWEST:
        return replace(number, without=f"only {len(moved)} of {len(others)} parts of the texts change it")
    if len(found) < len(others):
        return replace(number, without="some parts of the texts have no such number")
    low, high = jackknife(number.value, moved or found)
    least = 0.0 if number.share else -1.0  # what is no share is a correlation
    return replace(number, low=max(low, least), high=min(high, 1.0))

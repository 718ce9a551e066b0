"""What a study says in plain words: sentences with numbers, each under a question, some of them with a vote.

A report asks four questions and any that a study brings of its own. An answer is made of a table alone, so a table made
by hand is enough to test it; what counts as much or little is a named constant beside the study.

    >>> Answer(NOISE, "The most is 80 %, in L1.H3.", headline="In 2 of 4 heads …").question
    'What is noise?'
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

BELIEVE = "May attention of this model be read as an explanation?"
DOING = "Which heads do what?"
MIXING = "Where does information mix?"
NOISE = "What is noise?"
RESTS = "What do its answers rest on?"
QUESTIONS = (BELIEVE, DOING, MIXING, NOISE)  # in the order of the page; a study's own come after

Verdict = Literal["no", "with care", "yes"]
COUNTED = "a count of heads, each judged by its own numbers"  # why a share of the heads has no interval
VERDICTS: tuple[Verdict, ...] = ("no", "with care", "yes")  # the worst first
FEWEST = 4  # texts that a vote or a headline takes
Tested = Literal["unique", "alike", "carries", "parked", "words", "heads", "matters"]


@dataclass(frozen=True)
class Number:
    """A number that a verdict rests on, with its interval and of how many texts; None where there is none."""

    name: str
    says: str
    value: float
    low: float | None
    high: float | None
    n: int
    share: bool = True  # a share of 1, written in per cent
    without: str = ""  # why there is no interval, where there is none


@dataclass(frozen=True)
class Vote:
    """A study's say in whether attention may be read as an explanation; `because` is a clause without a full stop.

    What was tested: are the weights `unique` to the head's output, are the raw ones `alike` to those that reach it, do
    the vectors that are sent go where the weights go (`carries`), do first tokens and separators carry what they get
    (`parked`), are hidden tokens still `words`, do the `heads` matter to the model's answer, does what they name
    (`matters`). `numbers` are those that it rests on. A vote is about the mean: what may be said of one head (or of one
    method) may be said of those that it `holds_for` by their own numbers, of `out_of` in all. `turns`: where the
    verdict would be another, in the first of the numbers.
    """

    tested: Tested
    verdict: Verdict
    because: str
    numbers: tuple[Number, ...] = field(default=(), compare=False)
    holds_for: tuple[str, ...] = field(default=(), compare=False)
    out_of: int = field(default=0, compare=False)
    turns: tuple[float, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Answer:
    """`says` is one sentence (or two) with numbers and of how many; `headline` answers the whole question in short.

    `undecided` is a vote of fewer texts than FEWEST, which does not count; its `because` says so.
    """

    question: str
    says: str
    headline: str = ""
    vote: Vote | None = None
    undecided: Vote | None = None


def few(texts: int) -> str:
    """Why so many texts decide nothing; empty where they may.

    >>> few(1), few(4)
    ('n = 1, and it takes 4 texts', '')
    """
    return "" if texts >= FEWEST else f"n = {texts}, and it takes {FEWEST} texts"


def counting(answer: Answer, read: int) -> Answer:
    """The answer, its vote set apart where it rests on too few texts; of `read` texts where its numbers do not say."""
    if answer.vote is None:
        return answer
    why = few(min((number.n for number in answer.vote.numbers), default=read))
    if not why:
        return answer
    apart = replace(answer.vote, because=why)
    return replace(answer, says=f"{answer.says} Undecided: {why}.", vote=None, undecided=apart)


def graded(value: float, *, care: float, yes: float) -> Verdict:
    """By two thresholds of a number of which more is better.

    >>> graded(0.95, care=0.5, yes=0.9), graded(0.5, care=0.5, yes=0.9), graded(0.4, care=0.5, yes=0.9)
    ('yes', 'with care', 'no')
    """
    return "yes" if value >= yes else "with care" if value >= care else "no"

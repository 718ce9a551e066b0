"""Every number of the verdict has an interval or says why not: by hand, beside a naive jackknife, and of a real run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import t as student

import headwise as hw
from headwise.reports.intervals import bounded, shard_size, with_intervals
from headwise.reports.make import verdict
from headwise.studies.answers import BELIEVE, Answer, Number, Vote
from headwise.text.corpus import open_corpus

TEXTS = ["The old man went to the city.", "The dog saw him, and it ran.", "She was there.", "It was late in the day."]


def number(value: float, *, share: bool = True, says: str = "of the weight", n: int = 40) -> Number:
    return Number("x", says, value, None, None, n, share)


def others(*values: float, says: str = "of the weight") -> list[list[Number]]:
    return [[number(value, says=says)] for value in values]


def test_the_interval_is_the_jackknife_s() -> None:
    without = [0.41, 0.38, 0.44, 0.39, 0.42]
    mean = sum(without) / 5
    reach = student.ppf(0.975, 4) * math.sqrt(4 / 5 * sum((value - mean) ** 2 for value in without))
    found = bounded(number(0.4), others(*without))
    assert (found.low, found.high) == (pytest.approx(0.4 - reach), pytest.approx(0.4 + reach))
    assert found.without == ""


def test_a_share_stays_one_and_a_correlation_too() -> None:
    wide = others(0.1, 0.9, 0.2, 0.95)
    assert (bounded(number(0.5), wide).low, bounded(number(0.5), wide).high) == (0, 1)
    assert bounded(number(0.5, share=False), wide).low == -1


@pytest.mark.parametrize(
    ("n", "parts", "why"),
    [
        (3, [], "too few texts (3)"),
        (4, [], "the run kept no parts of its texts"),
        (3, others(0.1, 0.2, 0.3), "too few texts (3)"),
        (3, others(0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4), "too few texts (3)"),  # three texts were asked, of eight
        (4, others(0.1, 0.2, 0.3), "the run kept 3 parts of its texts"),
        (4, others(0.1, 0.4, 0.2, 0.4), "only 2 of 4 parts of the texts change it"),
        (
            40,
            [*others(0.1, 0.2, 0.3, 0.5), []],
            "some parts of the texts have no such number",
        ),  # nothing is left without the fifth
        (40, others(0.1, 0.2, 0.3, 0.5, says="of another"), "some parts of the texts have no such number"),
    ],
)
def test_where_there_is_none_it_says_why(n: int, parts: list[list[Number]], why: str) -> None:
    found = bounded(number(0.4, n=n), parts)
    assert (found.low, found.high, found.without) == (None, None, why)


def test_four_parts_are_enough_and_what_never_moves_has_no_width() -> None:
    assert bounded(number(0.4), others(0.1, 0.2, 0.3, 0.5)).low is not None
    assert (bounded(number(0.4), others(*[0.4] * 4)).low, bounded(number(0.4), others(*[0.4] * 4)).high) == (0.4, 0.4)


@pytest.mark.parametrize(
    ("low", "high", "turns", "says"),
    [
        (0.3, 0.6, (0.5,), "; close: its interval holds 50 %, where this turns"),
        (0.3, 0.6, (0.35, 0.5), "; close: its interval holds 35 % and 50 %, where this turns"),
        (0.5, 0.6, (0.5,), ""),
        (0.3, 0.6, (0.2, 0.9), ""),
        (None, None, (0.4,), ""),
    ],
)
def test_a_vote_says_where_it_might_have_been_another(low, high, turns, says) -> None:
    """“35.5 % against a bar of 35.0 %” was a plain no."""
    vote = Vote("alike", "yes", "it is so", (Number("x", "", 0.4, low, high, 9, without="" if low else "none"),))
    found = with_intervals(replace(vote, turns=turns), [], lambda _: [])
    assert found.because.replace("\u00a0", " ") == f"it is so{says}"


def test_a_correlation_s_line_is_no_share() -> None:
    vote = Vote("alike", "yes", "", (Number("r", "", 0.9, 0.88, 0.93, 9, share=False),), turns=(0.9,))
    assert with_intervals(vote, [], lambda _: []).because == "; close: its interval holds 0.9, where this turns"


def test_an_interval_of_the_study_s_own_is_left() -> None:
    own = Vote("carries", "yes", "", (Number("x", "", 0.4, 0.3, 0.5, 9),))
    assert with_intervals(own, [], lambda _: []).numbers == own.numbers


def test_only_the_same_test_is_compared() -> None:
    vote = Vote("parked", "yes", "", (number(0.4),))
    tables = [pl.DataFrame({"value": [value]}) for value in (0.401, 0.399, 0.402, 0.398)]

    def answered(table: pl.DataFrame) -> list[Answer]:
        value = table["value"][0]
        wrong, right = Vote("alike", "yes", "", (number(9.0),)), Vote("parked", "yes", "", (number(value),))
        return [Answer(BELIEVE, "", vote=wrong), Answer(BELIEVE, ""), Answer(BELIEVE, "", vote=right)]

    (found,) = with_intervals(vote, tables, answered).numbers
    assert found == bounded(number(0.4), others(0.401, 0.399, 0.402, 0.398))
    assert found.high is not None
    assert found.high < 0.5


def test_shards_are_small_enough_for_eight_parts(tmp_path: Path) -> None:
    def size(texts: int) -> int:
        (tmp_path / "c.txt").write_text("\n".join(["One text."] * texts), "utf-8")
        return shard_size(open_corpus(tmp_path / "c.txt", kind="lines"))

    assert [size(texts) for texts in (3, 8, 17, 600)] == [1, 1, 2, 64]


def test_every_number_of_a_verdict_has_an_interval_or_a_reason(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n".join(TEXTS), "utf-8")
    found = verdict(hw.load("tiny:bert"), corpus=tmp_path / "c.txt", kind="lines", out=tmp_path / "out",
                    studies=["lamps", "nullspace", "norms"])  # fmt: skip
    assert [one.name for one in found.numbers if (one.low is None) != bool(one.without)] == []
    parked = next(one for one in found.numbers if one.name == "parked_weight")
    assert parked.low is not None
    assert parked.low < parked.value < parked.high  # type: ignore[operator]

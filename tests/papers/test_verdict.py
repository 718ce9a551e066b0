"""The one rule of verdicts, on both sides of everything it looks at, and the intervals it takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.papers.verdict import Bar, Numbers, decide, jackknife, over_repeats
from headwise.stats.shares import of_share

HALF = Bar(0.5, above=True)
NAN = math.nan


def numbers(
    low: float = 0.6,
    high: float = 0.8,
    *,
    n: int = 30,
    controls: tuple[float, ...] | None = (0.1, 0.11, 0.12),
    shuffled: tuple[float, ...] = (),
    control: str = "untrained",
) -> Numbers:
    return Numbers((low + high) / 2, low, high, n, "texts", controls, shuffled, control)


TOO = "networks that learned nothing do it too"


@pytest.mark.parametrize(
    ("found", "verdict", "why"),
    [
        (numbers(), "holds", ""),
        (numbers(0.2, 0.49), "does not hold", ""),
        (numbers(0.2, 0.5), "does not hold", ""),
        (numbers(0.49, 0.8), "undecided", "the interval lies across the bar"),
        (numbers(0.5, 0.8), "undecided", "the interval lies across the bar"),
        (numbers(n=29), "undecided", "29 texts, and it takes 30"),
        (numbers(0.2, 0.4, n=29), "undecided", "29 texts, and it takes 30"),
        (numbers(NAN, NAN), "undecided", "there is no interval"),
        (numbers(controls=None), "undecided", "no control was run"),
        (numbers(0.2, 0.4, controls=None), "does not hold", ""),
        (numbers(controls=(0.1, 0.6, 0.1)), "undecided", f"{TOO}: 1 of 3 untrained"),
        (numbers(shuffled=(0.7, 0.6, 0.1)), "undecided", f"{TOO}: 0 of 3 untrained, 2 of 3 shuffled"),
        (numbers(controls=(0.1, 0.3, 0.5)), "undecided", "not beyond what untrained networks of this shape give"),
        (numbers(shuffled=(0.1, 0.3, 0.5)), "undecided", "not beyond what untrained networks of this shape give"),
        (numbers(controls=(NAN, NAN, NAN)), "undecided", "no control could tell: none has what the claim speaks of"),
        (
            numbers(controls=(NAN,), shuffled=(NAN,)),
            "undecided",
            "no control could tell: none has what the claim speaks of",
        ),
        (numbers(0.2, 0.4, controls=(NAN, NAN, NAN)), "does not hold", ""),
        (numbers(controls=(NAN, NAN, 0.1)), "holds", ""),
        (numbers(controls=(0.7,), control="the diagonal"), "undecided", "the diagonal does it too"),
        (numbers(controls=(0.4,), control="the diagonal"), "holds", ""),
        (numbers(controls=(), control="none applies"), "holds", ""),
    ],
)
def test_three_outcomes_by_interval_number_and_control(found: Numbers, verdict: str, why: str) -> None:
    assert decide(HALF, 30, found) == (verdict, why)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1), st.lists(st.floats(-1, 1), min_size=2, max_size=4))
def test_a_bar_from_below_is_one_from_above_turned_round(low: float, width: float, at: float, controls: list[float]):
    high = low + width
    there = numbers(low, high, controls=tuple(controls))
    here = numbers(-high, -low, controls=tuple(-x for x in controls))
    assert decide(Bar(at, above=True), 1, there) == decide(Bar(-at, above=False), 1, here)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=12)
    without = [float(np.delete(values, at).mean()) for at in range(12)]
    low, high = jackknife(float(values.mean()), without)
    error = values.std(ddof=1) / math.sqrt(12)
    assert high - low == pytest.approx(2 * 2.200985 * error)  # t of 11 degrees of freedom
    assert over_repeats(values.tolist()) == pytest.approx((low, high))


def test_no_interval_without_parts_and_a_share_is_never_surely_all() -> None:
    assert all(math.isnan(end) for end in (*jackknife(1.0, [1.0]), *over_repeats([1.0]), *of_share(0, 0)))
    assert of_share(10, 10)[0] == pytest.approx(0.7225, abs=1e-4)

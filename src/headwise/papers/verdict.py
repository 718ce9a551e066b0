"""One rule for every claim: what the interval, the number of texts and the control say.

    holds            the whole interval is on the claim's side of the bar, n is large enough, no control passes the bar
                     and ours lies beyond what controls give
    does not hold    the whole interval is on the other side
    undecided        n is too small, there is no interval or it lies across the bar, there is no control, none of them
                     has what the claim speaks of, or one passes too: then the sentence is true of networks that
                     learned nothing, and tells nothing
    not comparable   the model, its text or the run has nothing that the claim speaks of

Untrained networks are controls of two kinds, each of several seeds: drawn anew, and with the trained weights shuffled.
What a kind gives is where one more seed would lie (95 % prediction interval, Student's t): m ± t · s · √(1 + 1/k).
Intervals over parts of the texts are the jackknife's: θ ± t · √((g − 1)/g · Σ (θ₍ⱼ₎ − mean)²), where θ₍ⱼ₎ leaves part j
of g out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "does not hold", "undecided", "not comparable"]
UNTRAINED = "untrained"
SURE = 0.95


@dataclass(frozen=True)
class Bar:
    """The bar that a number has to clear, from above or from below; an exact hit does not clear it."""

    at: float
    above: bool

    def cleared(self, value: float) -> bool:
        return value > self.at if self.above else value < self.at

    def worst(self, low: float, high: float) -> float:
        """The end of an interval that is farthest from clearing the bar."""
        return low if self.above else high

    def best(self, low: float, high: float) -> float:
        return high if self.above else low


@dataclass(frozen=True)
class Numbers:
    """What a verdict is made of; `low` and `high` are NaN without an interval, `controls` None where none was run.

    A control that has nothing to compare (no head that parks, say) is NaN: it does not pass, and tells nothing.
    """

    value: float
    low: float
    high: float
    n: int
    unit: str
    controls: tuple[float, ...] | None
    shuffled: tuple[float, ...] = ()
    control: str = UNTRAINED


def decide(bar: Bar, least: int, found: Numbers) -> tuple[Verdict, str]:
    """The verdict, and the reason in words where it is not plain from the interval."""
    if found.n < least:
        return "undecided", f"{found.n} {found.unit}, and it takes {least}"
    if math.isnan(found.low) or math.isnan(found.high):
        return "undecided", "there is no interval"
    if not bar.cleared(bar.best(found.low, found.high)):
        return "does not hold", ""
    if not bar.cleared(bar.worst(found.low, found.high)):
        return "undecided", "the interval lies across the bar"
    if found.controls is None:
        return "undecided", "no control was run"
    return _beside_controls(bar, found)


def _beside_controls(bar: Bar, found: Numbers) -> tuple[Verdict, str]:
    kinds = {"untrained": found.controls or (), "shuffled": found.shuffled}
    every = [value for values in kinds.values() for value in values]
    if every and all(map(math.isnan, every)):
        return "undecided", "no control could tell: none has what the claim speaks of"
    passing = {kind: sum(bar.cleared(value) for value in values) for kind, values in kinds.items()}
    if any(passing.values()):
        if found.control != UNTRAINED:
            return "undecided", f"{found.control} does it too"
        told = ", ".join(f"{number} of {len(kinds[kind])} {kind}" for kind, number in passing.items() if kinds[kind])
        return "undecided", f"networks that learned nothing do it too: {told}"
    worst = bar.worst(found.low, found.high)
    if not all(Bar(_limit(bar, values), bar.above).cleared(worst) for values in kinds.values()):
        return "undecided", "not beyond what untrained networks of this shape give"
    return "holds", ""


def _limit(bar: Bar, controls: Sequence[float]) -> float:
    """How far one more control would go; nowhere if there are no two to tell."""
    controls = [value for value in controls if not math.isnan(value)]
    if len(controls) < 2:
        return -math.inf if bar.above else math.inf
    reach = _t(len(controls)) * _sd(controls) * math.sqrt(1 + 1 / len(controls))
    return _mean(controls) + reach if bar.above else _mean(controls) - reach


def jackknife(value: float, without: Sequence[float]) -> tuple[float, float]:
    """The interval of `value` from what it is without each part; NaN where parts lack it.

    >>> jackknife(2.0, [2.0, 2.0, 2.0, 2.0])
    (2.0, 2.0)
    """
    if len(without) < 2:
        return math.nan, math.nan
    mean = _mean(without)
    reach = _t(len(without)) * math.sqrt((len(without) - 1) * _mean([(x - mean) ** 2 for x in without]))
    return value - reach, value + reach


def over_repeats(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the mean of repeats: seeds, folds (Student's t)."""
    if len(values) < 2:
        return math.nan, math.nan
    reach = _t(len(values)) * _sd(values) / math.sqrt(len(values))
    return _mean(values) - reach, _mean(values) + reach


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sd(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _t(repeats: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(repeats - 1, (1 + SURE) / 2))

"""The one rule that says whether an explanation may be believed on its text, with its thresholds, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwise.explanations.trial import Trial, level

BEATEN = 0.95  # the share of random orders that an explanation must beat
MOVES = 0.05  # the least fall of the probability, anywhere along the curves, that is worth an explanation
ROOM = 0.05  # the least difference between orders, by the mean along a curve, that leaves one to be the better
FEW = 3  # units below which there is nothing to compare orders of


@dataclass(frozen=True)
class Verdict:
    """`belief`: "yes", "partly", "no", or "nothing" where the text cannot tell."""

    belief: str
    sentence: str


def verdict(trial: Trial, units: str = "words") -> Verdict:
    """The rule.

    nothing   the answer's probability is below MOVES as it is
    nothing   no removal, named or random, moves the probability by MOVES, or fewer than FEW units can be removed
              (of a pair of texts it is then told whether the answer falls without one of them)
    yes       beats BEATEN of the random orders when what it names is deleted AND when it alone is kept
    partly    beats them one way only
    nothing   neither, but all orders are alike, within ROOM by the mean along a curve
    nothing   neither, but the units are so few that the best of all their orders could not: more than 1 − BEATEN of
              them are within ROOM of it, either way
    no        neither, where orders differ
    """
    if trial.count < FEW:
        return Verdict("nothing", f"Only {_some(trial.count, units)} can be removed: too few to test an explanation.")
    if trial.deletion[0] < MOVES:
        return Verdict(
            "nothing",
            f"The answer's probability is {number(trial.deletion[0])} to begin with, too little to fall by "
            f"{number(MOVES)}: too unlikely to test an explanation by.",
        )
    curves = (trial.deletion, trial.insertion, *trial.random_deletion, *trial.random_insertion)
    moved = max((abs(p - trial.deletion[0]) for curve in curves for p in curve if p == p), default=0.0)
    if moved < MOVES:
        said = _compares(trial)
        what = f"No removal of {units} from both texts" if said else "No removal"
        still = f"{what} moves the answer's probability of {number(trial.deletion[0])} by {number(MOVES)}"
        return Verdict("nothing", f"{still}: {said or 'it does not rest on this text.'}")
    needed, enough = (trial.beaten(side) >= BEATEN for side in ("deletion", "insertion"))
    facts, so_few = _facts(trial, units) + _without_one(trial), f"so few {units} cannot tell; believe it in part."
    if needed and enough:
        return Verdict("yes", f"{facts}: believe it.")
    if needed and not _could(trial, "insertion"):
        return Verdict("partly", f"{facts}: they are needed; whether they alone are enough, {so_few}")
    if needed:
        return Verdict(
            "partly", f"{facts}: they are needed, but alone they do no better than chance; believe it in part."
        )
    if enough and not _could(trial, "deletion"):
        held = "kept alone they hold the answer better than chance"
        return Verdict("partly", f"{facts}: {held}; whether they are needed, {so_few}")
    if enough:
        return Verdict(
            "partly",
            f"{facts}{_along(trial)}: kept alone they hold the answer better than chance, but taking them out "
            "lowers it no more than that; believe it in part.",
        )
    if not _room(trial):
        return Verdict("nothing", f"{_facts(trial, units)}: {_alike(trial)}")
    if not _could(trial, "deletion") and not _could(trial, "insertion"):
        return Verdict("nothing", f"{facts}. {_too_few(trial, units)}")
    return Verdict("no", f"{facts}{_along(trial)}: no better than chance on this text, do not believe it.")


def needed(trial: Trial) -> int:
    """How many of its random orders an explanation must beat, each way."""
    return math.ceil(BEATEN * len(trial.random_deletion))


def _could(trial: Trial, side: str) -> bool:
    """Whether the best of all orders would pass; of a sample that is taken for granted."""
    return not trial.all_orders or trial.about_best(side, ROOM) <= (1 - BEATEN) * len(trial.random_deletion)


def _too_few(trial: Trial, units: str) -> str:
    gone, kept = (trial.about_best(side, ROOM) for side in ("deletion", "insertion"))
    return (
        f"Too few {units} to tell by this test: {_some(trial.count, units)} have {len(trial.random_deletion)} orders, "
        f"and {gone} of them {'is' if gone == 1 else 'are'} about the best as {units} go, {kept} as they alone are "
        f"kept, more than one in twenty; its own is number {trial.rank('deletion')}, and number "
        f"{trial.rank('insertion')}."
    )


def _room(trial: Trial) -> bool:
    """Whether some order, the own among them, is better than another."""
    sides = ((trial.deletion, *trial.random_deletion), (trial.insertion, *trial.random_insertion))
    means = [[level(curve) for curve in curves if level(curve) == level(curve)] for curves in sides]
    return any(max(of, default=0.0) - min(of, default=0.0) >= ROOM for of in means)


def _along(trial: Trial) -> str:
    """What is judged, the mean along the whole curve: at the step that is quoted chance may look worse or better."""
    others = sorted(level(curve) for curve in trial.random_deletion if level(curve) == level(curve))
    lot = f", by lot {number(others[0])}–{number(others[-1])}" if others else ""
    return f"; along its whole order {number(level(trial.deletion))} is left in the mean{lot}"


def _alike(trial: Trial) -> str:
    """What to say where no order is better than another."""
    if said := _compares(trial):
        return said
    before, without = trial.deletion[0], trial.deletion[-1]
    if trial.steps[-1] == trial.count and abs(without - before) < MOVES:
        return f"with nothing left to read the answer still has {number(without)}; it hardly rests on this text."
    return f"along the way no order is better than another by {number(ROOM)}; this text cannot tell."


def _without_one(trial: Trial) -> str:
    """What is left of a pair's answer without one of its texts."""
    if trial.sides is None:
        return ""
    first, second = map(number, trial.sides)
    return f"; without all of the first text {first}, of the second {second}"


def _compares(trial: Trial) -> str:
    """What to say of a pair whose answer falls without one of its texts, though words of both may go."""
    if trial.sides is None or not any(trial.deletion[0] - p >= MOVES for p in trial.sides):
        return ""
    first, second = map(number, trial.sides)
    return (
        f"without the first text it is {first}, without the second {second}, so it rests on how the two compare; "
        "scores of single words cannot tell."
    )


def _facts(trial: Trial, units: str) -> str:
    at = trial.steps.index(trial.named)
    others = sorted(curve[at] for curve in trial.random_deletion if curve[at] == curve[at])
    left = f"{number(others[0])}–{number(others[-1])}" if others else "nothing to read"
    before, after = trial.deletion[0], trial.deletion[at]
    moved = f"{'lowers' if after < before else 'does not lower'} the answer's probability from {number(before)} to "
    if number(before) == number(after):
        moved = "hardly moves the answer's probability of "
    named = "the word" if trial.named == 1 else f"the {_some(trial.named, units)}"
    named = f"the {_some(trial.named, units)}" if units != "words" else named
    return (
        f"Removing {named} it names {moved}{number(after)}; "
        f"{_some(trial.named, units)} by lot leave{'s' if trial.named == 1 else ''} {left}"
    )


def _some(count: int, units: str) -> str:
    words = ("no", "one", "two", "three", "four", "five")
    return f"{words[count] if count < len(words) else count} {units.removesuffix('s') if count == 1 else units}"


def number(p: float) -> str:
    """A probability as people write it.

    >>> number(0.934), number(1.0), number(0.0004)
    ('.93', '1.00', '<.01')
    """
    if 0 < p < 0.005:
        return "<.01"
    return f"{p:.2f}".removeprefix("0")

"""The one rule that says whether an explanation may be believed on its text, with its thresholds, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.explanations.trial import Trial

BEATEN = 0.95  # the share of random orders that an explanation must beat
MOVES = 0.05  # the least fall of the probability, anywhere along the curves, that is worth an explanation
ROOM = 0.05  # the least difference between orders, by the mean along a curve, that leaves one to be the better
FEW = 3  # units below which there is nothing to compare orders of


@dataclass(frozen=True)
class Verdict:
    """`belief`: "yes", "partly", "no", or "nothing" where the text cannot tell."""

    belief: str
    sentence: str


def verdict(trial: Trial, units: str = "words", among: str = "") -> Verdict:
    """The rule; `among`: what the probability is one of, where that is not everything.

    nothing   the answer's probability is below MOVES as it is
    nothing   no removal, named or random, moves the probability by MOVES, or fewer than FEW units can be removed
              (of a pair of texts it is then told whether the answer falls without one of them)
    yes       beats BEATEN of the random orders when what it names is deleted AND when it alone is kept
    partly    beats them one way only (to be kept alone does not count where the answer is as likely, within MOVES, or
              likelier with no unit left: it needs none)
    nothing   neither (or the answer needs none), but all orders are alike, within ROOM by the mean along a curve
    nothing   neither, but the units are so few that the best of all their orders could not: more than 1 − BEATEN of
              them are within ROOM of it, either way that counts
    no        neither, where orders differ
    """
    if trial.count < FEW:
        return Verdict("nothing", f"Only {_some(trial.count, units)} can be removed: too few to test an explanation.")
    if trial.deletion[0] < MOVES:
        return Verdict(
            "nothing",
            f"The {_probability(among)} is {number(trial.deletion[0])} to begin with, too little to fall by "
            f"{number(MOVES)}: too unlikely to test an explanation by.",
        )
    curves = (trial.deletion, trial.insertion, *trial.random_deletion, *trial.random_insertion)
    moved = max((abs(p - trial.deletion[0]) for curve in curves for p in curve if p == p), default=0.0)
    if moved < MOVES:
        said = _compares(trial)
        what = f"No removal of {units} from both texts" if said else "No removal"
        still = f"{what} moves the {_probability(among)} of {number(trial.deletion[0])} by {number(MOVES)}"
        return Verdict("nothing", f"{still}: {said or 'it does not rest on this text.'}")
    needed, enough = (trial.beaten(side) >= BEATEN for side in ("deletion", "insertion"))
    needs_none = _needs_none(trial)
    facts = _facts(trial, units, among)
    told, so_few = facts + _without_one(trial), f"so few {units} cannot tell; believe it in part."
    if needs_none and not _room(trial):
        return Verdict("nothing", f"{facts}: {_alike(trial)}")
    if needs_none:
        enough, told = False, told + _without_any(trial, units)
    if needed and needs_none:
        return Verdict("partly", f"{told}: taking out what it names leaves less of it than chance; believe it in part.")
    if needed and enough:
        return Verdict("yes", f"{told}: believe it.")
    if needed and not _could(trial, "insertion"):
        return Verdict("partly", f"{told}: they are needed; whether they alone are enough, {so_few}")
    if needed:
        return Verdict(
            "partly", f"{told}: they are needed, but alone they do no better than chance; believe it in part."
        )
    if enough and not _could(trial, "deletion"):
        held = "kept alone they hold the answer better than chance"
        return Verdict("partly", f"{told}: {held}; whether they are needed, {so_few}")
    if enough:
        return Verdict(
            "partly",
            f"{told}{_along(trial)}: kept alone they hold the answer better than chance, but taking them out "
            "lowers it no more than that; believe it in part.",
        )
    if not _room(trial):
        return Verdict("nothing", f"{facts}: {_alike(trial)}")
    if not _could(trial, "deletion") and (needs_none or not _could(trial, "insertion")):
        return Verdict("nothing", f"{told}. {_too_few(trial, units)}")
    return Verdict("no", f"{told}{_along(trial)}: no better than chance on this text, do not believe it.")


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
    means = [_there([trial.level(side), *trial.levels(side)]) for side in ("deletion", "insertion")]
    return any(max(of, default=0.0) - min(of, default=0.0) >= ROOM for of in means)


def _needs_none(trial: Trial) -> bool:
    """Whether the answer is as likely, or likelier, where no unit is left; of what was not asked, no."""
    return trial.steps[-1] == trial.count and trial.deletion[-1] > trial.deletion[0] - MOVES


def _without_any(trial: Trial, units: str) -> str:
    """subtle: a pair may be alike where nothing is left of either text; that does not say that it needs neither."""
    left = number(trial.deletion[-1])
    if trial.sides is not None:
        return f"; with nothing left of either text {left}, so keeping {units} shows nothing"
    return f"; without any {units.removesuffix('s')} it is {left}, so the answer needs none"


def _along(trial: Trial) -> str:
    """What is judged, the mean along the whole curve: at the step that is quoted chance may look worse or better."""
    others = sorted(_there(trial.levels("deletion")))
    lot = f", by lot {number(others[0])}–{number(others[-1])}" if others else ""
    return f"; along its whole order {number(trial.level('deletion'))} is left in the mean{lot}"


def _alike(trial: Trial) -> str:
    """What to say where no order is better than another."""
    if said := _compares(trial):
        return said
    if _needs_none(trial):
        left = number(trial.deletion[-1])
        return f"with nothing left to read the answer still has {left}; it hardly rests on this text."
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


def _facts(trial: Trial, units: str, among: str) -> str:
    at = trial.steps.index(trial.named)
    others = sorted(_there([curve[at] for curve in trial.random_deletion]))
    left = f"{number(others[0])}–{number(others[-1])}" if others else "nothing to read"
    before, after = trial.deletion[0], trial.deletion[at]
    moved = f"{'lowers' if after < before else 'does not lower'} the {_probability(among)} from {number(before)} to "
    if number(before) == number(after):
        moved = f"hardly moves the {_probability(among)} of "
    named = "the word" if trial.named == 1 else f"the {_some(trial.named, units)}"
    named = f"the {_some(trial.named, units)}" if units != "words" else named
    return (
        f"Removing {named} it names {moved}{number(after)}; "
        f"{_some(trial.named, units)} by lot leave{'s' if trial.named == 1 else ''} {left}"
    )


def _probability(among: str) -> str:
    return f"answer's probability{f' ({among.strip()})' if among else ''}"


def _there(values: Sequence[float]) -> list[float]:
    return [x for x in values if not math.isnan(x)]


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

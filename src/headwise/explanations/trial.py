"""The test beside the answer: an explanation is tried on the very text that it explains.

With p(S) the probability of the target (of several tokens the geometric mean of one, of a contrast that among the
two) without the units S, and the units of the text in the order of falling scores,

    deletion   p without the first k          low: what it names was needed
    insertion  p with the first k alone       high: what it names is enough

at every k of up to EVERY_STEP units, else at several, against the same curves for random orders (of few units for every
order there is). Orders are compared by the mean of p over how many units are gone, 1 … n (`level`): where none is gone
all are alike. AOPC is the fall from p of the whole text to that mean, along the deletion curve. It cannot be compared
between texts or models, as each has its own best; so on short texts it is put on the scale from the worst to the best
order that a greedy search finds (normalised AOPC, https://arxiv.org/abs/2408.08137), 0 to 1. The other tests are the
rank correlation (Kendall's τ) with leave-one-out, and with other methods. Of a pair of texts each is also removed as a
whole: an answer that compares the two may stay where words go from both alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from headwise.attributions.faithfulness import kendall
from headwise.explanations.question import Question
from headwise.explanations.units import Unit, removed

SHARES = (0.1, 0.5, 0.9)  # of the units, for texts of more than EVERY_STEP
EVERY_STEP = 16  # units up to which every k is tried
SHORT = 10  # units up to which the best and the worst order are searched
NAMED = 5  # units that the verdict speaks of, at most
ORDERS = 19  # random ones: the chance to be above all of them is one in twenty
EVERY = 6  # units up to which every order is tried instead: 720 of them, of 64 sets


@dataclass(frozen=True)
class Trial:
    """What became of the target at k = 0 … n units removed or kept alone; `named` is the k of the verdict."""

    steps: tuple[int, ...]
    deletion: tuple[float, ...]  # p without the first k
    insertion: tuple[float, ...]  # p with the first k alone
    random_deletion: tuple[tuple[float, ...], ...]  # one row an order; of up to EVERY units all, its own among them
    random_insertion: tuple[tuple[float, ...], ...]
    named: int
    count: int  # units that may be removed
    removal: str
    seed: int
    passes: int
    best: float | None = None  # AOPC of the best and the worst order found
    worst: float | None = None
    agreement: Mapping[str, float] | None = None  # Kendall's τ with other methods
    sides: tuple[float, float] | None = None  # of a pair of texts, p without all of the first and of the second

    @property
    def aopc(self) -> float:
        return self.deletion[0] - self.level("deletion")

    @property
    def random_aopc(self) -> tuple[float, ...]:
        return tuple(self.deletion[0] - other for other in self.levels("deletion"))

    @property
    def naopc(self) -> float | None:
        """AOPC from the worst order (0) to the best (1); None where these were not searched or do not differ."""
        if self.best is None or self.worst is None or not self.best > self.worst:
            return None
        return (self.aopc - self.worst) / (self.best - self.worst)

    @property
    def all_orders(self) -> bool:
        """Whether the other orders are no draw, but all that there are."""
        return len(self.random_deletion) == math.factorial(self.count)

    def level(self, side: str) -> float:
        """The mean along its deletion or insertion curve; low is good of the first, high of the second."""
        return self._mean(self.deletion if side == "deletion" else self.insertion, side)

    def levels(self, side: str) -> list[float]:
        """The same of every other order."""
        others = self.random_deletion if side == "deletion" else self.random_insertion
        return [self._mean(curve, side) for curve in others]

    def _mean(self, curve: Sequence[float], side: str) -> float:
        if side == "deletion":
            return level(curve, self.steps)
        return level(curve[::-1], [self.steps[-1] - k for k in reversed(self.steps)])  # by how many are gone, too

    def orders_beaten(self, side: str) -> int:
        """How many random orders do worse, by the mean along the deletion or the insertion curve."""
        if side == "deletion":
            return sum(self.level(side) < other for other in self.levels(side))
        return sum(self.level(side) > other for other in self.levels(side))

    def rank(self, side: str) -> int:
        """Its place among the other orders, 1 where none does better."""
        if side == "deletion":
            return 1 + sum(other < self.level(side) for other in self.levels(side))
        return 1 + sum(other > self.level(side) for other in self.levels(side))

    def about_best(self, side: str, room: float) -> int:
        """How many of the other orders are within `room` of the best of them."""
        levels = self.levels(side) if side == "insertion" else [-other for other in self.levels(side)]
        return sum(max(levels) - other < room for other in levels)

    def beaten(self, side: str) -> float:
        """Their share."""
        return self.orders_beaten(side) / len(self.random_deletion if side == "deletion" else self.random_insertion)


def fall(curve: Sequence[float], steps: Sequence[int] | None = None) -> float:
    """From p of the whole text to the mean of the rest."""
    return curve[0] - level(curve, steps)


def level(curve: Sequence[float], steps: Sequence[int] | None = None) -> float:
    """The mean of p over every number of units gone, from 1 to the last that leaves something to read.

    `steps` are the numbers that were asked, all of them unless told. The others lie on the straight line between their
    neighbours: from a to b = a + g  Σ p_k, k = a + 1 … b, is  (g − 1)/2 p_a + (g + 1)/2 p_b.

    >>> level((1.0, 0.4, 0.2)), level((1.0, 0.2), (0, 4))  # the second: 0.8, 0.6, 0.4, 0.2
    (0.30000000000000004, 0.5)
    """
    gone = range(len(curve)) if steps is None else steps
    there = [(k, p) for k, p in zip(gone, curve, strict=True) if not math.isnan(p)]
    ways = itertools.pairwise(there)
    total = sum((b - a - 1) / 2 * before + (b - a + 1) / 2 * after for (a, before), (b, after) in ways)
    return total / there[-1][0] if len(there) > 1 else math.nan


def steps_of(count: int) -> tuple[int, ...]:
    """Every k of up to EVERY_STEP units; of more some shares and the k that the verdict names.

    With each k there is its mirror image n − k: what a random order keeps is what the reversed one removes, so that one
    pass serves both curves.
    """
    if count <= EVERY_STEP:
        return tuple(range(count + 1))
    some = {named_of(count), *(round(share * count) for share in SHARES)}
    return tuple(sorted({0, count, *some, *(count - k for k in some)}))


def named_of(count: int) -> int:
    """How many units the verdict speaks of: five, of a short text a third."""
    return min(NAMED, max(1, math.ceil(count / 3)))


def try_out(
    question: Question,
    units: tuple[Unit, ...],
    scores: Float64[Tensor, " unit"],
    *,
    removal: str,
    target: int = 0,
    seed: int = 0,
    others: Mapping[str, Float64[Tensor, " unit"]] | None = None,
) -> Trial:
    """Delete and insert by the scores and by chance, in as few passes as there are different sets."""
    tried = try_all(question, units, {"": scores}, removal=removal, target=target, seed=seed, others=others)
    return tried[""]


def try_all(
    question: Question,
    units: tuple[Unit, ...],
    scores: Mapping[str, Float64[Tensor, " unit"]],
    *,
    removal: str,
    target: int = 0,
    seed: int = 0,
    others: Mapping[str, Float64[Tensor, " unit"]] | None = None,
) -> dict[str, Trial]:
    """The same for several methods at once, against the same random orders; `passes` are those of all together."""
    given = torch.tensor([unit.given for unit in units])
    count, places = int(given.sum()), torch.nonzero(given).flatten()
    ask = _Asked(question, units, removal, target)
    ks = torch.tensor(steps_of(count))
    own = [places[row[places].argsort(descending=True, stable=True)] for row in scores.values()]
    orders = [*own, *(order.flip(0) for order in own), *_others(places, seed)]
    deletions = torch.stack([_first(order, ks, len(units)) for order in orders])
    p = ask(deletions.flatten(0, 1)).view(len(orders), len(ks))
    kept = p.flip(1)  # step k of it: p without all but the last k, which is p with these alone
    best, worst = (None, None) if count > SHORT else (_searched(ask, places, s) for s in (1, -1))
    sides = _without_a_side(ask)
    curves, mirrored = ([tuple(row.tolist()) for row in side] for side in (p, kept))
    made = {}
    for at, (name, row) in enumerate(scores.items()):
        agreement = {n: float(kendall(row[None], other[None], given[None])[0]) for n, other in (others or {}).items()}
        made[name] = Trial(
            steps=tuple(ks.tolist()), deletion=curves[at], insertion=mirrored[len(own) + at],
            random_deletion=tuple(curves[2 * len(own) :]), random_insertion=tuple(mirrored[2 * len(own) :]),
            named=named_of(count), count=count, removal=removal, seed=seed, passes=ask.passes, best=best, worst=worst,
            agreement=agreement or None, sides=sides,
        )  # fmt: skip
    return made


class _Asked:
    """The target's probability without sets of units; counts what it costs."""

    def __init__(self, question: Question, units: tuple[Unit, ...], removal: str, target: int):
        self.question, self.units, self.removal, self.target, self.passes = question, units, removal, target, 0

    def __call__(self, sets: Bool[Tensor, "variant unit"]) -> Float64[Tensor, " variant"]:
        gone = removed(self.units, sets, self.question)
        self.passes += len(gone.unique(dim=0))
        return self.question.without(gone, removal=self.removal)[self.target, :, 1].exp()


def _without_a_side(ask: _Asked) -> tuple[float, float] | None:
    """p without the first text of a pair and without the second: what words taken from both alike do not show."""
    text = ask.question.text
    side = [text.segment[unit.tokens[0]] if unit.given else -1 for unit in ask.units]
    if set(side) - {-1} != {0, 1}:
        return None
    first, second = ask(torch.tensor([[of == number for of in side] for number in (0, 1)])).tolist()
    return first, second


def _others(places: Int[Tensor, " place"], seed: int) -> list[Int[Tensor, " place"]]:
    """Every order of a few units, else some by lot."""
    if len(places) <= EVERY:
        return [torch.tensor(order) for order in itertools.permutations(places.tolist())]
    generator = torch.Generator().manual_seed(seed)
    return [places[torch.randperm(len(places), generator=generator)] for _ in range(ORDERS)]


def _first(order: Int[Tensor, " place"], ks: Int[Tensor, " step"], width: int) -> Bool[Tensor, "step unit"]:
    sets = torch.zeros(len(ks), width, dtype=torch.bool)
    for row, k in enumerate(ks.tolist()):
        sets[row, order[:k]] = True
    return sets


def _searched(ask: _Asked, places: Int[Tensor, " place"], sign: int) -> float:
    """AOPC of the order that a greedy search finds, each step taking what lowers p most (sign 1) or least (−1)."""
    gone = torch.zeros(1, len(ask.units), dtype=torch.bool)
    curve, left = [float(ask(gone)[0])], places.tolist()
    while left:
        sets = gone.repeat(len(left), 1)
        sets[torch.arange(len(left)), torch.tensor(left)] = True
        p = ask(sets)
        if bool(p.isnan().all()):  # nothing would be left to read
            break
        at = int((sign * p).nan_to_num(torch.inf).argmin())
        curve.append(float(p[at]))
        gone, _ = sets[at : at + 1], left.pop(at)
    return fall(curve)

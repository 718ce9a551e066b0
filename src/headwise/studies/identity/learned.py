"""Token identifiability: how often the input token can be recovered from a hidden token, fold by fold.

Brunner et al. 2020 (https://arxiv.org/abs/1908.04211) §4 and appendix B. A map g is learned from the hidden tokens of
one layer to their targets on some sentences, and asked for the nearest target within each of the sentences it has not
seen; on the layer it was learned from, and on every other.

Folds. Sentences stand on a circle, in the order of a hash of their number and the seed. Fold k begins k/folds of the
way round: first the sentences it is tested on, then those it is validated on, then those it is trained on. So a
sentence has one role in a fold, and all are tested about equally often, whatever batches and shards they came in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from headwise.errors import InputError
from headwise.stats.reservoir import hashed
from headwise.studies.identity.maps import Grams, Maps, Problem, Recipe, learn, newton, ridge
from headwise.studies.identity.recovery import READINGS, Sentences, Targets, credit_of, search

TRAIN, VALIDATION, TEST, UNUSED = range(4)
SETS = {"test": TEST, "train": TRAIN}
INPUT = -1  # the number of the layer below the first
Report = Callable[[str], None]


def roles(
    documents: Int64[Tensor, " sentence"],
    *,
    folds: int,
    split: tuple[float | int, ...] = (70, 15, 15),
    fraction: float = 1.0,
    seed: int = 0,
) -> Int64[Tensor, "fold sentence"]:
    """What each sentence is for in each fold: TRAIN, VALIDATION, TEST, or UNUSED where `fraction` is below 1."""
    count = len(documents)
    if count < max(folds, 3):
        raise InputError(
            f"Every fold needs a sentence of its own, and three at least, but there are {count} sentences of two "
            f"tokens or more for {folds} folds; "
            + (f"take folds={count} or fewer, or more text." if count >= 3 else "take more text.")
        )
    if len(split) != 3 or min(split) <= 0:
        raise InputError(
            f"A split is three numbers above 0, for training, validation and test, but {split} was given; use 70,15,15."
        )
    validation, test = (max(1, round(part * count / sum(split))) for part in split[1:])
    train = max(1, math.ceil(fraction * (count - validation - test)))
    place = torch.empty(count, dtype=torch.int64)
    place[hashed(documents, seed).argsort()] = torch.arange(count)
    start = torch.arange(folds)[:, None] * count // folds
    ends = torch.tensor([test, test + validation, test + validation + train])
    part = torch.bucketize((place - start) % count, ends, right=True)
    return torch.tensor([TEST, VALIDATION, TRAIN, UNUSED])[part]


@dataclass(frozen=True)
class Material:
    """Hidden tokens of sentences, and what every sentence is for."""

    hidden: Mapping[int, Float[Tensor, "token d_model"]]  # by layer; INPUT is x
    sentences: Sentences
    roles: Int64[Tensor, "fold sentence"]

    @property
    def folds(self) -> int:
        return len(self.roles)

    def chosen(self, fold: int, role: int) -> Int64[Tensor, " sentence"]:
        return (self.roles[fold] == role).nonzero()[:, 0]

    def tokens(self, fold: int, role: int, offset: int) -> Int64[Tensor, " token"]:
        """The tokens of a fold that have a neighbour at `offset`."""
        tokens = self.sentences.tokens(self.chosen(fold, role))
        return tokens[self.sentences.inside(offset)[tokens]]

    @cached_property
    def pieces(self) -> tuple[Int64[Tensor, "fold piece"], list[Int64[Tensor, " sentence"]]]:
        """Sentences that have the same role in every fold, and those roles: what is summed over them is summed once."""
        kinds, piece = self.roles.unique(dim=1, return_inverse=True)
        return kinds, [(piece == number).nonzero()[:, 0] for number in range(kinds.shape[1])]


@dataclass(frozen=True)
class Question:
    """Which maps to learn, from where to where, and how they are judged."""

    map: str
    distances: tuple[str, ...]
    layers: tuple[int, ...]  # to learn from
    tested: tuple[int, ...]  # to test on; only the layer itself where `cross` is False
    target: Callable[[int], int]  # the layer to recover, by the layer learned from
    offset: int = 0
    solver: str = "closed-form"  # or newton, adam
    cross: bool = True
    sets: tuple[str, ...] = ("test",)
    strengths: tuple[float, ...] = ()
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0


@dataclass(frozen=True)
class Rates:
    """Credit and number of tokens of every fold, and for the layer learned from what each tested token scored."""

    credit: Float64[Tensor, "reading set layer tested fold"]
    count: Float64[Tensor, "reading set layer tested fold"]
    token_credit: Float64[
        Tensor, "layer token"
    ]  # 1: found its target, or one equal to it; mean over folds, NaN for none
    token_margin: Float64[Tensor, "layer token"]  # the same of the margins
    epochs: Float64[Tensor, "layer fold"] | None = None


def answer(question: Question, material: Material, report: Report = lambda _: None) -> dict[str, Rates]:
    """The rates of a question, by distance."""
    if question.map == "none":
        return _tested(question, material, {}, question.distances, report)
    if question.solver == "adam":
        rates: dict[str, Rates] = {}
        for distance in question.distances:
            maps, epochs = trained(question, material, distance, report)
            found = _tested(question, material, maps, (distance,), report)
            rates |= {name: replace(rate, epochs=epochs) for name, rate in found.items()}
        return rates
    squares = {}
    for layer in question.layers:
        squares[layer] = closed_form(question, material, layer)
        report(f"linear by least squares, neighbour {question.offset:+d}: layer {layer} learned")
    if question.solver == "closed-form":
        return _tested(question, material, squares, question.distances, report)
    angles, steps = by_angle(question, material, squares, report) if "cosine" in question.distances else ({}, None)
    rates = {}
    for distance in question.distances:
        found = _tested(question, material, angles if distance == "cosine" else squares, (distance,), report)
        rates[distance] = replace(found[distance], epochs=steps) if distance == "cosine" else found[distance]
    return rates


def closed_form(question: Question, material: Material, layer: int) -> Maps:
    """The least-squares maps of all folds of a layer, from Gram matrices that the folds share."""
    kinds, pieces = material.pieces
    x, y = material.hidden[layer], material.hidden[question.target(layer)]
    inside = material.sentences.inside(question.offset)
    grams = []
    for sentences in pieces:
        tokens = material.sentences.tokens(sentences)
        tokens = tokens[inside[tokens]]
        grams.append(Grams.of(x[tokens], y[tokens + question.offset]))

    def total(role: int) -> Grams:
        zero = Grams.of(x[:0], y[:0])
        sums = [sum((g for g, k in zip(grams, kind, strict=True) if k == role), zero) for kind in kinds.tolist()]
        return Grams.stack(sums)

    strengths = {"strengths": question.strengths} if question.strengths else {}
    return Maps((ridge(total(TRAIN), total(VALIDATION), **strengths)[0].to(x),))


def by_angle(
    question: Question, material: Material, start: Mapping[int, Maps], report: Report
) -> tuple[dict[int, Maps], Float64[Tensor, "layer fold"]]:
    """The maps of least cosine loss, from those of least squares on; and how many steps led there."""
    maps, steps = {}, torch.zeros(len(question.layers), material.folds, dtype=torch.float64)
    for row, layer in enumerate(question.layers):
        x, y = material.hidden[layer], material.hidden[question.target(layer)]
        weights = []
        for fold in range(material.folds):
            tokens = material.tokens(fold, TRAIN, question.offset)
            weight, steps[row, fold] = newton(x[tokens], y[tokens + question.offset], start[layer].weights[0][fold])
            weights.append(weight)
        maps[layer] = Maps((torch.stack(weights),))
        report(f"linear by angle, neighbour {question.offset:+d}: layer {layer} learned")
    return maps, steps


def trained(
    question: Question, material: Material, distance: str, report: Report
) -> tuple[dict[int, Maps], Float64[Tensor, "layer fold"]]:
    """The maps of all layers and folds, trained by Adam with the distance as the loss; and their epochs."""
    recipe = replace(question.recipe, kind=question.map, loss=distance)
    folds, problems = material.folds, []
    for layer in question.layers:
        x, y = material.hidden[layer], material.hidden[question.target(layer)]
        for fold in range(folds):
            train, validation = (material.tokens(fold, role, question.offset) for role in (TRAIN, VALIDATION))
            name = f"{question.map} {distance} {layer} {question.offset} {fold}"
            problems.append(Problem(name, x, y, train, validation, question.offset))
    learned = learn(problems, recipe, seed=question.seed, report=report)
    maps = {layer: learned.maps[at * folds : (at + 1) * folds] for at, layer in enumerate(question.layers)}
    return maps, learned.epochs.double().view(len(question.layers), folds)


def _tested(
    question: Question, material: Material, maps: Mapping[int, Maps], distances: Sequence[str], report: Report
) -> dict[str, Rates]:
    """Every map on every layer it is asked for, fold by fold."""
    shape = (len(READINGS), len(SETS), len(question.layers), len(question.tested), material.folds)
    tallies = {name: _Tally(shape, len(material.sentences.ids)) for name in distances}
    for row, layer in enumerate(question.layers):
        targets = Targets.of(material.hidden[question.target(layer)], material.sentences)
        tested = question.tested if question.cross and maps else (layer,)
        columns = [question.tested.index(other) for other in tested]
        for fold in range(material.folds):
            map_ = maps[layer][fold] if maps else Maps(())
            for number, name in enumerate(SETS):
                if name in question.sets:
                    _test(question, material, map_, targets, (number, row, columns, fold), tested, tallies)
        report(f"{question.map}, neighbour {question.offset:+d}: layer {layer} tested")
    return {name: tally.rates() for name, tally in tallies.items()}


def _test(
    question: Question,
    material: Material,
    map_: Maps,
    targets: Targets,
    where: tuple[int, int, list[int], int],
    tested: Sequence[int],
    tallies: Mapping[str, _Tally],
) -> None:
    """One map of one fold on one set of sentences, all tested layers together."""
    number, row, columns, fold = where
    chosen = material.chosen(fold, list(SETS.values())[number])
    tokens = material.sentences.tokens(chosen)
    mapped = map_(torch.stack([material.hidden[layer][tokens] for layer in tested]))
    there = material.sentences.inside(question.offset)[tokens]
    found = search(
        mapped, tokens, targets, material.sentences, chosen=chosen, distances=list(tallies), offset=question.offset
    )
    for name, tally in tallies.items():
        nearest, margin = found[name].nearest[:, there], found[name].margin[:, there]
        scores = credit_of(nearest, tokens[there], targets, material.sentences, offset=question.offset)
        for reading, key in enumerate(READINGS):
            tally.credit[reading, number, row, columns, fold] = scores[key].sum(-1)
            tally.count[reading, number, row, columns, fold] = float(there.sum())
        own = tested.index(question.layers[row]) if question.layers[row] in tested else None
        if number == 0 and own is not None:
            tally.add_tokens(row, tokens[there], (scores["position"] / scores["possible"])[own], margin[own])


class _Tally:
    """Rates while they are being counted."""

    def __init__(self, shape: tuple[int, ...], tokens: int):
        self.credit, self.count = torch.zeros(2, *shape, dtype=torch.float64)
        self.token_sums = torch.zeros(3, shape[2], tokens, dtype=torch.float64)  # credit, margin, how often

    def add_tokens(self, row: int, tokens: Tensor, credit: Tensor, margin: Tensor) -> None:
        self.token_sums[:, row, tokens] += torch.stack([credit, margin.double(), torch.ones_like(credit)])

    def rates(self) -> Rates:
        credit, margin, times = self.token_sums
        return Rates(self.credit, self.count, credit / times, margin / times)

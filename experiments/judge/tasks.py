"""Synthetic tasks whose evidence is known by construction: (words, answer, places of the evidence).

Every text ends in "?", where the answer is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

NAMES = [f"n{i}" for i in range(16)]
VALUES = [f"v{i}" for i in range(16)]
FILLERS = [f"w{i}" for i in range(16)]
DIGITS = [f"d{i}" for i in range(10)]
SPECIAL = ["[BOS]", "[PAD]", "[UNK]", "[MASK]", "?", "mark", "item", "not", "good", "bad", "yes", "no", "left", "right"]
MORE = 5  # questions behind the first, in training
VOCABULARY = [*SPECIAL, *NAMES, *VALUES, *FILLERS, *DIGITS]


@dataclass(frozen=True)
class Text:
    """`evidence`: the places of the words that decide the answer; changing any other word leaves it the same."""

    words: tuple[str, ...]
    answer: str
    evidence: frozenset[int]
    more: tuple[More, ...] = ()


@dataclass(frozen=True)
class More:
    """Another question about the same words, which a text of the training goes on with: one text, many lessons."""

    name: str
    answer: str
    evidence: frozenset[int]


def copy(rng: random.Random) -> Text:
    """Say the word after the marker."""
    words = [rng.choice(VALUES) for _ in range(14)]
    at = rng.randrange(13)
    words[at] = "mark"
    return Text((*words, "?"), words[at + 1], frozenset({at, at + 1}))


def lookup(rng: random.Random) -> Text:
    """Say the value that stands behind the name that is asked for."""
    names = rng.sample(NAMES, 5)
    words = [word for name in names for word in (name, rng.choice(VALUES))]
    clauses = {name: (words[2 * at + 1], {2 * at, 2 * at + 1}) for at, name in enumerate(names)}
    return _asked(rng, words, clauses)


def _asked(rng: random.Random, words: list[str], clauses: dict[str, tuple[str, set[int]]]) -> Text:
    """About one of the names, in the end; more lessons are about any of them, so that nothing is ruled out by order."""
    first, *others = rng.choices(list(clauses), k=MORE + 1)
    answer, evidence = clauses[first]
    more = tuple(More(name, clauses[name][0], frozenset(clauses[name][1])) for name in others)
    return Text((*words, first, "?"), answer, frozenset({*evidence, len(words)}), more)


def count(rng: random.Random) -> Text:
    """Say how many items there are."""
    size = rng.randint(1, 6)
    places = set(rng.sample(range(14), size))
    words = ["item" if at in places else rng.choice(FILLERS) for at in range(14)]
    return Text((*words, "?"), DIGITS[size], frozenset(places))


def negation(rng: random.Random) -> Text:
    """Is the one who is asked about good? Each clause is a name, perhaps "not", and a word."""
    words: list[str] = []
    clauses = {}
    for name in rng.sample(NAMES, 4):
        flipped, good = rng.random() < 0.5, rng.random() < 0.5
        clause = [name, *(["not"] if flipped else []), "good" if good else "bad"]
        clauses[name] = ("yes" if good != flipped else "no", set(range(len(words), len(words) + len(clause))))
        words += clause
    return _asked(rng, words, clauses)


def shortcut(rng: random.Random) -> Text:
    """One word among the others gives the answer away."""
    words = [rng.choice(FILLERS) for _ in range(14)]
    at, side = rng.randrange(14), rng.choice(["left", "right"])
    words[at] = side
    return Text((*words, "?"), "yes" if side == "left" else "no", frozenset({at}))


TASKS: dict[str, Callable[[random.Random], Text]] = {
    "copy": copy, "shortcut": shortcut, "count": count, "negation": negation, "lookup": lookup,
}  # fmt: skip

"""Which heads are worth a look: where a page opens, and the strip of telling heads above its maps.

A page opens at the first head of its strip: the one that looks most sharply at words far away (further than the next
one, in texts of more than SHORT tokens further than REACH) and less at a neighbour, among those that are no sinks, and
at the token where it does so most; where there is none (in texts of a few words), at the next one told, a sink only
where all are. An encoder–decoder opens on its cross-attention, at the head that pairs words up best. A head whose map
should not be shown (a red lamp) gives way to one that is ENOUGH as telling, and the row of a special token to such a
row.

The strip has, of the same stack and by the same preference, the head that looks most at the previous token, at the next
one, at its own, most far away, from a repeated word to what followed it before (induction, where words are repeated);
and the sink that parks most, and the one whose map has least to do with its output, where the first lamp says the same.
A head that its lamps call a sink is named one. Of cross-attention it has the head that pairs words up: alignment, by
pattern alone; how right it is, `headwise align --gold` tells. Syntax is told where a run of `syntax` is given
(parsed.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from headwise.text.categories import PERIODS_AND_COMMAS
from headwise.viewer.payload import Side, Stack, Telling

CLEAR = 0.25  # of the weight, from where a head is said to look at neighbours
REPEATED = 2  # words that were there before, from where induction is looked for
SHORT, REACH = 16, 3  # tokens of a text, and how near a word may be, to be called near
NEIGHBOURS = {"previous token": -1, "next token": 1, "the token itself": 0}
ENOUGH = 0.5  # of the score of the most telling one, to be preferred to it
A_SINK = "a sink"  # the head that parks most
PAIRS = "it pairs the words of both sides most clearly (by its weights; `headwise align --gold` tells how right)"
DOES = {
    "alignment": PAIRS,
    "far words": "it looks most sharply at words further away than the next one",
    "words": "it looks most sharply at words",
    "previous token": "it looks most at the token before",
    "next token": "it looks most at the next token",
    "the token itself": "it looks most at the token itself",
    "what came after": "it looks most, from a word said before, at what followed it then",
    A_SINK: "it parks most",
}
NULL = 0.05  # of the squared weights in the null space, from where a map is unlike what reaches the output


class Kind(NamedTuple):
    """What a head may be told for."""

    what: str
    score: Float[np.ndarray, "layer head"]
    least: float  # that is worth telling
    cells: Bool[np.ndarray, "query key"]  # where in a map it is seen
    unlit: Float[np.ndarray, "layer head"]  # the score with heads that a red lamp forbids


@dataclass(frozen=True)
class Looks:
    """The raw maps of a stack, and which of their cells are words that a head can look at."""

    alpha: Float[np.ndarray, "layer head query key"]
    words: Bool[np.ndarray, "query key"]
    far: Bool[np.ndarray, "query key"]
    square: bool  # attention of a text to itself
    sinks: Bool[np.ndarray, "layer head"]
    forbidden: Bool[np.ndarray, "layer head"]  # by a red lamp


def looks(stack: Stack) -> Looks | None:
    if not stack.quantities or stack.quantities[0].kind != "attention" or not stack.quantities[0].values.size:
        return None
    alpha = np.nan_to_num(stack.quantities[0].values)
    square = stack.queries == stack.keys
    causal = square and alpha.shape[2] > 1 and not np.triu(alpha.max((0, 1)), 1).any()
    asks = ~np.array(stack.queries.special, bool) if square else writes(stack.queries)
    words = asks[:, None] & (~parking(stack.keys, causal=causal))
    reach = REACH if alpha.shape[3] > SHORT else 1
    near = np.abs(np.subtract.outer(np.arange(alpha.shape[2]), np.arange(alpha.shape[3]))) <= reach
    sinks = forbidden = np.zeros(alpha.shape[:2], bool)
    if stack.facts is not None:
        sinks = np.array([[lit.sink for lit in row] for row in stack.facts.lamps])
        forbidden = np.array([[lit.showing == "no" for lit in row] for row in stack.facts.lamps])
    return Looks(alpha, words, words & ~(near & square), square, sinks, forbidden)


def writes(queries: Side) -> Bool[np.ndarray, " query"]:
    """Rows of a decoder that write a word: what a row reads is written already, and it is about the token after it."""
    return ~np.append(np.array(queries.special, bool)[1:], True)[: len(queries)]


def parking(keys: Side, *, causal: bool) -> Bool[np.ndarray, " key"]:
    """Special tokens, periods and commas, and the first token under a causal mask."""
    marks = [token.strip() in PERIODS_AND_COMMAS for token in keys.tokens]
    return np.array(keys.special, bool) | marks | (causal & (np.arange(len(keys)) == 0))


def opening_stack(stacks: Sequence[Stack]) -> Stack:
    """Cross-attention where there is one: what a translation looks at in its source."""
    return next((stack for stack in stacks if stack.name == "cross" and looks(stack) is not None), stacks[0])


def opening(stack: Stack) -> dict[str, str | int]:
    """The state that a page opens with: one head, alone, and the token at which it does most of what it is told for."""
    found = looks(stack)
    if found is None:
        return {}
    kind, place = _told(stack, found)[0]
    layer, head = stack.quantities[0].layers[place[0]], stack.quantities[0].heads[place[1]]
    token = _token(stack, found, kind, place)
    return {"stack": stack.name, "layer": layer, "head": head, "heads": str(head), "token": token}


def opening_head(stack: Stack) -> tuple[int, int] | None:
    """The place of the first head of the strip: no sink's, unless all heads are sinks."""
    found = looks(stack)
    return None if found is None else _told(stack, found)[0][1]


def _shown_first(
    what: str,
    score: Float[np.ndarray, "layer head"],
    found: Looks,
    least: float,
    cells: Bool[np.ndarray, "query key"],
) -> Kind:
    """Without sinks; of heads that may be shown alone where such a one is nearly as telling, and enough."""
    without = np.where(found.sinks, -1.0, score)
    return Kind(what, preferred(without, ~found.forbidden & (without >= least)), least, cells, without)


def preferred(score: np.ndarray, those: np.ndarray) -> np.ndarray:
    """The score with all others at -1, where one of `those` has ENOUGH of the largest; else the score as it is.

    >>> preferred(np.array([0.4, 0.2, 0.1]), np.array([False, True, True]))
    array([-1. ,  0.2,  0.1])
    >>> preferred(np.array([0.5, 0.2, 0.1]), np.array([False, True, True]))
    array([0.5, 0.2, 0.1])
    """
    best = np.where(those, score, -1.0).max(initial=-1.0)
    return np.where(those, score, -1.0) if best > 0 and best >= ENOUGH * score.max() else score


def _token(stack: Stack, found: Looks, kind: Kind, place: tuple[int, int]) -> int:
    on_words = kind.cells & found.words  # a decoder's second row looks back at the first token, having no choice
    weight = np.where(on_words if on_words.any() else kind.cells, found.alpha[place], 0.0)
    most = (weight if found.square else np.where(mutual(weight), weight, 0.0)).max(-1)
    plain = parking(stack.queries, causal=False) if found.square else np.array(stack.queries.special, bool)
    return int(preferred(most, ~plain).argmax())


def opening_note(start: Mapping[str, str | int], stack: Stack) -> tuple[str, ...]:
    """Says what the first head was picked for, so that none takes it for a typical one, and if it may not be shown."""
    found = looks(stack)
    if "head" not in start or found is None:
        return ()
    kind, place = _told(stack, found)[0]
    if found.sinks.all():
        among = "all heads here are sinks, and of these"
    else:
        allowed = kind.unlit[place] < kind.unlit.max()
        among = "of the heads here that no red lamp forbids" if allowed else "of all heads here"
    chosen = f"The page opens at L{start['layer']}.H{start['head']}: {among} {DOES[kind.what]}."
    return (f"{chosen} It was chosen for that and is not a typical head.{_only_to_look_at(found, place)}",)


def _only_to_look_at(found: Looks, place: tuple[int, int]) -> str:
    if found.forbidden.all():
        return " By the lamps no head of this text may be shown as what it did, so that this one is only to look at."
    return " By its lamps it should not be shown as what it did; it is only to look at." * bool(found.forbidden[place])


def telling(stack: Stack) -> tuple[Telling, ...]:
    """The strip: what the head does, where it is, and how much of it; each head once."""
    found = looks(stack)
    if found is None:
        return ()
    maps = stack.quantities[0]
    return tuple(
        Telling(
            named(kind.what, sink=bool(found.sinks[place])),
            maps.layers[place[0]],
            maps.heads[place[1]],
            float(kind.score[place]),
        )
        for kind, place in _told(stack, found)
    )


def named(what: str, *, sink: bool) -> str:
    """What a head is told for; a sink is named a sink, as its lamps do.

    >>> named("syntax: dobj", sink=True), named("next token", sink=False)
    ('syntax: dobj (a sink here)', 'next token')
    """
    return f"{what} (a sink here)" if sink and what != A_SINK else what


def _told(stack: Stack, found: Looks) -> list[tuple[Kind, tuple[int, int]]]:
    """What is told, of which place; a page opens at the first. What only the lamps tell comes last."""
    told = _best(_doing(stack, found)) or _best([_any_words(found)])
    return _best([*(kind for kind, _ in told), *_by_lamps(stack, found)])


def _best(kinds: Iterable[Kind]) -> list[tuple[Kind, tuple[int, int]]]:
    """The best head of each kind that has one; each head once."""
    best: dict[tuple[int, int], Kind] = {}
    for kind in kinds:
        layer, head = np.unravel_index(int(np.nan_to_num(kind.score).argmax()), kind.score.shape)
        if kind.score[layer, head] >= kind.least:
            best.setdefault((int(layer), int(head)), kind)
    return [(kind, place) for place, kind in best.items()]


def _doing(stack: Stack, found: Looks) -> Iterator[Kind]:
    """What a head that is no sink may be told for."""
    if not found.square:
        yield _shown_first("alignment", paired_weight(found), found, CLEAR, found.far)
    yield _shown_first("far words" if found.square else "words", _sharpness(found), found, 0.0, found.far)
    if found.square:
        for what, offset in NEIGHBOURS.items():
            there = np.eye(*found.words.shape, k=offset, dtype=bool)
            yield _shown_first(what, _at(found, offset), found, CLEAR, there)
        after = followers(stack.queries)
        if (rows := after.any(-1)).sum() >= REPEATED:
            follows = np.where(after, found.alpha, 0.0).sum(-1)[..., rows].mean(-1)
            yield _shown_first("what came after", follows, found, CLEAR, after)


def _any_words(found: Looks) -> Kind:
    """Where no head does anything else: of words near or far."""
    return _shown_first("words", np.where(found.words, found.alpha, 0.0).max(-1).mean(-1), found, 0.0, found.words)


def _by_lamps(stack: Stack, found: Looks) -> Iterator[Kind]:
    if stack.facts is None:
        return
    parked = np.where(found.words, 0.0, found.alpha).sum(-1).mean(-1)
    yield Kind(A_SINK, np.where(found.sinks, parked, -1.0), 0.0, ~found.words, parked)
    unique = np.array([[lit.unique.colour == "green" or lit.unique.held for lit in row] for row in stack.facts.lamps])
    share = stack.facts.null_share.astype(float)
    yield Kind("least unique", np.where(unique, -1.0, share), NULL, ~found.words, share)


def followers(side: Side) -> Bool[np.ndarray, "query key"]:
    """Of a word that was there before, the tokens that came after it then, the word itself and its neighbour aside."""
    tokens, n = np.array(side.tokens, object), len(side)
    same = (tokens[:, None] == tokens[None, :]) & ~np.array(side.special, bool)[None, :]
    found = np.zeros((n, n), bool)
    found[:, 1:] = same[:, :-1]
    return np.tril(found, -2)


def paired_weight(found: Looks) -> Float[np.ndarray, "layer head"]:
    """The weight on pairs of words that choose each other, a word that attends: 1 where all are paired and sharp.

    A query's word is its largest, a key's word the query that gives it most: the intersection of both directions.
    """
    weight = np.where(found.words, found.alpha, 0.0)
    return np.where(mutual(weight), weight, 0.0).max(-1).sum(-1) / max(1, int(found.words.any(-1).sum()))


def mutual(weight: Float[np.ndarray, "*maps query key"]) -> Bool[np.ndarray, "*maps query key"]:
    """Cells that are the largest of their row and of their column."""
    return (weight == weight.max(-1, keepdims=True)) & (weight == weight.max(-2, keepdims=True))


def _sharpness(found: Looks) -> Float[np.ndarray, "layer head"]:
    """Of words far away; less than 0 of a head that looks more at a neighbour, which is what it is told for."""
    sharp = np.where(found.far, found.alpha, 0.0).max(-1).mean(-1)
    near = [_at(found, offset) for offset in NEIGHBOURS.values()] if found.square else [np.zeros_like(sharp)]
    return np.where(sharp < np.max(near, axis=0), sharp - 1.0, sharp)


def _at(found: Looks, offset: int) -> Float[np.ndarray, "layer head"]:
    """Of a row's weight, the mean that goes so many tokens on."""
    return np.diagonal(found.alpha, offset, axis1=2, axis2=3).sum(-1) / max(1, found.alpha.shape[2])

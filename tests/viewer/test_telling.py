"""Where a page opens, and which heads are told: hand-made maps, one of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwise.lamps import Head, lamps
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import Stack
from headwise.viewer.telling import followers, opening, opening_note, opening_stack, parking, telling
from viewer.samples import facts, quantity, side

TOKENS = ("[CLS]", "the", "dog", "saw", "it", ".", "[SEP]")


def raw() -> np.ndarray:
    maps = np.full((2, 3, 7, 7), 0.01, np.float32)
    maps[0, 0] += np.eye(7, k=-1, dtype=np.float32)  # the token before
    maps[0, 1, :, 5] += 0.9  # parks on "."
    maps[0, 2] += np.eye(7, dtype=np.float32)  # itself
    maps[1, 0, :, 1] += 0.5  # a word, far from most
    maps[1, 1, :, 2] += 0.95  # one word, whoever looks: a sink, by its lamp
    maps[1, 0, 4, 1] += 0.1
    maps[1, 0, 5, 1] += 0.15  # the row of the period, which gives way
    return maps


def stack_of(maps: np.ndarray, sinks: tuple[tuple[int, int], ...] = ((0, 1), (1, 1)), name: str = "self") -> Stack:
    lit = np.empty(maps.shape[:2], object)
    for place in np.ndindex(*maps.shape[:2]):
        lit[place] = lamps(Head(null_share=0.0, unique_rows=1.0, carried=0.9, parked=0.9 if place in sinks else 0.1))
    known = replace(facts(*maps.shape[:2]), lamps=lit, null_share=np.zeros(maps.shape[:2], np.float32))
    tokens = side(TOKENS)
    return Stack(name, tokens, tokens, (quantity("raw", "attention", maps),), known)


def test_a_page_opens_at_a_head_that_looks_far_and_is_no_sink_and_at_its_sharpest_token() -> None:
    assert opening(stack_of(raw())) == {"stack": "self", "layer": 1, "head": 0, "heads": "0", "token": 4}
    assert opening(stack_of(raw(), sinks=()))["head"] == 1  # without its lamp the sink is the sharpest
    assert opening(stack_of(raw(), sinks=tuple(np.ndindex(2, 3))))["head"] == 1  # all are sinks: then the sharpest


@pytest.mark.parametrize(("far", "head"), [(0.45, (1, 0)), (0.55, (0, 0))])
def test_a_head_that_looks_more_at_a_neighbour_is_told_for_that_and_not_for_far_words(far: float, head: tuple) -> None:
    """A page of 300 tokens opened on the head of the previous token, and called what it did far words."""
    maps = np.zeros((2, 1, 20, 20), np.float32)
    for query in range(20):
        maps[0, 0, query, max(0, query - 1)] += 1 - far
        maps[0, 0, query, (query + 10) % 20] += far
        maps[1, 0, query, (query + 8) % 20] = 0.4
    words = side(tuple(f"w{at}" for at in range(20)))
    stack = replace(stack_of(maps, sinks=()), queries=words, keys=words)
    told = {one.what: (one.layer, one.head) for one in telling(stack)}
    assert told["far words"] == head
    start = opening(stack)
    assert (start["layer"], start["head"]) == head
    assert told.get("previous token") == ((0, 0) if head == (1, 0) else None)


def test_a_page_opens_on_cross_attention_where_there_is_one() -> None:
    stacks = [stack_of(raw(), name=name) for name in ("encoder", "decoder", "cross")]
    assert opening_stack(stacks).name == "cross"
    assert opening_stack(stacks[:2]).name == "encoder"


@pytest.mark.parametrize(("causal", "places"), [(False, [0, 5, 6]), (True, [0, 5, 6])])
def test_periods_and_special_tokens_are_no_words(causal: bool, places: list[int]) -> None:
    assert np.flatnonzero(parking(side(TOKENS), causal=causal)).tolist() == places
    assert np.flatnonzero(parking(side(("a", "b", ",")), causal=causal))[0] == (0 if causal else 2)


def test_the_strip_tells_each_kind_once() -> None:
    found = {one.what: (one.layer, one.head) for one in telling(stack_of(raw()))}
    assert found == {"far words": (1, 0), "previous token": (0, 0), "the token itself": (0, 2), "a sink": (0, 1)}
    known = stack_of(raw())
    assert known.facts is not None
    known.facts.null_share[1, 2] = 0.4
    assert "least unique" not in {one.what for one in telling(known)}, "its lamp says that no other weights would do"
    known.facts.lamps[1, 2] = lamps(Head(null_share=0.4, unique_rows=0.0, carried=0.9, parked=0.1))
    assert {one.what: one.score for one in telling(known)}["least unique"] == pytest.approx(0.4)


@pytest.mark.parametrize("what", ["previous token", "next token", "the token itself"])
def test_a_sink_is_told_as_a_sink_and_as_nothing_else(what: str) -> None:
    maps = np.full((2, 3, 7, 7), 0.01, np.float32)
    maps[0, 1] += np.eye(7, k={"previous token": -1, "next token": 1, "the token itself": 0}[what], dtype=np.float32)
    assert {one.what for one in telling(stack_of(maps, sinks=()))} >= {what}
    parked = {one.what: (one.layer, one.head) for one in telling(stack_of(maps, sinks=((0, 1),)))}
    assert what not in parked
    assert parked["a sink"] == (0, 1)


def test_a_sink_that_is_told_for_its_null_space_is_named_one() -> None:
    known = stack_of(raw())
    assert known.facts is not None
    known.facts.null_share[1, 1] = 0.4
    known.facts.lamps[1, 1] = lamps(Head(null_share=0.4, unique_rows=0.0, carried=0.9, parked=0.9))
    assert "least unique (a sink here)" in {one.what for one in telling(known)}


def test_a_head_that_looks_at_what_came_after_the_same_word() -> None:
    tokens = side(("[CLS]", "a", "b", "c", "a", "b", "[SEP]"))
    after = np.argwhere(followers(tokens)).tolist()
    assert after == [[4, 2], [5, 3]], "from the second a to what followed the first"
    maps = np.full((2, 3, 7, 7), 0.01, np.float32)
    maps[1, 2, 4, 2] = maps[1, 2, 5, 3] = 0.6
    stack = replace(stack_of(maps, sinks=()), queries=tokens, keys=tokens)
    found = {one.what: (one.layer, one.head, one.score) for one in telling(stack)}
    assert "what came after" not in found, "a head is told once, and this one looks furthest too"
    maps[0, 1, :, 1] = 0.9
    stack = replace(stack_of(maps, sinks=()), queries=tokens, keys=tokens)
    found = {one.what: (one.layer, one.head, one.score) for one in telling(stack)}
    assert found["what came after"] == (1, 2, pytest.approx(0.6))
    maps[1, 2, 5, 3] = 0.01  # 0.305 in the mean is still enough
    assert "what came after" in {one.what for one in telling(stack)}
    maps[1, 2, 4, 2] = 0.45
    assert "what came after" not in {one.what for one in telling(stack)}
    once = replace(stack, queries=side(TOKENS), keys=side(TOKENS))
    assert "what came after" not in {one.what for one in telling(once)}


def crossed(maps: np.ndarray) -> Stack:
    """A decoder that reads <pad> dogs bark, and so writes dogs, bark and the end, over der Hund bellt </s>."""
    sources, targets = side(("der", "Hund", "bellt", "</s>")), side(("<pad>", "dogs", "bark"))
    sources = replace(sources, special=(False, False, False, True))
    return replace(stack_of(maps, (), "cross"), queries=replace(targets, special=(True, False, False)), keys=sources)


@pytest.mark.parametrize(("weight", "told"), [(0.75, True), (0.125, False)])
def test_alignment_is_the_head_whose_words_choose_each_other(weight: float, told: bool) -> None:
    maps = np.zeros((1, 2, 3, 4), np.float32)
    maps[0, 0, :, 1] = 0.9, 0.8, 0.8  # both words look at Hund, which can be paired with one of them alone
    maps[0, 1, 0, 1], maps[0, 1, 1, 2] = weight, weight  # dogs - Hund, bark - bellt, a row before they are read
    maps[0, 1, 2, 0] = 1.0  # writes the end, which is no word
    scores = {one.what: (one.head, one.score) for one in telling(crossed(maps))}
    assert scores["alignment"] == ((1, pytest.approx(weight)) if told else (0, pytest.approx(0.45)))
    assert scores.get("words") == ((0, pytest.approx(1.7 / 3)) if told else None)


def test_cross_attention_opens_on_the_head_that_pairs_words_up_and_not_on_the_sharpest() -> None:
    maps = np.zeros((1, 2, 3, 4), np.float32)
    maps[0, 0, :, 1] = 0.95, 0.9, 0.9  # the sharpest, but all of it on one word
    maps[0, 1, 0, 1], maps[0, 1, 1, 2], maps[0, 1, 2, 0] = 0.6, 0.7, 1.0
    stack = crossed(maps)
    start = opening(stack)
    assert (start["head"], start["token"]) == (1, 1), "the row that reads dogs, and writes bark"
    (note,) = opening_note(start, stack)
    assert note.startswith("The page opens at L0.H1: of all heads here it pairs the words of both sides most clearly (")


@pytest.mark.parametrize(("first", "token"), [(0.8, 1), (0.9, 0)])
def test_the_row_of_a_special_token_gives_way_to_one_that_is_paired_half_as_clearly(first: float, token: int) -> None:
    """demo-nmt opened at the row of <pad>, which writes the article that a sentence begins with."""
    maps = np.zeros((1, 2, 3, 4), np.float32)
    maps[0, 1, 0, 1], maps[0, 1, 1, 2] = first, 0.4
    assert opening(crossed(maps))["token"] == token


@pytest.mark.parametrize(("other", "head"), [(0.6, (1, 2)), (0.3, (1, 0))])
def test_a_map_that_should_not_be_shown_gives_way_to_one_that_is_half_as_telling(
    other: float, head: tuple[int, int]
) -> None:
    """demo-base opened at a head whose first lamp is red."""
    maps = raw()
    maps[1, 0, :, 1] = 1.0
    maps[1, 2, :, 1] = other
    known = stack_of(maps)
    assert known.facts is not None
    start = opening(known)
    assert (start["layer"], start["head"]) == (1, 0), "no lamp forbids it"
    (note,) = opening_note(start, known)
    assert "of all heads here it looks most sharply" in note
    known.facts.lamps[1, 0] = lamps(Head(null_share=0.9, unique_rows=0.0, carried=0.9, parked=0.1))
    assert known.facts.lamps[1, 0].showing == "no"
    start = opening(known)
    assert (start["layer"], start["head"]) == head
    told = {one.what: (one.layer, one.head) for one in telling(known)}
    assert told["far words"] == head, "the strip has the head that the page opens with"
    (note,) = opening_note(start, known)
    assert (f"L{head[0]}.H{head[1]}: of the heads here that no red lamp forbids it looks" in note) == (other == 0.6)
    for place in np.ndindex(2, 3):
        known.facts.lamps[place] = known.facts.lamps[1, 0]
    start = opening(known)
    assert (start["layer"], start["head"]) == (1, 0), "where all are forbidden they compete as before"
    (note,) = opening_note(start, known)
    assert note.endswith(
        "a typical head. By the lamps no head of this text may be shown as what it did, so that this one is only to "
        "look at."
    )


@pytest.mark.parametrize("forbidden", [True, False])
def test_a_head_that_should_not_be_shown_and_is_still_the_most_telling_is_only_to_look_at(forbidden: bool) -> None:
    known = stack_of(raw())
    assert known.facts is not None
    if forbidden:
        known.facts.lamps[1, 0] = lamps(Head(null_share=0.9, unique_rows=0.0, carried=0.9, parked=0.1))
    (note,) = opening_note(opening(known), known)
    said = "a typical head. By its lamps it should not be shown as what it did; it is only to look at."
    assert note.endswith(said if forbidden else "a typical head.")


FEW = ("[CLS]", "dogs", "bark", "[SEP]")  # no word is further away than the next one


@pytest.mark.parametrize(
    ("maps", "told", "token", "does"),
    [
        ({-1: 0.4, 1: 0.3, 0: 0.9}, "previous token", 2, "it looks most at the token before"),  # a word, not [CLS]
        ({1: 0.4, 0: 0.9}, "next token", 1, "it looks most at the next token"),
        ({0: 0.9}, "the token itself", 1, "it looks most at the token itself"),
        ({}, "words", 1, "it looks most sharply at words"),
    ],
)
def test_a_text_of_a_few_words_opens_on_the_first_head_of_its_strip_and_on_no_sink(maps, told, token, does) -> None:
    """`view "Dogs bark"` opened on a sink, L0.H0, whose strip had two heads that were none."""
    alpha = np.full((2, 3, 4, 4), 0.01, np.float32)
    alpha[0, 0, :, 3] = 1.0  # the sink, first in the order of heads
    for at, (offset, weight) in enumerate(maps.items()):
        alpha[1, at] += weight * np.eye(4, k=offset, dtype=np.float32)
    if not maps:
        alpha[1, 0, 1, 1] = 0.2
    words = side(FEW)
    stack = replace(stack_of(alpha, sinks=((0, 0),)), queries=words, keys=words)
    first, *_ = telling(stack)
    start = opening(stack)
    assert (first.what, first.layer, first.head) == (told, 1, 0)
    assert (start["layer"], start["head"], start["token"]) == (1, 0, token), "no row of a special token"
    (note,) = opening_note(start, stack)
    assert note == (
        f"The page opens at L1.H0: of all heads here {does}. It was chosen for that and is not a typical head."
    )


def test_a_text_of_sinks_alone_opens_on_the_one_that_parks_most_and_says_that_all_are() -> None:
    alpha = np.full((1, 2, 4, 4), 0.01, np.float32)
    alpha[0, 1, :, 3] = 1.0
    words = side(FEW)
    stack = replace(stack_of(alpha, sinks=((0, 0), (0, 1))), queries=words, keys=words)
    start = opening(stack)
    assert [(one.what, one.head) for one in telling(stack)] == [("a sink", 1)]
    assert start["head"] == 1
    (note,) = opening_note(start, stack)
    assert note.startswith("The page opens at L0.H1: all heads here are sinks, and of these it parks most. It was")


def test_nothing_is_told_of_what_has_no_heads() -> None:
    assert telling(replace(stack_of(raw()), quantities=())) == ()
    assert opening(replace(stack_of(raw()), quantities=())) == {}


@pytest.mark.parametrize(
    ("name", "task", "stack"),
    [("tiny:gpt2", None, "self"), ("tiny:bert", None, "self"), ("demo-nmt", "translation", "cross")],
)  # fmt: skip
def test_pages_of_models_open_on_no_sink(name: str, task: str | None, stack: str, load) -> None:
    trace = load(name, task).trace("the old man saw the dog .", "a man ." if stack == "cross" else None)
    page = page_of_trace(trace, besides=())
    assert page.start is not None
    assert page.start["stack"] == stack
    shown = next(each for each in page.stacks if each.name == stack)
    assert shown.facts is not None
    lit = shown.facts.lamps
    place = (shown.quantities[0].layers.index(page.start["layer"]), shown.quantities[0].heads.index(page.start["head"]))
    assert not lit[place].sink or all(one.sink for one in lit.flatten())
    assert (shown.telling[0].layer, shown.telling[0].head) == (page.start["layer"], page.start["head"])
    token = int(page.start["token"]) + (stack == "cross")  # what a row of cross-attention is about comes next
    assert not shown.queries.special[token]


@pytest.mark.parametrize(("tokens", "head"), [(16, 0), (17, 1)])
def test_far_is_further_than_three_tokens_in_all_but_short_texts(tokens: int, head: int) -> None:
    """Head 0 is a band two tokens off, and the sharper one; head 1 looks ten tokens away."""
    maps = np.full((1, 2, tokens, tokens), 0.001, np.float32)
    maps[0, 0] += 0.9 * np.eye(tokens, k=-2, dtype=np.float32)
    maps[0, 1] += 0.5 * np.eye(tokens, k=-10, dtype=np.float32)
    words = side(tuple(f"w{at}" for at in range(tokens)))
    stack = replace(stack_of(maps, sinks=()), queries=words, keys=words)
    assert opening(stack)["head"] == head


@pytest.mark.parametrize(("other", "head"), [(0.3, (1, 0)), (0.25, (0, 0))])
def test_the_strip_prefers_heads_that_no_red_lamp_forbids(other: float, head: tuple[int, int]) -> None:
    """demo-llm's strip told the previous token of a head that does not matter, where others do the same and do."""
    maps = np.zeros((2, 1, 7, 7), np.float32)
    maps[0, 0] = 0.4 * np.eye(7, k=-1)
    maps[1, 0] = other * np.eye(7, k=-1)
    known = stack_of(maps, sinks=())
    assert known.facts is not None
    known.facts.lamps[0, 0] = lamps(Head(null_share=0.9, unique_rows=0.0, carried=0.9, parked=0.1))
    told = {one.what: (one.layer, one.head) for one in telling(known)}
    assert told["previous token"] == head, "one that looks there too little to be told for it does not drive it out"


@pytest.mark.parametrize("other", [True, False])
def test_alignment_is_told_of_a_head_that_no_red_lamp_forbids(other: bool) -> None:
    maps = np.zeros((2, 1, 7, 7), np.float32)
    maps[0, 0], maps[1, 0] = np.eye(7), 0.8 * np.eye(7)
    tokens = side(tuple("abcdefg"))
    known = replace(stack_of(maps, sinks=(), name="cross"), queries=side(tuple("ABCDEFG")), keys=tokens)
    assert known.facts is not None
    if other:
        known.facts.lamps[0, 0] = lamps(Head(null_share=0.9, unique_rows=0.0, carried=0.9, parked=0.1))
    told = {one.what: (one.layer, one.head) for one in telling(known)}
    start = opening(known)
    assert told["alignment"] == (int(other), 0) == (start["layer"], start["head"]), "as the page opens"

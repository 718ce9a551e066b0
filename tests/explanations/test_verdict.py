"""The rule that says what to believe: a hand-made trial on each side of each threshold gives the exact sentence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwise.explanations.trial import Trial
from headwise.explanations.verdict import BEATEN, FEW, MOVES, ROOM, needed, number, verdict

CHANCE = (0.93, 0.9, 0.4)  # of random orders, removed; kept alone it is the mirror image


def trial(deletion=(0.93, 0.21, 0.4), insertion=(0.4, 0.92, 0.93), better: int = 19, kept: int = 19) -> Trial:
    """19 random orders, of which so many do worse than the explanation, removed and kept alone."""
    random_deletion = tuple(CHANCE if at < better else (0.93, 0.1, 0.1) for at in range(19))
    random_insertion = tuple((0.4, 0.5, 0.93) if at < kept else (0.93, 0.93, 0.93) for at in range(19))
    return Trial((0, 5, 20), deletion, insertion, random_deletion, random_insertion, 5, 20, "delete", 0, 100)


def test_believe_it() -> None:
    said = verdict(trial())
    assert said.belief == "yes"
    assert said.sentence == (
        "Removing the five words it names lowers the answer's probability from .93 to .21; "
        "five words by lot leave .90–.90: believe it."
    )


def test_one_order_in_nineteen_that_does_as_well_is_too_many() -> None:
    assert 18 / 19 < BEATEN <= 19 / 19
    said = verdict(trial(better=18))
    assert said.belief == "partly"
    assert said.sentence.endswith(
        "five words by lot leave .10–.90; along its whole order .36 is left in the mean, by lot .18–.70: kept alone "
        "they hold the answer better than chance, but taking them out lowers it no more than that; believe it in part."
    )


def test_needed_but_not_enough() -> None:
    said = verdict(trial(kept=18))
    assert said.belief == "partly"
    assert said.sentence.endswith(": they are needed, but alone they do no better than chance; believe it in part.")


def test_no_better_than_chance() -> None:
    said = verdict(trial(deletion=(0.93, 0.95, 0.4), better=18, kept=18))
    assert said.belief == "no"
    assert said.sentence == (
        "Removing the five words it names does not lower the answer's probability from .93 to .95; "
        "five words by lot leave .10–.90; along its whole order .73 is left in the mean, by lot .18–.70: no better "
        "than chance on this text, do not believe it."
    )


@pytest.mark.parametrize(("apart", "belief"), [(ROOM - 1e-9, "nothing"), (ROOM + 1e-9, "no")])
@pytest.mark.parametrize("side", ["deletion", "insertion"])
def test_where_every_order_is_alike_the_text_cannot_tell(side: str, apart: float, belief: str) -> None:
    """One curve of steps 0, 5 and 20 lies above the others by 2 · apart at 5, which counts for 3 + 7 of the 20."""
    gone, other = (0.77, 0.05, 0.02), (0.77, 0.05 + 2 * apart, 0.02)
    kept, emptier = (0.02, 0.25, 0.77), (0.02, 0.25 - 2 * apart, 0.77)
    alike = replace(
        trial(), deletion=other if side == "deletion" else gone, insertion=emptier if side == "insertion" else kept,
        random_deletion=(gone,) * 19, random_insertion=(kept,) * 19,
    )  # fmt: skip
    said = verdict(alike)
    assert said.belief == belief
    if belief == "nothing":
        assert said.sentence.endswith(": along the way no order is better than another by .05; this text cannot tell.")


@pytest.mark.parametrize(("end", "rests"), [(0.77 - MOVES + 1e-9, False), (0.77 - MOVES - 1e-9, True)])
def test_an_answer_that_stays_without_any_word_does_not_rest_on_them(end: float, rests: bool) -> None:
    """A dip on the way that every order has, and at its end, without any of the ten words, the answer or not."""
    curve, kept = (0.77, 0.60, end), (end, 0.60, 0.77)
    steps = replace(trial(), steps=(0, 5, 10), count=10)
    alike = replace(steps, deletion=curve, insertion=kept, random_deletion=(curve,) * 19, random_insertion=(kept,) * 19)
    said = verdict(alike)
    assert said.belief == "nothing"
    still = ": with nothing left to read the answer still has .72; it hardly rests on this text."
    tied = ": along the way no order is better than another by .05; this text cannot tell."
    assert said.sentence.endswith(tied if rests else still)
    part = replace(alike, count=30)  # ten of thirty: what the other twenty do was not seen
    assert verdict(part).sentence.endswith(tied)


@pytest.mark.parametrize(("step", "belief"), [(MOVES - 1e-9, "nothing"), (MOVES + 1e-9, "yes")])
def test_an_answer_that_nothing_moves(step: float, belief: str) -> None:
    still = replace(
        trial(), deletion=(0.93, 0.93 - step, 0.93), insertion=(0.93, 0.93, 0.93), count=30,
        random_deletion=((0.93, 0.93, 0.93),) * 19, random_insertion=((0.93, 0.93 - step, 0.93),) * 19,
    )  # fmt: skip
    said = verdict(still)
    assert said.belief == belief
    if belief == "nothing":
        assert said.sentence == (
            "No removal moves the answer's probability of .93 by .05: it does not rest on this text."
        )


@pytest.mark.parametrize(("count", "belief"), [(FEW - 1, "nothing"), (FEW, "yes")])
def test_too_few_words(count: int, belief: str) -> None:
    said = verdict(replace(trial(), count=count))
    assert said.belief == belief
    if belief == "nothing":
        assert said.sentence == "Only two words can be removed: too few to test an explanation."


def every_order(left: Callable[[str], float], own: str) -> Trial:
    """The trial of an order of units, one letter each, against all orders; `left` is p with those letters alone."""

    def curves(order: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        ks = range(len(order) + 1)
        return tuple(left(order[k:]) for k in ks), tuple(left(order[:k]) for k in ks)

    gone, kept = zip(*(curves("".join(order)) for order in itertools.permutations(sorted(own))), strict=True)
    return Trial(tuple(range(len(own) + 1)), *curves(own), gone, kept, 1, len(own), "delete", 0, 2 ** len(own))


def one_word(kept: str) -> float:
    """The answer is the letter a; each other one is worth a little, more than none and less than ROOM."""
    return 0.03 + sum({"a": 0.8, "b": 0.04, "c": 0.02, "d": 0.01}[letter] for letter in kept)


@pytest.mark.parametrize("own", ["abdc", "acdb", "dcba"])
def test_four_words_of_which_one_is_the_answer_are_too_few_to_tell(own: str) -> None:
    """A right explanation was not to be believed: six of the 24 orders begin with the same word."""
    said = verdict(every_order(one_word, own))
    assert said.belief == "nothing"
    ranks = {"abdc": "2, and number 2", "acdb": "5, and number 5", "dcba": "24, and number 24"}[own]
    assert said.sentence.endswith(
        ". Too few words to tell by this test: four words have 24 orders, and 6 of them are about the best as words "
        f"go, 6 as they alone are kept, more than one in twenty; its own is number {ranks}."
    )


def test_three_words_can_never_tell() -> None:
    said = verdict(every_order(graded, "abc"), "sentences")
    assert said.belief == "nothing"
    assert said.sentence.endswith(
        ". Too few sentences to tell by this test: three sentences have 6 orders, and 1 of them is about the best as "
        "sentences go, 1 as they alone are kept, more than one in twenty; its own is number 1, and number 1."
    )


def graded(kept: str) -> float:
    """Of five words one is much and one is half of it, so that six of their 120 orders are about the best, one in
    twenty."""
    return 0.02 + sum({"a": 0.62, "b": 0.31, "c": 0.004, "d": 0.002, "e": 0.001}[letter] for letter in kept)


@pytest.mark.parametrize(
    ("own", "belief"), [("abcde", "yes"), ("abedc", "yes"), ("acbde", "no"), ("bacde", "no"), ("edcba", "no")]
)
def test_five_words_of_which_two_matter_can_tell(own: str, belief: str) -> None:
    found = every_order(graded, own)
    assert [found.about_best(side, ROOM) for side in ("deletion", "insertion")] == [6, 6]
    assert verdict(found).belief == belief


@pytest.mark.parametrize("beyond", [1e-9, -1e-9])
def test_orders_within_the_room_are_about_the_best(beyond: float) -> None:
    found = replace(
        trial(), random_deletion=((0.9, 0.1, 0.1), (0.9, 0.1, 0.1 + 2.5 * (ROOM - beyond)), (0.9, 0.9, 0.9))
    )
    assert found.about_best("deletion", ROOM) == (2 if beyond > 0 else 1)


def test_what_the_other_way_cannot_tell_is_not_called_chance() -> None:
    """One way the words are few enough to tell, and the other way all good orders are alike."""
    found = every_order(graded, "abcde")
    best, alike = max(found.random_insertion, key=sum), found.random_insertion
    flat = replace(found, insertion=best, random_insertion=(best,) * 7 + alike[7:])
    said = verdict(flat)
    assert said.belief == "partly"
    assert said.sentence.endswith(
        ": they are needed; whether they alone are enough, so few words cannot tell; believe it in part."
    )
    least = min(found.random_deletion, key=sum)
    flat = replace(found, deletion=least, random_deletion=(least,) * 7 + found.random_deletion[7:])
    said = verdict(flat)
    assert said.belief == "partly"
    assert said.sentence.endswith(
        ": kept alone they hold the answer better than chance; whether they are needed, so few words cannot tell; "
        "believe it in part."
    )


@pytest.mark.parametrize(("end", "none"), [(0.93 - MOVES + 1e-9, True), (0.93 - MOVES - 1e-9, False), (1.0, True)])
@pytest.mark.parametrize(("better", "belief"), [(19, "partly"), (18, "no")])
def test_an_answer_that_needs_no_word_is_held_by_none(end: float, none: bool, better: int, belief: str) -> None:
    """Kept alone "they hold the answer better than chance" was said of an answer as likely without any word."""
    found = trial(deletion=(0.93, 0.21, end), insertion=(end, 0.92, 0.93), better=better)
    said = verdict(found)
    if not none:
        assert said.belief == {"partly": "yes", "no": "partly"}[belief]
        assert "needs none" not in said.sentence
        return
    assert said.belief == belief
    assert "hold" not in said.sentence
    left, mean = ("1.00", ".60") if end == 1.0 else (".88", ".55")
    along = f"; along its whole order {mean} is left in the mean, by lot .18–.70"
    told = f"; without any word it is {left}, so the answer needs none"
    assert said.sentence.endswith(
        f".90–.90{told}: taking out what it names leaves less of it than chance; believe it in part."
        if belief == "partly"
        else f".10–.90{told}{along}: no better than chance on this text, do not believe it."
    )
    assert verdict(replace(found, count=30)).belief != belief, "of twenty of thirty words that was not asked"
    pair = verdict(replace(found, sides=(0.47, 0.27))).sentence
    told = (
        f"; without all of the first text .47, of the second .27; with nothing left of either text {left}, so keeping "
    )
    assert f"{told}words shows nothing" in pair


def test_an_answer_that_needs_no_word_and_of_which_all_orders_are_alike_rests_on_none() -> None:
    """However its order is a hair better than all others, both ways."""
    own, other = (0.93, 0.80, 0.93), (0.93, 0.81, 0.93)
    found = replace(trial(), deletion=own, random_deletion=(other,) * 19, insertion=other, random_insertion=(own,) * 19)
    assert (found.orders_beaten("deletion"), found.orders_beaten("insertion")) == (19, 19)
    said = verdict(found)
    assert said.belief == "nothing"
    assert said.sentence.endswith(": with nothing left to read the answer still has .93; it hardly rests on this text.")


def test_few_words_that_an_answer_does_not_need_cannot_tell_either() -> None:
    """As they go six of the 24 orders are about the best; kept alone one is, which does not count."""
    found = every_order(one_word, "dcba")
    best = max(found.random_insertion, key=sum)
    alone = replace(found, insertion=best, random_insertion=(best, *((0.0,) * 4 + (0.9,),) * 23))
    assert verdict(alone).belief == "partly"
    bare = replace(alone, deletion=(*found.deletion[:-1], 0.95), random_deletion=tuple(
        (*curve[:-1], 0.95) for curve in found.random_deletion
    ))  # fmt: skip
    said = verdict(bare)
    assert said.belief == "nothing"
    assert "; without any word it is .95, so the answer needs none. Too few words to tell by this test" in said.sentence


def test_a_probability_of_the_two_is_called_so() -> None:
    of_the_two = "the answer's probability (of the two) "
    for found in (trial(), trial(deletion=(0.93, 0.95, 0.4)), trial(deletion=(0.9947, 0.9943, 0.4))):
        assert of_the_two in verdict(found, among=" of the two").sentence
        assert "of the two" not in verdict(found).sentence
    flat = (0.93,) * 3
    still = replace(trial(), deletion=flat, insertion=flat, random_deletion=(flat,) * 19, random_insertion=(flat,) * 19)
    assert f"{of_the_two}of .93 by .05" in verdict(still, among=" of the two").sentence
    rare = verdict(replace(trial(), deletion=(0.04, 0.0, 0.0)), among=" of the two").sentence
    assert rare.startswith("The answer's probability (of the two) is .04 to begin with")


def test_other_units_and_one_word() -> None:
    one = replace(trial(), named=1, steps=(0, 1, 20))
    assert verdict(one).sentence.startswith("Removing the word it names lowers")
    assert "; one word by lot leaves .90–.90" in verdict(one).sentence
    assert verdict(one, "sentences").sentence.startswith("Removing the one sentence it names lowers")


@pytest.mark.parametrize(("p", "text"), [(0.934, ".93"), (1.0, "1.00"), (0.0049, "<.01"), (0.005, ".01"), (0.0, ".00")])
def test_numbers(p: float, text: str) -> None:
    assert number(p) == text


@pytest.mark.parametrize(("better", "kept"), [(19, 19), (18, 0), (0, 7)])
def test_random_orders_that_are_beaten_are_counted_each_way(better: int, kept: int) -> None:
    found = trial(better=better, kept=kept)
    assert (found.orders_beaten("deletion"), found.orders_beaten("insertion")) == (better, kept)
    assert found.beaten("deletion") == pytest.approx(better / 19)
    assert needed(found) == 19  # 18 of 19 are 94.7 %


def test_what_does_not_move_to_two_digits_is_said_so() -> None:
    """.9947 to .9943 read "from .99 to .99"."""
    said = verdict(trial(deletion=(0.9947, 0.9943, 0.4)))
    assert said.sentence.startswith(
        "Removing the five words it names hardly moves the answer's probability of .99; five"
    )


@pytest.mark.parametrize(("fallen", "compares"), [(MOVES + 1e-9, True), (MOVES - 1e-9, False)])
def test_an_answer_that_compares_two_texts_is_not_called_one_that_rests_on_none(fallen: float, compares: bool) -> None:
    """Words of both may go alike, and the answer stays; without one of the texts it falls, or not."""
    flat = (0.93, 0.93, 0.93)
    still = replace(
        trial(), deletion=flat, insertion=flat, random_deletion=(flat,) * 19, random_insertion=(flat,) * 19,
        sides=(0.93, 0.93 - fallen),
    )  # fmt: skip
    said = verdict(still)
    assert said.belief == "nothing"
    assert said.sentence == (
        "No removal of words from both texts moves the answer's probability of .93 by .05: without the first text "
        "it is .93, without the second .88, so it rests on how the two compare; scores of "
        "single words cannot tell."
        if compares
        else "No removal moves the answer's probability of .93 by .05: it does not rest on this text."
    )
    dips = (0.93, 0.80, 0.93)
    alike = replace(still, deletion=dips, random_deletion=(dips,) * 19, insertion=dips, random_insertion=(dips,) * 19)
    assert ("rests on how the two compare" in verdict(alike).sentence) == compares


@pytest.mark.parametrize(("p", "told"), [(MOVES - 1e-9, True), (MOVES + 1e-9, False)])
def test_an_unlikely_answer_has_nothing_to_lose(p: float, told: bool) -> None:
    gone, kept = (p, 0.001, 0.0005), (0.0005, 0.001, p)
    unlikely = replace(
        trial(), deletion=gone, insertion=kept, random_deletion=(gone,) * 19, random_insertion=(kept,) * 19
    )
    said = verdict(unlikely)
    assert said.belief == "nothing"
    assert (
        said.sentence
        == "The answer's probability is .05 to begin with, too little to fall by .05: too unlikely to test an "
        "explanation by."
    ) == told


def test_what_one_text_of_a_pair_leaves_is_told() -> None:
    said = verdict(replace(trial(), sides=(0.47, 0.27)))
    assert said.sentence == (
        "Removing the five words it names lowers the answer's probability from .93 to .21; five words by lot "
        "leave .90–.90; without all of the first text .47, of the second .27: believe it."
    )

"""Which tokens make a word: by hand, and what holds for any text and any tokens."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.text.words import _touched, piece_offsets, units, word_spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's so-so, no?", ["It's", "so-so", ",", "no", "?"]),
        ("one  two\n", ["one", "two"]),
        ("3.5 km", ["3", ".", "5", "km"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("猫が好き", ["猫", "が", "好", "き"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("a😀b", ["a", "😀", "b"]),
        ("- '", ["-", "'"]),
        ("", []),
    ],
)
def test_word_spans(text: str, words: list[str]) -> None:
    assert [text[start:stop] for start, stop in word_spans(text)] == words


@pytest.mark.parametrize("word", ["हिन्दी", "مُحَمَّد", "שָׁלוֹם", "தமிழ்"])
def test_marks_of_any_script_stay_in_their_word(word: str) -> None:
    """A word is a run of letters, digits *and marks*: vowel signs are not punctuation."""
    assert [f"{word} x"[start:stop] for start, stop in word_spans(f"{word} x")] == [word, "x"]


@pytest.mark.parametrize(
    ("text", "offsets", "unit", "words"),
    [
        ("un-do it", [(0, 2), (2, 3), (3, 5), (5, 8)], [0, 0, 0, 1], ["un-do", "it"]),
        ('he said."', [(0, 2), (2, 7), (7, 9)], [0, 1, 2], ["he", "said", '."']),  # one token over two words
        ("a. b", [(0, 2), (1, 2), (3, 4)], [0, 0, 1], ["a.", "b"]),
        ("😀", [(0, 1)] * 4, [0, 0, 0, 0], ["😀"]),  # four bytes of one character
        ("a  b", [(0, 1), (1, 2), (2, 4)], [0, 1, 1], ["a", "b"]),  # white space goes with what follows
        ("a \n", [(0, 1), (1, 3)], [0, 0], ["a"]),  # … and at the end with the last word
        ("a b c", [(0, 3), (2, 5)], [0, 0], ["a b c"]),  # a chain of joins
        ("a b", [(0, 0), (0, 1), (2, 3)], [0, 0, 1], ["a", "b"]),  # an empty token (a bare ▁)
    ],
)
def test_units_by_hand(text: str, offsets: list, unit: list[int], words: list[str]) -> None:
    assert units(text, offsets) == (unit, words)


@st.composite
def texts_with_tokens(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(st.text("ab'- .😀é\n猫", min_size=1, max_size=20))
    cuts = sorted(draw(st.sets(st.integers(1, len(text)))) | {len(text)})
    return text, list(zip([0, *cuts[:-1]], cuts, strict=True))


@given(texts_with_tokens())
def test_every_token_has_one_word_and_words_are_counted_in_order(case: tuple[str, list[tuple[int, int]]]) -> None:
    text, offsets = case
    unit, words = units(text, offsets)
    assert len(unit) == len(offsets)
    assert list(dict.fromkeys(unit)) == list(range(len(words)))
    assert sorted(unit) == unit
    for number, word in enumerate(words):
        members = [text[slice(*span)] for span, owner in zip(offsets, unit, strict=True) if owner == number]
        assert "".join(members).split() == word.split() or word == ""


@given(texts_with_tokens())
def test_two_tokens_of_one_word_share_its_unit(case: tuple[str, list[tuple[int, int]]]) -> None:
    text, offsets = case
    unit, _ = units(text, offsets)
    for start, stop in word_spans(text):
        touching = {owner for (a, b), owner in zip(offsets, unit, strict=True) if a < stop and b > start}
        assert len(touching) == 1


def test_piece_offsets() -> None:
    """Marian's pieces: double spaces, capitals that were lowered, a width that was normalised, an unknown character."""
    text = "Die  Katze, Ａb ☃!"
    pieces = ["▁Die", "▁kat", "ze", ",", "▁Ab", "▁", "<unk>", "!"]
    assert [text[a:b] for a, b in piece_offsets(text, pieces)] == ["Die", "Kat", "ze", ",", "Ａb", "", "☃", "!"]


def test_a_line_of_ten_million_characters_without_a_space_is_cheap() -> None:
    """One token over all of it, as BERT's tokenizer gives: memory grows with the words, not the characters."""
    text = "x" * 10_000_000
    tracemalloc.start()
    assert units(text, [(0, len(text))])[0] == [0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(text)


@given(st.text("ab -'.\u4e00 ", max_size=30), st.data())
def test_words_touched_are_those_that_share_a_character(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    offsets = list(itertools.pairwise(cuts))
    spans = word_spans(text)
    owner = {char: number for number, (start, stop) in enumerate(spans) for char in range(start, stop)}
    assert _touched(spans, offsets) == [
        sorted({owner[char] for char in range(*span) if char in owner}) for span in offsets
    ]

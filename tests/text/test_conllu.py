"""CoNLL-U by hand, what is refused, and words against the tokens of every kind of tokenizer."""

from __future__ import annotations

import pytest

import headwise as hw
from headwise.errors import InputError
from headwise.text.conllu import feature, sentences, words_of
from references.words import CONLLU, naive_owner, parsed

KINDS = {"wordpiece": "tiny:bert", "byte-level BPE": "tiny:gpt2", "SentencePiece": "tiny:xlm-roberta"}


def test_words_heads_and_spans() -> None:
    one, two, three = parsed()
    assert one.name == "one"
    assert one.line == 1
    assert one.forms == ("The", "old", "dog", "did", "n't", "sit", "on", "the", "cat", "'s", "mat", ".")
    assert one.heads == (2, 2, 5, 5, 5, -1, 10, 8, 10, 8, 5, 5)
    assert one.relations[8] == "nmod:poss"
    assert [one.text[a:b] for a, b in one.spans] == list(one.forms)
    assert two.text == "It was big!"
    assert [two.text[a:b] for a, b in two.spans] == ["It", "was", "big", "!"]
    assert two.line == CONLLU.splitlines().index("# sent_id = two") + 1
    assert feature(two.feats[0], "Gender") == "Neut"
    assert feature(two.feats[1], "Gender") is None
    assert three.heads == (-1,)


def test_a_multiword_token_that_its_words_do_not_spell() -> None:
    rows = ["1-2\tzum", "1\tzu", "2\tdem", "3\tHaus"]
    lines = [f"{row}\t_\t_\t_\t_\t{head}\tdep\t_\t_" for row, head in zip(rows, ("_", "3", "3", "0"), strict=True)]
    (sentence,) = sentences(lines)
    assert sentence.text == "zum Haus"
    assert sentence.spans == ((0, 3), (3, 3), (4, 8))


def test_the_end_of_a_file_and_line_ends_do_not_matter() -> None:
    expected = parsed()
    assert list(sentences(["\ufeff" + CONLLU.splitlines()[0], *CONLLU.splitlines()[1:]])) == expected
    assert list(sentences(line + "\r\n" for line in CONLLU.splitlines())) == expected
    assert [s.forms for s in sentences(["", "", *CONLLU.splitlines(), "", ""])] == [s.forms for s in expected]


@pytest.mark.parametrize(
    ("line", "wrong", "reason"),
    [
        (3, "1\tThe\tthe", r"line 3.*10 columns.*got 3"),
        (4, "3\told\told\tADJ\tJJ\t_\t3\tamod\t_\t_", r"line 4.*count up from 1, so 2.*got 3"),
        (5, "3\tdog\tdog\tNOUN\tNN\t_\t13\tnsubj\t_\t_", r"line 5.*from 0 to 12, got '13'"),
        (5, "3\tdog\tdog\tNOUN\tNN\t_\tx\tnsubj\t_\t_", r"line 5.*from 0 to 12, got 'x'"),
        (5, "3\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_", r"line 5.*its own head"),
        (5, "3\tfox\tdog\tNOUN\tNN\t_\t6\tnsubj\t_\t_", r"line 5.*'fox' is expected at .dog didn't"),
        (5, "3\t\tdog\tNOUN\tNN\t_\t6\tnsubj\t_\t_", r"line 5.*a form"),
        (6, "4-15\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_", r"line 6.*'4-15'"),
        (10, "a\tsit\tsit\tVERB\tVB\t_\t_\t_\t_\t_", r"line 10.*'a'"),
    ],
)  # fmt: skip
def test_a_broken_line_is_refused_with_its_number_and_the_reason(line: int, wrong: str, reason: str) -> None:
    lines = CONLLU.splitlines()
    lines[line - 1] = wrong
    with pytest.raises(InputError, match=reason):
        list(sentences(lines))


def test_a_sentence_without_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"line 2.*at least one word"):
        list(sentences(["", "# text = nothing", ""]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_belongs_to_the_word_it_shares_most_characters_with(kind: str) -> None:
    model = hw.load(KINDS[kind])
    for sentence in parsed():
        encoding = model.encode(sentence.text)
        found = words_of(encoding, sentence.spans)
        for owner, special, span in zip(found, encoding.special, encoding.offsets, strict=True):
            assert owner == (-1 if special else naive_owner(span, sentence.spans))
        covered = {
            char for owner, span in zip(found, encoding.offsets, strict=True) if owner >= 0 for char in range(*span)
        }
        visible = {at for at, char in enumerate(sentence.text) if not char.isspace()}
        assert visible <= covered, "every character belongs to a token that belongs to one word"
        own = [owner for owner in found if owner >= 0]
        assert own == sorted(own), "words come in the order of the text"


def test_tokens_over_two_words_and_the_other_text_of_a_pair() -> None:
    model = hw.load("tiny:bert")
    encoding = model.encode("the cat", "the dog")
    spans = [(0, 3), (4, 7)]
    first, second = words_of(encoding, spans), words_of(encoding, spans, segment=1)
    assert {owner for owner, side in zip(first, encoding.segment, strict=True) if side == 1} == {-1}
    assert {owner for owner, side in zip(second, encoding.segment, strict=True) if side == 0} == {-1}
    merged = words_of(encoding, [(0, 1), (1, 3), (4, 7)])  # one token "the" for two words
    assert 1 in merged
    assert 0 not in merged

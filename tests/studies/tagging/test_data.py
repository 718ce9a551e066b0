"""Reading chunking data, words as features, batches: by hand, and one line for everything that is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headwise.errors import InputError, TooLongError
from headwise.studies.adversary.tagging.conll import Sentence, read_conll, split
from headwise.studies.adversary.tagging.features import PAD, Vocabulary, features, shape

TEXT = "He PRP B-NP\nreckons VBZ B-VP\n\n\nThe DT B-NP\ncurrent JJ I-NP\naccount NN I-NP\n. . O\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


def test_sentences_and_where_they_begin(file: Path) -> None:
    first, second = read_conll(file)
    assert first.words == ("He", "reckons")
    assert second.pos == ("DT", "JJ", "NN", ".")
    assert second.tags == ("B-NP", "I-NP", "I-NP", "O")
    assert (first.line, second.line) == (1, 5)


def test_a_last_sentence_without_a_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("He PRP B-NP\n\nIt PRP B-NP")
    assert [sentence.line for sentence in read_conll(path)] == [1, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("He PRP B-NP\nreckons VBZ\n", "line 2: a line must have the columns word, pos, chunk, but it has 2"),
        ("He PRP B-NP B-NP\n", "line 1: a line must have the columns"),
        ("He PRP B-NP\n\nsees VBZ X-VP\n", "line 3: a chunk tag must be O, B-TYPE or I-TYPE, but it is 'X-VP'"),
        ("He PRP B-\n", "line 1: a chunk tag"),
        ("\n\n", "must hold at least one sentence"),
        (b"\xff\xfe", "must be UTF-8, but byte 0 is not"),
    ],
)
def test_broken_files_are_one_line_that_says_where(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "broken.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as caught:
        read_conll(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match="No such file"):
        read_conll("nowhere.txt")


def test_validation_is_apart_from_training(file: Path) -> None:
    found = read_conll(file) * 10
    train, validation = split([*found], share=0.1, seed=3)
    assert len(train) == 18
    assert len(validation) == 2
    assert split([*found], share=0.1, seed=3) == (train, validation)


def test_shapes_and_features_by_hand() -> None:
    assert [shape(word) for word in ("McGraw", "1,200-point", "U.S.", "'s")] == ["XxXx", "d,d-x", "X.X.", "'x"]
    assert list(features("Cats", "NNS", word_row=True)) == [
        "word=cats", "s$", "ts$", "ats$", "cats$", "^C", "^Ca", "^Cat", "shape=Xx", "pos=NNS",
    ]  # fmt: skip
    assert list(features("a", None, word_row=False)) == ["a$", "^a", "shape=x"]


def test_rows_are_those_of_frequent_features_and_vectors_those_of_the_word(file: Path) -> None:
    vectors = (["the", "he"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    data = read_conll(file)
    words = Vocabulary.of(data, vectors, pos=True, seldom=2)
    assert "shape=x" in words.rows
    assert "^He" not in words.rows  # seen once
    batch = words.padded(data, [0, 1])
    assert batch.vectors[0].tolist() == [[3, 4], [0, 0], [0, 0], [0, 0]]
    assert batch.vectors[1, 0].tolist() == [1, 2]
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert (batch.rows[0, 2:] == PAD).all()
    assert [words.tags[number] for number in batch.tags[1].tolist()] == ["B-NP", "I-NP", "I-NP", "O"]


def test_batches_are_of_like_length_and_hold_every_sentence_once(file: Path) -> None:
    data = read_conll(file) * 5
    batches = Vocabulary.of(data, seldom=1).batches(data, size=3, longest=9)
    assert sorted(number for batch in batches for number in batch.numbers.tolist()) == list(range(10))
    lengths = [int(batch.mask.sum(-1).max()) for batch in batches]
    assert lengths == sorted(lengths)


def test_unknown_tags_and_long_sentences_are_refused_with_their_line(file: Path, tmp_path: Path) -> None:
    data = read_conll(file)
    words = Vocabulary.of(data, seldom=1)
    path = tmp_path / "test.txt"
    path.write_text("It PRP B-NP\n\nvery RB I-NP\nwell RB B-ADVP\n")
    with pytest.raises(InputError, match=r"Line 4: a tag must be of a type that training had .* it is 'B-ADVP'"):
        words.batches(read_conll(path), size=2, longest=9)
    with pytest.raises(TooLongError, match=r"Line 5: a sentence must have at most 3 words .* but it has 4"):
        words.batches(data, size=2, longest=3)


def test_both_tags_of_a_type_are_known(file: Path) -> None:
    """CoNLL-2000's test part has an I-LST, its training part B-LST alone."""
    assert Vocabulary.of(read_conll(file)).tags == ("O", "B-NP", "I-NP", "B-VP", "I-VP")


def test_kinds_of_chunks_that_training_lacks_get_tags_where_they_are_to_be_tagged() -> None:
    """As with the first 200 sentences of CoNLL-2000, whose test part has a kind that they have not."""
    training = [Sentence(("a", "b"), ("DT", "NN"), ("B-NP", "I-NP"), 1)]
    test = [Sentence(("yes",), ("UH",), ("B-INTJ",), 1)]
    words = Vocabulary.of(training, others=test)
    assert words.tags == ("O", "B-INTJ", "I-INTJ", "B-NP", "I-NP")
    words.check(test, 8)
    with pytest.raises(InputError, match="B-INTJ"):
        Vocabulary.of(training).check(test, 8)

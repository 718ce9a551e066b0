"""From text to tokens: three kinds of tokenizer, slow ones, special tokens, and text that cannot be read."""

from __future__ import annotations

import copy

import pytest
from transformers import ByT5Tokenizer, PreTrainedTokenizerBase

from headwise.errors import InputError
from headwise.models.tiny import tiny_tokenizer
from headwise.text.tokens import encode

KINDS = ("wordpiece", "bytes", "pieces")


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerBase:
    return tiny_tokenizer(request.param)


def test_wordpiece_by_hand() -> None:
    coded = encode(tiny_tokenizer("wordpiece"), "The oxen", "It is.", limit=None)
    assert coded.tokens == ("[CLS]", "the", "o", "##x", "##e", "##n", "[SEP]", "it", "is", ".", "[SEP]")
    assert coded.special == (True, *[False] * 5, True, False, False, False, True)
    assert coded.segment == (*[0] * 7, *[1] * 4)
    assert coded.unit == (0, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7)
    assert coded.words == ("[CLS]", "The", "oxen", "[SEP]", "It", "is", ".", "[SEP]")
    assert coded.offsets[1:6] == ((0, 3), (4, 5), (5, 6), (6, 7), (7, 8))
    assert coded.offsets[7:10] == ((0, 2), (3, 5), (5, 6))


def test_bytes_are_shown_as_text() -> None:
    coded = encode(tiny_tokenizer("bytes"), "to the é", limit=None)
    assert coded.tokens == ("<s>", "t", "o", "Ġthe", "Ġ", "Ã", "©", "</s>")
    assert coded.words == ("<s>", "to", "the", "é", "</s>")
    assert coded.unit == (0, 1, 1, 2, 3, 3, 3, 4)


@pytest.mark.parametrize("pair", [None, "it is so"])
def test_ids_and_segments_are_the_tokenizers_own(tokenizer: PreTrainedTokenizerBase, pair: str | None) -> None:
    coded = encode(tokenizer, "the old dog", pair, limit=None)
    own = tokenizer("the old dog", pair, return_token_type_ids=True)
    assert list(coded.ids) == own["input_ids"]
    assert list(coded.segment) == own["token_type_ids"]


TEXTS = ["a", "don't stop", "x.y", "😀 ok 👨‍👩‍👧", "שלום עולם", "مرحبا", "猫", "tab\tnew\nline", "a\u200bb", "ﬁne"]
TEXTS += ["Ġ ▁ ##", "  lead"]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_has_words(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    coded = encode(tokenizer, text, text, limit=None)
    size = len(coded)
    for field in (coded.tokens, coded.special, coded.segment, coded.offsets, coded.unit):
        assert len(field) == size
    assert list(dict.fromkeys(coded.unit)) == list(range(len(coded.words)))
    for token, unit in zip(range(size), coded.unit, strict=True):
        if coded.special[token]:
            assert coded.unit.count(unit) == 1, "an added special token is a word of its own"


def test_typed_special_tokens_are_special_and_alone() -> None:
    coded = encode(tiny_tokenizer("wordpiece"), "the [SEP] dog", limit=None)
    assert coded.tokens[2] == "[SEP]"
    assert coded.special[:4] == (True, False, True, False)
    assert coded.unit.count(coded.unit[2]) == 1


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[MASK]"])
def test_lone_special_tokens_are_a_text(token: str) -> None:
    assert encode(tiny_tokenizer("wordpiece"), token, limit=None).tokens == ("[CLS]", token, "[SEP]")


def test_unknown_is_not_special(tokenizer: PreTrainedTokenizerBase) -> None:
    coded = encode(tokenizer, "猫 a", limit=None)
    unknown = [special for special, token in zip(coded.special, coded.tokens, strict=True) if "unk" in token.lower()]
    assert not any(unknown)
    assert unknown or "byte" in repr(tokenizer.backend_tokenizer.decoder).lower()


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000"])
def test_empty_text_is_refused(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    for texts in ((text,), ("the", text)):
        with pytest.raises(InputError, match="empty") as error:
            encode(tokenizer, *texts, limit=None)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["a\ud800b", "\udcff"])
def test_surrogates_are_refused(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    with pytest.raises(InputError, match="valid Unicode") as error:
        encode(tokenizer, text, limit=None)
    assert "\n" not in str(error.value)


def test_limit(tokenizer: PreTrainedTokenizerBase) -> None:
    exact = encode(tokenizer, "the dog is", limit=None)
    assert encode(tokenizer, "the dog is", limit=len(exact)) == exact
    with pytest.raises(InputError, match=f"at most {len(exact) - 1} tokens.*has {len(exact)}.*truncate") as error:
        encode(tokenizer, "the dog is", limit=len(exact) - 1)
    assert "\n" not in str(error.value)
    cut = encode(tokenizer, "the dog is", limit=len(exact) - 1, truncate=True)
    assert len(cut) == len(exact) - 1
    assert cut.ids[-1] == exact.ids[-1], "the closing token stays"


def test_truncated_pair_keeps_both_texts(tokenizer: PreTrainedTokenizerBase) -> None:
    cut = encode(tokenizer, "the " * 30, "dog " * 30, limit=23, truncate=True)
    assert len(cut) == 23
    assert set(cut.segment) == {0, 1}


def test_left_padding_side_changes_nothing(tokenizer: PreTrainedTokenizerBase) -> None:
    left = copy.deepcopy(tokenizer)
    left.padding_side = "left"
    assert encode(left, "the dog", limit=None) == encode(tokenizer, "the dog", limit=None)


def test_a_tokenizer_that_pads_and_cuts_by_itself_is_overruled(tokenizer: PreTrainedTokenizerBase) -> None:
    """The packaged models' files say: pad and cut to 128 tokens."""
    fixed = copy.deepcopy(tokenizer)
    fixed.backend_tokenizer.enable_padding(length=31)
    fixed.backend_tokenizer.enable_truncation(max_length=5)
    assert encode(fixed, "the dog is here", limit=None) == encode(tokenizer, "the dog is here", limit=None)


def test_slow_tokenizer_of_bytes() -> None:
    """A tokenizer without offsets: every byte of é belongs to é, and what follows is not shifted."""
    coded = encode(ByT5Tokenizer(), "né a b", limit=None)
    assert coded.words == ("né", "a", "b", "</s>")
    assert coded.unit == (0, 0, 0, 1, 1, 2, 2, 3)


def test_slow_tokenizer_of_pairs() -> None:
    coded = encode(ByT5Tokenizer(), "ab c", "d ef", limit=None)
    assert coded.words == ("ab", "c", "</s>", "d", "ef", "</s>")
    assert coded.segment == (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)


def test_a_text_that_brings_its_own_opening_token_gets_no_second_one() -> None:
    """Chat templates write it; the tokenizer would add another."""
    tokenizer = tiny_tokenizer("bytes")
    opening, plain = tokenizer.bos_token, encode(tokenizer, "the old dog", limit=None)
    written = encode(tokenizer, f"{opening}the old dog", limit=None)
    assert plain.tokens[0] == written.tokens[0] == opening
    assert written.tokens[1] != opening
    assert written.tokens[-1] == tokenizer.eos_token
    assert written.special[0]
    assert written.offsets[1][0] == len(opening)
    assert encode(tokenizer, f"the old {opening} dog", limit=None).tokens.count(opening) == 2
    no_opening = tiny_tokenizer("pieces")  # knows the token, but adds none: nothing is to be taken away
    assert encode(no_opening, f"{no_opening.bos_token}the dog", limit=None).tokens[-1] == no_opening.eos_token

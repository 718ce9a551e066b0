"""Kinds of tokens, by hand: what parks is not a word, for any tokenizer."""

from __future__ import annotations

import pytest

from headwise.text.categories import CATEGORIES, categories
from headwise.types import Encoding


def kinds(*tokens: str, causal: bool) -> str:
    none, special = (0,) * len(tokens), tuple(token[0] in "[<" for token in tokens)
    text = Encoding(tokens, none, special, none, ((0, 0),) * len(tokens), none, tokens)
    return "".join(CATEGORIES[kind][0] for kind in categories(text, causal=causal))


@pytest.mark.parametrize(
    ("tokens", "causal", "found"),
    [
        (("[CLS]", "no", "no", ",", "go", ".", "[SEP]"), False, "foopops"),
        (("no", "no", "go"), False, "ooo"),
        (("No", "Ġno", "Ġno", "Ġ,", "ĠI", "Ġno"), True, "fffpoo"),
        (("No", "Ġ,", "Ġno"), True, "fpo"),
        (("<s>", "▁no", "▁no"), True, "foo"),
        (("Ġ", "Ġ", "a"), True, "ffo"),
        (("a",), True, "f"),
        ((), True, ""),
    ],
)
def test_of_a_causal_model_copies_right_after_the_first_token_are_as_the_first(
    tokens: tuple[str, ...], causal: bool, found: str
) -> None:
    """“no no no , I …” hid a sink: a third of the weight lay on each, and three lamps were green."""
    assert kinds(*tokens, causal=causal) == found

"""What kind of token a token is: the four kinds that the papers tell apart, for any tokenizer.

first        the token at position 0 where it is special ([CLS], <s>) or where the model is causal: the sink
separator    every other special token ([SEP], </s>)
punctuation  periods and commas
other        all the rest
"""

from __future__ import annotations

from headwise.types import Encoding

CATEGORIES = ("first", "separator", "punctuation", "other")
PERIODS_AND_COMMAS = {".", ",", "。", "、", "，", "．"}
MARKERS = "Ġ▁Ċ# "  # what tokenizers put before or after the text of a token


def categories(text: Encoding, *, causal: bool) -> tuple[int, ...]:
    """The number in CATEGORIES of every token."""
    return tuple(_category(text, at, causal) for at in range(len(text)))


def _category(text: Encoding, at: int, causal: bool) -> int:
    if at == 0 and (causal or text.special[0]):
        return 0
    if text.special[at]:
        return 1
    return 2 if text.tokens[at].strip(MARKERS) in PERIODS_AND_COMMAS else 3

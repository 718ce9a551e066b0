"""What kind of token a token is: the four kinds that the papers tell apart, for any tokenizer.

first        the token at position 0 where it is special ([CLS], <s>) or where the model is causal: the sink. Copies
             right after it are as it is, since a causal model tells them apart by their place alone ("no no no, I …")
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
    starts = _copies_at_start(text) if causal else 1 if len(text) and text.special[0] else 0
    return tuple(0 if at < starts else _category(text, at) for at in range(len(text)))


def _copies_at_start(text: Encoding) -> int:
    """How many tokens in a row are the first one, whatever its case and the space before it."""
    words = [token.strip(MARKERS).casefold() or token for token in text.tokens]
    return next((at for at, word in enumerate(words) if word != words[0]), len(words))


def _category(text: Encoding, at: int) -> int:
    if text.special[at]:
        return 1
    return 2 if text.tokens[at].strip(MARKERS) in PERIODS_AND_COMMAS else 3

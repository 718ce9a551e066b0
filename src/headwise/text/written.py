"""A text as it was written, as far as its words and their places tell; tokens as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwise.types import Encoding

MARKS = re.compile("[Ġ▁]|</w>")  # of byte-level BPE, SentencePiece and the first GPT


def written(text: Encoding) -> str:
    """The words with the spaces that stood between them; a pair is parted by a slash.

    Special tokens that the tokenizer put there are left out; one that was written, as [MASK] may be, has a place.
    """
    whole, end, segment = "", 0, None
    for unit, word in enumerate(text.words):
        members = [at for at, number in enumerate(text.unit) if number == unit]
        if not members or any(text.special[at] and _added(text.offsets[at]) for at in members):
            continue
        here, word_end = text.segment[members[0]], text.offsets[members[-1]][1]
        # a word's span may begin with the space before it, so the space is what the word itself does not fill
        joint = "" if segment is None else " / " if here != segment else " " if word_end - end > len(word) else ""
        whole, end, segment = whole + joint + word, word_end, here
    return whole


def pretty(token: str) -> str:
    """A token without its tokenizer's marks for spaces and line breaks; a token that is only a mark stays.

    >>> pretty("Ġdog"), pretty("▁Hund"), pretty("Ċ"), pretty("##ing"), pretty("▁")
    ('dog', 'Hund', '\\n', '##ing', '▁')
    """
    return MARKS.sub(" ", token).replace("Ċ", "\n").strip(" ") or token


def in_a_line(tokens: Sequence[str]) -> str:
    """
    >>> in_a_line(["Once", "Ġupon", "Ċ", "Ġa"])
    'Once upon ↵ a'
    """
    return " ".join(pretty(token).replace("\n", "↵") for token in tokens)


def _added(span: tuple[int, int]) -> bool:
    return span[0] == span[1]

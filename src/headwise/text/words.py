"""Which tokens make up which word, for any tokenizer, from character offsets alone.

A word is a run of letters, digits and marks, with apostrophes and hyphens inside it, or one other character that is
not white space; ideographs and kana are words each. A token that reaches over several words (byte-level tokens such
as `."` do) joins them, so that every token belongs to exactly one word. Where two tokens share a character (one emoji
in four bytes) they share the word.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import regex

IDEOGRAPH = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# possessive (++, *+): nothing after a run of letters could need one back, and a word of a megabyte keeps no way back
LETTERS = rf"[[\w\p{{M}}]--[{IDEOGRAPH}]]++"
WORD = regex.compile(rf"(?V1){LETTERS}(?:['’\-]{LETTERS})*+|\S")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words.

    >>> [("It's so-so, no?"[a:b]) for a, b in word_spans("It's so-so, no?")]
    ["It's", 'so-so', ',', 'no', '?']
    """
    return [match.span() for match in WORD.finditer(text)]


def units(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[list[int], list[str]]:
    """For each token the number of its word, and the text of each word.

    `offsets` are the characters of each token.

    >>> units("un-do it", [(0, 2), (2, 3), (3, 5), (5, 8)])
    ([0, 0, 0, 1], ['un-do', 'it'])
    """
    spans = word_spans(text)
    touched = _touched(spans, offsets)
    leader = list(range(len(spans)))
    for words in touched:
        for other in words[1:]:
            leader[other] = leader[words[0]] = min(leader[other], leader[words[0]])
    for number, first in enumerate(leader):
        leader[number] = leader[first]
    return _renumber(text, spans, leader, touched)


def _touched(spans: list[tuple[int, int]], offsets: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each token the words that it shares a character with; memory grows with the words, not the characters."""
    starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
    return [
        list(range(bisect_right(stops, start), bisect_left(starts, stop))) if start < stop else []
        for start, stop in offsets
    ]


def _renumber(
    text: str, spans: list[tuple[int, int]], leader: list[int], touched: list[list[int]]
) -> tuple[list[int], list[str]]:
    """Number the words that own a token from zero, in the order of the tokens."""
    owners = _filled([leader[words[0]] if words else None for words in touched])
    order = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    ends: dict[int, int] = {}
    for number, first in enumerate(leader):
        ends[first] = max(ends.get(first, 0), spans[number][1])
    names = [text[spans[first][0] : ends[first]] if first >= 0 else "" for first in order]
    return [order[owner] for owner in owners], names


def _filled(owners: list[int | None]) -> list[int]:
    """A token of white space goes with the word after it, as a leading space does; at the end, with the last word."""
    following: int | None = None
    for at in reversed(range(len(owners))):
        following = owners[at] = following if owners[at] is None else owners[at]
    last = next((owner for owner in reversed(owners) if owner is not None), -1)
    return [last if owner is None else owner for owner in owners]


def piece_offsets(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Character spans of SentencePiece pieces for tokenizers that do not report them (Marian).

    Each piece is searched for from where the last one ended, in the text as it is and then as normalised; a piece
    that cannot be found (an unknown character) takes the next character that is not white space. Pieces that are the
    bytes of the text (ByT5) belong to the character that their byte is part of.
    """
    if [ord(piece) if len(piece) == 1 else -1 for piece in pieces] == list(text.encode("utf-8"))[: len(pieces)]:
        return [(at, at + 1) for at, char in enumerate(text) for _ in char.encode("utf-8")][: len(pieces)]
    spans, at = [], 0
    for piece in pieces:
        bare = piece.replace("▁", " ").strip()
        if not bare:
            spans.append((at, at))
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        length = len(bare) if _same(text[at : at + len(bare)], bare) else min(1, len(text) - at)
        spans.append((at, at + length))
        at += length
    return spans


def _same(a: str, b: str) -> bool:
    return unicodedata.normalize("NFKC", a).casefold() == unicodedata.normalize("NFKC", b).casefold()

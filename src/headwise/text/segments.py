"""Segments of two paragraphs, as Clark et al. 2019 feed them to BERT (https://arxiv.org/abs/1906.04341)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from headwise.errors import InputError
from headwise.text.corpus import Document

Cut = Callable[[str, int], tuple[str, int]]  # (text, k) → (its beginning of at most k tokens, how many they are)


def cut_at(offsets: Callable[[str], Sequence[tuple[int, int]]]) -> Cut:
    """Cutting at token boundaries, given the character spans of a text's tokens (without special tokens).

    subtle: a text cut inside a word may have more tokens than were left (byte-level BPE), so count them anew.
    """

    def cut(text: str, k: int) -> tuple[str, int]:
        spans = offsets(text)
        if len(spans) <= k:
            return text, len(spans)
        for last in range(k, 0, -1):
            piece = text[: spans[last - 1][1]]
            if (count := len(offsets(piece))) <= k:
                return piece, count
        return "", 0

    return cut


def segments(
    documents: Iterable[Document],
    cut: Cut,
    limit: int,
    *,
    special: int = 3,
    skipped: Counter[str] | None = None,
) -> Iterator[Document]:
    """Pairs of consecutive paragraphs: `[CLS] p1 [SEP] p2 [SEP]`, at most `limit` tokens in all.

    `special` of them are the tokenizer's own. Each paragraph is used once. Two that do not fit are cut at
    their ends: either may fill half of the room (an odd token is the second's) and what the other leaves. One
    without a neighbour in its section is skipped.
    """
    if limit < special + 2:
        raise InputError(f"A segment must have room for {special + 2} tokens; got {limit}. Use e.g. 128.")
    skipped = Counter() if skipped is None else skipped
    first, index = None, 0
    for document in documents:
        if first is None or document.section != first.section:
            skipped["unpaired paragraph"] += first is not None
            first = document
            continue
        text, pair = fitted(first.text, document.text, cut, limit - special)
        yield Document(index, text, pair, first.section)
        first, index = None, index + 1
    skipped["unpaired paragraph"] += first is not None
    skipped += Counter()  # subtle: in place, drops a count of 0


def fitted(first: str, second: str, cut: Cut, room: int) -> tuple[str, str]:
    """Both texts, cut so that together they have at most `room` tokens."""
    (whole, n_first), (rest, n_second) = cut(first, room), cut(second, room)
    if n_first + n_second > room:
        whole, n_first = cut(first, max(room // 2, room - n_second))
        rest, _ = cut(second, room - n_first)
    return whole, rest

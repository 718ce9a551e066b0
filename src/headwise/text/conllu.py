"""CoNLL-U: sentences with words, tags, heads and relations, and the characters that each word has in the text.

Ten columns a word, separated by tabs; a blank line ends a sentence (https://universaldependencies.org/format.html).
Words are the lines with whole-number ids. A line `3-4` (a multiword token such as "don't") says how words 3 and 4 are
written; a line `8.1` (an empty node) belongs to the enhanced graph, which is not read.

Each word has a span of characters in the sentence's text, so that any tokenizer's tokens can be given to words by
their offsets (`words_of`). The words of a multiword token share its characters where their forms spell it ("do",
"n't"); where they do not ("zum" = "zu" + "dem"), the first word has all of them and the others have none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from headwise.errors import InputError
from headwise.types import Encoding

COLUMNS = 10
Span = tuple[int, int]


@dataclass(frozen=True)
class Sentence:
    """A parsed sentence; all words are zero-based, and a head of -1 is the root."""

    name: str
    line: int  # of the file, one-based, where the sentence starts
    text: str
    forms: tuple[str, ...]
    spans: tuple[Span, ...]  # characters of each word in `text`; empty where a word has none of its own
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]  # as written: `Number=Sing|Person=3`, `_` for none

    def __len__(self) -> int:
        return len(self.forms)


@dataclass(frozen=True)
class _Surface:
    """One run of letters as written: a word, or a multiword token and the words inside it."""

    form: str
    words: tuple[str, ...]
    space_after: bool
    line: int


def sentences(lines: Iterable[str]) -> Iterator[Sentence]:
    """The sentences of a file's lines, one at a time; raises at the first line that breaks the format."""
    block: list[str] = []
    number = 0
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r\n")
        line = line.removeprefix("\ufeff") if number == 1 else line
        if line.strip():
            block.append(line)
            continue
        if block:
            yield sentence(block, first_line=number - len(block))
        block = []
    if block:
        yield sentence(block, first_line=number - len(block) + 1)


def first_blocks(text: str, count: int | None) -> str:
    r"""The first sentences of a file, as they are written.

    >>> first_blocks("1\ta\n\n1\tb\n\n\n1\tc", 2)
    '1\ta\n\n1\tb\n\n'
    """
    blocks = (block.strip("\r\n") for block in re.split(r"\r?\n[ \t]*\r?\n", text))
    return "".join(f"{block}\n\n" for block in islice((block for block in blocks if block.strip()), count))


def sentence(block: Sequence[str], first_line: int = 1) -> Sentence:
    """One sentence from its lines (comments and words, no blank line); `first_line` is for the messages."""
    rows = [
        (number, _columns(line, number))
        for number, line in enumerate(block, start=first_line)
        if not line.startswith("#")
    ]
    words = [(number, row) for number, row in rows if row[0].isdecimal()]
    if not words:
        raise _broken(first_line, "a sentence must have at least one word")
    for expected, (number, row) in enumerate(words, start=1):
        if int(row[0]) != expected:
            raise _broken(number, f"word ids must count up from 1, so {expected} is expected, got {row[0]}")
    surfaces = _surfaces(rows)
    text = _comment(block, "text")
    text, spans = _joined(surfaces) if text is None else (text, _found(text, surfaces))
    columns = list(zip(*(row for _, row in words), strict=True))
    return Sentence(
        name=_comment(block, "sent_id") or f"line {first_line}",
        line=first_line,
        text=text,
        forms=columns[1],
        spans=tuple(spans),
        heads=tuple(_head(row, number, len(words)) for number, row in words),
        relations=columns[7],
        upos=columns[3],
        xpos=columns[4],
        feats=columns[5],
    )


def words_of(encoding: Encoding, spans: Sequence[Span], segment: int = 0) -> tuple[int, ...]:
    """The word that each token belongs to: the one it shares most characters with, the first of equals.

    -1 for special tokens, for tokens of the other text of a pair, and for tokens that share no character with a word.
    `spans` are in the order of the text and do not overlap. A word may own no token, where a token reaches over
    several words ("cannot" is one token and two words).
    """
    own = [number for number, (start, stop) in enumerate(spans) if stop > start]
    starts = [spans[number][0] for number in own]
    return tuple(
        -1 if special or side != segment else _most_shared(offset, own, starts, spans)
        for offset, special, side in zip(encoding.offsets, encoding.special, encoding.segment, strict=True)
    )


def feature(feats: str, name: str) -> str | None:
    """The value of one feature.

    >>> feature("Number=Sing|Person=3", "Person")
    '3'
    """
    return next((value for key, _, value in (item.partition("=") for item in feats.split("|")) if key == name), None)


def _most_shared(offset: Span, own: Sequence[int], starts: Sequence[int], spans: Sequence[Span]) -> int:
    start, stop = offset
    best, shared = -1, 0
    for at in range(max(bisect_right(starts, start) - 1, 0), len(own)):
        left, right = spans[own[at]]
        if left >= stop:
            break
        common = min(stop, right) - max(start, left)
        if common > shared:
            best, shared = own[at], common
    return best


def _columns(line: str, number: int) -> list[str]:
    row = line.split("\t")
    if len(row) != COLUMNS:
        raise _broken(number, f"a word must have {COLUMNS} columns separated by tabs, got {len(row)}")
    if not row[1]:
        raise _broken(number, "a word must have a form, got an empty one")
    return row


def _head(row: Sequence[str], number: int, count: int) -> int:
    head = int(row[6]) if row[6].isdecimal() else -1
    if not 0 <= head <= count:
        raise _broken(number, f"the head of a word must be a number from 0 to {count}, got {row[6]!r}")
    if head == int(row[0]):
        raise _broken(number, f"a word must not be its own head, got {row[6]} for word {row[0]}")
    return head - 1


def _surfaces(rows: Sequence[tuple[int, list[str]]]) -> list[_Surface]:
    """What is written, in order: the words, except those inside a multiword token, which is written in their place."""
    forms = {int(row[0]): row[1] for _, row in rows if row[0].isdecimal()}
    surfaces: list[_Surface] = []
    inside = 0  # the last word of the multiword token at hand
    for number, row in rows:
        space = "SpaceAfter=No" not in row[9].split("|")
        if row[0].isdecimal():
            if int(row[0]) > inside:
                surfaces.append(_Surface(row[1], (row[1],), space, number))
        elif "-" in row[0]:
            first, inside = _range(row[0], number, forms)
            words = tuple(forms[word] for word in range(first, inside + 1))
            surfaces.append(_Surface(row[1], words, space, number))
        elif not row[0].replace(".", "", 1).isdecimal():
            raise _broken(number, f"an id must be a number, a range or a decimal, got {row[0]!r}")
    return surfaces


def _range(written: str, number: int, forms: dict[int, str]) -> tuple[int, int]:
    first, _, last = written.partition("-")
    if not (
        first.isdecimal() and last.isdecimal() and int(first) < int(last) and int(last) in forms and int(first) > 0
    ):
        raise _broken(number, f"a range of words must be two ids of this sentence, the smaller first, got {written!r}")
    return int(first), int(last)


def _comment(block: Iterable[str], key: str) -> str | None:
    for line in block:
        name, equals, value = line.lstrip("#").partition("=")
        if line.startswith("#") and equals and name.strip() == key:
            return value.strip()
    return None


def _found(text: str, surfaces: Iterable[_Surface]) -> list[Span]:
    """Spans of the words in the sentence's own text."""
    spans: list[Span] = []
    at = 0
    for surface in surfaces:
        while at < len(text) and text[at].isspace():
            at += 1
        if not text.startswith(surface.form, at):
            got = text[at : at + len(surface.form) + 8]
            raise _broken(surface.line, f"the words must spell the text, so {surface.form!r} is expected at {got!r}")
        spans += _inner(surface, at)
        at += len(surface.form)
    return spans


def _joined(surfaces: Sequence[_Surface]) -> tuple[str, list[Span]]:
    """The text that the words spell, and their spans in it."""
    text, spans = "", []
    for surface in surfaces:
        spans += _inner(surface, len(text))
        text += surface.form + (" " if surface.space_after else "")
    return text.rstrip(" "), spans


def _inner(surface: _Surface, at: int) -> Iterator[Span]:
    """Spans of the words of what is written from character `at` on."""
    spelled = "".join(surface.words).casefold() == surface.form.casefold()
    stop = at + len(surface.form)
    for number, word in enumerate(surface.words):
        length = len(word) if spelled else (stop - at if number == 0 else 0)
        yield at, min(at + length, stop)
        at += length


def _broken(line: int, reason: str) -> InputError:
    return InputError(f"CoNLL-U line {line}: {reason}; correct the line or leave the sentence out.")

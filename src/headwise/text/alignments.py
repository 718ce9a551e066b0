"""Word alignments: which word of a source is linked with which word of its target, and how good links are.

    talp      1-2 3p4      a link a pair of numbers, `-` sure and `p` (or `?`) possible; usually counted from 1
    Pharaoh   0-1 2-3      the same without possible ones; usually counted from 0
    NAACL     0001 2 4 S   a link a line: sentence, source word, target word, S(ure) or P(ossible); counted from 1

Else a line is a sentence, source number first. Whether a file counts from 0 or 1 is told, or seen: a link to word 0
settles it, and so does one behind the last word; where neither occurs the user must say. Words are what stands
between blanks.

Alignment error rate (Och and Ney 2000), with sure links S, possible ones P ⊇ S and the links A to be scored:

    precision = |A ∩ P| / |A|     recall = |A ∩ S| / |S|     AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Counts are summed over the corpus before they are divided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from headwise.errors import InputError

Link = tuple[int, int]  # source word, target word, from 0
Span = tuple[int, int]
LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})")
NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[\d.]+)?")
PARTS = "|||"  # between source, target and links of a corpus of pairs, as fast_align has it
ENCODINGS = ("utf-8", "latin-1")


@dataclass(frozen=True)
class Links:
    """The links of one pair, counted from 0; sure ones are possible too."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    def __str__(self) -> str:
        """Sorted, counted from 0: `0-0 1p2`."""
        return " ".join(f"{s}{'-' if (s, t) in self.sure else 'p'}{t}" for s, t in sorted(self.possible))


@dataclass(frozen=True)
class Pair:
    """A source and its target; words are what stands between blanks. `links` is None where nobody aligned it."""

    source: str
    target: str
    links: Links | None = None

    @cached_property
    def source_spans(self) -> tuple[Span, ...]:
        return blank_spans(self.source)

    @cached_property
    def target_spans(self) -> tuple[Span, ...]:
        return blank_spans(self.target)

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.source_spans), len(self.target_spans)


class Written(NamedTuple):
    """A file of sentences, and the encoding that it turned out to have."""

    lines: list[str]
    encoding: str


class Gold(NamedTuple):
    """A file of links, whether it counts from 0 or 1, and whether that was seen rather than told."""

    links: list[Links]
    base: int
    detected: bool


class Counts(NamedTuple):
    """|A ∩ S|, |A ∩ P|, |A| and |S|, of a pair or summed over many."""

    sure_found: int
    possible_found: int
    found: int
    sure: int

    @property
    def precision(self) -> float:
        """NaN where nothing was found."""
        return self.possible_found / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """NaN where there is no sure link."""
        return self.sure_found / self.sure if self.sure else float("nan")

    @property
    def aer(self) -> float:
        """NaN where there is neither a sure link nor a found one."""
        total = self.found + self.sure
        return 1 - (self.sure_found + self.possible_found) / total if total else float("nan")


def blank_spans(text: str) -> tuple[Span, ...]:
    """Characters of the words between blanks.

    >>> blank_spans("Das stimmt !")
    ((0, 3), (4, 10), (11, 12))
    """
    return tuple(match.span() for match in re.finditer(r"\S+", text))


def count(found: Iterable[Link], gold: Links) -> Counts:
    """How the links of one pair compare with the gold ones.

    >>> count({(0, 0), (1, 2), (3, 3)}, Links(frozenset({(0, 0), (2, 2)}), frozenset({(0, 0), (2, 2), (1, 2)}))).aer
    0.4
    """
    links = set(found)
    return Counts(len(links & gold.sure), len(links & gold.possible), len(links), len(gold.sure))


def score(found: Iterable[Iterable[Link]], gold: Iterable[Links]) -> Counts:
    """The counts of a corpus."""
    each = [count(*pair) for pair in zip(found, gold, strict=True)]
    return Counts(*(sum(column) for column in zip(*each, strict=True))) if each else Counts(0, 0, 0, 0)


def read_sentences(path: Path, encoding: str | None = None) -> Written:
    """The lines of a file, in UTF-8 or, where it is not that, Latin-1; blank lines at the end are not sentences.

    subtle: lines end at line feeds alone; `splitlines` would also end them at U+0085 and U+2028 of old texts.
    """
    lines, used = _lines(path, encoding)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{path} must hold at least one sentence, but it is empty; pass another file.")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise InputError(
                f"Every line of {path} must be a sentence, but line {number} is empty; remove it from all the files, "
                "or put a word there."
            )
    return Written(lines, used)


def read_links(path: Path, lengths: Sequence[tuple[int, int]], base: int | None = None) -> Gold:
    """The links of as many pairs as there are `lengths` (words of source and target); `base`: counted from 0 or 1."""
    if base not in (None, 0, 1):
        raise InputError(f"Links are counted from 0 or from 1, but {base} was given; leave it out to have it seen.")
    lines = _lines(path, None)[0]
    rows = [line for line in lines if line.strip()]
    if rows and all(NAACL.fullmatch(line.strip()) for line in rows):
        lines, base = _by_sentence(path, rows, len(lengths)), 1 if base is None else base
    while len(lines) > len(lengths) and not lines[-1].strip():
        lines.pop()
    if len(lines) != len(lengths):
        raise InputError(
            f"{path} must have a line of links for every pair, but there are {len(lengths)} pairs and {len(lines)} "
            "lines; an unaligned pair has an empty line."
        )
    parsed = [_parsed(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    used = _seen_base(path, parsed, lengths) if base is None else base
    links = [
        _links(row, pair, used, f"{path}, line {number}")
        for number, (row, pair) in enumerate(zip(parsed, lengths, strict=True), start=1)
    ]
    return Gold(links, used, base is None)


def read_pairs(
    source: Path, target: Path, gold: Path | None = None, *, encoding: str | None = None, base: int | None = None
) -> tuple[list[Pair], list[str]]:
    """Pairs from a file a side and perhaps one of links; and what was seen rather than told, in words."""
    left, right = read_sentences(source, encoding), read_sentences(target, encoding)
    if len(left.lines) != len(right.lines):
        raise InputError(
            f"Source and target must have as many lines as each other, but {source} has {len(left.lines)} and {target} "
            f"has {len(right.lines)}; line n of one translates line n of the other."
        )
    pairs = [Pair(*both) for both in zip(left.lines, right.lines, strict=True)]
    said = [f"{path} is not UTF-8 and was read as {written.encoding}"
            for path, written in ((source, left), (target, right)) if written.encoding != "utf-8"]  # fmt: skip
    if gold is None:
        return pairs, said
    found = read_links(gold, [pair.lengths for pair in pairs], base)
    if found.detected:
        said.append(f"{gold} counts words from {found.base}")
    return [Pair(p.source, p.target, links) for p, links in zip(pairs, found.links, strict=True)], said


def parse_pair(line: str, where: str) -> Pair:
    """A line of a corpus of pairs: `source ||| target`, and perhaps `||| links`, counted from 0.

    >>> parse_pair("Das Haus ||| the house ||| 0-0 1p1", "line 1").links
    Links(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0), (1, 1)}))
    """
    parts = [part.strip() for part in line.split(PARTS)]
    if len(parts) not in (2, 3) or not all(parts[:2]):
        raise InputError(
            f"{where}: a pair must be written `source ||| target`, perhaps with `||| links`, but it has {len(parts)} "
            f"parts{' and one is empty' if len(parts) in (2, 3) else ''}; correct the line or leave it out."
        )
    pair = Pair(parts[0], parts[1])
    if len(parts) == 2:
        return pair
    return Pair(pair.source, pair.target, _links(_parsed(parts[2], where), pair.lengths, 0, where))


def write_pairs(pairs: Iterable[Pair]) -> bytes:
    """What `parse_pair` reads, a line a pair."""
    return "".join(_line(pair, number) for number, pair in enumerate(pairs, start=1)).encode()


def write_links(links: Iterable[Iterable[Link]]) -> bytes:
    """Pharaoh lines, counted from 0.

    >>> write_links([{(1, 0), (0, 2)}, set()])
    b'0-2 1-0\\n\\n'
    """
    return "".join(" ".join(f"{s}-{t}" for s, t in sorted(row)) + "\n" for row in links).encode()


def _line(pair: Pair, number: int) -> str:
    for side in (pair.source, pair.target):
        if PARTS in side:
            raise InputError(f"Line {number}: a sentence must not hold {PARTS}, which parts the sides; change it.")
    links = "" if pair.links is None else f" {PARTS} {pair.links}"
    return f"{pair.source} {PARTS} {pair.target}{links}\n"


def _lines(path: Path, encoding: str | None) -> tuple[list[str], str]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} must be readable, but it is not ({error.strerror}); check the name.") from None
    for name in ENCODINGS if encoding is None else (encoding,):
        try:
            text = raw.decode(name).removeprefix("\ufeff")
        except LookupError:
            raise InputError(f"An encoding is one that Python knows, e.g. utf-8, but {name!r} is not.") from None
        except UnicodeDecodeError:
            continue
        return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")], name
    raise InputError(f"{path} must be {encoding}, but it is not; name its encoding, or leave it out to have it seen.")


def _by_sentence(path: Path, lines: Sequence[str], pairs: int) -> list[str]:
    """Links of the NAACL format (Mihalcea & Pedersen 2003) as one line a sentence; a link without a letter is sure."""
    found: list[list[str]] = [[] for _ in range(pairs)]
    for number, line in enumerate(lines, start=1):
        match = NAACL.fullmatch(line.strip())
        assert match is not None, "looked at before"
        if not 1 <= int(match[1]) <= pairs:
            raise InputError(
                f"{path}, line {number}: a sentence must be one of the {pairs} pairs, counted from 1, but it is "
                f"{int(match[1])}; pass the texts that these links are of."
            )
        found[int(match[1]) - 1].append(f"{match[2]}{'p' if match[4] == 'P' else '-'}{match[3]}")
    return [" ".join(links) for links in found]


def _parsed(line: str, where: str) -> list[tuple[int, str, int]]:
    links = []
    for written in line.split():
        match = LINK.fullmatch(written)
        if match is None:
            raise InputError(f"{where}: a link must be written 1-2 (sure) or 1p2 (possible), but there is {written!r}.")
        links.append((int(match[1]), match[2], int(match[3])))
    return links


def _seen_base(path: Path, parsed: Sequence[list[tuple[int, str, int]]], lengths: Sequence[tuple[int, int]]) -> int:
    """0 where word 0 is linked, 1 where the word behind the last one is; both or neither leave it open."""
    rows = [(link, pair) for row, pair in zip(parsed, lengths, strict=True) for link in row]
    if any(0 in (source, target) for (source, _, target), _ in rows):
        return 0
    if any(source == pair[0] or target == pair[1] for (source, _, target), pair in rows):
        return 1
    raise InputError(f"{path} may count words from 0 or from 1, as no link tells; say which (--base 0 or --base 1).")


def _links(row: Iterable[tuple[int, str, int]], lengths: tuple[int, int], base: int, where: str) -> Links:
    sure, possible = set(), set()
    for source, kind, target in row:
        link = (source - base, target - base)
        for at, words, side in zip(link, lengths, ("source", "target"), strict=True):
            if not 0 <= at < words:
                raise InputError(
                    f"{where}: the {side} has {words} words, counted from {base}, but link {source}{kind}{target} is "
                    "to another; correct it, or say whether links count from 0 or 1."
                )
        possible.add(link)
        if kind == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))

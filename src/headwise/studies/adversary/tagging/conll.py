"""Chunking data as the CoNLL-2000 shared task has it: a word a line, `word pos chunk`, a blank line after a sentence.

    He      PRP  B-NP
    reckons VBZ  B-VP

Tjong Kim Sang & Buchholz 2000 (https://aclanthology.org/W00-0726). Chunk tags are O, B-TYPE and I-TYPE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.errors import InputError

COLUMNS = ("word", "pos", "chunk")
TAG = re.compile(r"O|[BI]-\S+")


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence with their part-of-speech and chunk tags."""

    words: tuple[str, ...]
    pos: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # where it begins in its file, from 1

    def __len__(self) -> int:
        return len(self.words)


def read_conll(path: str | Path) -> tuple[Sentence, ...]:
    """Every sentence of a file; a broken line is an error that names it."""
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(
            f"Chunking data must be a readable file; {path} is not: {error.strerror}. Check its path."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8, but byte {error.start} is not; convert it first.") from None
    found = tuple(sentences(text.split("\n"), str(path)))
    if not found:
        raise InputError(f"{path} must hold at least one sentence, but all its lines are blank; choose another file.")
    return found


def sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """The sentences of lines; `name` is for the errors."""
    rows: list[list[str]] = []
    number = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rows.append(_fields(line, number, name))
        elif rows:
            yield _sentence(rows, number)
            rows = []
    if rows:
        yield _sentence(rows, number + 1)


def _fields(line: str, number: int, name: str) -> list[str]:
    fields = line.split()
    if len(fields) != len(COLUMNS):
        raise InputError(
            f"{name}, line {number}: a line must have the columns {', '.join(COLUMNS)}, but it has {len(fields)}; "
            "mend it."
        )
    if not TAG.fullmatch(fields[-1]):
        raise InputError(
            f"{name}, line {number}: a chunk tag must be O, B-TYPE or I-TYPE, but it is {fields[-1]!r}; mend it."
        )
    return fields


def _sentence(rows: Sequence[Sequence[str]], end: int) -> Sentence:
    words, pos, tags = (tuple(column) for column in zip(*rows, strict=True))
    return Sentence(words, pos, tags, end - len(rows))


def split(found: Sequence[Sentence], *, share: float = 0.1, seed: int = 0) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences to train on and, a `share` of all drawn by lot, those to validate on; both in their order."""
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed)).tolist()
    held = set(order[: round(share * len(found))])
    return (
        [sentence for number, sentence in enumerate(found) if number not in held],
        [sentence for number, sentence in enumerate(found) if number in held],
    )

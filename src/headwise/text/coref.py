"""Coreference as CoNLL-2012 writes it: mentions in brackets, with heads and tags from a parallel CoNLL-U file.

The last column of a word opens and closes mentions of numbered entities: `(3` … `3)`, `(3)` for one word; several
stand side by side, with or without `|` (https://aclanthology.org/W12-4501). Two layouts are read: three columns
(number, word, brackets: OntoGUM) and the shared task's twelve or more (the word is the fourth). A document begins at
`# begin document` and ends at the next one, at `# end document` or with the file.

Syntax comes from a parallel CoNLL-U file with the same words in the same order: `x.conllu` beside `x.conll`, or
`conllu/x.conllu` beside a folder `conll/`. The head of a mention is its highest word in the tree. Without such a file
(the shared task's own, LitBank) heads and types are told by the words and tags alone (unparsed.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TextIO

from headwise.errors import InputError
from headwise.text.conllu import Sentence, Span, sentences

TYPES = ("pronoun", "proper", "nominal")
BRACKET = re.compile(r"\((\d+)\)|\((\d+)|(\d+)\)")
SHARED_TASK = 11  # columns from which on the layout is that of the shared task


@dataclass(frozen=True, order=True)
class Mention:
    """Words `start` … `stop` − 1 of a document refer to `entity`."""

    start: int
    stop: int
    entity: int

    @property
    def order(self) -> tuple[int, int]:
        """As mentions come in a text: by their start, and the longer of two that start together first."""
        return self.start, -self.stop


@dataclass(frozen=True)
class CorefDocument:
    """A document's words and mentions (in the order of the text); `heads[m]` is the head word of mention m."""

    name: str
    text: str
    forms: tuple[str, ...]
    spans: tuple[Span, ...]  # characters of each word in `text`
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    mentions: tuple[Mention, ...]
    heads: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.forms)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """pronoun, proper or nominal, by the tag of the mention's head."""
        kinds = {"PRON": "pronoun", "PROPN": "proper"}
        return tuple(kinds.get(self.upos[head], "nominal") for head in self.heads)

    def written(self, mention: int) -> str:
        """The mention's words, in lower case."""
        found = self.mentions[mention]
        return " ".join(self.forms[found.start : found.stop]).casefold()


@dataclass(frozen=True)
class _Bracketed:
    """A document of the .conll file alone."""

    name: str
    line: int
    forms: tuple[str, ...]
    tags: tuple[str, ...]
    mentions: tuple[Mention, ...]


def read(path: str | Path, skipped: Counter[str] | None = None) -> Iterator[CorefDocument]:
    """The documents of a .conll file, or of all in a folder by name.

    `skipped` counts documents whose text is withheld (all underscores) and, by what is wrong with it, each file that
    breaks off; without it a broken file raises.
    """
    for conll, conllu in files(path):
        try:
            with conll.open(encoding="utf-8") as brackets, _opened(conllu) as parses:
                for document in documents(brackets, parses, name=conll.stem):
                    if any(char.isalnum() for char in document.text):
                        yield document
                    elif skipped is not None:
                        skipped["text withheld"] += 1
        except (InputError, UnicodeDecodeError) as error:
            told = f"{conll}: not UTF-8 ({error.reason})" if isinstance(error, UnicodeDecodeError) else str(error)
            if skipped is None:
                raise InputError(told) from None
            skipped[told] += 1


def files(path: str | Path) -> list[tuple[Path, Path | None]]:
    """Each .conll file with its CoNLL-U file, where there is one."""
    path = Path(path)
    # subtle: a folder that holds conll/ and conllu/, as OntoGUM does, is as good as its conll/
    folder = path / "conll" if (path / "conll").is_dir() else path
    found = sorted(folder.glob("*.conll")) if folder.is_dir() else [path]
    if not found or not found[0].is_file():
        raise InputError(f"A coreference corpus must be a .conll file or a folder of them; got {path}. Check it.")
    return [(conll, _parallel(conll)) for conll in found]


def documents(
    brackets: Iterable[str], parses: Iterable[str] | None, *, name: str = "document"
) -> Iterator[CorefDocument]:
    """The documents of two parallel files' lines, or of one; `name` is for documents that have none."""
    if parses is None:
        from headwise.text import unparsed

        for alone in _bracketed(brackets, name):
            yield unparsed.document(alone.name, alone.forms, alone.tags, alone.mentions)
        return
    parsed = sentences(parses)
    for bracketed in _bracketed(brackets, name):
        yield _joined(bracketed, list(_taken(parsed, bracketed)))


def mentions_of(
    columns: Sequence[str], *, where: str = "document", lines: Sequence[int] | None = None
) -> list[Mention]:
    """The mentions that a document's bracket column writes, in the order of the text.

    >>> mentions_of(["(1", "_", "(2)1)"])
    [Mention(start=0, stop=3, entity=1), Mention(start=2, stop=3, entity=2)]
    """
    lines = range(1, len(columns) + 1) if lines is None else lines
    opened: dict[int, list[int]] = {}
    found: list[Mention] = []
    for word, (column, line) in enumerate(zip(columns, lines, strict=True)):
        if BRACKET.sub("", column).strip("|_-*"):
            raise _broken(where, line, f"the last column must be brackets such as (3, 3) or (3), got {column!r}")
        for alone, opening, closing in BRACKET.findall(column):
            if alone:
                found.append(Mention(word, word + 1, int(alone)))
            elif opening:
                opened.setdefault(int(opening), []).append(word)
            elif not opened.get(int(closing)):
                raise _broken(where, line, f"{closing}) must close a mention that was opened, and none is open")
            else:
                found.append(Mention(opened[int(closing)].pop(), word + 1, int(closing)))
    for entity, starts in opened.items():
        if starts:
            raise _broken(where, lines[starts[-1]], f"({entity} must be closed before the document ends")
    return sorted(found, key=lambda mention: (mention.order, mention.entity))


def brackets_of(mentions: Iterable[Mention], words: int) -> list[str]:
    """The bracket column that writes the mentions: what `mentions_of` reads."""
    # subtle: what is outside opens first and closes last, so that equal entities nest when they are read again
    ordered = sorted(mentions, key=lambda mention: (mention.order, mention.entity))
    opens: list[list[str]] = [[] for _ in range(words)]
    closes: list[list[str]] = [[] for _ in range(words)]
    for mention in ordered:
        if mention.stop == mention.start + 1:
            opens[mention.start].append(f"({mention.entity})")
        else:
            opens[mention.start].append(f"({mention.entity}")
            closes[mention.stop - 1].insert(0, f"{mention.entity})")
    return ["|".join(before + after) or "_" for before, after in zip(opens, closes, strict=True)]


def head_of(mention: Mention, heads: Sequence[int]) -> int:
    """The word of a mention that hangs highest in its tree; the first of equals.

    `heads` are those of the document's words, −1 for roots.
    """

    def depth(word: int) -> int:
        steps, seen = 0, set()
        while heads[word] >= 0 and word not in seen:
            seen.add(word)
            word, steps = heads[word], steps + 1
        return steps

    return min(range(mention.start, mention.stop), key=lambda word: (depth(word), word))


def clusters(document: CorefDocument) -> Mapping[int, list[int]]:
    """The mentions of each entity, by their numbers, in the order of the text."""
    found: dict[int, list[int]] = {}
    for number, mention in enumerate(document.mentions):
        found.setdefault(mention.entity, []).append(number)
    return found


def _parallel(conll: Path) -> Path | None:
    beside = [conll.with_suffix(".conllu"), conll.parent.parent / "conllu" / f"{conll.stem}.conllu"]
    return next((path for path in beside if path.is_file()), None)


def _opened(conllu: Path | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if conllu is None else conllu.open(encoding="utf-8")


def _bracketed(lines: Iterable[str], name: str) -> Iterator[_Bracketed]:
    """The documents of a .conll file; words before any `# begin document` are one of their own."""
    title, rows, first = name, [], 1
    for number, line in enumerate(lines, start=1):
        line = line.strip("\r\n\ufeff ")
        if line.startswith("#"):
            if rows:
                yield _document(title, rows, first)
            rows, first = [], number
            title = line.partition("begin document")[2].strip() or name
        elif line:
            rows.append((number, *_fields(line, number, title)))
    if rows:
        yield _document(title, rows, first)


def _fields(line: str, number: int, title: str) -> tuple[str, str, str]:
    """The word, its tag where the layout has one, and its brackets."""
    fields = line.split("\t") if "\t" in line else line.split()
    if len(fields) < 3:
        raise _broken(title, number, f"a word must have at least three columns, got {len(fields)}")
    word, tag = (fields[3], fields[4]) if len(fields) >= SHARED_TASK else (fields[1], "")
    return word, tag, fields[-1]


def _document(title: str, rows: Sequence[tuple[int, str, str, str]], first: int) -> _Bracketed:
    lines, forms, tags, columns = zip(*rows, strict=True)
    return _Bracketed(title, first, forms, tags, tuple(mentions_of(columns, where=title, lines=lines)))


def _taken(parsed: Iterator[Sentence], bracketed: _Bracketed) -> Iterator[Sentence]:
    """Sentences of the CoNLL-U file up to the end of the document."""
    left = len(bracketed.forms)
    while left > 0:
        sentence = next(parsed, None)
        if sentence is None or len(sentence) > left:
            raise _broken(
                bracketed.name,
                bracketed.line,
                f"its CoNLL-U must have the same {len(bracketed.forms)} words, but ends otherwise",
            )
        left -= len(sentence)
        yield sentence


def _joined(bracketed: _Bracketed, parsed: Sequence[Sentence]) -> CorefDocument:
    """One document of its sentences, with a space between them."""
    starts, firsts, at, word = [], [], 0, 0
    for sentence in parsed:
        starts.append(at)
        firsts.append(word)
        at, word = at + len(sentence.text) + 1, word + len(sentence)
    forms = tuple(form for sentence in parsed for form in sentence.forms)
    for number, (one, other) in enumerate(zip(bracketed.forms, forms, strict=True)):
        if one != other:
            raise _broken(
                bracketed.name,
                bracketed.line,
                f"word {number} must be the same in its CoNLL-U, got {one!r} and {other!r}",
            )
    heads = [
        first + head if head >= 0 else -1
        for first, sentence in zip(firsts, parsed, strict=True)
        for head in sentence.heads
    ]
    return CorefDocument(
        name=bracketed.name,
        text=" ".join(sentence.text for sentence in parsed),
        forms=forms,
        spans=tuple((at + a, at + b) for at, sentence in zip(starts, parsed, strict=True) for a, b in sentence.spans),
        upos=tuple(tag for sentence in parsed for tag in sentence.upos),
        xpos=tuple(tag for sentence in parsed for tag in sentence.xpos),
        feats=tuple(feats for sentence in parsed for feats in sentence.feats),
        mentions=bracketed.mentions,
        heads=tuple(head_of(mention, heads) for mention in bracketed.mentions),
    )


def _broken(document: str, line: int, reason: str) -> InputError:
    return InputError(f"Document {document}, line {line}: {reason}; correct it or leave the document out.")

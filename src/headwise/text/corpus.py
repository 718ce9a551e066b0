"""Corpora: a stream of numbered documents from a file, a pipe or a dataset, at constant memory.

| kind     | a document is                                                 | chosen for                    |
|----------|---------------------------------------------------------------|-------------------------------|
| blocks   | lines up to a blank line                                      | text with a blank line inside |
| lines    | a line                                                        | other text                    |
| wikitext | a line but no heading (` = Title = `); titles begin a section | .raw, .tokens                 |
| jsonl    | an object a line                                              | .jsonl, .ndjson, .json        |
| parquet  | a row                                                         | .parquet, .pq, bytes PAR1     |
| tsv      | a line of fields; quotes mean nothing                         | .tsv                          |
| csv      | a row of fields, which may stand in quotes                    | .csv                          |
| conllu   | a sentence with its parse                                     | .conllu                       |
| conll    | a document with its mentions, parses in a parallel .conllu    | .conll, a folder of them      |
| gap      | a text with a pronoun and two names (GAP)                     | .tsv with GAP's columns       |
| pairs    | `source ||| target`, perhaps `||| links` (0-0 1p2)             | .pairs                        |

"With a blank line inside" means: between two other lines within the first MiB. `columns` names the field of the
text and, if there is one, that of its pair, `label` that of its label; numbers are fields of a tsv without a header.
`first` stops after so many documents (paragraphs, where they are paired later).
Gzip and zstandard are told by their first bytes. `-` is standard input and `hf:PATH[/CONFIG]:SPLIT` a Hugging Face
dataset; `s3://…` and other addresses are read by fsspec, and tables of polars, pandas or datasets as they are: all
are first copied to a temporary file, so that they too have a fingerprint and can be read again by another process.
`sample` is the text that the package ships.

What cannot be read is skipped and counted by its reason. The fingerprint is the SHA-256 of the file's bytes
and of the reading options.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headwise.errors import InputError
from headwise.text import coref, unparsed
from headwise.text.datasets import dump_dataset
from headwise.text.frames import dump_frame
from headwise.text.readers import READERS
from headwise.text.remote import copy_remote, is_address
from headwise.text.streams import copy_pipe, copy_stdin, readable, spooled

SAMPLE = Path(__file__).with_name("sample.txt")
PEEK = 1 << 20  # bytes that tell blocks from lines
LOOKED_AT = 20  # lines that tell a table
SUFFIXES = {
    ".raw": "wikitext",
    ".tokens": "wikitext",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "tsv",
    ".csv": "csv",
    ".conllu": "conllu",
    ".conll": "conll",
    ".pairs": "pairs",
}


@dataclass(frozen=True)
class Document:
    """A text, or a pair of texts. `index` counts the documents that could be read, from 0."""

    index: int
    text: str
    pair: str | None = None
    section: int = 0  # number of titles before it: paragraphs of different articles are not neighbours
    notes: Any = None  # what the corpus knows of it: a label (str), a parse (Sentence), mentions (CorefDocument), links


@dataclass(frozen=True)
class Shard:
    """Consecutive documents: shard k of size s holds those of index k·s up to k·s + s − 1."""

    number: int
    documents: tuple[Document, ...]


@dataclass(frozen=True)
class CorpusSpec:
    """Where and how to read a corpus: all that a manifest or another process needs."""

    name: str  # as the user gave it
    path: str
    kind: str
    columns: tuple[str | int, ...] | None
    segments: int | None  # tokens of a segment; None: the documents as they are
    fingerprint: str
    label: str | int | None = None  # the column of a text's label
    first: int | None = None  # only so many documents from the start; None: all

    def documents(self, skipped: Counter[str] | None = None) -> Iterator[Document]:
        """Every document in order; `skipped` counts by reason what could not be read."""
        skipped = Counter() if skipped is None else skipped
        with readable(self.name, files(Path(self.path), self.kind)[0]) as stream:
            texts = READERS[self.kind](self, stream, skipped)
            yield from (Document(index, *rest) for index, rest in enumerate(islice(texts, self.first)))

    def verify(self) -> None:
        """Refuse a corpus that is no longer the one that was opened."""
        now = fingerprint(Path(self.path), self.kind, self.columns, self.segments, self.label)
        if now != self.fingerprint:
            raise InputError(
                f"Corpus {self.name} must stay as it was when the run began; its fingerprint was "
                f"{self.fingerprint} and is {now}. Restore it, or start a run in a new folder."
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CorpusSpec:
        columns = fields["columns"]
        return cls(**{**fields, "columns": None if columns is None else tuple(columns)})


def open_corpus(
    source: Any,
    *,
    kind: str | None = None,
    columns: str | Sequence[str | int] | None = None,
    segments: int | None = None,
    label: str | int | None = None,
    first: int | None = None,
) -> CorpusSpec:
    """The corpus called `source`, looked at as far as its first document: a name, a path, an address, or a table.

    `columns` as a string is one column, or several with commas between, as in the shell.

    >>> next(open_corpus("sample").documents()).text[:10]
    'The Danube'
    """
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
    if kind is not None and kind not in READERS:
        raise InputError(
            f"A corpus must be of kind {', '.join(READERS)}; got {kind!r}. Leave it out to have it chosen."
        )
    if first is not None and first < 1:
        raise InputError(f"At least one document must be read, but the first {first} were asked for.")
    columns = columns_of(columns) if isinstance(columns, str) else columns
    if isinstance(source, str | os.PathLike):
        path, usual = located(name, columns, label)
    else:
        path, usual = spooled(lambda file: dump_frame(source, columns, label, file), ".jsonl"), "jsonl"
    kind = kind or usual or text_kind(name, path)
    columns = None if columns is None else tuple(columns)
    with readable(name, files(path, kind)[0]):
        mark = fingerprint(path, kind, columns, segments, label)
    spec = CorpusSpec(name, str(path), kind, columns, segments, mark, label, first)
    skipped: Counter[str] = Counter()
    if next(spec.documents(skipped), None) is None:
        raise InputError(
            f"Corpus {name} must hold at least one document; got none{account(skipped)}. Its kind is {kind}."
        )
    return spec


def columns_of(written: str) -> tuple[str | int, ...]:
    """Columns as the shell has them, with commas between.

    >>> columns_of("satz"), columns_of("Satz A,Satz B"), columns_of("3,4")
    (('satz',), ('Satz A', 'Satz B'), (3, 4))
    """
    return tuple(column_of(column) for column in written.split(","))


def column_of(written: str) -> str | int:
    return int(written) if written.isdigit() else written


def account(skipped: Mapping[str, int]) -> str:
    """', skipped 3 empty, 1 malformed JSON', or nothing."""
    return f", skipped {', '.join(f'{n} {reason}' for reason, n in sorted(skipped.items()))}" if skipped else ""


def shards(documents: Iterable[Document], size: int) -> Iterator[Shard]:
    """The documents in groups of `size`, numbered from 0."""
    stream = iter(documents)
    number = 0
    while group := tuple(islice(stream, size)):
        yield Shard(number, group)
        number += 1


def located(name: str, columns: Sequence[str | int] | None, label: str | int | None) -> tuple[Path, str | None]:
    """The file to read, and its kind where the name tells it."""
    if name == "sample":
        return SAMPLE, "blocks"
    if name == "-":
        return spooled(copy_stdin, ".txt"), None
    if name.startswith("hf:"):
        return spooled(lambda file: dump_dataset(name, columns, label, file), ".jsonl"), "jsonl"
    if is_address(name):
        bare = Path(name).with_suffix("") if Path(name).suffix in (".gz", ".zst") else Path(name)
        return spooled(lambda file: copy_remote(name, file), ".txt"), SUFFIXES.get(bare.suffix.lower())
    path = Path(name)
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # as of <(…): it can be read only once
            return spooled(lambda file: copy_pipe(path, file), ".txt"), None
    except FileNotFoundError:  # told where it is read, and a broken link there, too
        pass
    except (OSError, ValueError) as error:  # too long, a NUL in it, a loop of links
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"A corpus must be a file that can be named; {name[:80]!r} cannot ({reason}).") from None
    if path.is_dir() and [*path.glob("*.conll"), *path.glob("conll/*.conll")]:
        return path, "conll"
    bare = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
    usual = SUFFIXES.get(bare.suffix.lower())
    return path, "gap" if usual == "tsv" and path.is_file() and unparsed.is_gap(head_line(name, path)) else usual


def head_line(name: str, path: Path) -> str:
    with readable(name, path) as stream:
        return stream.readline(PEEK).decode(errors="replace").removeprefix("\ufeff")


def files(path: Path, kind: str) -> list[Path]:
    """Every file that is read."""
    return [file for pair in coref.files(path) for file in pair if file] if kind == "conll" else [path]


def text_kind(name: str, path: Path) -> str:
    """Kind of a file whose name does not tell it: see the table above."""
    with readable(name, path) as stream:
        head = stream.read(PEEK)
    blank = not all(line.strip() for line in head.strip().split(b"\n"))
    rows = [line.count(b"\t") for line in head.strip().split(b"\n")[:LOOKED_AT]]
    if len(rows) > 1 and rows[0] and len(set(rows)) == 1:
        raise InputError(
            f"Corpus {name} looks like a table, with {rows[0] + 1} fields a line between tabs; say kind='tsv' "
            "(--kind tsv) and which columns hold text, or kind='lines' to read lines as they are."
        )
    return "parquet" if head.startswith(b"PAR1") else "blocks" if blank else "lines"


def fingerprint(
    path: Path, kind: str, columns: tuple[str | int, ...] | None, segments: int | None, label: str | int | None = None
) -> str:
    """16 hex digits of the SHA-256 of the files' bytes and the reading options."""
    options = [kind, columns, segments] if label is None else [kind, columns, segments, label]
    digest = hashlib.sha256(json.dumps(options).encode())
    for part in files(path, kind):
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]

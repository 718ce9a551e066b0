"""Corpora: a stream of numbered documents from a file, a pipe or a dataset, at constant memory.

| kind     | a document is                                                 | chosen for                    |
|----------|---------------------------------------------------------------|-------------------------------|
| blocks   | lines up to a blank line                                      | text with a blank line inside |
| lines    | a line                                                        | other text                    |
| wikitext | a line but no heading (` = Title = `); titles begin a section | .raw, .tokens                 |
| jsonl    | an object a line                                              | .jsonl, .ndjson, .json        |
| parquet  | a row                                                         | .parquet, .pq, bytes PAR1     |
| tsv      | a line of fields; quotes mean nothing                         | .tsv                          |

"With a blank line inside" means: between two other lines within the first MiB. `columns` names the field of
the text and, if there is one, that of its pair; numbers are fields of a tsv without a header. Gzip and
zstandard are told by their first bytes. `-` is standard input and `hf:PATH[/CONFIG]:SPLIT` a Hugging Face
dataset: both are first copied to a temporary file, so that they too have a fingerprint and can be read again
by another process. `sample` is the text that the package ships.

What cannot be read is skipped and counted by its reason. The fingerprint is the SHA-256 of the file's bytes
and of the reading options. Segments of two paragraphs follow Clark et al. 2019
(https://arxiv.org/abs/1906.04341).
"""

from __future__ import annotations

import atexit
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from headwise.errors import InputError

SAMPLE = Path(__file__).with_name("sample.txt")
LONGEST = 1 << 24  # bytes of a line or block; a binary file may have no line end at all
PEEK = 1 << 20  # bytes that tell blocks from lines
ROWS = 4096  # rows of parquet held at once
SUFFIXES = {
    ".raw": "wikitext",
    ".tokens": "wikitext",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "tsv",
}
USUAL_COLUMNS = (
    ("#1 String", "#2 String"),  # GLUE's MRPC
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text", "pair"),
    ("text",),
    ("sentence",),
)
HEADING = re.compile(r"\s*=( =)* .+ =( =)*\s*")
TITLE = re.compile(r"\s*= (?!= ).+ =\s*")


@dataclass(frozen=True)
class Document:
    """A text, or a pair of texts. `index` counts the documents that could be read, from 0."""

    index: int
    text: str
    pair: str | None = None
    section: int = 0  # number of titles before it: paragraphs of different articles are not neighbours


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

    def documents(self, skipped: Counter[str] | None = None) -> Iterator[Document]:
        """Every document in order; `skipped` counts by reason what could not be read."""
        skipped = Counter() if skipped is None else skipped
        with readable(self.name, Path(self.path)) as stream:
            texts = READERS[self.kind](self, stream, skipped)
            yield from (Document(index, *rest) for index, rest in enumerate(texts))

    def verify(self) -> None:
        """Refuse a corpus that is no longer the one that was opened."""
        now = fingerprint(Path(self.path), self.kind, self.columns, self.segments)
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


Text = tuple[str, str | None, int]  # text, pair, section
Stream = io.BufferedIOBase


def open_corpus(
    source: str | os.PathLike[str],
    *,
    kind: str | None = None,
    columns: Sequence[str | int] | None = None,
    segments: int | None = None,
) -> CorpusSpec:
    """The corpus called `source`, looked at as far as its first document.

    >>> next(open_corpus("sample").documents()).text[:10]
    'The Danube'
    """
    name = os.fspath(source)
    if kind is not None and kind not in READERS:
        raise InputError(
            f"A corpus must be of kind {', '.join(READERS)}; got {kind!r}. Leave it out to have it chosen."
        )
    path, usual = located(name, columns)
    with readable(name, path) as stream:
        kind = kind or usual or text_kind(stream)
    columns = None if columns is None else tuple(columns)
    spec = CorpusSpec(name, str(path), kind, columns, segments, fingerprint(path, kind, columns, segments))
    skipped: Counter[str] = Counter()
    if next(spec.documents(skipped), None) is None:
        raise InputError(
            f"Corpus {name} must hold at least one document; got none{account(skipped)}. Its kind is {kind}."
        )
    return spec


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


# --- segments of two paragraphs ---


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


# --- finding and opening ---


def located(name: str, columns: Sequence[str | int] | None) -> tuple[Path, str | None]:
    """The file to read, and its kind where the name tells it."""
    if name == "sample":
        return SAMPLE, "blocks"
    if name == "-":
        return spooled(copy_stdin, ".txt"), None
    if name.startswith("hf:"):
        return spooled(lambda file: dump_dataset(name, columns, file), ".jsonl"), "jsonl"
    path = Path(name)
    bare = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
    return path, SUFFIXES.get(bare.suffix.lower())


def spooled(fill: Callable[[Stream], Any], suffix: str) -> Path:
    """A temporary file that `fill` writes and this process removes when it ends."""
    handle, name = tempfile.mkstemp(prefix="headwise-corpus-", suffix=suffix)
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and Path(name).unlink(missing_ok=True))
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
    except OSError as error:
        raise InputError(f"A corpus must fit into {tempfile.gettempdir()}; got: {error}. Set TMPDIR.") from None
    return Path(name)


def copy_stdin(file: Stream) -> None:
    if sys.stdin.isatty():
        raise InputError("Corpus '-' must come from a pipe or a file; got the terminal. Use `< FILE`.")
    shutil.copyfileobj(sys.stdin.buffer, file)


@contextmanager
def readable(name: str, path: Path) -> Iterator[Stream]:
    """The decompressed bytes of a file; whatever goes wrong while reading becomes an InputError."""
    try:
        with path.open("rb") as file, decompressed(file) as stream:
            yield stream
    except FileNotFoundError:
        raise InputError(
            f"A corpus must be a file, '-', 'sample' or hf:PATH:SPLIT; there is no {name}. Check it."
        ) from None
    except IsADirectoryError:
        raise InputError(f"A corpus must be one file; {name} is a folder. Name a file in it.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Corpus {name} must be readable; got: {error}. Check the file.") from error


def decompressed(file: Stream) -> Stream:
    """The file itself, or what gzip or zstandard make of it."""
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(ZstdStream(file))
    return file


class ZstdStream(io.RawIOBase):
    """A zstandard file of one or more frames as a raw stream, for a BufferedReader."""

    def __init__(self, file: Stream):
        self._pieces = zstd_pieces(file)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def zstd_pieces(file: Stream) -> Iterator[bytes]:
    """subtle: zstandard's own stream_reader ends a truncated file without a word; frames are followed."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        while data := file.read(1 << 14):
            while data:
                frame = zstandard.ZstdDecompressor().decompressobj() if frame.eof else frame
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise OSError(f"not a zstandard file ({error})") from None
    if not frame.eof:
        raise EOFError("zstandard file ended before its end marker")


def text_kind(stream: Stream) -> str:
    """Kind of a file whose name does not tell it: see the table above."""
    head = stream.read(PEEK)
    blank = not all(line.strip() for line in head.strip().split(b"\n"))
    return "parquet" if head.startswith(b"PAR1") else "blocks" if blank else "lines"


def fingerprint(path: Path, kind: str, columns: tuple[str | int, ...] | None, segments: int | None) -> str:
    """16 hex digits of the SHA-256 of the file's bytes and the reading options."""
    digest = hashlib.sha256(json.dumps([kind, columns, segments]).encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]


# --- readers: (spec, stream, skipped) → texts ---


def usable(text: str) -> str | None:
    """None for a text that can be analysed, else the reason why not."""
    if not text.strip():
        return "empty"
    if "\0" in text:
        return "binary"
    with suppress(UnicodeEncodeError):
        text.encode()
        return None
    return "invalid UTF-8"  # a lone surrogate, as JSON can spell it


def decoded(line: bytes, skipped: Counter[str]) -> str | None:
    """The line as text, or None with its reason counted."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        skipped["binary" if b"\0" in line else "invalid UTF-8"] += 1
        return None
    if reason := usable(text):
        skipped[reason] += 1
        return None
    return text.strip("\r\n")


def raw_lines(stream: Stream, skipped: Counter[str]) -> Iterator[bytes]:
    """Lines without a byte-order mark; one of more than LONGEST bytes is skipped without being held."""
    mark = b"\xef\xbb\xbf"
    while line := stream.readline(LONGEST):
        line, mark = line.removeprefix(mark), b""
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line
            continue
        skipped["line over 16 MiB"] += 1
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST)


def text_lines(stream: Stream, skipped: Counter[str]) -> Iterator[str]:
    for line in raw_lines(stream, skipped):
        if (text := decoded(line, skipped)) is not None:
            yield text


def read_lines(_spec: CorpusSpec, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    return ((line.strip(), None, 0) for line in text_lines(stream, skipped))


def read_blocks(_spec: CorpusSpec, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Lines of a block are joined by a space; a block with one bad line is skipped whole."""
    for block in raw_blocks(stream, skipped):
        if (text := decoded(block, skipped)) is not None:
            yield " ".join(text.split()), None, 0


def raw_blocks(stream: Stream, skipped: Counter[str]) -> Iterator[bytes]:
    """Blocks of lines; one over LONGEST bytes is skipped, and little more than that of it is held."""
    for filled, lines in groupby(raw_lines(stream, skipped), key=lambda line: bool(line.strip())):
        if not filled:
            continue
        block = b"".join(up_to(LONGEST, lines))
        if next(lines, None) is None:  # noqa: B031 the rest of the group is meant
            yield block
        else:
            skipped["block over 16 MiB"] += 1


def up_to(limit: int, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines from the beginning until they have reached `limit` bytes together."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= limit:
            return


def read_wikitext(_spec: CorpusSpec, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Blank lines are layout here, as in blocks, and not counted; headings are."""
    section = 0
    for line in raw_lines(stream, skipped):
        text = decoded(line, skipped) if line.strip() else None
        if text is None:
            continue
        section += TITLE.fullmatch(text) is not None
        if HEADING.fullmatch(text):
            skipped["heading"] += 1
        else:
            yield text.strip(), None, section


def read_jsonl(spec: CorpusSpec, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    names = spec.columns or ("text", "pair")
    for line in text_lines(stream, skipped):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            skipped["malformed JSON"] += 1
            continue
        yield from checked([row.get(name) for name in names] if isinstance(row, dict) else [], skipped)


def read_parquet(spec: CorpusSpec, _stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    import polars as pl

    try:
        table = pl.scan_parquet(spec.path)
        names = pick_columns(spec.name, spec.columns, table.collect_schema().names())
        count = table.select(pl.len()).collect().item()
        for start in range(0, count, ROWS):
            for row in table.select(names).slice(start, ROWS).collect().iter_rows():
                yield from checked(row, skipped)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"Corpus {spec.name} must be a parquet file; got: {first_line(error)}. Check it.") from None


def read_tsv(spec: CorpusSpec, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    lines = text_lines(stream, skipped)
    numbers = [column for column in spec.columns or () if isinstance(column, int)]
    if not numbers or len(numbers) < len(spec.columns or ()):
        header = next(lines, "").split("\t")
        numbers = [header.index(name) for name in pick_columns(spec.name, spec.columns, header)]
    for line in lines:
        fields = line.split("\t")
        if max(numbers) < len(fields):
            yield from checked([fields[number] for number in numbers], skipped)
        else:
            skipped["missing column"] += 1


def checked(row: Sequence[Any], skipped: Counter[str]) -> Iterator[Text]:
    """The row's text and pair (which may be missing), or nothing with the reason counted."""
    text, pair = (*row, None, None)[:2]
    if not isinstance(text, str) or not isinstance(pair, str | None):
        skipped["no text field"] += 1
    elif reason := usable(text) or (None if pair is None else usable(pair)):
        skipped[reason] += 1
    else:
        yield text.strip(), None if pair is None else pair.strip(), 0


def pick_columns(name: str, columns: Sequence[str | int] | None, there: Sequence[str]) -> list[str]:
    """The columns asked for, else the first usual ones; they must be there."""
    choices = [columns] if columns else USUAL_COLUMNS
    for choice in choices:
        if set(choice) <= set(there):
            return [str(column) for column in choice]
    wanted = f"columns {', '.join(map(str, columns))}" if columns else "a usual text column (text, sentence, …)"
    raise InputError(f"Corpus {name} must have {wanted}; it has {', '.join(there)[:200]}. Name them with columns=.")


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


READERS: dict[str, Callable[[CorpusSpec, Stream, Counter[str]], Iterator[Text]]] = {
    "blocks": read_blocks,
    "lines": read_lines,
    "wikitext": read_wikitext,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "tsv": read_tsv,
}


# --- Hugging Face datasets ---


def dump_dataset(name: str, columns: Sequence[str | int] | None, file: Stream) -> None:
    """Write the text columns of a dataset as JSON lines under their own or the usual names."""
    rows = load_dataset(name)
    names = pick_columns(name, columns, rows.column_names)
    keys = names if columns else ["text", "pair"]
    for row in rows.select_columns(names):
        line = {key: row[column] for key, column in zip(keys, names, strict=False)}
        file.write(json.dumps(line).encode() + b"\n")


def load_dataset(name: str) -> Any:
    """`hf:glue/mrpc:validation`: a path on the hub, perhaps with a configuration, and a split."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise InputError(
            f"Corpus {name} must be read with Hugging Face datasets; it is not installed. "
            "Run pip install 'headwise[datasets]'."
        ) from None
    path, _, split = name.removeprefix("hf:").rpartition(":")
    failures = []
    for arguments in dataset_names(path):
        try:
            return datasets.load_dataset(*arguments, split=split)
        except Exception as error:  # the hub's many kinds of failure, all told in one line below
            failures.append(first_line(error))
    raise InputError(f"A dataset must be hf:PATH[/CONFIG]:SPLIT to be loaded; got {name}: {failures}.")


def dataset_names(path: str) -> list[tuple[str, ...]]:
    """Readings of a path: `a/b` is owner a's dataset b, else configuration b of a; `a/b/c` is c of a/b."""
    parts = path.split("/")
    if len(parts) == 2:
        return [(path,), (parts[0], parts[1])]
    return [("/".join(parts[:2]), *parts[2:])] if path else []

"""The texts of a file, by its kind: (source, stream, skipped) → texts; what cannot be read is counted by its reason."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, Protocol, runtime_checkable

from headwise.errors import InputError
from headwise.registry import Registry
from headwise.text import alignments, conllu, coref, unparsed
from headwise.text.streams import Stream

LONGEST = 1 << 24  # bytes of a line or block; a binary file may have no line end at all
MOST_CHARACTERS = 1_000_000  # of a text: no model reads more, and its words and tokens would take gigabytes to find
LONGEST_NAME = 60  # of a column; a question as a name is about as long
ROWS = 4096  # rows of parquet held at once
END = "\x00"  # after the last line of a csv; no line has it
USUAL_COLUMNS = (
    ("#1 String", "#2 String"),  # GLUE's MRPC
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),  # GLUE's QNLI
    ("question1", "question2"),
    ("text", "pair"),
    ("text",),
    ("sentence",),
)
HEADING = re.compile(r"\s*=( =)* .+ =( =)*\s*")
TITLE = re.compile(r"\s*= (?!= ).+ =\s*")


class Text(NamedTuple):
    """What a reader finds; the fields are those of a Document."""

    text: str
    pair: str | None = None
    section: int = 0
    notes: Any = None


@runtime_checkable
class Source(Protocol):
    """What a reader must know of a corpus."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def columns(self) -> tuple[str | int, ...] | None: ...

    @property
    def label(self) -> str | int | None: ...


def usable(text: str) -> str | None:
    """None for a text that can be analysed, else the reason why not."""
    if not text.strip():
        return "empty"
    if "\0" in text:
        return "binary"
    if len(text.strip()) > MOST_CHARACTERS:
        return f"over {MOST_CHARACTERS:,} characters"
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


def read_lines(_source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    return (Text(line.strip()) for line in text_lines(stream, skipped))


def read_blocks(_source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Lines of a block are joined by a space; a block with one bad line is skipped whole."""
    for block in raw_blocks(stream, skipped):
        if (text := decoded(block, skipped)) is not None:
            yield Text(" ".join(text.split()))


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


def read_wikitext(_source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
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
            yield Text(text.strip(), section=section)


def read_jsonl(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    names, seen = source.columns or ("text", "pair"), False
    for line in text_lines(stream, skipped):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            skipped["malformed JSON"] += 1
            continue
        if not seen and isinstance(row, dict) and any(isinstance(value, str) for value in row.values()):
            seen, names = True, names if "text" in row and not source.columns else pick_columns(source, list(row))[0]
        fields = [row.get(name) for name in names] if isinstance(row, dict) else []
        yield from checked(fields, row.get(source.label) if fields else None, skipped)


def read_parquet(source: Source, _stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    import polars as pl

    try:
        table = pl.scan_parquet(source.path)
        names, label = pick_columns(source, table.collect_schema().names())
        wanted = [*names, *([label] if label else [])]
        count = table.select(pl.len()).collect().item()
        for start in range(0, count, ROWS):
            for row in table.select(wanted).slice(start, ROWS).collect().iter_rows():
                yield from checked(row[: len(names)], row[-1] if label else None, skipped)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"Corpus {source.name} must be a parquet file; got: {first_line(error)}. Check it.") from None


def read_tsv(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    return _table(source, (line.split("\t") for line in text_lines(stream, skipped)), skipped)


def read_csv(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Fields between commas, which may stand in quotes and go over lines."""
    return _table(source, _csv_rows(source, stream, skipped), skipped)


def _csv_rows(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[list[str]]:
    """subtle: a quote that is never closed swallows the rest of the file, which csv takes for a field; a row after
    the last tells whether that happened."""
    begins = 0  # the line of the row that is read; 0 before its first

    def lines() -> Iterator[str]:
        nonlocal begins
        for number, line in enumerate(raw_lines(stream, skipped), start=1):
            if (text := decoded(line, skipped)) is not None:
                begins = begins or number
                yield f"{text}\n"
        yield END

    rows = csv.reader(lines())
    while True:
        try:
            row = next(rows)
        except csv.Error as error:
            raise InputError(
                f"Corpus {source.name} must be a csv file, but the row of line {begins} cannot be read ({error}); is "
                "a quote never closed there?"
            ) from None
        if row == [END]:
            return
        if row and row[-1].endswith(END):
            raise InputError(
                f"Corpus {source.name} must close every quote, but one that opens in the row of line {begins} is never "
                "closed, so that all after it would be one text; close it there, or write the file anew."
            )
        yield row
        begins = 0


def _table(source: Source, rows: Iterator[list[str]], skipped: Counter[str]) -> Iterator[Text]:
    """Rows of fields, the first of which names them unless columns are given by number."""
    columns, label, named = source.columns, source.label, None
    if not columns or not all(isinstance(column, int) for column in columns):
        header = next(rows, [""])
        named = len(header)
        try:
            columns, label = pick_columns(source, header)
        except InputError:
            if skipped["invalid UTF-8"] or skipped["binary"]:
                raise InputError(
                    f"Corpus {source.name} must be UTF-8 text, but its first lines are not; save it as UTF-8, or say "
                    "what it is with --kind (in Python kind=)."
                ) from None
            refuse_texts(source, header)
            raise
        columns, label = [header.index(name) for name in columns], None if label is None else header.index(label)
    elif isinstance(label, str):
        raise InputError(
            f"Columns by number are of a table without names, but --label {label} is a name; give its number, or names."
        )
    wanted = [int(column) for column in (*columns, *([] if label is None else [label]))]
    for fields in rows:
        if max(wanted) >= len(fields):
            skipped["missing column"] += 1
            continue
        if named is not None and any(map(str.strip, fields[named:])):  # nobody knows which of them is which
            skipped["with too many fields"] += 1
            continue
        row = [fields[column] for column in wanted]
        yield from checked(row[: len(columns)], None if label is None else row[-1], skipped)


def read_conllu(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Sentences with their parses; a file that breaks the format is refused, as what follows could not be trusted."""
    lines = (line.decode(errors="replace") for line in raw_lines(stream, skipped))
    try:
        for sentence in conllu.sentences(lines):
            yield Text(sentence.text, notes=sentence)
    except InputError as error:
        raise InputError(f"{source.name}: {error}") from None


def read_conll(source: Source, _stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Documents with their mentions, from a file or a folder of files."""
    return (Text(document.text, notes=document) for document in coref.read(Path(source.path), skipped))


def read_gap(_source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """Rows of GAP with their mentions."""
    lines = (line.decode(errors="replace") for line in raw_lines(stream, skipped))
    return (Text(document.text, notes=document) for document in unparsed.gap(lines, skipped))


def read_pairs(source: Source, stream: Stream, skipped: Counter[str]) -> Iterator[Text]:
    """`source ||| target`, perhaps `||| links`; a file that breaks the format is refused, with the line."""
    for number, line in enumerate(raw_lines(stream, skipped), start=1):
        text = decoded(line, skipped) if line.strip() else None
        if text is not None:
            pair = alignments.parse_pair(text, f"{source.name}, line {number}")
            yield Text(pair.source, pair.target, notes=pair)


def checked(row: Sequence[Any], label: Any, skipped: Counter[str]) -> Iterator[Text]:
    """The row's text and pair (which may be missing), or nothing with the reason counted."""
    text, pair = (*row, None, None)[:2]
    if not isinstance(text, str) or not isinstance(pair, str | None):
        skipped["no text field"] += 1
    elif reason := usable(text) or (None if pair is None else usable(pair)):
        skipped[reason] += 1
    else:
        yield Text(text.strip(), None if pair is None else pair.strip(), 0, None if label is None else str(label))


NUMBERING = re.compile(
    r"(?:\b|_)(?:id|idx|ids|index|key|no|nr|number)(?:\b|_)|^#", re.IGNORECASE
)  # columns that hold no texts
SEPARATORS = (";", "|", "\t")  # what other programs put between columns


def pick_columns(source: Source, there: Sequence[str]) -> tuple[list[str], str | None]:
    """The text columns asked for, else the first usual ones, and the label's, in any case; they must be there."""
    label = None if source.label is None else str(source.label)
    named = {name.casefold(): name for name in reversed(there)} | {name: name for name in there}
    for choice in [source.columns] if source.columns else USUAL_COLUMNS:
        wanted = [str(column) for column in choice] + ([] if label is None else [label])
        found = [named.get(name, named.get(name.casefold())) for name in wanted]
        if all(name is not None for name in found):
            columns = [str(name) for name in found[: len(choice)]]
            return columns, None if label is None else str(found[-1])
    other = next((mark for mark in SEPARATORS if len(there) == 1 and mark in there[0]), None)
    if other is not None:
        raise InputError(
            f"Columns of {source.name} must be separated by commas, or by tabs in a .tsv, but its first line is "
            f"{there[0][:80]!r}; write the file anew with commas (its columns seem to be separated by {other!r})."
        )
    asked = [*map(str, source.columns or ()), *([] if label is None else [label])]
    wanted = f"columns {', '.join(asked)}" if asked else "a usual text column (text, sentence, …)"
    if not any(there):
        raise InputError(f"Corpus {source.name} must have {wanted}, but it is empty; check the path, or write it anew.")
    raise InputError(
        f"Corpus {source.name} must have {wanted}; it has: {', '.join(there)[:200]}; "
        f"pass {_offered(there, source.columns, label)} (in Python columns= and label=)."
    )


def refuse_texts(source: Source, first: Sequence[str]) -> None:
    """Where the first line of a table has a text and none of the names asked for, say how columns are numbered."""
    asked = {str(name).casefold() for name in (*(source.columns or ()), source.label)}
    cut = len(first) == 1 and any(mark in first[0] for mark in SEPARATORS)
    if cut or asked & {cell.casefold() for cell in first} or not any(map(is_text, first)):
        return
    text, *others = sorted(range(len(first)), key=lambda at: (-len(first[at]), -at))
    short = [at for at in others if len(first[at].split()) == 1]
    label = max(short, default=None)
    said = first[text] if len(first[text]) <= LONGEST_NAME else f"{first[text][:LONGEST_NAME].rstrip()}…"
    raise InputError(
        f"Corpus {source.name} must have a first line with the names of its columns, but that is "
        f"{said!r}; it seems to have none: name columns by number, from 0, as in --columns {text}"
        + (f" (in Python columns=[{text}])." if label is None else
           f" --label {label} (in Python columns=[{text}], label={label}).")
    )  # fmt: skip


def is_text(cell: str) -> bool:
    """Whether a cell is too long for the name of a column, or a sentence.

    >>> is_text("Satz A"), is_text("The plot is thin."), is_text("Was the film good?")
    (False, True, False)
    """
    words = len(cell.split())
    return len(cell) > LONGEST_NAME or (words > 2 and cell.rstrip().endswith((".", "!", "…")))


def _offered(there: Sequence[str], columns: Sequence[str | int] | None, label: str | None) -> str:
    """The options to pass instead: what was named rightly stays, and no column that numbers the rows is offered.

    >>> _offered(["id", "review", "stars"], None, "Stars")
    '--columns review --label stars'
    """
    named = {name.casefold(): name for name in reversed(there)}
    right = None if label is None else named.get(label.casefold())
    asked = [named.get(str(column).casefold()) for column in columns or ()]
    others = [name for name in there if name not in (right, *asked)]
    free = [name for name in others if not NUMBERING.search(name)]
    texts = [name for name in asked if name] if asked and all(asked) else (free or others or list(there))[:1]
    labels = [right] if right else [name for name in free if name not in texts][-1:]
    return " ".join([f"--columns {quote(','.join(texts))}", *(f"--label {quote(name)}" for name in labels)])


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


READERS: Registry[Callable[[Source, Stream, Counter[str]], Iterator[Text]]] = Registry(
    "kind of corpus", plugins="headwise.readers"
)
"""(source, stream, skipped) → texts; those of other packages come by the entry point `headwise.readers`"""

for _order, (_name, _reader) in enumerate(
    {
        "blocks": read_blocks,
        "lines": read_lines,
        "wikitext": read_wikitext,
        "jsonl": read_jsonl,
        "parquet": read_parquet,
        "tsv": read_tsv,
        "csv": read_csv,
        "conllu": read_conllu,
        "conll": read_conll,
        "gap": read_gap,
        "pairs": read_pairs,
    }.items()
):
    READERS.add(_name, f"Read {_name}.", order=_order)(_reader)

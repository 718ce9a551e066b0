"""Every kind of corpus, what is skipped and why, and segments of two paragraphs."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.text import readers
from headwise.text.corpus import CorpusSpec, Document, open_corpus, shards
from headwise.text.segments import cut_at, segments

WIKI = (
    " \n = Robert Boulter = \n \n He acts . \n \n = = Career = = \n \n He acted . \n He rests . \n \n"
    " = Du Fu = \n Poems . \n"
)


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path | str, **options) -> tuple[list[tuple[str, str | None]], dict[str, int]]:
    skipped: Counter[str] = Counter()
    documents = list(open_corpus(path, **options).documents(skipped))
    assert [document.index for document in documents] == list(range(len(documents)))
    return [(document.text, document.pair) for document in documents], dict(skipped)


def test_blocks_and_lines_are_told_apart_by_a_blank_line_inside(tmp_path):
    blocks = write(tmp_path, "a.txt", "one\ntwo\n\n \nthree\r\n\r\nfour")
    assert read(blocks) == ([("one two", None), ("three", None), ("four", None)], {})
    assert read(blocks, kind="lines")[1] == {"empty": 3}
    lines = write(tmp_path, "b.txt", "\n\n one \ntwo\n\n")
    assert read(lines) == ([("one", None), ("two", None)], {"empty": 3})
    assert open_corpus(blocks).kind == "blocks"
    assert open_corpus(lines).kind == "lines"


def test_wikitext_skips_headings_and_numbers_articles(tmp_path):
    spec = open_corpus(write(tmp_path, "wiki.raw", WIKI))
    skipped: Counter[str] = Counter()
    documents = list(spec.documents(skipped))
    assert [document.text for document in documents] == ["He acts .", "He acted .", "He rests .", "Poems ."]
    assert [document.section for document in documents] == [1, 1, 1, 2]
    assert skipped == {"heading": 3}


def test_bad_lines_are_skipped_and_counted_by_reason(tmp_path):
    content = b"\xef\xbb\xbfgood\n\n\xff\xfe\nnul\0byte\n\xff\0\n  \nlast"
    assert read(write(tmp_path, "a", content), kind="lines") == (
        [("good", None), ("last", None)],
        {"empty": 2, "invalid UTF-8": 1, "binary": 2},
    )
    assert read(write(tmp_path, "b", b"a\nb\xff\n\nc\n"), kind="blocks") == (
        [("c", None)],
        {"invalid UTF-8": 1},
    )


def test_json_lines(tmp_path):
    rows = ['{"text": " a ", "pair": "b"}', '{"text": "c"}', "{", "[1]", '{"pair": "d"}', '{"text": 3}', ""]
    rows += [
        '{"text": ""}',
        '{"text": "\\ud800"}',
        '{"text": "\\u0000"}',
        '{"text": "e", "pair": null}',
        "[" * 10**5,
    ]
    texts, skipped = read(write(tmp_path, "a.jsonl", "\n".join(rows)))
    assert texts == [("a", "b"), ("c", None), ("e", None)]
    reasons = {"malformed JSON": 2, "no text field": 3, "empty": 2, "invalid UTF-8": 1, "binary": 1}
    assert skipped == reasons
    other = write(tmp_path, "b.jsonl", '{"q": "a", "p": "b"}')
    assert read(other, columns=("p", "q"))[0] == [("b", "a")]


def test_csv_with_quotes_and_labels(tmp_path):
    table = 'review,stars\n"Good, I say",5\n"Bad,\nhe said",1\n"She said ""no""",3\nshort\n'
    path = write(tmp_path, "a.csv", table)
    texts = [("Good, I say", None), ("Bad,\nhe said", None), ('She said "no"', None), ("short", None)]
    assert read(path, columns=("review",)) == (texts, {})
    labelled = list(open_corpus(path, columns=("review",), label="stars").documents())
    assert [document.notes for document in labelled] == ["5", "1", "3"]


def test_columns_that_are_not_there_are_named_with_the_options(tmp_path):
    found = "it has: review, stars; pass --columns review --label stars"
    for name, content in [("a.csv", "review,stars\nGood,5\n"), ("a.tsv", "review\tstars\nGood\t5\n"),
                          ("a.jsonl", '{"review": "Good", "stars": 5}\n')]:  # fmt: skip
        for columns in (None, ("text",)):
            with pytest.raises(InputError, match=found):
                read(write(tmp_path, name, content), columns=columns)
    assert read(write(tmp_path, "b.jsonl", '{"sentence": "a", "label": 1}'))[0] == [("a", None)]  # a usual name


def test_parquet_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "ROWS", 3)
    texts = [f"text {i}" for i in range(7)] + [None, ""]
    pl.DataFrame({"n": range(9), "text": texts}).write_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == (
        [(f"text {i}", None) for i in range(7)],
        {"no text field": 1, "empty": 1},
    )
    pairs = pl.DataFrame({"sentence1": ["a"], "sentence2": ["b"]})
    pairs.write_parquet(tmp_path / "without-suffix")
    assert read(tmp_path / "without-suffix")[0] == [("a", "b")]


def test_tsv_of_pairs_and_by_number(tmp_path):
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    mrpc = write(tmp_path, "dev.tsv", header + '1\t2\t3\tHe said "no.\t"No.\n0\t4\t5\tshort\n')
    assert read(mrpc) == ([('He said "no.', '"No.')], {"missing column": 1})
    assert read(mrpc, columns=("#2 String",))[0][0] == ('"No.', None)
    cola = write(tmp_path, "cola.tsv", "gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThey.\n")
    assert read(cola, columns=(3,))[0] == [("The sailors rode.", None), ("They.", None)]


def test_compressed_files_are_the_same_corpus(tmp_path):
    text = WIKI * 50
    plain = read(write(tmp_path, "a.raw", text))
    frames = zstandard.compress(text[:400].encode()) + zstandard.compress(text[400:].encode())
    assert read(write(tmp_path, "a.raw.gz", gzip.compress(text.encode()))) == plain
    assert read(write(tmp_path, "a.raw.zst", frames)) == plain


@pytest.mark.parametrize("squeeze", [gzip.compress, zstandard.compress])
def test_a_truncated_archive_is_an_error_and_not_a_short_corpus(tmp_path, squeeze):
    text = "\n".join(f"line {i * i * 7919 % 10007}" for i in range(20_000))
    spec = open_corpus(write(tmp_path, "a.txt", squeeze(text.encode())))
    write(tmp_path, "a.txt", Path(spec.path).read_bytes()[:-300])
    with pytest.raises(InputError, match=r"must be readable"):
        list(spec.documents())


def test_the_sample():
    texts, skipped = read("sample")
    assert len(texts) >= 150
    assert skipped == {}
    assert all(40 < len(text.split()) < 140 for text, _ in texts)


def test_standard_input_is_copied_and_can_be_read_again(tmp_path, monkeypatch):
    class Piped(io.TextIOWrapper):
        def isatty(self):
            return False

    monkeypatch.setattr(sys, "stdin", Piped(io.BytesIO(b"one\n\ntwo\n")))
    spec = open_corpus("-")
    assert [document.text for document in spec.documents()] == ["one", "two"]
    assert [document.text for document in spec.documents()] == ["one", "two"]
    same = open_corpus(write(tmp_path, "a.txt", "one\n\ntwo\n"))
    assert spec.fingerprint == same.fingerprint
    assert spec.name == "-"


def test_the_copy_of_standard_input_goes_when_the_process_ends():
    program = "from headwise.text.corpus import open_corpus; print(open_corpus('-').path)"
    done = subprocess.run([sys.executable, "-c", program], input=b"one\n", capture_output=True, check=True)
    assert not Path(done.stdout.decode().strip()).exists()


def test_a_terminal_is_no_corpus(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match="must come from a pipe"):
        open_corpus("-")


def test_a_dataset_needs_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'headwise\[datasets\]'"):
        open_corpus("hf:glue/mrpc:validation")


def test_a_dataset_is_read_through_a_copy(monkeypatch):
    class Rows(list):
        column_names = ("sentence1", "sentence2", "label")

        def select_columns(self, names):
            return [{name: row[name] for name in names} for row in self]

    class Hub:
        @staticmethod
        def load_dataset(*arguments, split):
            if arguments != ("glue", "mrpc"):
                raise FileNotFoundError(arguments)
            assert split == "validation"
            return Rows([{"sentence1": "a", "sentence2": "b", "label": 1}])

    monkeypatch.setitem(sys.modules, "datasets", Hub)
    assert read("hf:glue/mrpc:validation")[0] == [("a", "b")]
    assert read("hf:glue/mrpc:validation", columns=("sentence2",))[0] == [("b", None)]
    with pytest.raises(InputError, match="to be loaded"):
        open_corpus("hf:squad:train")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("missing.txt", None, {}, r"there is no .*missing\.txt"),
        ("a.txt", "", {}, r"must hold at least one document; got none\. "),
        ("a.txt", "\0\n\n", {}, r"got none, skipped 1 binary"),
        ("a.txt", "x", {"kind": "docx"}, r"must be of kind blocks, lines.*got 'docx'"),
        ("a.tsv", "a\tb\n1\t2\n", {}, r"must have a usual text column.*it has: a, b"),
        ("a.csv", "text;stars\ngood;1\n", {}, r"separated by commas.* first line is 'text;stars'.* separated by ';'"),
        ("a.tsv", "a\tb\n1\t2\n", {"columns": ("c",)}, r"must have columns c; it has: a, b"),
        ("a.parquet", "no parquet at all", {}, r"must be a parquet file"),
    ],
)
def test_errors_say_in_one_line_what_must_hold(tmp_path, name, content, options, message):
    path = tmp_path / name if content is None else write(tmp_path, name, content)
    with pytest.raises(InputError, match=message) as caught:
        open_corpus(path, **options)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_corpus(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        open_corpus(tmp_path)


def test_the_spec_goes_through_json_and_notices_a_change(tmp_path):
    spec = open_corpus(write(tmp_path, "a.tsv", "x\ty\n"), columns=(1,), segments=128)
    back = CorpusSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert back == spec
    assert [document.text for document in back.documents()] == ["y"]
    back.verify()
    write(tmp_path, "a.tsv", "x\tz\n")
    with pytest.raises(InputError, match="must stay as it was"):
        back.verify()


def test_the_fingerprint_knows_the_bytes_and_the_options(tmp_path):
    path, other = write(tmp_path, "a.txt", "a\n\nb"), write(tmp_path, "b.txt", "a\n\nc")
    prints = [
        open_corpus(path),
        open_corpus(other),
        open_corpus(path, kind="lines"),
        open_corpus(path, segments=9),
    ]
    assert len({spec.fingerprint for spec in prints}) == 4
    assert open_corpus(write(tmp_path, "copy.txt", "a\n\nb")).fingerprint == prints[0].fingerprint


def peak_of_reading(path: Path, times: int) -> int:
    """Bytes held at most while a corpus of short blocks, an endless line and an endless block is read."""
    with path.open("wb") as file:
        file.writelines(b"some words in a line %d\n\n" % i for i in range(1000 * times))
        file.write(b"x" * (times << 20) + b"\nlast\n\n" + b"long block\n" * (times << 13))
    spec, skipped = open_corpus(path), Counter()
    tracemalloc.start()
    count = sum(1 for _ in spec.documents(skipped))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1000 * times + 1
    assert skipped == {"line over 16 MiB": 1, "block over 16 MiB": 1}
    return peak


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "LONGEST", 1 << 16)
    peak_of_reading(tmp_path / "warm.txt", 1)
    assert peak_of_reading(tmp_path / "b.txt", 5) < 1.1 * peak_of_reading(tmp_path / "a.txt", 1)


def test_shards_are_numbered_and_whole():
    documents = [Document(i, f"t{i}") for i in range(7)]
    parts = list(shards(documents, 3))
    assert [(part.number, [d.index for d in part.documents]) for part in parts] == [
        (0, [0, 1, 2]),
        (1, [3, 4, 5]),
        (2, [6]),
    ]


# --- segments: a token is a word ---


def words(text: str) -> list[tuple[int, int]]:
    spans, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def paragraph(name: str, length: int) -> str:
    return " ".join(f"{name}{i}" for i in range(length))


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ((3, 4), (3, 4)),
        ((20, 20), (5, 6)),
        ((20, 2), (9, 2)),
        ((2, 20), (2, 9)),
        ((5, 6), (5, 6)),
        ((6, 6), (5, 6)),
    ],
)
def test_a_segment_of_eleven_words(lengths, kept):
    pair = [Document(i, paragraph(name, n)) for i, (name, n) in enumerate(zip("ab", lengths, strict=True))]
    (segment,) = segments(pair, cut_at(words), 14)
    assert (segment.text, segment.pair) == (paragraph("a", kept[0]), paragraph("b", kept[1]))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), max_size=12), st.integers(5, 40))
def test_segments_fit_fill_and_use_each_paragraph_once(lengths, limit):
    sections = sorted(section for _, section in lengths)
    documents = [
        Document(i, paragraph(f"p{i}-", n), None, section)
        for i, ((n, _), section) in enumerate(zip(lengths, sections, strict=True))
    ]
    skipped: Counter[str] = Counter()
    found = list(segments(documents, cut_at(words), limit, skipped=skipped))
    assert 2 * len(found) + skipped["unpaired paragraph"] == len(documents)
    assert [segment.index for segment in found] == list(range(len(found)))
    sources = []
    for segment in found:
        one, two = segment.text.split(), (segment.pair or "").split()
        first, second = int(one[0][1:].split("-")[0]), int(two[0][1:].split("-")[0])
        whole = lengths[first][0] + lengths[second][0]
        assert len(one) + len(two) == min(limit - 3, whole)
        assert second == first + 1
        assert documents[first].section == documents[second].section
        sources += [first, second]
    assert len(set(sources)) == len(sources)


def test_a_cut_that_makes_more_tokens_is_cut_again():
    """As a tokenizer that knows the word 'abcd' only whole: cut to 'ab' it is two tokens."""

    def offsets(text: str) -> list[tuple[int, int]]:
        return [(0, 2), (2, 4), (4, 5)] if text == "abcde" else [(i, i + 1) for i in range(len(text))]

    assert cut_at(offsets)("abcde", 2) == ("ab", 2)
    assert cut_at(offsets)("abcde", 1) == ("", 0)


def test_a_segment_needs_room():
    with pytest.raises(InputError, match="room for 5 tokens; got 4"):
        list(segments([], cut_at(words), 4))


def test_labels_come_with_their_texts(tmp_path):
    path = tmp_path / "cola.tsv"
    path.write_text("gj04\t1\t\tThe sea is big.\ngj04\t0\t*\tSea big the is.\n", encoding="utf-8")
    found = list(open_corpus(path, columns=[3], label=1).documents())
    assert [(document.text, document.notes) for document in found] == [
        ("The sea is big.", "1"),
        ("Sea big the is.", "0"),
    ]
    assert open_corpus(path, columns=[3]).fingerprint != open_corpus(path, columns=[3], label=1).fingerprint
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"text": "a b", "pair": "c", "label": 1}\n{"text": "d"}\n', encoding="utf-8")
    assert [d.notes for d in open_corpus(path, label="label").documents()] == ["1", None]
    path = tmp_path / "mrpc.tsv"
    path.write_text("Quality\t#1 String\t#2 String\n1\ta\tb\n", encoding="utf-8")
    assert [(d.pair, d.notes) for d in open_corpus(path, label="Quality").documents()] == [("b", "1")]
    with pytest.raises(InputError, match="--label Grade is a name; give its number, or names"):
        list(open_corpus(path, columns=[3], label="Grade").documents())
    with pytest.raises(InputError, match="must have columns Grade"):
        open_corpus(path, label="Grade")


def test_a_treebank_brings_its_parses(tmp_path):
    path = tmp_path / "two.conllu"
    word = "{}\t{}\t_\tNOUN\t_\t_\t{}\tdep\t_\t_\n"
    path.write_text("# text = Dogs bark\n" + word.format(1, "Dogs", 2) + word.format(2, "bark", 0) + "\n", "utf-8")
    (document,) = open_corpus(path).documents()
    assert (document.text, document.notes.heads) == ("Dogs bark", (1, -1))
    path.write_text(word.format(1, "Dogs", 2) + "2\tbark\n\n", "utf-8")
    with pytest.raises(InputError, match=r"two\.conllu.*line 2"):
        open_corpus(path)


def test_a_folder_of_coreference_is_a_corpus(tmp_path):
    word = "{}\t{}\t_\tNOUN\t_\t_\t{}\tdep\t_\t_\n"
    for kind, text in (
        ("conll", "# begin document one\n1\tDogs\t(1)\n2\tbark\t_\n"),
        ("conllu", "# text = Dogs bark\n" + word.format(1, "Dogs", 2) + word.format(2, "bark", 0) + "\n"),
    ):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"one.{kind}").write_text(text, "utf-8")
    spec = open_corpus(tmp_path)
    (document,) = spec.documents()
    assert (spec.kind, document.text, len(document.notes.mentions)) == ("conll", "Dogs bark", 1)
    (tmp_path / "conllu" / "one.conllu").write_text("# changed\n", "utf-8")
    with pytest.raises(InputError, match="must stay as it was"):
        spec.verify()


def test_a_folder_of_anything_else_is_none(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        open_corpus(tmp_path)


def test_a_text_that_no_model_reads_is_skipped_with_its_reason(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("x" * 1_000_001 + "\n" + "y" * 1_000_000 + "\nshort\n")
    skipped = Counter()
    assert [len(document.text) for document in open_corpus(path).documents(skipped)] == [1_000_000, 5]
    assert skipped == {"over 1,000,000 characters": 1}


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "x/" + "a" * 300 + ".txt", "a\udcff", "loop"])
def test_names_that_no_file_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError) as told:
        open_corpus(name)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 600


def test_conll_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "bad.conll").write_bytes(b"#begin document (x); part 000\n\xff\xfe a b c\n#end document\n")
    with pytest.raises(InputError, match="not UTF-8"):
        open_corpus(tmp_path / "bad.conll")


def test_a_pipe_with_a_name_is_read_once(tmp_path):
    """`--corpus <(…)`: what it says, its kind and its fingerprint are of one copy."""
    pipe = tmp_path / "63"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("one\n\ntwo\n", "utf-8"), daemon=True)
    writer.start()
    spec = open_corpus(pipe)
    assert [document.text for document in spec.documents()] == ["one", "two"]
    assert spec.name == str(pipe)
    spec.verify()

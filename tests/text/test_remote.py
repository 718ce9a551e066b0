"""Corpora and results at addresses, and tables in memory as corpora."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import polars as pl
import pytest

import headwise as hw
from headwise.errors import InputError
from headwise.text import remote
from headwise.text.corpus import open_corpus

TEXTS = ["the old dog", "a river, in the north", "it was said"]


@pytest.fixture
def store() -> Iterator[str]:
    """A folder of its own in fsspec's memory."""
    root = f"memory://{uuid.uuid4().hex}"
    yield root
    system, path = fsspec.core.url_to_fs(root)
    if system.exists(path):
        system.rm(path, recursive=True)


def put(address: str, content: bytes) -> str:
    with fsspec.open(address, "wb") as file:
        file.write(content)
    return address


def read(corpus: object, **options) -> list[str]:
    return [document.text for document in open_corpus(corpus, **options).documents()]


def test_a_corpus_at_an_address_is_read_as_a_file_is(store: str, tmp_path: Path) -> None:
    lines = "\n".join(TEXTS).encode()
    assert read(put(f"{store}/a.txt", lines)) == TEXTS
    assert read(put(f"{store}/a.txt.gz", gzip.compress(lines))) == TEXTS
    rows = b"".join(b'{"text": "%s"}\n' % text.encode() for text in TEXTS)
    assert read(put(f"{store}/a.jsonl", rows)) == TEXTS
    (tmp_path / "a.txt").write_bytes(lines)
    assert open_corpus(f"{store}/a.txt").fingerprint == open_corpus(tmp_path / "a.txt").fingerprint


def test_what_is_not_there_is_one_line(store: str) -> None:
    for address in (f"{store}/none.txt", "nosuch://a/b.txt", "s3:///"):
        with pytest.raises(InputError) as told:
            open_corpus(address)
        assert "\n" not in str(told.value)
        assert address in str(told.value)


def test_the_package_of_a_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "open", without)
    with pytest.raises(InputError, match=r"s3://b/c.txt needs s3fs, which is not installed: pip install s3fs\."):
        open_corpus("s3://b/c.txt")


@pytest.mark.parametrize("kind", ["polars", "pandas", "datasets"])
def test_tables_are_corpora(kind: str) -> None:
    table = pl.DataFrame({"id": [1, 2, 3], "text": TEXTS, "mark": ["x", "y", "x"]})
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(table.to_dict(as_series=False))
    if kind == "datasets":
        table = pytest.importorskip("datasets").Dataset.from_dict(table.to_dict(as_series=False))
    spec = open_corpus(table, columns=["text"], label="mark")
    assert [(each.text, each.notes) for each in spec.documents()] == list(zip(TEXTS, "xyx", strict=True))
    assert read(table) == TEXTS


@pytest.mark.parametrize("given", [3, ["a"], None, {"text": TEXTS}])
def test_other_things_are_not(given: object) -> None:
    with pytest.raises(InputError, match="must be a name, a path, or a table"):
        open_corpus(given)


def test_results_go_to_an_address_and_are_found_there_again(
    load: Callable[..., hw.Model], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "here"))
    model, corpus = load("tiny:bert"), pl.DataFrame({"text": TEXTS})
    pushed: list[str] = []
    system, root = fsspec.core.url_to_fs(f"{store}/out")
    put_file = system.put_file
    monkeypatch.setattr(system, "put_file", lambda a, b: (pushed.append(b), put_file(a, b)))
    first = hw.run("surface", model, corpus=corpus, out=f"{store}/out")
    there = {path.removeprefix(f"{root}/") for path in system.find(root)}
    assert {"manifest.json", "table.parquet", "state.safetensors"} <= there
    assert not any(part.startswith(".") for path in there for part in path.split("/"))
    assert pushed[-1].endswith("manifest.json")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "elsewhere"))  # another machine
    monkeypatch.setattr("headwise.engine.run.fold_locally", lambda *_: pytest.fail("it is there already"))
    assert hw.run("surface", model, corpus=corpus, out=f"{store}/out").table.equals(first.table)


def test_what_has_gone_from_an_address_stands_in_nobodys_way(
    store: str, load: Callable[..., hw.Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path))
    system, path = fsspec.core.url_to_fs(f"{store}/out")
    for texts in (TEXTS, TEXTS[:2]):
        corpus = put(f"{store}/a.txt", "\n".join(texts).encode())
        result = hw.run("surface", load("tiny:bert"), corpus=corpus, out=f"{store}/out", figures=False)
        assert result.manifest["documents"] == len(texts)
        with pytest.raises(InputError, match="holds the result of another run"):
            hw.run("surface", load("tiny:bert"), corpus=corpus, out=f"{store}/out", seed=1, figures=False)
        system.rm(path, recursive=True)


def test_names_that_climb_are_not_pulled(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, root = fsspec.core.url_to_fs(store)
    monkeypatch.setattr(system, "find", lambda _: [f"{root}/manifest.json", f"{root}/../../evil"])
    monkeypatch.setattr(system, "get_file", lambda path, place: Path(place).write_text(path))
    remote.pull(store, tmp_path / "in" / "here")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["manifest.json"]

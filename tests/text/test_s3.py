"""A real S3 server (moto's): a corpus read from it, a result written to it and found there by another machine.

moto and s3fs are no dependencies: pip install "headwise[remote]" "moto[server]", else this is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import fsspec
import pytest

import headwise as hw
from headwise.engine import run as engine
from headwise.errors import InputError
from headwise.text.corpus import open_corpus

moto = pytest.importorskip("moto.server", reason='no moto here: pip install "moto[server]"')
pytest.importorskip("s3fs", reason='no s3fs here: pip install "headwise[remote]"')
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
TEXTS = ["the old dog", "a river, in the north", "it was said"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    named = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "testing",
             "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1",
             "HEADWISE_CACHE": str(tmp_path / "one-machine")}  # fmt: skip
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    store = fsspec.filesystem("s3")
    store.mkdir("corpora")
    with store.open("corpora/a.txt", "wb") as file:
        file.write("\n".join(TEXTS).encode())
    yield "s3://corpora"
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()  # it remembers across servers
    server.stop()


def test_a_corpus_is_read_from_s3(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    there = open_corpus(f"{bucket}/a.txt")
    assert [document.text for document in there.documents()] == TEXTS
    assert there.fingerprint == open_corpus(tmp_path / "a.txt").fingerprint


def test_a_result_is_found_by_another_machine(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"corpus": f"{bucket}/a.txt", "out": f"{bucket}/results/surface", "threads": 1}
    made = hw.run("surface", "tiny:bert", **asked)
    assert fsspec.filesystem("s3").exists("corpora/results/surface/manifest.json")
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "another-machine"))
    monkeypatch.setattr(engine, "write_shard", lambda *_, **__: pytest.fail("it was computed again"))
    found = hw.run("surface", "tiny:bert", **asked)
    assert found.folder != made.folder
    assert found.table.equals(made.table)


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("address", ["s3://corpora/none.txt", "s3://nosuch/a.txt"])
def test_what_is_not_there_is_one_line(address: str) -> None:
    with pytest.raises(InputError) as told:
        open_corpus(address)
    assert "\n" not in str(told.value)
    assert address in str(told.value)

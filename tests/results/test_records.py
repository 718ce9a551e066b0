"""Damaged records give one reason, never another exception, and no name leads out of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as of_hypothesis
from hypothesis import strategies as st

from headwise.cli.run import show
from headwise.errors import InputError
from headwise.results import RUN, STUDY, Result, open_result, write_result
from headwise.results.records import EVERY, DamagedError, fits, inside, read_record
from headwise.results.result import digest

SHAPE = {"digest": str, "count": int, "plan": {"corpus": dict}}
GOOD = {"digest": "x", "count": 3, "plan": {"corpus": {}}, "more": 1}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda s: st.lists(s) | st.dictionaries(st.text(), s),
)


def test_a_good_record_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD))
    assert read_record(path, SHAPE) == GOOD


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b'{"digest": "x"', "it is not JSON"),
        (b"\xff\xfe\x00", "it is not JSON"),
        (b"[]", "it must be an object, got list"),
        (b"{}", "it has no 'digest'"),
        (b'{"digest": 1}', "'digest' must be str, got int"),
        (b'{"digest": "x", "count": true}', "'count' must be int, got bool"),
        (b'{"digest": "x", "count": 1, "plan": []}', "'plan' must be an object, got list"),
        (b'{"digest": "x", "count": 1, "plan": {}}', "'plan' has no 'corpus'"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"digest": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    ],
)
def test_the_reason_is_told(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DamagedError) as told:
        read_record(path, SHAPE)
    assert str(told.value).startswith(reason)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "none", SHAPE)
    with pytest.raises(DamagedError, match="is a directory"):
        read_record(tmp_path, SHAPE)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DamagedError, match="too many levels"):
        read_record(tmp_path / "loop", SHAPE)


@given(anything)
def test_any_json_fits_or_is_damaged(record: object) -> None:
    try:
        fits(record, SHAPE)
    except DamagedError:
        return
    assert isinstance(record, dict)
    assert isinstance(record["plan"]["corpus"], dict)


@pytest.mark.parametrize("name", ["", "../a", "a/../../b", "/etc/passwd", "a\0b", "out/secret", "loop"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "result"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(DamagedError):
        inside(folder, name)
    assert inside(folder, "figures/a.json") == folder / "figures/a.json"


FILE = {"sha256": "0" * 64, "bytes": 1}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (None, "'files' must be an object, got NoneType"),
        ([], "'files' must be an object, got list"),
        ({"a": 1}, "'a' must be an object, got int"),
        ({"a": {"sha256": 5, "bytes": 1}}, "'sha256' must be str, got int"),
        ({"../secret": FILE}, "'../secret' is not a file of this folder"),
        ({"a\0": FILE}, r"'a\x00' is not a file of this folder"),
        ({"link": FILE}, "'link' leads out of this folder"),
    ],
)
def test_a_manifest_that_names_what_it_must_not(tmp_path: Path, monkeypatch, files: object, reason: str) -> None:
    folder = tmp_path / "result"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "files": files}))
    monkeypatch.setattr("headwise.results.result.digest_of", lambda path: pytest.fail(f"opened {path}"))
    with pytest.raises(InputError) as told:
        open_result(folder)
    assert str(told.value) == f"{folder / 'manifest.json'} must be as it was written; {reason}. Run the study again."


def test_what_is_said_of_a_run_is_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "files": {}, "tokens": "many"}))
    with pytest.raises(InputError, match="'tokens' must be int, got str"):
        open_result(tmp_path)


def test_every_field_and_either_kind() -> None:
    shape = {"files": {EVERY: {"bytes": int | None}}}
    fits({"files": {}}, shape)
    fits({"files": {"a": {"bytes": None}, "b": {"bytes": 3}}}, shape)
    with pytest.raises(DamagedError, match=r"^'bytes' must be int \| None, got bool$"):
        fits({"files": {"a": {"bytes": True}}}, shape)
    with pytest.raises(DamagedError, match=r"^'b' must be an object, got int$"):
        fits({"files": {"a": {"bytes": 1}, "b": 2}}, shape)


WHOLE = {
    "study": "surface", "settings": {}, "model": {"name": "m"}, "plan": {"corpus": {"name": "c"}}, "documents": 2,
    "tokens": 9, "skipped": {}, "plan_digest": "d", "stacks": {}, "proof": {}, "causal": False,
}  # fmt: skip


@pytest.fixture
def result(tmp_path: Path) -> Result:
    spec = {"mark": "point", "data": {"values": []}}
    return write_result(tmp_path / "result", WHOLE, pl.DataFrame({"a": [1]}), {"a": torch.ones(1)}, {"fig": spec})


def rewritten(result: Result, change: Callable[[dict], object]) -> Path:
    manifest = json.loads((result.folder / "manifest.json").read_text())
    change(manifest)
    (result.folder / "manifest.json").write_text(json.dumps(manifest))
    return result.folder


@pytest.mark.parametrize("lost", WHOLE)
def test_a_manifest_that_lacks_a_field_is_one_line(result: Result, lost: str) -> None:
    folder = rewritten(result, lambda manifest: manifest.pop(lost))
    with pytest.raises(InputError, match=f"must be as it was written; it has no '{lost}'"):
        open_result(folder, RUN)
    if lost in STUDY:
        with pytest.raises(InputError, match=f"it has no '{lost}'"):
            show(folder)
    else:
        show(folder)


@pytest.mark.parametrize("name", ["table.parquet", "state.safetensors", "figures/fig.json"])
def test_only_files_that_the_manifest_names_are_opened(tmp_path: Path, result: Result, name: str) -> None:
    (tmp_path / "secret").write_bytes((result.folder / name).read_bytes())
    (result.folder / name).unlink()
    (result.folder / name).symlink_to(tmp_path / "secret")
    opened = open_result(rewritten(result, lambda manifest: manifest["files"].pop(name)))
    with pytest.raises(InputError, match=r"must have|no figure 'fig'"):
        opened.table, opened.state, opened.spec("fig")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"PAR1" * 9, b"\0" * 99, b'{"data": {"url": "/etc/passwd"}}'])
@pytest.mark.parametrize("name", ["table.parquet", "state.safetensors", "figures/fig.json"])
def test_files_that_are_something_else_with_a_checksum_of_their_own(result: Result, name: str, content: bytes) -> None:
    (result.folder / name).write_bytes(content)
    entry = {"sha256": digest(content), "bytes": len(content)}
    opened = open_result(rewritten(result, lambda manifest: manifest["files"].update({name: entry})))
    with pytest.raises(InputError) as told:
        opened.table, opened.state, opened.figure("fig")
    assert "\n" not in str(told.value)


@of_hypothesis(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.sampled_from([*WHOLE, "files", "format"]), anything)
def test_any_manifest_opens_or_is_one_line(result: Result, key: str, value: object) -> None:
    before = (result.folder / "manifest.json").read_bytes()
    try:
        opened = open_result(rewritten(result, lambda manifest: manifest.update({key: value})), RUN)
    except InputError as error:
        one_line = "\n" not in str(error)
        assert one_line
    else:
        assert type(opened.manifest["tokens"]) is int
        assert isinstance(opened.manifest["plan"]["corpus"]["name"], str)
    finally:
        (result.folder / "manifest.json").write_bytes(before)

"""Damaged records give one reason, never another exception, and no name leads out of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.results import open_result
from headwise.results.records import DamagedError, fits, inside, read_record

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
        (b'{"digest": "x", "count": 1, "plan": []}', "plan must be an object, got list"),
        (b'{"digest": "x", "count": 1, "plan": {}}', "plan has no 'corpus'"),
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
        (None, "'files' must be dict, got NoneType"),
        ([], "'files' must be dict, got list"),
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
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "files": {}, "plan": {}, "tokens": "many"}))
    with pytest.raises(InputError, match="'tokens' must be int, got str"):
        open_result(tmp_path)

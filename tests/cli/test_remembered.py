"""Lists are made once, and then answered without torch; an edit of the program makes them anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwise.cli import list_, main, reproduce
from headwise.cli.remembered import digest, listed, remembered

ROWS = [["a", "b"]]


def never() -> list[list[str]]:
    pytest.fail("made again")


def test_made_once_and_again_where_the_cache_is_damaged(tmp_path: Path) -> None:
    assert remembered("x", lambda: ROWS, home=tmp_path) == ROWS
    assert remembered("x", never, home=tmp_path) == ROWS
    (kept,) = tmp_path.iterdir()
    for damage in (b"", b"{", b"[1]", b'[["a", 2]]', b"\xff"):
        kept.write_bytes(damage)
        assert remembered("x", lambda: ROWS, home=tmp_path) == ROWS
    (tmp_path / "x-old.json").write_text("[]")
    kept.unlink()
    assert remembered("x", lambda: [["c"]], home=tmp_path) == [["c"]]
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]  # what is old goes
    file = tmp_path / "file"
    file.write_text("")
    assert remembered("x", lambda: ROWS, home=file) == ROWS  # nowhere to write


def test_a_program_that_is_loaded_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may know more by now: what was registered in this process."""
    monkeypatch.setattr("headwise.cli.remembered.remembered", lambda *_: pytest.fail("an old list"))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert listed("x", lambda: ROWS) == ROWS


def test_an_edit_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("x = 1")
    before = digest(tmp_path)
    assert digest(tmp_path) == before
    source.write_text("x = 12")
    assert digest(tmp_path) != before


LISTED = """
import sys
from headwise.cli import main
for words in {asked}:
    sys.argv = ["headwise", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code
print("torch" in sys.modules)
"""


def test_the_second_answer_needs_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first call, here, fills the cache (as where torch is not loaded); the second is a fresh interpreter's."""
    for module in (list_, reproduce):
        monkeypatch.setattr(module, "listed", remembered)
    asked = [["list", "studies"], ["reproduce", "--list"]]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    first = ""
    for words in asked:
        monkeypatch.setattr(sys, "argv", ["headwise", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        first += capfd.readouterr().out
    assert "surface" in first
    assert "clark2019" in first
    second = subprocess.run(
        [sys.executable, "-c", LISTED.format(asked=asked)], capture_output=True, text=True, check=True
    )
    assert second.stdout.splitlines() == [*first.splitlines(), "False"]

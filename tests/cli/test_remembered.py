"""Lists are made once, and then answered without torch; an edit of the program makes them anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.cli.remembered import digest, remembered

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


def test_an_edit_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("x = 1")
    before = digest(tmp_path)
    assert digest(tmp_path) == before
    source.write_text("x = 12")
    assert digest(tmp_path) != before


LISTED = """
import sys
sys.argv = ["headwise", *{words}]
from headwise.cli import main
try:
    main()
except SystemExit as left:
    assert not left.code
print("torch" in sys.modules)
"""


@pytest.mark.parametrize("words", [["list", "studies"], ["reproduce", "--list"]])
def test_the_second_answer_needs_no_torch(words: list[str], tmp_path: Path) -> None:
    """One process: the first call fills the cache here, the second is a fresh interpreter."""
    asked = [sys.executable, "-c", LISTED.format(words=words)]
    told = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    first, second = (subprocess.run(asked, env=told, capture_output=True, text=True, check=True) for _ in range(2))
    assert second.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]
    assert second.stdout.splitlines()[-1] == "False"

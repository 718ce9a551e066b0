"""Files are whole or not there, and what a killed process had staged does not stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from headwise.results.files import alive, write_files

KILLED = """
import sys, time
from pathlib import Path
from headwise.results import files
files.os.replace = lambda *_: time.sleep(600)
files.write_files(Path(sys.argv[1]), {"figures/[a].json": b"{}", "table.csv": b"1"})
"""


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_a_killed_process_had_staged_is_removed_by_the_next(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    while len(names(tmp_path)) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(tmp_path) == [f".table.csv.{process.pid}.tmp", f"figures/.[a].json.{process.pid}.tmp"]
    write_files(tmp_path, {"figures/[a].json": b"[]", "table.csv": b"2"})
    assert names(tmp_path) == ["figures/[a].json", "table.csv"]


def test_what_others_are_writing_and_files_of_other_names_stay(tmp_path: Path) -> None:
    kept = [f".table.csv.{os.getppid()}.tmp", ".table.csv.mine.tmp", ".table.csv.bak.999999999.tmp"]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    write_files(tmp_path, {"table.csv": b"1"})
    assert names(tmp_path) == sorted([*kept, "table.csv"])


def test_who_is_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert alive(os.getpid())
    assert alive(1)
    assert not alive(process.pid)
    assert not alive(10**30)

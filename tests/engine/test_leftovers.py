"""A run that was killed between its result and the end: the next one tidies up."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwise as hw
from headwise.engine import run as module


def test_shards_of_a_run_that_was_killed_at_its_very_end_do_not_stay(load, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "c.txt").write_text("the old sea\nit is big\n")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def run() -> hw.Results:
        return hw.run("surface", load("tiny:bert"), corpus=tmp_path / "c.txt", out=tmp_path / "out")

    with monkeypatch.context() as patched:
        patched.setattr(module.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert (tmp_path / "out" / ".run").is_dir()
    assert (tmp_path / "out" / "manifest.json").is_file()
    assert run().manifest["study"] == "surface"
    assert not (tmp_path / "out" / ".run").exists()

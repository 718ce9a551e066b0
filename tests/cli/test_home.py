"""A home that cannot be written: what needs no cache works, what needs one says so in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

COMMANDS = [
    ["list", "studies"],
    ["inspect", "the sea", "--model", "tiny:bert"],
    ["run", "surface", "--model", "tiny:bert", "--corpus", "c.txt", "--out", "out"],
    ["inspect", "the sea", "--model", "demo"],
]
SCRIPT = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from headwise.cli import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv, out, err = ["headwise", *words], StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            told.append([ended.code, err.getvalue()])
print(json.dumps(told))
"""


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """It is a file here: to root, as whom tests may run, no folder is read-only."""
    (tmp_path / "c.txt").write_text("the old sea\nit is big\n")
    (tmp_path / "home").write_text("no folder")
    hidden = {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HF_HOME", "HEADWISE_CACHE", "HF_HUB_CACHE"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(COMMANDS)],
        capture_output=True, text=True, env=env, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    (listed, inspected, run, packaged) = json.loads(ran.stdout.splitlines()[-1])
    assert [listed[0], inspected[0], run[0]] == [0, 0, 0], (listed, inspected, run)
    assert (tmp_path / "out" / "manifest.json").is_file()
    assert packaged[0] == 2
    assert len(packaged[1].strip().splitlines()) == 1, packaged[1]
    assert "HEADWISE_CACHE" in packaged[1]

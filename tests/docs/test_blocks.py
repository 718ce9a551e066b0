"""Every code block and command of the documentation and the README is run.

Python blocks of a page share one namespace, in order; commands run in this process. Both run in a folder of their own
with small stand-ins under the names that the pages use (`wiki.txt`, `bert-base-uncased`, …: see `world`), for no model
and no data set can be fetched here. What asks for Ray or a GPU is run without it, and a claim has one control of a
kind. Commands of other programs (make, pip, python FILE, ray, npm) are only checked to name what exists: CI itself runs
make and pip, and Ray has tests of its own.
"""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from docs.pages import NOT_RUN, PAGES, ROOT, Block, blocks, commands, name
from headwise.cli import main


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_runs(page, world, monkeypatch, capsys):
    monkeypatch.chdir(world)
    names: dict[str, object] = {"__name__": name(page)}
    for block in blocks(page):
        where = f"{name(page)}:{block.line}"
        if block.language == "python":
            # subtle: compiled with its place, so that a failure shows the page and the line
            # and without this file's own __future__
            exec(compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True), names)
        elif block.language == "sh":
            run(block, where, monkeypatch)
        else:
            assert block.language in NOT_RUN, f"{where}: a block must say what it is: python, sh or one of {NOT_RUN}"
            hidden = re.search(r"^\s*(\$ |headwise |>>> )", block.text, re.MULTILINE)
            assert not hidden, f"{where}: a command in a block that is not run"
    capsys.readouterr()


def run(block: Block, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, *arguments in commands(block.text):
        if program == "headwise":
            assert headwise(arguments, monkeypatch) == 0, f"{where}: headwise {' '.join(arguments)} failed"
        else:
            assert program in CHECKS, f"{where}: a program that is neither run nor checked: {program}"
            assert CHECKS[program](arguments), f"{where}: {program} {' '.join(arguments)} names what does not exist"


def headwise(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    arguments = ["cpu" if word == "cuda" else word for word in arguments]
    monkeypatch.setattr(sys, "argv", ["headwise", *arguments])
    if arguments[0] == "serve":  # would not end; its options are read, then --help ends it (tests/browser drives it)
        monkeypatch.setattr(sys, "argv", ["headwise", *arguments, "--help"])
    if arguments[0] == "reproduce" and not {"--list", "--controls"} & {*arguments}:  # tests/papers has them all
        monkeypatch.setattr(sys, "argv", ["headwise", *arguments, "--controls", "1"])
    if "ray" in arguments:  # a cluster takes long to start, or is elsewhere; tests/engine has the two engines agree
        monkeypatch.setattr(sys, "argv", ["headwise", *("local" if word == "ray" else word for word in arguments)])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def targets() -> set[str]:
    return set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def installs(arguments: list[str]) -> bool:
    """`pip install ".[ray]"`: the extras exist."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.findall(r"\[([\w,]+)\]", " ".join(arguments))
    return {extra for group in asked for extra in group.split(",")} <= known.keys()


CHECKS = {
    "make": lambda arguments: set(arguments) <= targets(),
    "pip": installs,
    "python": lambda arguments: arguments[0] == "-m" or (ROOT / arguments[0]).exists(),
    "sh": lambda arguments: (ROOT / arguments[0]).exists(),
    "ray": lambda arguments: arguments[0] in ("start", "stop", "status"),
    "npm": lambda arguments: arguments[0] in ("ci", "run"),
    "git": lambda arguments: arguments[0] == "clone",
    "source": lambda arguments: arguments == [".venv/bin/activate"],
    "cd": lambda arguments: len(arguments) == 1,
}

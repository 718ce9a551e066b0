"""`headwise list`: lines that fit a terminal, one an item in a pipe; what was tried of families, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from itertools import pairwise
from types import SimpleNamespace

import pytest

from headwise.cli import main
from headwise.cli.list_ import ENTRIES, list_, tried_rows
from headwise.text.terminal import COLOUR


def test_the_last_sweep_is_told_with_its_days_and_version() -> None:
    tried = {"days": "from 2026-01-02 to 2026-02-03", "transformers": "5.1", "text": "7 right, 1 wrong of 8",
             "pictures and sound": "2 right of 2"}  # fmt: skip
    heading, text, senses, where = tried_rows(tried)
    said = "tried from 2026-01-02 to 2026-02-03, with transformers 5.1: a tiny model of every type"
    assert heading == ["bold", said, ""]
    assert [[*name.split(), about] for _, name, about in (text, senses)] == [
        ["text", "7 right, 1 wrong of 8"], ["pictures", "and", "sound", "2 right of 2"],
    ]  # fmt: skip
    assert where[1] == "  docs/families.md says of each type what was found, and why some are refused"


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    monkeypatch.delenv("COLUMNS", raising=False)
    model = SimpleNamespace(stacks=("encoder", "decoder", "cross"), proof=SimpleNamespace(sites=(), projection_error=0))
    monkeypatch.setattr("headwise.models.load.load", lambda *_, **__: model)

    def lines(what: str) -> list[str]:
        list_(what)
        return capsys.readouterr().out.splitlines()

    return lines


LISTS = ("quantities", "studies", "models", "families")


@pytest.mark.parametrize("asked", ["COLUMNS", "terminal"])
@pytest.mark.parametrize("what", LISTS)
def test_no_list_is_wider_than_80_columns(what: str, asked: str, listing, monkeypatch) -> None:
    if asked == "COLUMNS":
        monkeypatch.setenv("COLUMNS", "80")
    else:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert max(len(COLOUR.sub("", line)) for line in listing(what)) <= 80


@pytest.mark.parametrize("what", LISTS)
def test_in_a_pipe_an_item_is_one_line(what: str, listing) -> None:
    lines = listing(what)
    entries = [*ENTRIES[what]()]
    for entry in entries:
        (line,) = (line for line in lines if line.split()[0] == entry["name"] and line.endswith(_last(what, entry)))
        assert entry["about"] in line


def _last(what: str, entry: Mapping[str, str]) -> str:
    return "" if what == "families" else f"({entry['licence']})" if what == "models" else entry["about"]


def test_what_an_item_is_begins_at_one_column_however_long_its_name(listing, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = listing("quantities")
    whats = {"rollout": "Raw attention and", "globenc-share-rollout": "GlobEnc's"}
    at = {line.index(about) for name, about in whats.items() for line in lines if line.split()[0] == name}
    assert len(at) == 1
    (column,) = at
    after = next(at for at, line in enumerate(lines) if line.split()[0] == "globenc-share-rollout") + 1
    assert lines[after] == " " * column + "layers.", "what goes on below stays in its column"


def test_the_sweep_that_comes_with_the_package_is_the_one_of_the_page() -> None:
    tried = json.loads(files("headwise.models").joinpath("tried.json").read_text("utf-8"))
    assert set(tried) == {"days", "transformers", "text", "pictures and sound"}
    for kind in ("text", "pictures and sound"):
        assert " 0 wrong, 0 traceback," in tried[kind]


@pytest.mark.parametrize("verb", ["list", "inspect"])
def test_the_sentences_of_a_help_fill_their_lines(verb: str, capsys, monkeypatch) -> None:
    """Lines that were broken for the source were broken again for the terminal, in the middle of it."""
    monkeypatch.setattr("sys.argv", ["headwise", verb, "--help"])
    monkeypatch.setattr("rich.console.Console.width", 80)
    with pytest.raises(SystemExit):
        main()
    lines = [line.rstrip() for line in capsys.readouterr().out.split("Arguments")[0].splitlines()]
    for line, after in pairwise(lines):
        if line[:2].strip() and after[:2].strip() and not line.endswith((".", "?", "?)")):
            assert len(line) + 1 + len(after.split()[0]) > 79, line


def test_a_list_as_json_is_called_a_list(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["headwise", "list", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "Write the list as JSON" in capsys.readouterr().out

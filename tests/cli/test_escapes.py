"""Whatever a user's words hold, no verb lets them steer the terminal: neither by what it prints nor by its errors."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from headwise.cli import main
from headwise.text.terminal import STEERING, Guarded, unguarded

EVIL = "\x1b]8;;http://x\x07sea\x1b[2J\u202e"
SAFE = "␛]8;;http://x␇"
VERBS = [
    ["inspect", "the sea", "--model", EVIL],
    ["inspect", "the sea", "--model", "tiny:bert", "--quantity", EVIL],
    ["explain", "the sea", "--method", EVIL, "--model", "tiny:gpt2", "--task", "causal-lm"],
    ["view", "the sea", "--model", EVIL],
    ["run", EVIL, "--out", "out"],
    ["run", "surface", "--corpus", EVIL, "--model", "tiny:bert", "--out", "out"],
    ["run", "surface", "--out", "out", "--set", f"{EVIL}=1"],
    ["show", EVIL],
    ["compare", EVIL, "b", "--out", "out"],
    ["reproduce", EVIL, "--data", ".", "--out", "out"],
    ["verdict", EVIL],
    ["list", EVIL],
    ["doctor", EVIL],
    ["report", "--out", "out", "--studies", EVIL],
    [EVIL],
    ["run", "surface", "--out", "out", f"--{EVIL}"],
]


def said(words: list[str], monkeypatch, capsys) -> tuple[str, str, int]:
    monkeypatch.setattr("sys.argv", ["headwise", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return shown.out, shown.err, int(ended.value.code or 0)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(word for word in words if word.isascii())[:40])
def test_errors(words: list[str], monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    out, err, code = said(words, monkeypatch, capsys)
    assert code == 2, err
    assert not STEERING.search(out + err)
    assert "␛" in err or "\\x1b" in err, "else nothing was tried"


def test_a_text_that_is_explained(monkeypatch, capsys) -> None:
    out, err, code = said(
        ["explain", f"the {EVIL}", "--model", "tiny:gpt2", "--task", "causal-lm"], monkeypatch, capsys
    )
    assert code == 0, err
    assert "␛" in out
    assert not STEERING.search(out + err)


def test_warnings_of_the_program_go_through_the_guard(capsys) -> None:
    from headwise.cli import _careful

    with _careful():
        print(EVIL, file=sys.stderr)
        assert unguarded(sys.stderr) is not sys.stderr
    assert capsys.readouterr().err.startswith(SAFE)
    assert unguarded(sys.stderr) is sys.stderr
    stream = io.StringIO()
    assert unguarded(Guarded(stream)) is stream


def test_what_objects_say_of_themselves(load) -> None:
    from headwise.explanations.citations import Citation, Cited

    assert not STEERING.search(repr(load("tiny:gpt2").trace(EVIL)))
    cited = Cited(EVIL, (Citation(EVIL, 1.0, 0.5, 1.5),))
    assert not STEERING.search(str(cited) + str(Cited(EVIL, ())))

"""Pictures and sound from the shell."""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from headwise.cli import main
from headwise.models.pictures import write_png


@pytest.fixture
def given(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(write_png(np.arange(48 * 48 * 3, dtype=np.uint8).reshape(48, 48, 3)))
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes((8000 * np.sin(np.arange(8000) * 0.2)).astype("<i2").tobytes())
    return tmp_path


def said(monkeypatch, capsys, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["headwise", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), *capsys.readouterr()


def test_a_picture_is_inspected_and_viewed(given: Path, monkeypatch, capsys) -> None:
    picture = ("--image", str(given / "a.png"), "--model", "tiny:vit")
    code, out, _ = said(monkeypatch, capsys, "inspect", *picture, "--json", "-")
    assert (code, json.loads(out)["tokens"][:3]) == (0, ["[CLS]", "0,0", "0,1"])
    assert said(monkeypatch, capsys, "view", *picture, "--quantities", "raw", "--out", str(given / "p.html"))[0] == 0
    assert '"kind":"image"' in (given / "p.html").read_text("ascii").replace(": ", ":")


def test_a_sound_with_what_is_said_in_it(given: Path, monkeypatch, capsys) -> None:
    sound = ("--audio", str(given / "a.wav"), "--model", "tiny:whisper")
    assert said(monkeypatch, capsys, "view", "the old dog", *sound, "--out", str(given / "s.html"))[0] == 0
    page = (given / "s.html").read_text("ascii").replace(": ", ":")
    assert '"kind":"audio"' in page
    assert "cross" in page


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["inspect"], "A model reads one of TEXT, --image FILE and --audio FILE; pass one of them."),
        (["inspect", "a text", "--image", "a.png", "--model", "tiny:vit"], "A model reads one of TEXT"),
        (["view", "--image", "a.png", "--matters"], "A page of a picture or a sound has attention alone"),
        (["view", "--image", "a.png", "--from", "x"], "A page shows either a text or a saved trace"),
        (["inspect", "--image", "none.png", "--model", "tiny:vit"], "none.png"),
    ],
)
def test_mistakes_are_one_line(given: Path, monkeypatch, capsys, words: list[str], line: str) -> None:
    monkeypatch.chdir(given)
    code, _, error = said(monkeypatch, capsys, *words)
    assert code == 2
    assert line in error.splitlines()[-1]
    assert "Traceback" not in error

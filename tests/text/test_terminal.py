"""Nothing that a text holds steers the terminal of whoever reads it."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.cli import main
from headwise.text.terminal import STEERING, Guarded, visible

LINK = "\x1b]8;;http://example.org\x07click\x1b]8;;\x07"


@given(st.text())
def test_what_is_shown_steers_nothing_and_plain_text_is_itself(text: str) -> None:
    assert not STEERING.search(visible(text))
    if not STEERING.search(text):
        assert visible(text) == text


def test_pictures_by_hand() -> None:
    assert visible("a\x1b[2Jb\x00\x7f\x9bc\n\td") == "a␛[2Jb␀␡⟨U+009B⟩c\n\td"
    assert visible("abc\u202edef\u2066") == "abc⟨U+202E⟩def⟨U+2066⟩"


def test_colours_pass_the_guard_and_nothing_else() -> None:
    stream = io.StringIO()
    written = Guarded(stream).write(f"\x1b[1;31mred\x1b[0m {LINK}\x1b[2J\x1b[31;5")
    assert stream.getvalue() == "\x1b[1;31mred\x1b[0m ␛]8;;http://example.org␇click␛]8;;␇␛[2J␛[31;5"
    assert written == len(f"\x1b[1;31mred\x1b[0m {LINK}\x1b[2J\x1b[31;5")


@pytest.mark.parametrize("model", ["tiny:bert", "tiny:gpt2"])
def test_inspect_prints_no_escape_of_its_text(
    model: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["headwise", "inspect", f"the {LINK} sea \x1b[2J\r", "--model"]
    assert _said([*command, model], monkeypatch) == 0
    shown = capfd.readouterr().out
    assert "sea" in shown
    assert not STEERING.search(shown)
    assert _said([*command, "no\x1b]0;title\x07"], monkeypatch) == 2
    failed = capfd.readouterr().err
    assert "title" in failed
    assert not STEERING.search(failed)


def _said(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code

"""Nothing that a text holds steers the terminal of whoever reads it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def test_inspect_prints_no_escape_of_its_text(model: str) -> None:
    command = [sys.executable, "-m", "headwise", "inspect", f"the {LINK} sea \x1b[2J\r", "--model", model]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert not STEERING.search(shown)
    failed = subprocess.run(
        [*command[:5], "--model", "no\x1b]0;title\x07"], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 2
    assert not STEERING.search(failed.stderr)

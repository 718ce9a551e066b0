"""Texts on a terminal: what would steer it is shown as a picture of itself, never obeyed.

A text may hold escape sequences (colours, links, moves of the cursor), other control characters, or marks that turn
the direction of writing around; through a table they would reach the terminal of whoever reads it.
"""

from __future__ import annotations

import re
from typing import Any

# All control characters but line feed and tab, and the marks of direction that can reorder what is around them.
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # what rich writes around words; it can do nothing but colour


def visible(text: str) -> str:
    """The text with a picture in place of every character that would steer a terminal.

    >>> visible("a\\x1b]8;;http://x\\x07b\\r\\u202e")
    'a␛]8;;http://x␇b␍⟨U+202E⟩'
    """
    return STEERING.sub(lambda found: _picture(found.group()), text)


def _picture(char: str) -> str:
    code = ord(char)
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


class Guarded:
    """A stream that lets colours pass and shows everything else that would steer the terminal."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        parts, colours = COLOUR.split(text), COLOUR.findall(text)
        safe = [visible(part) + colour for part, colour in zip(parts, [*colours, ""], strict=True)]
        self._stream.write("".join(safe))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def unguarded(stream: Any) -> Any:
    """The stream itself, for bars, which move the cursor and show nothing of a text."""
    return stream._stream if isinstance(stream, Guarded) else stream

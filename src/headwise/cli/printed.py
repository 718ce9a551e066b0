"""How wide the terminal is, and lines that fit it."""

from __future__ import annotations

import os
import sys
from textwrap import wrap

from headwise.text.terminal import visible


def terminal() -> int | None:
    """How wide what is printed may be; None in a file or a pipe."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else None


def say(line: str, width: int | None, indent: str = "  ") -> None:
    """A line, indented; on a terminal it goes on below, between words. Nothing of an empty one."""
    lines = wrap(visible(line), width or sys.maxsize, initial_indent=indent, subsequent_indent=f"{indent}  ",
                 break_long_words=False, break_on_hyphens=False)  # fmt: skip
    if line:
        print("\n".join(lines))

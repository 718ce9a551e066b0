"""How wide the terminal is, and lines that fit it."""

from __future__ import annotations

import os
import re
import sys
from textwrap import TextWrapper

from headwise.text.terminal import visible


def terminal() -> int | None:
    """How wide what is printed may be; None in a file or a pipe."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else None


def say(line: str, width: int | None, indent: str = "  ") -> None:
    """A line, indented; on a terminal it goes on below, between words. Nothing of an empty one."""
    if line:
        print("\n".join(lines(line, width, indent, hang=f"{indent}  ")))


def lines(line: str, width: int | None, indent: str, *, hang: str) -> list[str]:
    """The lines of one that fit, the first behind `indent`, the others behind `hang`.

    >>> lines("--set methods=random,rollout  k=16", 25, "", hang="  ")
    ['--set methods=random,', '  rollout  k=16']
    """
    wrapper = _Wrapper(width or sys.maxsize, indent, hang, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(visible(line))


class _Wrapper(TextWrapper):
    """Between words, and within a list of names, which may be longer than a line; a number stays whole."""

    wordsep_simple_re = re.compile(r"(\s+)|(?<=,)(?=[a-z])")

"""`hw.open`: what was written, again."""

from __future__ import annotations

from pathlib import Path

from headwise.models.saved import open_trace
from headwise.models.trace import Trace
from headwise.results import Result, open_result


def open_(path: str | Path) -> Result | Trace:
    """A result from its folder, or a trace from its file."""
    return open_result(path) if Path(path).is_dir() else open_trace(path)

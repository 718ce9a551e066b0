"""`hw.open`: what was written, again."""

from __future__ import annotations

from pathlib import Path

from headwise.results import Result, open_result
from headwise.traces import LongTrace, Trace
from headwise.traces.saved import open_trace


def open_(path: str | Path) -> Result | Trace | LongTrace:
    """A result from its folder, or a trace from its file."""
    return open_result(path) if Path(path).is_dir() else open_trace(path)

"""For chaos.py and its parts: what must hold, and for how long it is tried."""

from __future__ import annotations

import time
from collections.abc import Iterator


class BrokenPromiseError(AssertionError):
    """What docs/reliability.md says does not hold."""


def must(holds: object, told: str) -> None:
    if not holds:
        raise BrokenPromiseError(told)


def until(seconds: float, *, least: int = 1) -> Iterator[int]:
    """0, 1, 2 … until the time is over, at least so many."""
    end, number = time.monotonic() + seconds, 0
    while number < least or time.monotonic() < end:
        yield number
        number += 1

"""How long a test waits for a state before it says that it never came: generous, and longer on a slow machine.

HEADWISE_TEST_PATIENCE multiplies every limit. No test asserts how fast something was.
"""

from __future__ import annotations

import os


def patience(seconds: float = 120) -> float:
    """The limit in seconds."""
    return seconds * float(os.environ.get("HEADWISE_TEST_PATIENCE", "1"))

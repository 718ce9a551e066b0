"""How a trace can be drawn or shown: the modules of the viewer register a function each, under the name of a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwise.registry import Registry

WAYS: Registry[Callable[..., Any]] = Registry("way to show a trace", package="headwise.viewer")
"""(trace, …) → a page, a chart, a file"""

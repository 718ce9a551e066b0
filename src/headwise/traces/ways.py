"""What stands above a trace, a model or an explanation and is asked for by one of their methods.

Whoever draws, shows or explains them registers a function under the name of the method: `show` (of a trace), `explain`
(of a model), `explained.page` (of an explanation). So the data know nothing of what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwise.registry import Registry

WAYS: Registry[Callable[..., Any]] = Registry(
    "way to show or explain",
    modules=("headwise.explanations.why", "headwise.explanations.explain"),
    package="headwise.viewer",
)
"""(trace, …), (model, …) or (explanation, …) → a page, a chart, a file, an explanation"""

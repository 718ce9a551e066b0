"""What stands above a trace, a model or an explanation and is asked for by one of their methods.

Whoever draws, shows or explains them registers a function under the name of the method: `show` (of a trace), `explain`
(of a model), `explained.page` (of an explanation). So the data know nothing of what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwise.registry import Registry

WAYS: Registry[Callable[..., Any]] = Registry(
    "way to show or explain",
    modules=("headwise.explanations.why", "headwise.explanations.explain", "headwise.interventions.answered"),
    package="headwise.viewer",
)
"""(trace, …), (model, …) or (explanation, …) → a page, a chart, a file, an explanation"""


class Shown:
    """What has a page of its own: a trace, of a short text or a long one."""

    def save_html(self, path: str | Path, **choices: Any) -> Path:
        """Write the page, one file that needs no network; `choices` as of `hw.view`, for a long text fewer."""
        return WAYS["save_html"](self, Path(path), **choices)

    def show(self, **choices: Any) -> Any:
        """The page: in a notebook in place, elsewhere in the browser; `choices` as of `save_html`."""
        return WAYS["show"](self, **choices)

    def _repr_html_(self) -> str:
        return WAYS["frame"](self)

"""headwise: what is this transformer attending to, and may I believe it?

    import headwise as hw
    model = hw.load("demo")
    trace = model.trace("The cat sat down.", "It purred.")
    trace.attention("effective")

Names are imported at their first use, so that `import headwise` and `headwise --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.engine.opened import open_ as open  # noqa: A004 - hw.open(path), as in gzip.open
    from headwise.engine.run import run as run
    from headwise.explanations.explain import explain_text as explain
    from headwise.models.load import load as load
    from headwise.models.model import Model as Model
    from headwise.reports import report as report
    from headwise.results import Result as Result
    from headwise.traces import Trace as Trace
    from headwise.viewer import view as view

__version__ = "0.1.0"

_HOME = {
    "Model": ("headwise.models.model", "Model"),
    "Trace": ("headwise.traces", "Trace"),
    "explain": ("headwise.explanations.explain", "explain_text"),
    "load": ("headwise.models.load", "load"),
    "Result": ("headwise.results", "Result"),
    "open": ("headwise.engine.opened", "open_"),
    "report": ("headwise.reports", "report"),
    "run": ("headwise.engine.run", "run"),
    "view": ("headwise.viewer", "view"),
}
__all__ = ["Model", "Result", "Trace", "explain", "load", "open", "report", "run", "view"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

"""headwise: what is this transformer attending to, and may I believe it?

    import headwise as hw
    model = hw.load("demo")
    trace = model.trace("The cat sat down.", "It purred.")
    trace.attention("effective")

Names are imported at their first use, so that `import headwise` and `headwise --help` cost nothing.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.engine.align import align as align
    from headwise.engine.opened import open_ as open  # noqa: A004 - hw.open(path), as in gzip.open
    from headwise.engine.run import run as run
    from headwise.errors import HeadwiseError as HeadwiseError
    from headwise.errors import InputError as InputError
    from headwise.errors import ModelError as ModelError
    from headwise.errors import PluginError as PluginError
    from headwise.errors import ProofError as ProofError
    from headwise.errors import TooLongError as TooLongError
    from headwise.errors import UnknownNameError as UnknownNameError
    from headwise.explanations.explain import explain_text as explain
    from headwise.models.load import load as load
    from headwise.models.load import trace as trace
    from headwise.models.model import Model as Model
    from headwise.papers.reproduce import reproduce as reproduce
    from headwise.quantities import ATTENTION as ATTENTION
    from headwise.quantities import EXPLANATIONS as EXPLANATIONS
    from headwise.quantities import MIXING as MIXING
    from headwise.quantities import ORIGINS as ORIGINS
    from headwise.quantities import PASSES as PASSES
    from headwise.quantities import Quantity as Quantity
    from headwise.reports import report as report
    from headwise.reports.comparison.run import compare as compare
    from headwise.results import Result as Result
    from headwise.results import Results as Results
    from headwise.studies import STUDIES as STUDIES
    from headwise.traces import LongTrace as LongTrace
    from headwise.traces import Top as Top
    from headwise.traces import Trace as Trace
    from headwise.viewer import view as view

__version__ = "0.1.0"

# tqdm, which transformers brings, asks every notebook for a widget that nothing here draws with.
warnings.filterwarnings("ignore", message="IProgress not found")

_HOME = {
    "align": ("headwise.engine.align", "align"),
    "compare": ("headwise.reports.comparison.run", "compare"),
    "explain": ("headwise.explanations.explain", "explain_text"),
    "load": ("headwise.models.load", "load"),
    "open": ("headwise.engine.opened", "open_"),
    "reproduce": ("headwise.papers.reproduce", "reproduce"),
    "report": ("headwise.reports", "report"),
    "run": ("headwise.engine.run", "run"),
    "trace": ("headwise.models.load", "trace"),
    "view": ("headwise.viewer", "view"),
    "Model": ("headwise.models.model", "Model"),
    "Result": ("headwise.results", "Result"),
    "Results": ("headwise.results", "Results"),
    "LongTrace": ("headwise.traces", "LongTrace"),
    "Top": ("headwise.traces", "Top"),
    "Trace": ("headwise.traces", "Trace"),
    "Quantity": ("headwise.quantities", "Quantity"),
    "ATTENTION": ("headwise.quantities", "ATTENTION"),
    "EXPLANATIONS": ("headwise.quantities", "EXPLANATIONS"),
    "MIXING": ("headwise.quantities", "MIXING"),
    "ORIGINS": ("headwise.quantities", "ORIGINS"),
    "PASSES": ("headwise.quantities", "PASSES"),
    "STUDIES": ("headwise.studies", "STUDIES"),
    "HeadwiseError": ("headwise.errors", "HeadwiseError"),
    "InputError": ("headwise.errors", "InputError"),
    "ModelError": ("headwise.errors", "ModelError"),
    "PluginError": ("headwise.errors", "PluginError"),
    "ProofError": ("headwise.errors", "ProofError"),
    "TooLongError": ("headwise.errors", "TooLongError"),
    "UnknownNameError": ("headwise.errors", "UnknownNameError"),
}
__all__ = [
    "ATTENTION",
    "EXPLANATIONS",
    "MIXING",
    "ORIGINS",
    "PASSES",
    "STUDIES",
    "HeadwiseError",
    "InputError",
    "LongTrace",
    "Model",
    "ModelError",
    "PluginError",
    "ProofError",
    "Quantity",
    "Result",
    "Results",
    "TooLongError",
    "Top",
    "Trace",
    "UnknownNameError",
    "align",
    "compare",
    "explain",
    "load",
    "open",
    "report",
    "reproduce",
    "run",
    "trace",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    from headwise.registry import unhurried

    module, attribute = _HOME[name]
    with unhurried():
        home = importlib.import_module(module)
    return getattr(home, attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

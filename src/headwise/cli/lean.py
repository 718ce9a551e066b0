"""torch and transformers imported without what no verb uses: a quarter of the time until the first page.

transformers draws in, only to name them: torch's compiler (some functions are marked "not to be compiled"), tensors
spread over machines, and scipy's assignment for the losses of object detectors. It also reads every file of its models
twice, and lists all files of all packages, to know what is installed. A verb compiles nothing, has one machine and
trains no detector. So while transformers is imported, a stand-in takes the compiler's marks and leaves functions as
they are, and transformers is told that the others are not there, which it is made for. Afterwards all is as it was:
whoever asks for the compiler gets it. Only the command line does this, whose process is its own.
"""

from __future__ import annotations

import gc
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from headwise.registry import unhurried

COMPILER = "torch._dynamo"


def lean() -> None:
    """Import torch and transformers so; before any other import of transformers, or it changes nothing."""
    if "transformers" in sys.modules:
        return
    import torch.distributed

    with _answered(torch.distributed, "is_available", no), _asleep(torch):
        with _answered(importlib.metadata, "packages_distributions", dict):  # names that differ are rare, and tried
            import transformers.utils
        from transformers.utils import import_utils as reading

        with _answered(reading, "define_import_structure", partial(_read_before, reading.define_import_structure)):
            import transformers.models
        with _answered(transformers.utils, "is_scipy_available", no):
            import transformers.generation.utils
            import transformers.modeling_utils


@contextmanager
def lasting() -> Iterator[None]:
    """What is imported and loaded here stays to the end, so the garbage collector need not look through it, ever."""
    with unhurried():
        yield
        gc.freeze()


def no() -> bool:
    return False


def _read_before(read: Callable[..., dict[Any, Any]], init: str) -> dict[Any, Any]:
    """What transformers found in all files of its models when it was imported: it would read them all once more."""
    found = read(Path(init).parent, prefix="models")
    return {needs: {name.removeprefix("models."): of for name, of in files.items()} for needs, files in found.items()}


@contextmanager
def _answered(module: Any, question: str, answer: Callable[..., Any]) -> Iterator[None]:
    """`answer` stands in for a function of a module, for as long."""
    before = getattr(module, question)
    setattr(module, question, answer)
    try:
        yield
    finally:
        setattr(module, question, before)


@contextmanager
def _asleep(torch: Any) -> Iterator[None]:
    """A stand-in for the compiler's package; modules in it that do not need the compiler are imported as ever."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in: Any = ModuleType(COMPILER)
    stand_in.__path__ = [f"{folder}/_dynamo" for folder in torch.__path__]
    for mark in ("disable", "allow_in_graph", "assume_constant_result"):
        setattr(stand_in, mark, unmarked)
    sys.modules[COMPILER] = torch._dynamo = stand_in
    try:
        yield
    finally:
        del sys.modules[COMPILER], torch._dynamo


def unmarked(function: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    """The function as it is; without one, as a decorator is made with options, what leaves functions as they are."""
    return unmarked if function is None else function

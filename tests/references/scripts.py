"""A script of experiments/ or tools/ as a module: they stand beside their data and are no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def script(path: str, *, name: str | None = None) -> ModuleType:
    """`script("experiments/judge/judge.py")`. What stands beside it is found by its name alone if `name` is its own."""
    file = ROOT / path
    known = name or path.removesuffix(".py").replace("/", "_").replace("-", "_")
    spec = importlib.util.spec_from_file_location(known, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module

"""Offline, one thread, and every model loaded once for all tests."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
os.environ.setdefault("RAY_worker_niceness", "0")  # else its workers wait for all other tests

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping._import_hook import JaxtypingTransformer

_SOURCES = "".join(file.read_text("utf-8") for file in (Path(__file__).parent.parent / "src").rglob("*.py"))
_ALIASES = set(re.findall(r"^(\w+) = (?:Float|Int|Bool|Shaped)\[", _SOURCES, re.MULTILINE))
_SHAPES = re.compile(rf"Tensor, |ndarray, |\b({'|'.join(sorted(_ALIASES))})\b")
_checked = JaxtypingTransformer.visit_FunctionDef


def _shapes_checked(self: JaxtypingTransformer, node: ast.FunctionDef) -> ast.AST:
    """Shapes are checked at every call of a function that names any; plain types are left to pyright, for a third of
    the suite's time went there. A function within a function is made anew at every call, and its checker too."""
    named = any(_SHAPES.search(ast.unparse(part)) for part in (node.args, node.returns) if part)
    nested = any(isinstance(parent, ast.FunctionDef) for parent in self._parents)
    return _checked(self, node) if named and not nested else node


JaxtypingTransformer.visit_FunctionDef = _shapes_checked  # before headwise is imported

import headwise as hw  # noqa: E402 - see above
from headwise.errors import ModelError  # noqa: E402

# Tiny tensors: a second thread only waits, and worse where the cores are shared; `make portable` asks for two once.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
settings.register_profile("headwise", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("headwise")


@cache
def _load(name: str, task: str | None = None) -> hw.Model:
    return hw.load(name, task=task)


@pytest.fixture(scope="session")
def load() -> Callable[..., hw.Model]:
    """`load("tiny:bert")`, `load("tiny:t5", "translation")`: as `hw.load`, remembered. Leave the model as it is."""
    return _load


@pytest.fixture(scope="session")
def demo() -> hw.Model:
    """The packaged demo model, whose weights were trained: the only ones here with real structure."""
    try:
        return _load("demo")
    except ModelError as error:
        pytest.skip(f"the packaged model cannot be had: {error}")

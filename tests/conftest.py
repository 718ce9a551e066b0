"""Offline, one thread, and every model loaded once for all tests."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
os.environ.setdefault("RAY_worker_niceness", "0")  # else its workers wait for all other tests

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache, wraps
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
import pytest
import torch
from altair.utils import schemapi
from hypothesis import settings
from jaxtyping import _decorator, _import_hook
from jaxtyping._import_hook import JaxtypingTransformer

_SOURCES = "".join(file.read_text("utf-8") for file in (Path(__file__).parent.parent / "src").rglob("*.py"))
_ALIASES = set(re.findall(r"^(\w+) = (?:Float|Int|Bool|Shaped)\[", _SOURCES, re.MULTILINE))
_SHAPES = re.compile(rf"Tensor, |ndarray, |\b({'|'.join(sorted(_ALIASES))})\b")
_checked = JaxtypingTransformer.visit_FunctionDef
_TEST = [0]  # the number of the test
LOOKS = 64


def _shapes_checked(self: JaxtypingTransformer, node: ast.FunctionDef) -> ast.AST:
    """Shapes are checked at every call of a function that names any; plain types are left to pyright, for a third of
    the suite's time went there. A function within a function is made anew at every call, and its checker too."""
    named = any(_SHAPES.search(ast.unparse(part)) for part in (node.args, node.returns) if part)
    nested = any(isinstance(parent, ast.FunctionDef) for parent in self._parents)
    return _checked(self, node) if named and not nested else node


def _checked_at_first(fn: Any = _decorator._sentinel, **options: Any) -> Any:
    """`jaxtyped`, but a function's checker is made when it is first called, and asked at its first calls in a test: a
    loop over ten thousand cells is checked no better by ten thousand looks at the same shapes."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "checked_at_first"):
        return fn if isinstance(fn, FunctionType) else _jaxtyped(fn, **options)
    made: list[Any] = []
    seen, test = 0, -1

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen, test
        if test != _TEST[0]:
            seen, test = 0, _TEST[0]
        if seen >= LOOKS:
            return fn(*args, **kwargs)
        seen += 1
        if not made:
            made.append(_jaxtyped(fn, **options))
        return made[0](*args, **kwargs)

    called.checked_at_first = True  # type: ignore[attr-defined]
    return called


JaxtypingTransformer.visit_FunctionDef = _shapes_checked  # before headwise is imported
# Bytecode is kept for what is decided here: another alias, or another rule, and it is made anew.
_RULES = sha256((Path(__file__).read_text("utf-8") + _SHAPES.pattern).encode()).hexdigest()[:16]
_import_hook._optimized_cache_from_source = lambda _, path, debug=None: cache_from_source(
    path, debug, optimization=f"shapes{_RULES}"
)
_jaxtyped = _decorator.jaxtyped
jaxtyping.jaxtyped = _decorator.jaxtyped = _checked_at_first

_tabulated, _TABLES = schemapi._FromDict.__init__, {}


def _tabulated_once(self: Any, wrapper_classes: Iterable[type]) -> None:
    """altair makes a table of all its classes for every channel that is written as a string; it is always the same."""
    classes = tuple(wrapper_classes)
    if classes not in _TABLES:
        _tabulated(self, classes)
        _TABLES[classes] = self.class_dict
    self.class_dict = _TABLES[classes]


schemapi._FromDict.__init__ = _tabulated_once

import headwise as hw  # noqa: E402 - see above
from headwise.errors import ModelError  # noqa: E402
from headwise.models import load as loading  # noqa: E402

# Tiny tensors: a second thread only waits, and worse where the cores are shared; `make portable` asks for two once.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
settings.register_profile("headwise", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("headwise")


# What takes long begins first, so that no process is left with it at the end (`--no-loadscope-reorder`, Makefile).
LONG = ("docs/test_blocks", "papers/", "docs/test_notebooks", "studies/test_figures", "engine/", "reports/", "browser/",
        "attributions/", "studies/", "cli/", "models/", "viewer/", "contracts/", "server/")  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((place for place, part in enumerate(LONG) if part in item.nodeid), len(LONG)))


def pytest_runtest_setup() -> None:
    _TEST[0] += 1


@cache
def _load(name: str, task: str | None = None) -> hw.Model:
    return hw.load(name, task=task)


@pytest.fixture(scope="session")
def load() -> Callable[..., hw.Model]:
    """`load("tiny:bert")`, `load("tiny:t5", "translation")`: as `hw.load`, remembered. Leave the model as it is."""
    return _load


_read, _prove = loading._read, loading.prove


@cache
def _remembered(_stamp: object, *named: Any) -> Any:
    model, tokenizer = _read(*named)
    model.read_once = True
    return model, tokenizer


def _read_once(name: str, *how: Any) -> Any:
    weights = Path(name) / "model.safetensors"
    stamp = (weights.stat().st_mtime_ns, weights.stat().st_size) if weights.exists() else None
    return _remembered(stamp, name, *how)


def _proved_once(hf: Any) -> Any:
    """Of models that were read here; one that somebody made, and may have changed since, is proved each time."""
    if not hasattr(hf, "read_once"):
        return _prove(hf)
    if not hasattr(hf, "proved_once"):
        hf.proved_once = _prove(hf)
    return hf.proved_once


@pytest.fixture(autouse=True)
def _models_are_read_once(request: pytest.FixtureRequest) -> None:
    """Pages, verbs and reports name the same few models again and again: each is read and proved once for all."""
    if request.path.parent.name in ("docs", "cli", "reports", "comparison", "papers"):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setattr(loading, "_read", _read_once)
        monkeypatch.setattr(loading, "prove", _proved_once)


@pytest.fixture(scope="session")
def demo() -> hw.Model:
    """The packaged demo model, whose weights were trained: the only ones here with real structure."""
    try:
        return _load("demo")
    except ModelError as error:
        pytest.skip(f"the packaged model cannot be had: {error}")

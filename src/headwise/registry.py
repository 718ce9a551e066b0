"""One registry for everything that users call by name.

A registry knows the package whose modules fill it, and imports all of them at the first look-up. So naming a quantity
in `--help` costs nothing, and a new one is one file: write it, decorate it. Other packages fill a registry through an
entry point of its group, e.g. in their pyproject.toml

    [project.entry-points."headwise.quantities"]
    along = "my_package.along"

whose module is imported as if it stood in the package itself.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import difflib
import gc
import importlib
import pkgutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from headwise.errors import PluginError, UnknownNameError

T = TypeVar("T")
UNPLACED = 1000


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered thing: its name, the thing, one sentence about it, and its place in lists (then by name)."""

    name: str
    value: T
    about: str
    order: int = UNPLACED


@contextmanager
def unhurried() -> Generator[None]:
    """The garbage collector rests while torch and transformers are imported: it would look for nothing, for long."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Registry(Generic[T]):
    """Names to things of one kind, e.g. every study. `modules` are named, or found in `package`, or in plug-ins."""

    record: type[Entry[Any]] = Entry

    def __init__(
        self, kind: str, modules: Sequence[str] = (), *, package: str | None = None, plugins: str | None = None
    ):
        self.kind = kind
        self._modules, self._package, self._plugins = tuple(modules), package, plugins
        self._filled = False
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, about: str, **facts: Any) -> Callable[[T], T]:
        """Decorator: register the decorated thing under `name`; `facts` are further fields of its record."""

        def register(value: T) -> T:
            self.put(self.record(name, value, about, **facts))
            return value

        return register

    def put(self, entry: Entry[T]) -> None:
        if entry.name in self._entries:
            raise ValueError(f"{self.kind} {entry.name!r} is registered twice")
        self._entries[entry.name] = entry

    def remove(self, name: str) -> None:
        """Forget a name: what a session registered by hand can be taken back."""
        del self._entries[name]

    def __getitem__(self, name: str) -> T:
        return self.entry(name).value

    def entry(self, name: str) -> Entry[T]:
        """The entry called `name`, or an error that lists what there is and what was probably meant."""
        self._fill()
        if name not in self._entries:
            raise unknown(self.kind, name, list(self))
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return iter(sorted(self._entries, key=lambda name: (self._entries[name].order, name)))

    def __contains__(self, name: object) -> bool:
        self._fill()
        return name in self._entries

    def __len__(self) -> int:
        self._fill()
        return len(self._entries)

    def entries(self) -> Sequence[Entry[T]]:
        return [self._entries[name] for name in self]

    def _fill(self) -> None:
        """Import what fills this registry.

        subtle: a module may look something up while it is being imported, and so may another thread. Both pass here
        again, and find that Python's own import system knows what is under way.
        """
        if self._filled:
            return
        for module in (*self._modules, *_modules_of(self._package)):
            importlib.import_module(module)
        if self._plugins is not None:
            load_plugins(self._plugins)
        self._filled = True


def unknown(kind: str, name: str, there: Sequence[str]) -> UnknownNameError:
    """The error for a name that is not there: what there is, and what was probably meant."""
    near = difflib.get_close_matches(name, there, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownNameError(f"There is no {kind} {name!r}; there are {', '.join(there)}.{hint}")


def load_plugins(group: str) -> dict[str, Any]:
    """What installed packages offer under an entry-point group, by name, imported."""
    found = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            found[point.name] = point.load()
        except Exception as error:
            package = point.dist.name if point.dist is not None else point.value
            raise PluginError(
                f"The plug-in {point.name!r} of {package} ({group}) must be importable, but it fails: "
                f"{type(error).__name__}: {error}; mend it, or uninstall {package}."
            ) from error
    return found


def _modules_of(package: str | None) -> list[str]:
    """The modules that stand in a package, by their full names."""
    if package is None:
        return []
    return [f"{package}.{found.name}" for found in pkgutil.iter_modules(importlib.import_module(package).__path__)]

"""One registry for everything that users call by name.

A registry knows the modules that fill it and imports them at the first look-up, so naming a quantity in `--help`
costs nothing and a new measure is one file: write it, decorate it, and add its module to the list.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwise.errors import UnknownNameError

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered thing: its name, the thing, one sentence for `headwise list`."""

    name: str
    value: T
    about: str


class Registry(Generic[T]):
    """Names to things of one kind, e.g. every attention quantity."""

    def __init__(self, kind: str, modules: Sequence[str]):
        self.kind = kind
        self._modules = tuple(modules)
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, about: str) -> Callable[[T], T]:
        """Decorator: register the decorated thing under `name`."""

        def register(value: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = Entry(name, value, about)
            return value

        return register

    def __getitem__(self, name: str) -> T:
        return self.entry(name).value

    def entry(self, name: str) -> Entry[T]:
        """The entry called `name`, or an error that lists what there is and what was probably meant."""
        self._fill()
        if name not in self._entries:
            near = difflib.get_close_matches(name, self._entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UnknownNameError(f"There is no {self.kind} {name!r}; there are {', '.join(self)}.{hint}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def entries(self) -> list[Entry[T]]:
        return [self._entries[name] for name in self]

    def _fill(self) -> None:
        for module in self._modules:
            importlib.import_module(module)

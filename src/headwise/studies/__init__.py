"""Questions asked of a corpus, one file each; users reach them by name through this registry.

Every module of this package is looked into, so a new study is one file: a class that is decorated with `STUDIES.add`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from typing import TypeVar

from headwise.registry import Registry
from headwise.studies.study import Study

Class = TypeVar("Class", bound=type[Study])
LAST = 1000


class Studies(Registry[type[Study]]):
    """Studies by name, in the order in which a reader meets them."""

    def __init__(self, kind: str, modules: tuple[str, ...]):
        super().__init__(kind, modules)
        self._order: dict[str, int] = {}

    def add(self, name: str, about: str, order: int = LAST) -> Callable[[Class], Class]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Decorator: register a study under `name`, which is its name from then on."""
        register = super().add(name, about)

        def named(study: Class) -> Class:
            register(study)
            study.name = name
            self._order[name] = order
            return study

        return named

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__(), key=lambda name: (self._order[name], name)))

    def remove(self, name: str) -> None:
        """Forget a name: what a session registered by hand can be taken back."""
        del self._entries[name]


STUDIES = Studies("study", tuple(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)))

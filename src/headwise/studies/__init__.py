"""Questions asked of a corpus, one file each; users reach them by name through this registry.

Every module of this package is looked into, so a new study is one file: a class that is decorated with `STUDIES.add`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwise.registry import UNPLACED, Registry
from headwise.studies.study import Study

Class = TypeVar("Class", bound=type[Study])


class Studies(Registry[type[Study]]):
    """Studies by name, in the order in which a reader meets them."""

    def add(self, name: str, about: str, order: int = UNPLACED) -> Callable[[Class], Class]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Decorator: register a study under `name`, which is its name from then on."""
        register = super().add(name, about, order=order)

        def named(study: Class) -> Class:
            register(study)
            study.name = name
            return study

        return named


STUDIES = Studies("study", package=__name__, plugins="headwise.studies")

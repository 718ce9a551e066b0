"""What the numbers of every verb may be, by the names of their options; a number that is not declared is a defect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from headwise.allowed import Allowed, check
from headwise.engine.options import OPTIONS

P = ParamSpec("P")
RANGES: Mapping[str, tuple[Any, Allowed]] = {
    **{name: of for name, of in OPTIONS.items() if name != "shard_documents"},
    "shard": OPTIONS["shard_documents"],
    "budget": (float, Allowed(above=0)),
    "layer": (int, Allowed(least=0)),
    "query": (int, Allowed(least=0)),
    "key": (int, Allowed(least=0)),
    "texts": (int, Allowed(least=2)),
    "resamples": (int, Allowed(least=100, most=10**6)),
    "port": (int, Allowed(least=0, most=65535)),
    "max_jobs": (int, Allowed(least=1, most=10**4)),
    "max_seconds": (int, Allowed(least=1, most=10**6)),
    "base": (int, Allowed(one_of=(0, 1))),
    "pages": (int, Allowed(least=0)),
    "controls": (int, Allowed(least=0, most=100)),
    "control_texts": (int, Allowed(least=2)),
    "generate": (int, Allowed(least=1, most=10**5)),
    "passes": (int, Allowed(least=1, most=10**6)),
}


def in_range(verb: Callable[P, None]) -> Callable[P, None]:
    """The verb, which is not begun with a number that is out of its range."""

    @wraps(verb)
    def checked(*args: P.args, **given: P.kwargs) -> None:
        for name, value in given.items():
            if name in RANGES and value is not None:
                check(f"--{name.replace('_', '-')}", value, *RANGES[name])
        verb(*args, **given)

    return checked

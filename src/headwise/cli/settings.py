"""Settings of studies from the command line: `--set tangents=8 --set identity.maps=none,linear`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from headwise.allowed import check_fields
from headwise.errors import InputError
from headwise.studies import STUDIES
from headwise.studies.study import RENAMED, with_new_names

WORDS = {"true": True, "false": False, "none": None}


def settings_of(studies: str, quantity: str | None, assignments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each study is told, by name; `--quantities` goes to every study that looks at quantities."""
    names = [name.strip() for name in studies.split(",")]
    known = {name: {field.name: field for field in fields(STUDIES[name])} for name in names}
    chosen: dict[str, dict[str, Any]] = {name: {} for name in names}
    if quantity is not None:
        for name in names:
            if "quantities" in known[name]:
                chosen[name]["quantities"] = _value(quantity, known[name]["quantities"])
    for assignment in assignments:
        where, value = _parted(assignment)
        study, _, key = where.rpartition(".")
        takers = [name for name in names if RENAMED.get(key, key) in known[name] and study in ("", name)]
        if not takers:
            there = "; ".join(f"{name} has {', '.join(known[name]) or 'none'}" for name in names)
            raise InputError(f"A setting must be one that the study has, but there is no {where!r}: {there}.")
        for name in takers:
            new = next(iter(with_new_names({key: ()}, set(known[name]))))
            chosen[name][new] = _value(value, known[name][new])
    for name, given in chosen.items():
        STUDIES[name].from_settings(given)  # refuses what is out of range before a model is loaded
    return chosen


def plan_of(kind: type[Any], assignments: Sequence[str], *, whose: str) -> dict[str, Any]:
    """The same for what is planned by a dataclass and is no study: `--set lambdas=0.2,0.5,1,3`."""
    known, chosen = {field.name: field for field in fields(kind)}, {}
    for where, value in map(_parted, assignments):
        chosen[where] = _value(value, known[where]) if where in known else value
    check_fields(kind, chosen, whose=whose)
    return {name: _as_default(value, known[name].default) for name, value in chosen.items()}


def _as_default(value: Any, default: Any) -> Any:
    """Whole numbers as floats where the default has floats: 3 is a λ as 3.0 is."""
    if isinstance(value, tuple) and isinstance(default, tuple):
        return tuple(_as_default(one, default[0]) for one in value)
    return float(value) if isinstance(default, float) and isinstance(value, int) else value


def _parted(assignment: str) -> tuple[str, str]:
    where, equals, value = assignment.partition("=")
    if not equals or not where:
        raise InputError(f"A setting must be written KEY=VALUE, but {assignment!r} was given.")
    return where.strip(), value.strip()


def _value(written: str, field: Field[Any]) -> Any:
    """The value as the setting has it: a tuple where its default is one, else a number, a word or None.

    subtle: `none` is a name where the default is a name too (map=none), so it stays as it is for tuples and names.
    """
    default = field.default if field.default is not MISSING else None
    if isinstance(default, tuple):
        return tuple(_plain(part.strip(), names=True) for part in written.split(",") if part.strip())
    return _plain(written, names=isinstance(default, str))


def _plain(written: str, *, names: bool) -> Any:
    if written.lower() in WORDS and not (names and written.lower() == "none"):
        return WORDS[written.lower()]
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written

"""`--fail-if "sink_share>0.05"`: conditions on what a verb found, for pipelines; where one holds, the exit code is 1.

A condition is NAME OPERATOR VALUE, several joined by `and`; the option may be given more than once, and one that holds
is enough. Values are numbers, shares (5%), or words of a scale whose order is known (no < undecided < with care < yes).
A name may stand for one number or for one a head: then a head is enough, and the worst is named. A condition on a
number that was not measured is an error, not a pass.

>>> failures(parsed(["sink_share > 5% and texts >= 8"]), {"sink_share": 0.07, "texts": 9})
['sink_share is 0.07 and texts is 9 (--fail-if "sink_share > 5% and texts >= 8")']
>>> words = {"verdict": ("no", "with care", "yes")}
>>> failures(parsed(["verdict<with care"], scales=words), {"verdict": "yes"}, scales=words)
[]
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headwise.errors import InputError
from headwise.registry import unknown

FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", help='Exit with 1 where this holds, as in "sink_share>0.05"; more than once.', show_default=False
    ),
]
Found = float | int | str | None | Mapping[str, float]  # one value, or one a head by its name
Scales = Mapping[str, Sequence[str]]  # the words that a name may be, the worst first

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
    "=": operator.eq,
}  # fmt: skip
TERM = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(<=|>=|==|!=|<|>|=)\s*([^\s<>=!](?:.*\S)?)\s*")
AND = re.compile(r"\s+and\s+")
SHAPE = 'must be NAME OPERATOR VALUE, as "sink_share>0.05" or "verdict<yes"'


@dataclass(frozen=True)
class Term:
    name: str
    operator: str
    value: str


@dataclass(frozen=True)
class Condition:
    """What was written, and its terms, which all have to hold."""

    text: str
    terms: tuple[Term, ...]


def read(written: Iterable[str]) -> list[Condition]:
    """The conditions as written, whatever their names and values."""
    return [Condition(text, tuple(_term(part, text) for part in AND.split(text))) for text in written]


def parsed(
    written: Iterable[str], names: Iterable[str] | None = None, *, scales: Scales | None = None
) -> list[Condition]:
    """The conditions as written; refused before anything is run where they are none, or ask for what is not there."""
    conditions = read(written)
    known = None if names is None else list(names)
    for term in (term for condition in conditions for term in condition.terms):
        if known is not None and term.name not in known:
            raise unknown("number for --fail-if", term.name, known)
        if term.name in (scales or {}):
            _place(term, list((scales or {})[term.name]))
        else:
            _limit(term)
    return conditions


def failures(conditions: Iterable[Condition], found: Mapping[str, Found], *, scales: Scales | None = None) -> list[str]:
    """A sentence for each condition that holds: what was found, and what was asked."""
    reasons = []
    for condition in conditions:
        told = [_told(term, found, scales or {}) for term in condition.terms]
        if all(told):
            reasons.append(f'{" and ".join(map(str, told))} (--fail-if "{condition.text}")')
    return reasons


def end(reasons: Sequence[str]) -> None:
    """Leave with exit code 1 where there is a reason, which is told on standard error."""
    for reason in reasons:
        print(f"headwise: failed: {reason}", file=sys.stderr)
    if reasons:
        raise typer.Exit(1)


def _term(part: str, text: str) -> Term:
    match = TERM.fullmatch(part)
    if match is None:
        raise InputError(f"A condition of --fail-if {SHAPE}, but {text!r} was given.")
    return Term(*match.groups())


def _told(term: Term, found: Mapping[str, Found], scales: Scales) -> str:
    """What was found, where the term holds; empty where it does not."""
    if term.name not in found:
        raise unknown("number for --fail-if", term.name, list(found))
    value = found[term.name]
    if isinstance(value, Mapping):
        return _of_heads(term, value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise InputError(f"--fail-if asks for {term.name}, but it was not measured here; leave the condition out.")
    if term.name in scales:
        return _of_scale(term, str(value), list(scales[term.name]))
    return f"{term.name} is {_number(value)}" if OPERATORS[term.operator](value, _limit(term)) else ""


def _of_scale(term: Term, value: str, scale: Sequence[str]) -> str:
    holds = OPERATORS[term.operator](scale.index(value), _place(term, scale))
    return f"{term.name} is {value}" if holds else ""


def _place(term: Term, scale: Sequence[str]) -> int:
    """Of the word that is asked for, on its scale."""
    if term.value not in scale:
        raise InputError(
            f'{term.name} of --fail-if must be one of {", ".join(scale)}, as "{term.name}<{scale[-2]}", but '
            f"{term.value!r} was given."
        )
    return scale.index(term.value)


def _of_heads(term: Term, values: Mapping[str, float]) -> str:
    limit, values = _limit(term), {name: value for name, value in values.items() if not math.isnan(value)}
    held = {name: value for name, value in values.items() if OPERATORS[term.operator](value, limit)}
    if not values:
        raise InputError(f"--fail-if asks for {term.name}, but it was not measured here; leave the condition out.")
    if not held:
        return ""
    worst = max(held, key=lambda name: abs(held[name] - limit))
    others = f" and in {len(held) - 1} more of {len(values)}" if len(held) > 1 else f", of {len(values)}"
    return f"{term.name} is {_number(held[worst])} in {worst}{others}"


def _limit(term: Term) -> float:
    share = term.value.endswith("%")
    try:
        limit = float(term.value.rstrip("% ")) / (100 if share else 1)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise InputError(
            f'{term.name} of --fail-if must be compared with a number, as "{term.name}<0.5", but {term.value!r} was '
            "given."
        )
    return limit


def _number(value: float | int | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"

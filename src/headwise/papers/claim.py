"""What a paper says, how to look whether it holds for a model, and by which rule.

An `Item` is a figure or table of a paper under its own name. A `Job` is the run of a study that makes it, with the
paper's settings; a `Training` makes models of its own. A `Claim` is a sentence of the paper that a number of the table
can confirm or deny.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

Verdict = Literal["holds", "holds in part", "does not hold", "not comparable"]
Table = pl.DataFrame


@dataclass(frozen=True)
class Found:
    """This model's value, in words with numbers, and what follows for the claim."""

    value: str
    verdict: Verdict


class UnaskedError(Exception):
    """A table has no row of the kind that a claim is about."""


def asked(rows: Table) -> Table:
    """The rows, of which there must be some."""
    if rows.is_empty():
        raise UnaskedError
    return rows


@dataclass(frozen=True, eq=False)
class Claim:
    """`theirs` is the paper's number, for the paper's model; `rule` says when the claim holds for another one."""

    says: str
    theirs: str
    rule: str
    look: Callable[[Table], Found]

    def found(self, table: Table) -> Found:
        """What `look` finds, or that the run did not ask for it (another map, quantity or set than the claim's)."""
        try:
            return self.look(table)
        except UnaskedError:
            return Found("the run did not ask for this", "not comparable")


@dataclass(frozen=True, eq=False)
class Job:
    """A run of one study; `data` is a path inside the folder of data, `get` says where its files come from."""

    study: str
    data: str | None = None
    get: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    corpus: Mapping[str, Any] = field(default_factory=dict)  # how to read it: kind, columns, segments, label
    run: Mapping[str, Any] = field(default_factory=dict)  # truncate, max_tokens
    task: str | None = None
    model: str = ""  # what the model must be, in words; empty: any
    files: tuple[str, str, str] | None = None  # in the folder `data`: sentences, their translations, gold links


@dataclass(frozen=True, eq=False)
class Training:
    """Models are trained for it (headwise.papers.chunking), none is asked for; its claims look at `table` of theirs."""

    table: str
    data: str
    get: str


@dataclass(frozen=True, eq=False)
class Item:
    """`id` is the name in the paper, `also` are others that the same run answers; `command` tells how without a job."""

    id: str
    shows: str
    job: Job | Training | None
    figures: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    also: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Paper:
    name: str
    cite: str
    link: str
    items: tuple[Item, ...]


def graded(parts: tuple[bool, ...] | list[bool]) -> Verdict:
    """Holds where all parts do, in part where some do.

    >>> graded([True, False])
    'holds in part'
    """
    return "holds" if all(parts) else "holds in part" if any(parts) else "does not hold"


def percent(share: float) -> str:
    """A share as people write it, with a space that does not break.

    >>> percent(0.381), percent(0.004)
    ('38\\xa0%', '0.4\\xa0%')
    """
    return f"{100 * share:.0f}\u00a0%" if abs(share) >= 0.0995 else f"{100 * share:.1f}\u00a0%"


def heads(table: Table, most: int = 4) -> str:
    """The names of some heads, and how many more there are."""
    names = table["name"].to_list()
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest if names else "none"


def first_stack(table: Table) -> Table:
    """Claims are about self-attention: of an encoder–decoder, the encoder's."""
    return table.filter(pl.col("stack") == table["stack"][0]) if "stack" in table.columns else table

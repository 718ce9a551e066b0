"""What a paper says, how to look whether it holds for a model, and by which rule.

An `Item` is a figure or table of a paper under its own name. A `Job` is the run of a study that makes it, with the
paper's settings; a `Training` makes models of its own. A `Claim` is a sentence of the paper as data: which number of a
table speaks to it (`look`), the bar that the number has to clear, how many texts, seeds or folds it takes at the least,
and the control. `judge` puts a claim beside the evidence; verdict.py decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from headwise.papers.verdict import UNTRAINED, Bar, Numbers, Verdict, decide, jackknife
from headwise.results.shown import UNDEFINED, worded
from headwise.studies.tables import counted

Table = pl.DataFrame
Form = Literal["share", "number", "points"]
WEIGHTS = "heads"  # the unit of a number of the weights alone: it is exact, and has no interval
INTERVALS = {  # which 95 % interval a number has, by the unit of its claim
    "texts": "jackknife over texts", "folds": "Student's t over folds", "seeds": "Student's t over seeds",
    "sentences": "Student's t over sentences", "relations": "Wilson's, over relations",
    "mentions": "bootstrap over documents", "pairs": "bootstrap over pairs", WEIGHTS: "none: the weights alone, exact",
}  # fmt: skip


class NotComparableError(Exception):
    """Why a table has nothing that a claim speaks of; the text is told."""


class TooLittleError(NotComparableError):
    """The same where the texts or the run are the reason and not the network: such a control could not have passed."""


def asked(rows: Table) -> Table:
    """The rows, of which there must be some."""
    if rows.is_empty():
        raise TooLittleError("the run did not ask for this")
    return rows


@dataclass(frozen=True)
class Seen:
    """The number that speaks to a claim, and what else to tell of it.

    `low`, `high` and `n`: where the table has an interval of its own (over folds, seeds, sentences); `slack` widens an
    interval by what the number itself is uncertain; `limits`: what it can be at all, which no end of an interval goes
    beyond; `controls`: what the paper's own baseline gives, None where it was not run. `instead`: what the claim is
    read of where the model or its text has not all that it speaks of; it is told wherever the number is.
    """

    value: float
    words: str = ""
    low: float = math.nan
    high: float = math.nan
    n: int | None = None
    slack: float = 0.0
    limits: tuple[float, float] = (-math.inf, math.inf)
    controls: tuple[float, ...] | None = ()
    instead: str = ""

    def __post_init__(self) -> None:
        for name in ("words", "instead"):
            object.__setattr__(self, name, worded(getattr(self, name)))


@dataclass(frozen=True, eq=False)
class Claim:
    """`theirs` is the paper's number, for the paper's model; `measures` says what the number that decides is.

    The claim holds where that number is `above` or `below` a bar, by the rule of verdict.py. `control` is "untrained"
    (networks of the same shape, drawn anew), or the name of a baseline of which `look` gives the numbers. `texts`: how
    many a map must be learned from, where one is; folds of few texts agree, and say nothing.
    """

    says: str
    theirs: str
    measures: str
    look: Callable[[Table], Seen]
    above: float | None = None
    below: float | None = None
    unit: str = "texts"
    least: int = 20
    control: str = UNTRAINED
    form: Form = "share"
    texts: int = 0
    interval: str = ""  # which it is, where it is not the one of its unit

    @property
    def bar(self) -> Bar:
        if self.above is not None:
            return Bar(self.above, above=True)
        assert self.below is not None, "a claim has a bar"
        return Bar(self.below, above=False)

    @property
    def rule(self) -> str:
        """What the number is, where it must lie with all of its interval, which interval, and from how many."""
        side = f"{'above' if self.bar.above else 'below'} {shown(self.bar.at, self.form)}"
        where = side if self.unit == WEIGHTS else f"all of the interval {side}"
        learned = f" of {self.texts} texts" if self.texts else ""
        return (
            f"{self.measures}: {where}, from {self.least} {self.unit}{learned} or more "
            f"(interval: {self.interval or INTERVALS[self.unit]})"
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """A table, the same of all texts but each part, the same of the controls, and how many there are of each unit.

    `controls` are untrained networks, `shuffled` such with the trained weights in random order; None: not run.
    """

    table: Table
    counts: Mapping[str, int]
    parts: Sequence[Table] = ()
    controls: Sequence[Table] | None = None
    shuffled: Sequence[Table] = ()


@dataclass(frozen=True)
class Judged:
    """A claim beside its evidence; `numbers` is None where there is nothing to compare."""

    verdict: Verdict
    why: str
    words: str = ""
    numbers: Numbers | None = None
    form: Form = "share"
    instead: str = ""

    @property
    def ours(self) -> str:
        """The number with its interval, then what it was read of and what else there is to tell."""
        if self.numbers is None:
            return self.words or self.why
        return "; ".join(part for part in (self.number, self.instead, self.words) if part)

    @property
    def number(self) -> str:
        """The number with its interval, where it has one; one of the weights alone is exact."""
        if self.numbers is None:
            return ""
        value, low, high = (shown(end, self.form) for end in (self.numbers.value, self.numbers.low, self.numbers.high))
        if self.numbers.unit == WEIGHTS:
            return f"{value} (exact)"
        return value if math.isnan(self.numbers.low) else f"{value} ({low} to {high})"

    @property
    def n(self) -> str:
        return counted(self.numbers.n, self.numbers.unit.removesuffix("s")) if self.numbers else ""

    @property
    def control(self) -> str:
        if self.numbers is None:
            return ""
        if self.numbers.controls is None:
            return "not run"
        kinds = {self.numbers.control: self.numbers.controls, "shuffled": self.numbers.shuffled}
        told = {kind: ", ".join("–" if math.isnan(one) else shown(one, self.form) for one in values)
                for kind, values in kinds.items() if values}  # fmt: skip
        return "; ".join(f"{kind}: {values}" for kind, values in told.items()) or self.numbers.control


def judge(claim: Claim, evidence: Evidence) -> Judged:
    """The verdict on a claim."""
    try:
        seen = claim.look(evidence.table)
    except NotComparableError as reason:
        return Judged("not comparable", str(reason), form=claim.form)
    if math.isnan(seen.value):
        return Judged("not comparable", "the number is not defined here", seen.words, form=claim.form)
    numbers, texts = _numbers(claim, seen, evidence), evidence.counts.get("texts")
    if texts is not None and texts < claim.texts:
        why = f"{counted(texts, 'text')}, and a map to learn takes {claim.texts}"
        return Judged("undecided", why, seen.words, numbers, claim.form, seen.instead)
    return settled(claim, numbers, seen.words, seen.instead)


def settled(claim: Claim, numbers: Numbers, words: str, instead: str = "") -> Judged:
    """The verdict on numbers that are known, also those of a stored page."""
    verdict, why = decide(claim.bar, claim.least, numbers)
    return Judged(verdict, why, words, numbers, claim.form, instead)


def _numbers(claim: Claim, seen: Seen, evidence: Evidence) -> Numbers:
    low, high = seen.low, seen.high
    if math.isnan(low) and evidence.parts:
        without = [_value(claim, part) for part in evidence.parts]
        low, high = jackknife(seen.value, [math.nan if value is None else value for value in without])
    controls, shuffled = seen.controls, ()
    if claim.control == UNTRAINED:
        tables, shuffled = evidence.controls, _told(claim, evidence.shuffled)
        controls = None if tables is None else _told(claim, tables)
        controls = None if tables and not controls else controls
    n = seen.n if seen.n is not None else evidence.counts.get(claim.unit, 0)
    low, high = (_within(end, seen.limits) for end in (low - seen.slack, high + seen.slack))
    return Numbers(seen.value, low, high, n, claim.unit, controls, shuffled, claim.control)


def _within(end: float, limits: tuple[float, float]) -> float:
    return end if math.isnan(end) else min(max(end, limits[0]), limits[1])


def _told(claim: Claim, tables: Sequence[Table]) -> tuple[float, ...]:
    """The numbers of controls; those whose run could not tell are no controls."""
    found = [_value(claim, table) for table in tables]
    return tuple(value for value in found if value is not None)


def _value(claim: Claim, table: Table) -> float | None:
    """NaN: the network has nothing that the claim speaks of; None: its run could not tell."""
    try:
        return claim.look(table).value
    except TooLittleError:
        return None
    except NotComparableError:
        return math.nan


def counts_of(manifest: Mapping[str, Any]) -> dict[str, int]:
    """How many texts, folds and seeds a run has, by its manifest."""
    settings = manifest.get("settings", {})
    repeats = {name: settings.get(name) for name in ("folds", "seeds")}
    told = {name: len(value) if isinstance(value, list) else value for name, value in repeats.items()}
    texts = settings.get("texts") or manifest["documents"]  # some studies ask the first texts only
    return {"texts": min(texts, manifest["documents"]), "pairs": manifest["documents"],
            **{name: value for name, value in told.items() if isinstance(value, int)}}  # fmt: skip


TWO = "two-models"  # the name of a figure that an item draws by `against`


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
    head: bool = False  # loaded with the head that the checkpoint was saved with, where no task is asked for
    model: str = ""  # what the model must be, in words; empty: any
    files: tuple[str, str, str] | None = None  # in the folder `data`: sentences, their translations, gold links
    learns: str = ""  # a file beside `data` whose first sentences are learned from; `data` is then only scored on


@dataclass(frozen=True, eq=False)
class Training:
    """Models are trained for it (headwise.papers.chunking), none is asked for; its claims look at `table` of theirs."""

    table: str
    data: str
    get: str


@dataclass(frozen=True, eq=False)
class Item:
    """`id` is the name in the paper, `also` are others that the same run answers."""

    id: str
    shows: str
    job: Job | Training
    figures: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    also: tuple[str, ...] = ()
    rows: Callable[[Table], Table] | None = None  # the table of the paper, from the run's
    pictures: Callable[..., Mapping[str, Any]] | None = None  # of heads: table, model, document, *beside → charts
    against: Callable[[Mapping[str, Table]], Any] | None = None  # drawn of two models' tables, by their names
    beside: tuple[Job, ...] = ()  # other runs that `pictures` look at: their tables, None where they were not run


@dataclass(frozen=True)
class Paper:
    name: str
    cite: str
    link: str
    items: tuple[Item, ...]


# --- for those who write claims ---


def apart(left: Seen, right: Seen) -> Seen:
    """left − right, two numbers with intervals of their own, taken as independent."""
    value = left.value - right.value
    reach = [math.hypot(left.value - left.low, right.high - right.value),
             math.hypot(left.high - left.value, right.value - right.low)]  # fmt: skip
    return Seen(value, low=value - reach[0], high=value + reach[1])


def least_of(*seen: Seen) -> Seen:
    return min(seen, key=lambda one: one.value)


def with_words(seen: Seen, words: str, **more: Any) -> Seen:
    return replace(seen, words=words, **more)


def shown(value: float, form: Form) -> str:
    """A number as people write it.

    >>> shown(0.381, "share"), shown(0.9, "number"), shown(0.052, "points"), shown(-0.001, "number")
    ('38\\xa0%', '0.90', '5.2 points', '0.00')
    """
    if form == "share" or not math.isfinite(value):
        return percent(value)
    if form == "points":
        return f"{100 * value:z.1f} points"
    return f"{value:z.2f}" if abs(value) < 100 else f"{value:.0f}"


def percent(share: float) -> str:
    """A share as people write it, with a space that does not break.

    >>> percent(0.381), percent(0.004)
    ('38\\xa0%', '0.4\\xa0%')
    """
    if not math.isfinite(share):
        return UNDEFINED
    return f"{100 * share:.0f}\u00a0%" if abs(share) >= 0.0995 else f"{100 * share:z.1f}\u00a0%"


def heads(table: Table, most: int = 4) -> str:
    """The names of some heads, and how many more there are."""
    names = table["name"].to_list()
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest if names else "none"


def first_stack(table: Table) -> Table:
    """Claims are about self-attention: of an encoder–decoder, the encoder's."""
    return table.filter(pl.col("stack") == table["stack"][0]) if "stack" in table.columns else table

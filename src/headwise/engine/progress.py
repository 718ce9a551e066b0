"""A bar with rate and time left on a terminal; elsewhere lines for a log, where they are asked for, or nothing.

It counts texts, also inside a shard, and says which study is at work; its columns keep their width.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from headwise.engine.fold import EVERY
from headwise.engine.plan import Plan
from headwise.text.terminal import unguarded

SECONDS = 10.0  # between two lines of a log, at least
Shown = bool | Literal["lines"] | None
"""None: a bar on a terminal. "lines": the same, and lines where there is none. True, False: a bar, or nothing."""


@dataclass
class Progress:
    """Documents done, of how many; a no-op without a bar."""

    bar: Any = None
    task: Any = None
    wide: int = 0  # of the column that says who is at work
    sizes: dict[int, int] = field(default_factory=dict)
    done: int = 0  # documents and tokens of finished shards
    tokens: int = 0
    begun: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same of shards at work

    def start(self, shard: int, documents: int) -> None:
        self.sizes[shard] = documents

    def skip(self, documents: int) -> None:
        self.done += documents
        if isinstance(self.bar, Lines):
            self.bar.resumed += documents
        self._show()

    def within(self, shard: int, documents: int, tokens: int, doing: str) -> None:
        """So much of a shard is done, and this study is at work."""
        self.begun[shard] = (documents, tokens)
        self._show(doing)

    def finish(self, shard: int, tokens: int) -> None:
        self.begun.pop(shard, None)
        self.done, self.tokens = self.done + self.sizes.pop(shard, 0), self.tokens + tokens
        self._show()

    def _show(self, doing: str | None = None) -> None:
        if self.bar is None:
            return
        elapsed = self.bar.tasks[0].elapsed or 1.0
        documents, tokens = (sum(part) for part in zip((self.done, self.tokens), *self.begun.values(), strict=True))
        named = {} if doing is None else {"description": doing.ljust(self.wide)}
        self.bar.update(self.task, completed=documents, rate=f"{tokens / elapsed:>9,.0f} tokens/s", **named)


@dataclass
class Lines:
    """What a bar shows, as lines: one when it starts, one every SECONDS, one when all is done."""

    total: int
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    told: int = -1  # texts that the last line told of
    resumed: int = 0  # texts that were done before it began, in no time

    def __post_init__(self) -> None:
        self.began = self.last = self.clock()

    @property
    def tasks(self) -> list[Lines]:
        return [self]

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    def update(self, _task: Any, *, completed: int, rate: str, description: str = "") -> None:
        early = completed < self.total and self.clock() - self.last < SECONDS
        if early or completed == self.told:
            return
        self.last, self.told = self.clock(), completed
        parts = [f"{completed:,} of {self.total:,} texts"]
        if completed:
            parts.append(rate.strip())
        if self.resumed < completed < self.total:
            once = self.elapsed / (completed - self.resumed)
            parts.append(f"about {duration(once * (self.total - completed))} left")
        if description.strip() not in ("", EVERY):
            parts.append(f"at {description.strip()}")
        self.say(", ".join(parts))


@contextmanager
def watched(plan: Plan, *, shown: Shown) -> Iterator[Progress]:
    """A bar on standard error where it is a terminal, or where `shown` says so."""
    if not _visible(shown):
        yield Progress()
        return
    if shown == "lines" and not sys.stderr.isatty():
        say, total = teller("headwise", shown), documents_of(plan)
        say(f"reading {total:,} text{'s' if total != 1 else ''} of {plan.corpus.name} for {', '.join(plan.studies)}")
        yield Progress(Lines(total, say))
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"), progress.TimeRemainingColumn(),
    )  # fmt: skip
    # subtle: what is printed beside the bar goes its own way, where it is guarded; rich would obey links in it
    apart: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    with progress.Progress(*columns, console=Console(file=unguarded(sys.stderr)), **apart) as bar:
        wide = max(map(len, (*plan.studies, EVERY)))
        task = bar.add_task(EVERY.ljust(wide), total=documents_of(plan), rate="")
        yield Progress(bar, task, wide)


def documents_of(plan: Plan) -> int:
    """How many texts the corpus has, or about so many where it is cut into segments."""
    return sum(1 for _ in plan.corpus.documents()) // (2 if plan.corpus.segments else 1)


def foretold(passes: int, texts: int, seconds: float) -> str:
    """How long it will take, in words.

    >>> foretold(258, 8, 0.05)
    'about 258 passes a text; 8 texts will take about 2 minutes'
    """
    long = duration(passes * texts * seconds)
    return f"about {passes:,} passes a text; {texts:,} text{'s' if texts != 1 else ''} will take about {long}"


def duration(seconds: float) -> str:
    """
    >>> duration(89), duration(90), duration(5400)
    ('89 s', '2 minutes', '1.5 hours')
    """
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


def teller(study: str, shown: Shown) -> Callable[[str], None]:
    """Where a study says how far its conclusion is: a line on standard error, or nowhere."""
    if not _visible(shown):
        return lambda _: None
    return lambda line: print(f"{study}: {line}", file=sys.stderr, flush=True)


def _visible(shown: Shown) -> bool:
    return sys.stderr.isatty() if shown is None else bool(shown)

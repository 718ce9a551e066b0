"""A bar with rate and time left on a terminal; elsewhere lines for a log, where they are asked for, or nothing.

It counts texts, also inside a shard and a batch, and says which study is at work; its columns keep their width.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from headwise.engine.fold import EVERY
from headwise.engine.forecast import Forecast, duration, remaining
from headwise.engine.plan import Plan
from headwise.studies.study import Study
from headwise.text.terminal import unguarded

SECONDS, TICK = 10.0, 1.0  # between two lines of a log, at least; between two looks whether one is due
Shown = bool | Literal["lines"] | None
"""None: a bar on a terminal. "lines": the same, and lines where there is none. True, False: a bar, or nothing."""


@dataclass
class Progress:
    """Documents done, of how many; a no-op without a bar."""

    bar: Any = None
    task: Any = None
    wide: int = 0  # of the column that says who is at work
    forecast: Forecast | None = None
    sizes: dict[int, int] = field(default_factory=dict)
    done: int = 0  # documents and tokens of finished shards
    tokens: int = 0
    begun: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same of shards at work
    earlier: dict[int, tuple[int, int]] = field(default_factory=dict)  # and what of them an interrupted run had done
    worked: float = 0.0  # seconds foretold of the shards that were finished
    gone: float = 0.0  # and of those that were done before it began
    last: tuple[float, float] = (0.0, 0.0)  # when a text was last done: seconds foretold of all that were; it took
    paced: bool = True  # tokens a second say something only where one pass over the texts is all there is

    doing: str | None = None  # who was at work when that was last told
    lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, shard: int, documents: int) -> None:
        with self.lock:
            self.sizes[shard] = documents

    def skip(self, shard: int, documents: int) -> None:
        with self.lock:
            self.done += documents
            self.gone += self._of(shard)
            self._show()

    def within(self, shard: int, documents: int, tokens: int, doing: str, earlier: tuple[int, int] = (0, 0)) -> None:
        """So much of a shard is done, by an interrupted run what is `earlier`, and this study is at work."""
        with self.lock:
            self.begun[shard], self.doing = (documents, tokens), doing
            self.earlier.setdefault(shard, earlier)  # a shard that went on after a worker died was begun in this run
            self._show(doing)

    def tick(self) -> None:
        """Nothing has changed but the time."""
        with self.lock:
            self._show(self.doing)

    def finish(self, shard: int, tokens: int) -> None:
        with self.lock:
            self.begun.pop(shard, None)
            texts, before = self.sizes.pop(shard, 0), self.earlier.pop(shard, (0, 0))
            self.done, self.tokens = self.done + texts, self.tokens + tokens - before[1]
            gone = self._part(shard, before[0], texts)
            self.worked, self.gone = self.worked + self._of(shard) - gone, self.gone + gone
            self.doing = None
            self._show()

    def left(self, elapsed: float) -> float | None:
        """Seconds, by what was foretold of the texts that are left and what it came to when one was last done."""
        if self.forecast is None:
            return None
        gone = sum(self._part(shard, texts) for shard, (texts, _) in self.earlier.items())
        worked = self.worked + sum(self._part(shard, texts) for shard, (texts, _) in self.begun.items()) - gone
        if worked > self.last[0]:
            self.last = worked, elapsed
        worked, then = self.last
        left = remaining(sum(self.forecast.shards) - self.gone - gone, worked, then) - (elapsed - then)
        return max(0.0, left) + self.forecast.after

    def _of(self, shard: int) -> float:
        return 0.0 if self.forecast is None else self.forecast.of(shard)

    def _part(self, shard: int, texts: int, of: int | None = None) -> float:
        of = self.sizes.get(shard, texts) if of is None else of
        return 0.0 if self.forecast is None else self.forecast.of_first(shard, texts, of)

    def _show(self, doing: str | None = None) -> None:
        if self.bar is None:
            return
        elapsed = self.bar.tasks[0].elapsed or 1.0
        documents, tokens = (sum(part) for part in zip((self.done, self.tokens), *self.begun.values(), strict=True))
        tokens -= sum(before for _, before in self.earlier.values())
        named = {} if doing is None else {"description": doing.ljust(self.wide)}
        seconds = self.left(elapsed)
        rate = pace(tokens, elapsed) if self.paced else ""
        left = "" if seconds is None or seconds < 1 else f"about {duration(seconds)} left"
        self.bar.update(self.task, completed=documents, rate=f"{rate:>19}", left=f"{left:<22}", **named)


def pace(tokens: int, seconds: float) -> str:
    """Tokens a second; nothing of next to none.

    >>> pace(790, 2), pace(5, 100)
    ('395 tokens/s', '')
    """
    return f"{rate:,.0f} tokens/s" if (rate := tokens / seconds) >= 1 else ""


@dataclass
class Lines:
    """What a bar shows, as lines: one when it starts, one every SECONDS, one when all is done."""

    total: int
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    told: int = -1  # texts that the last line told of
    at: tuple[int, str] = (-1, "")  # texts that are done, and who is at work
    since: float = 0.0  # since when

    def __post_init__(self) -> None:
        self.began = self.last = self.since = self.clock()

    @property
    def tasks(self) -> list[Lines]:
        return [self]

    @property
    def elapsed(self) -> float:
        return self.clock() - self.began

    def update(self, _task: Any, *, completed: int, rate: str, left: str = "", description: str = "") -> None:
        now, doing = self.clock(), description.strip()
        if self.at != (completed, doing):
            self.at, self.since = (completed, doing), now
        if (completed < self.total and now - self.last < SECONDS) or completed == self.total == self.told:
            return
        self.last, self.told = now, completed
        parts = [f"{completed:,} of {self.total:,} texts", *([rate.strip()] if completed and rate.strip() else [])]
        if left.strip() and completed < self.total:
            parts.append(left.strip())
        if doing not in ("", EVERY):
            long = f" for {duration(now - self.since)}" if now - self.since >= SECONDS else ""
            parts.append(f"at {doing}{long}")
        self.say(", ".join(parts))


@contextmanager
def watched(plan: Plan, *, shown: Shown, forecast: Forecast | None = None) -> Iterator[Progress]:
    """A bar on standard error where it is a terminal, or where `shown` says so."""
    if not visible(shown):
        yield Progress()
        return
    paced = not any(study.has("ask") for study in plan.build())
    if shown == "lines" and not sys.stderr.isatty():
        say, total = teller("headwise", shown), documents_of(plan)
        whom = ", ".join(_asking(study, total) for study in plan.build())
        say(f"reading {total:,} text{'s' if total != 1 else ''} of {plan.corpus.name} for {whom}")
        progress = Progress(Lines(total, say), forecast=forecast, paced=paced)
        with ticking(progress):
            yield progress
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"), progress.BarColumn(bar_width=16), progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"), progress.TextColumn("{task.fields[left]}"),
    )  # fmt: skip
    # subtle: what is printed beside the bar goes its own way, where it is guarded; rich would obey links in it
    apart: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    with progress.Progress(*columns, console=Console(file=unguarded(sys.stderr)), **apart) as bar:
        wide = max(map(len, (*plan.studies, EVERY)))
        task = bar.add_task(EVERY.ljust(wide), total=documents_of(plan), rate="", left="")
        yield Progress(bar, task, wide, forecast, paced=paced)


def _asking(study: Study, texts: int) -> str:
    """Its name, and how many of the texts it asks where these are not all."""
    most = study.settings().get("texts") if study.cost == "passes" else None
    return f"{study.name} (the first {most:,} of them)" if most and most < texts else study.name


@contextmanager
def ticking(progress: Progress) -> Iterator[None]:
    """Shows now and then how far it is, though no text is done: a study may work on one batch for minutes."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(TICK):
            progress.tick()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.join()


def documents_of(plan: Plan) -> int:
    """How many texts the corpus has, or about so many where it is cut into segments."""
    return sum(1 for _ in plan.corpus.documents()) // (2 if plan.corpus.segments else 1)


def teller(study: str, shown: Shown) -> Callable[[str], None]:
    """Where a study says how far its conclusion is: a line on standard error, or nowhere."""
    if not visible(shown):
        return lambda _: None
    return lambda line: print(f"{study}: {line}", file=sys.stderr, flush=True)


def visible(shown: Shown) -> bool:
    return sys.stderr.isatty() if shown is None else bool(shown)

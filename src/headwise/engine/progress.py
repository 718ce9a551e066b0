"""A bar with rate and time left on a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headwise.engine.plan import Plan
from headwise.text.terminal import unguarded


@dataclass
class Progress:
    """Documents done, of how many; a no-op without a bar."""

    bar: Any = None
    task: Any = None
    sizes: dict[int, int] = field(default_factory=dict)
    tokens: int = 0

    def start(self, shard: int, documents: int) -> None:
        self.sizes[shard] = documents

    def skip(self, documents: int) -> None:
        self._advance(documents)

    def finish(self, shard: int, tokens: int) -> None:
        self.tokens += tokens
        self._advance(self.sizes.pop(shard, 0))

    def _advance(self, documents: int) -> None:
        if self.bar is not None:
            elapsed = self.bar.tasks[0].elapsed or 1.0
            self.bar.update(self.task, advance=documents, rate=f"{self.tokens / elapsed:,.0f} tokens/s")


@contextmanager
def watched(plan: Plan, *, shown: bool | None) -> Iterator[Progress]:
    """A bar on standard error where it is a terminal, or where `shown` says so."""
    if not _visible(shown):
        yield Progress()
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
        total = sum(1 for _ in plan.corpus.documents()) // (2 if plan.corpus.segments else 1)
        task = bar.add_task(", ".join(plan.studies), total=total, rate="")
        yield Progress(bar, task)


def teller(study: str, shown: bool | None) -> Callable[[str], None]:
    """Where a study says how far its conclusion is: a line on standard error, or nowhere."""
    if not _visible(shown):
        return lambda _: None
    return lambda line: print(f"{study}: {line}", file=sys.stderr, flush=True)


def _visible(shown: bool | None) -> bool:
    return sys.stderr.isatty() if shown is None else shown

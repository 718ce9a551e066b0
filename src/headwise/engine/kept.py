"""A shard that was begun: its sum after some batches, written now and then, so that a killed run loses a minute.

    OUT/.run/begun/shard-00042.*    as a finished shard's files (results/shards.py); the note says how many batches

Batches of a shard come in the same order on every machine, and a state is read as it was written, so that what is
resumed within a shard gives the same bits. On Ray nothing is kept: a worker has no such folder, and its shard is done
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwise.engine.fold import Folded
from headwise.results import read_shard, write_shard

SECONDS = 60.0  # of work that may be lost
BEGUN = "begun"


@dataclass
class Kept:
    """What is kept of shard `number` of a plan in the folder of a run."""

    work: Path
    number: int
    plan: str
    clock: Callable[[], float] = time.monotonic
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.clock()

    def read(self) -> tuple[int, Folded] | None:
        """How many batches were done, and their sum; None where the shard was not begun, or its files are not whole."""
        found = read_shard(self.work / BEGUN, self.number, plan=self.plan)
        if found is None:
            return None
        return found[1]["batches"], Folded.from_tensors(found[0], {}, self.plan)

    def write(self, batches: int, folded: Folded) -> None:
        """After a batch: written where the last time is long ago."""
        if self.clock() - self.last >= SECONDS:
            write_shard(self.work / BEGUN, self.number, folded.tensors(), {"batches": batches}, plan=self.plan)
            self.last = self.clock()

    def forget(self) -> None:
        """The shard is done."""
        for path in (self.work / BEGUN).glob(f"shard-{self.number:05d}.*"):
            path.unlink(missing_ok=True)

"""A shard that was begun: its sum after some batches, written now and then, so that a killed run loses a minute.

    OUT/.run/begun/shard-00042.*    as a finished shard's files (results/shards.py); the note says how many batches

Batches of a shard come in the same order on every machine, and a state is read as it was written, so that what is
resumed within a shard gives the same bits. On Ray the workers send their sums to the driver, which keeps them: a shard
of a worker that died goes on there where another one takes it up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwise.engine.fold import Begun, Folded
from headwise.results import read_shard, write_shard

SECONDS = 60.0  # of work that may be lost
BEGUN = "begun"


@dataclass(frozen=True)
class Kept:
    """What is kept of shard `number` of a plan in the folder of a run."""

    work: Path
    number: int
    plan: str

    def read(self) -> Begun | None:
        """None where the shard was not begun, or its files are not whole."""
        found = read_shard(self.work / BEGUN, self.number, plan=self.plan)
        return found and Begun(found[1]["batches"], Folded.from_tensors(found[0], {}, self.plan))

    def write(self, begun: Begun) -> None:
        note = {"batches": begun.batches}
        write_shard(self.work / BEGUN, self.number, begun.folded.tensors(), note, plan=self.plan)

    def forget(self) -> None:
        """The shard is done."""
        for path in (self.work / BEGUN).glob(f"shard-{self.number:05d}.*"):
            path.unlink(missing_ok=True)


@dataclass
class Due:
    """True once in so many seconds, the first time when they have gone by."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.clock()

    def __call__(self) -> bool:
        if self.clock() - self.last < self.seconds:
            return False
        self.last = self.clock()
        return True

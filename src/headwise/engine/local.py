"""One process: shard after shard, each resumable after a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headwise.engine import kept
from headwise.engine.fold import Folded, known, steps
from headwise.engine.kept import Due, Kept
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.text.corpus import Shard

Within = Callable[[int, int, int, str, tuple[int, int]], None]
"""(shard, its documents and tokens that are done, which study is at work, what of them an interrupted run had done)"""


def fold_locally(
    model: Model, shards: Iterable[Shard], plan: Plan, within: Within = lambda *_: None, work: Path | None = None
) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to; `within` hears how far one is, `work` keeps a begun one."""
    studies, before = plan.build(), None
    for shard in shards:
        before = known(model, studies, plan.opening(model), plan) if before is None else before
        there = None if work is None else Kept(work, shard.number, plan.digest)
        due, begun = Due(kept.SECONDS), None if there is None else there.read()
        for step in steps(model, studies, shard, plan, before, begun):
            if isinstance(step, Folded):
                yield shard.number, step
                continue
            within(shard.number, step.documents, step.tokens, step.doing, step.earlier)
            if there is not None and step.begun is not None and due():
                there.write(step.begun)
        if there is not None:  # by now the shard was written
            there.forget()

"""One process: shard after shard, each resumable after a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from headwise.engine.fold import Folded, fold, known
from headwise.engine.kept import Kept
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.text.corpus import Shard

Within = Callable[[int, int, int, str], None]
"""(shard, its documents and tokens that are done, which study is at work)"""


def fold_locally(
    model: Model, shards: Iterable[Shard], plan: Plan, within: Within = lambda *_: None, work: Path | None = None
) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to; `within` hears how far one is, `work` keeps a begun one."""
    studies, before = plan.build(), None
    for shard in shards:
        before = known(model, studies, plan.opening(model), plan) if before is None else before
        kept = None if work is None else Kept(work, shard.number, plan.digest)
        yield shard.number, fold(model, studies, shard, plan, before, partial(within, shard.number), kept)
        if kept is not None:  # by now the shard was written
            kept.forget()

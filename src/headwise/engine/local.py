"""One process: shard after shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from headwise.engine.fold import Folded, fold, known
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.text.corpus import Shard

Within = Callable[[int, int, int, str], None]
"""(shard, its documents and tokens that are done, which study is at work)"""


def fold_locally(
    model: Model, shards: Iterable[Shard], plan: Plan, within: Within = lambda *_: None
) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to; `within` hears how far the one at work is."""
    studies, before = plan.build(), None
    for shard in shards:
        before = known(model, studies, plan.opening(model), plan) if before is None else before
        yield shard.number, fold(model, studies, shard, plan, before, partial(within, shard.number))

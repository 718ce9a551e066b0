"""One process: shard after shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwise.engine.fold import Folded, fold, known
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.text.corpus import Shard


def fold_locally(model: Model, shards: Iterable[Shard], plan: Plan) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to."""
    studies, before = plan.build(), None
    for shard in shards:
        before = known(model, studies, plan.opening(model), plan) if before is None else before
        yield shard.number, fold(model, studies, shard, plan, before)

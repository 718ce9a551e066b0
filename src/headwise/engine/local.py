"""One process: shard after shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwise.engine.fold import Folded, fold
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.text.corpus import Shard


def fold_locally(model: Model, shards: Iterable[Shard], plan: Plan) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to."""
    studies = plan.build()
    for shard in shards:
        yield shard.number, fold(model, studies, shard, plan)

"""Many processes, on one machine or a Ray cluster: a pool of actors, each with the model loaded once.

The driver reads the corpus and writes the shards; an actor gets a shard's documents and returns its state. A worker
that dies is started again by Ray and its shard computed again, to the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwise.engine.fold import Folded, fold
from headwise.engine.plan import Plan
from headwise.errors import InputError, ModelError
from headwise.text.corpus import CorpusSpec, Document, Shard

AHEAD = 2  # shards given to a worker at once, so that none waits for the driver


def fold_on_ray(
    shards: Iterable[Shard], plan: Plan, *, address: str | None, workers: int | None, threads: int | None
) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to, in the order in which they are finished."""
    ray = _ray()
    if plan.model["source"] is None:
        raise InputError("On Ray every worker loads the model by name, but it was given as an object; pass its name.")
    started = _connect(ray, address)
    try:
        cores = int(ray.cluster_resources().get("CPU", 1))
        each = threads or 1
        pool = [_actor(ray, each).remote(_portable(plan), each) for _ in range(workers or max(1, cores // each))]
        yield from _spread(ray, pool, shards, plan)
    finally:
        if started:
            ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning a worker on machines without GPU
    try:
        import ray
    except ImportError:
        raise ModelError("The ray engine needs Ray; install it with: pip install 'headwise[ray]'.") from None
    return ray


def _connect(ray: Any, address: str | None) -> bool:
    """True where this process started (or joined) Ray and so must leave it again."""
    if ray.is_initialized():
        return False
    try:
        local = {"include_dashboard": False} if address is None else {}
        ray.init(address=address, log_to_driver=False, logging_level="error", **local)
    except (ConnectionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"A Ray cluster must answer at {address}, but it does not ({reason}); start it first."
        ) from None
    return True


def _actor(ray: Any, threads: int) -> Any:
    return ray.remote(num_cpus=threads, max_restarts=-1, max_task_retries=-1)(Worker)


def _spread(ray: Any, pool: list[Any], shards: Iterable[Shard], plan: Plan) -> Iterator[tuple[int, Folded]]:
    """Keep every worker busy with a bounded number of shards under way."""
    waiting, under_way = iter(shards), {}
    free = [worker for worker in pool for _ in range(AHEAD)]
    while True:
        while free and (shard := next(waiting, None)) is not None:
            worker = free.pop(0)
            documents = [(d.index, d.text, d.pair, d.section, d.notes) for d in shard.documents]
            under_way[worker.fold.remote(shard.number, documents)] = (shard.number, worker)
        if not under_way:
            return
        (done,), _ = ray.wait(list(under_way), num_returns=1)
        number, worker = under_way.pop(done)
        free.append(worker)
        tensors, counts = ray.get(done)
        yield number, Folded.from_tensors(tensors, counts, plan.digest)


def _portable(plan: Plan) -> dict[str, Any]:
    return {**plan.to_json(), "studies": {name: dict(settings) for name, settings in plan.studies.items()}}


class Worker:
    """One process with the model: folds the shards it is given."""

    def __init__(self, plan: Mapping[str, Any], threads: int):
        import torch

        from headwise.models.load import load

        torch.set_num_threads(threads)
        self.plan = Plan(**{**plan, "corpus": CorpusSpec.from_json(plan["corpus"])})
        self.model = load(**self.plan.model["source"])
        self.studies = self.plan.build()

    def fold(
        self, number: int, documents: list[tuple[int, str, str | None, int, Any]]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        shard = Shard(number, tuple(Document(*fields) for fields in documents))
        folded = fold(self.model, self.studies, shard, self.plan)
        return folded.tensors(), dict(folded.counts)

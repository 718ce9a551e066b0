"""Many processes, on one machine or a Ray cluster: a pool of actors, each with the model loaded once.

The driver reads the corpus and writes the shards; an actor gets a shard's documents, tells how far it is, sends its
sum now and then, and in the end its state. Of a worker that dies, alone or with its machine, the shards are given to
others, which go on from the last sum, to the same bits; another one is hired where there is room. A shard of which
several workers died, and a cluster that is gone, end the run in one line; it can be resumed.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwise.engine import kept
from headwise.engine.fold import Begun, Folded, known, steps
from headwise.engine.kept import Due, Kept
from headwise.engine.local import Within
from headwise.engine.plan import Plan
from headwise.errors import InputError, ModelError
from headwise.text.corpus import CorpusSpec, Document, Shard

ANSWER_SECONDS = 5  # before it is said that nobody listens, or that no core is free
LAST_SECONDS = 60  # before the same is said where no worker is left: a busy Ray may take long to notice a death
TRIES = 4  # workers that may die of one shard
GONE = "The Ray cluster must stay up while a run goes on, but it is gone"
RESUME = "the same command again goes on where this one stopped."
AHEAD = 2  # shards given to a worker at once, so that none waits for the driver
TOLD_SECONDS = 1.0  # between two words of a worker on how far it is


def fold_on_ray(
    shards: Iterable[Shard],
    plan: Plan,
    *,
    opening: Sequence[Document] = (),
    address: str | None,
    workers: int | None,
    threads: int | None,
    say: Callable[[str], None] = lambda _: None,
    within: Within = lambda *_: None,
    work: Path | None = None,
) -> Iterator[tuple[int, Folded]]:
    """Each shard's number and what it came to, in the order in which they are finished.

    `within` hears how far each is that is under way, `work` keeps what is begun.
    """
    ray = _ray()
    if plan.model["source"] is None:
        raise InputError("On Ray every worker loads the model by name, but it was given as an object; pass its name.")
    before, address = _children(), asked_for(address)
    started, pool = _connect(ray, address), []
    helpers = _helpers(before) if started and address is None else []
    try:
        each = threads or 1
        count = _crew(ray, workers, each)
        say(f"{_where(address, started)}; {count} worker{'s' if count > 1 else ''}")
        often = (TOLD_SECONDS, kept.SECONDS)
        given = (_portable(plan), each, [_fields(document) for document in opening], often)
        hire = lambda: _actor(ray, each, str(plan.model["source"]["device"])).remote(*given)  # noqa: E731
        pool += [hire() for _ in range(count)]
        again = lambda seconds: hire() if _room(ray, each, seconds) else None  # noqa: E731
        yield from _spread(ray, pool, shards, plan, again, within, work)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        raise InputError(f"{GONE} ({_first_line(error)}); {RESUME}") from None
    finally:
        _leave(ray, pool, started, helpers)


def asked_for(address: str | None) -> str | None:
    """The address that was given, or that the environment gives; None: a Ray of one's own is started.

    subtle: Ray itself, asked for none, joins whatever cluster was last started on this machine.
    """
    named = address or os.environ.get("RAY_ADDRESS")
    return None if named == "local" else named or None


def _where(address: str | None, started: bool) -> str:
    """
    >>> _where(None, True), _where("10.0.0.1:6379", True), _where(None, False)
    ('started here', 'joined at 10.0.0.1:6379', 'the one that this process was in')
    """
    if not started:
        return "the one that this process was in"
    return "started here" if address is None else f"joined at {address}"


def _children() -> list[Any]:
    import psutil  # Ray brings it

    return psutil.Process().children(recursive=True)


def _helpers(before: Sequence[Any]) -> list[Any]:
    """The processes of a Ray that was started here: of one whose raylet dies some go on, and are nobody's children.

    subtle: this process may have children of its own (a notebook's, a browser's), which are none of ours to end.
    """
    found = []
    for child in _children():
        with suppress(Exception):  # one that is gone has no command
            if child not in before and "ray" in " ".join(child.cmdline()):
                found.append(child)
    return found


def _leave(ray: Any, pool: Sequence[Any], started: bool, helpers: Sequence[Any] = ()) -> None:
    """End the workers at once (one in the middle of a shard would be waited for), and Ray where it was started here."""
    for worker in pool:
        with suppress(Exception):  # whatever a cluster that is gone makes of it
            ray.kill(worker, no_restart=True)
    if started:
        with suppress(Exception):
            ray.shutdown()
    for helper in helpers:
        with suppress(Exception):  # most are gone
            helper.kill()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def crew(machines: Sequence[int], free: int, workers: int | None, threads: int) -> int:
    """How many workers with so many threads each there are to be; what does not fit would be waited for for ever.

    `machines` are the cores of each, `free` those that nobody uses.

    >>> crew([4, 2], 5, None, 2)
    2
    """
    fit = min(sum(cores // threads for cores in machines), free // threads)
    asked = workers or fit
    if asked > fit or not asked:
        there = f"Ray has {' + '.join(map(str, machines))} cores, {free} of them free"
        wanted = f"{asked or 1} worker{'s' if asked > 1 else ''} with {threads} thread{'s' if threads > 1 else ''} each"
        most = f"at most --workers {fit}" if fit else "fewer --threads, or wait until the cluster is free"
        raise InputError(f"{wanted} must fit, a worker on one machine, but {there}; ask for {most}.")
    return asked


def _crew(ray: Any, workers: int | None, threads: int) -> int:
    """The same of a running cluster; cores that another run is about to give back are waited for, a while."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        machines, free = _cores(ray)
        if time.monotonic() > deadline or free >= (workers or 1) * threads:
            return crew(machines, free, workers, threads)
        crew(machines, sum(machines), workers, threads)  # would it ever fit?
        time.sleep(0.1)


def _cores(ray: Any) -> tuple[list[int], int]:
    """The cores of every machine that is up, and how many are free altogether."""
    machines = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return sorted(machines, reverse=True), int(ray.available_resources().get("CPU", 0))


def _ray() -> Any:
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else pages of its own log where a part of it dies
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
    if address is not None:
        _answers(address)
    try:
        local = {"include_dashboard": False} if address is None else {}
        with _hushed(), _own_sigterm():
            ray.init(address=address or "local", log_to_driver=False, logging_level="error", **local)
    except Exception as error:  # of a node that does not come up in time Ray raises a bare one
        _leave(ray, (), started=True)
        if address is None:
            raise InputError(f"Ray must start here, but it did not ({_first_line(error)}); {RESUME}") from None
        raise InputError(
            f"A Ray cluster must answer at {address}, but it does not ({_first_line(error)}); start it first."
        ) from None
    return True


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """SIGTERM as it was: Ray's own answer to it prints a stack and aborts three seconds later, cleaned up or not."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _hushed() -> Iterator[None]:
    """What Ray's C++ part says of itself as it starts, past Python, on standard error; what is wrong it raises."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _answers(address: str) -> None:
    """Refuse within seconds an address where nobody listens; Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"The address of a Ray cluster must be HOST:PORT or auto, but {address!r} was given.")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise InputError(
            f"A Ray cluster must answer at {address}, but it does not ({error.strerror or error}); start it first."
        ) from None


def needs_of(threads: int, device: str) -> dict[str, int]:
    """What Ray keeps for one worker: its cores, and a GPU of its own where the model runs on one.

    subtle: Ray shows a worker only its own GPU, under the number 0, so that `cuda` is the right name in all of them.

    >>> needs_of(2, "cuda")
    {'num_cpus': 2, 'num_gpus': 1}
    """
    return {"num_cpus": threads, **({"num_gpus": 1} if device.startswith("cuda") else {})}


def _actor(ray: Any, threads: int, device: str) -> Any:
    return ray.remote(**needs_of(threads, device), max_restarts=0, max_task_retries=0)(Worker)


def _room(ray: Any, threads: int, seconds: float) -> bool:
    """Whether one more worker fits; the cores of one that died are waited for, so many seconds."""
    deadline = time.monotonic() + seconds
    while _cores(ray)[1] < threads:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _spread(
    ray: Any, pool: list[Any], shards: Iterable[Shard], plan: Plan, hire: Callable[[float], Any | None],
    within: Within = lambda *_: None, work: Path | None = None,
) -> Iterator[tuple[int, Folded]]:  # fmt: skip
    """Keep every worker busy with a bounded number of shards under way; `pool` is kept to those that live."""
    waiting, again, under_way = iter(shards), [], {}
    free, deaths = [worker for worker in pool for _ in range(AHEAD)], Counter()
    while True:
        while free and (shard := again.pop(0) if again else next(waiting, None)) is not None:
            worker = free.pop(0)
            under_way[_given(worker, shard, _kept(work, shard, plan))] = (shard, worker)
        if not under_way:
            return
        (telling,), _ = ray.wait(list(under_way), num_returns=1)
        shard, worker = under_way[telling]
        try:
            said = ray.get(next(telling))
        except ray.exceptions.RayActorError as error:
            deaths[shard.number] += 1
            if deaths[shard.number] >= TRIES:
                raise InputError(
                    f"{TRIES} workers died of shard {shard.number} ({_first_line(error)}); {RESUME}"
                ) from None
            with suppress(Exception):  # one that only cannot be reached must not go on holding its cores
                ray.kill(worker, no_restart=True)
            again += [one for one, who in under_way.values() if who is worker]
            under_way = {ref: of for ref, of in under_way.items() if of[1] is not worker}
            free = [who for who in free if who is not worker] + _replaced(pool, worker, hire) * AHEAD
            continue
        there = _kept(work, shard, plan)
        if len(said) > 2:
            *how_far, sum_ = said
            within(shard.number, *how_far)
            if there is not None and sum_ is not None:
                there.write(Begun(sum_[0], Folded.from_tensors(sum_[1], {}, plan.digest)))
            continue
        del under_way[telling]
        free.append(worker)
        tensors, counts = said
        yield shard.number, Folded.from_tensors(tensors, counts, plan.digest)
        if there is not None:  # by now the shard was written
            there.forget()


def _kept(work: Path | None, shard: Shard, plan: Plan) -> Kept | None:
    return None if work is None else Kept(work, shard.number, plan.digest)


def _given(worker: Any, shard: Shard, there: Kept | None) -> Any:
    """A shard handed to a worker, with what is kept of it: what the worker will say, one after the other."""
    begun = None if there is None else there.read()
    sum_ = None if begun is None else (begun.batches, begun.folded.tensors())
    return worker.fold.remote(shard.number, [_fields(document) for document in shard.documents], sum_)


def _replaced(pool: list[Any], dead: Any, hire: Callable[[float], Any | None]) -> list[Any]:
    """The worker that was hired in a dead one's place, where there is room; an error where none is left at all."""
    pool.remove(dead)
    new = [worker for worker in [hire(ANSWER_SECONDS if pool else LAST_SECONDS)] if worker is not None]
    pool += new
    if not pool:
        raise InputError(f"At least one worker must live, but all have died and there is no room for another; {RESUME}")
    return new


def _portable(plan: Plan) -> dict[str, Any]:
    return {**plan.to_json(), "studies": {name: dict(settings) for name, settings in plan.studies.items()}}


Fields = tuple[int, str, str | None, int, Any]


def _fields(document: Document) -> Fields:
    return document.index, document.text, document.pair, document.section, document.notes


Sum = tuple[int, dict[str, Any]]
"""How many batches, and the tensors of what they came to."""


class Worker:
    """One process with the model: folds the shards it is given."""

    def __init__(
        self, plan: Mapping[str, Any], threads: int, opening: Sequence[Fields], often: tuple[float, float]
    ) -> None:
        import torch

        from headwise.models.load import load

        torch.set_num_threads(threads)
        self.plan = Plan(**{**plan, "corpus": CorpusSpec.from_json(plan["corpus"])})
        self.model = load(**self.plan.model["source"])
        self.studies = self.plan.build()
        self.known = known(self.model, self.studies, [Document(*fields) for fields in opening], self.plan)
        self.often = often

    def fold(self, number: int, documents: list[Fields], begun: Sum | None) -> Iterator[tuple[Any, ...]]:
        """How far it is (as `Within` has it) and now and then the sum so far; last the state and the counts."""
        shard = Shard(number, tuple(Document(*fields) for fields in documents))
        first = None if begun is None else Begun(begun[0], Folded.from_tensors(begun[1], {}, self.plan.digest))
        told, sent = (Due(seconds) for seconds in self.often)
        for step in steps(self.model, self.studies, shard, self.plan, self.known, first):
            if isinstance(step, Folded):
                yield step.tensors(), dict(step.counts)
            elif step.begun is not None and sent():
                sum_ = (step.begun.batches, step.begun.folded.tensors())
                yield step.documents, step.tokens, step.doing, step.earlier, sum_
            elif told():
                yield step.documents, step.tokens, step.doing, step.earlier, None

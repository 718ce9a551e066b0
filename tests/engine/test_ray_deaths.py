"""Workers that die: their shards go to others, once each; what cannot end ends in one line. On a Ray of paper."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")
import ray.exceptions

from headwise.engine import ray as module
from headwise.engine.kept import BEGUN
from headwise.engine.plan import Plan
from headwise.errors import InputError
from headwise.text.corpus import CorpusSpec, Document, Shard

PLAN = Plan({}, {"source": {}}, CorpusSpec("c", "c", "lines", None, None, "f"))
SHARDS = [Shard(number, (Document(number, f"text {number}"),)) for number in range(9)]


@dataclass
class PaperRay:
    """Workers by name; `dies(worker, shard)` says whether a worker dies of it, and then all that it has under way.

    Each says first that two batches of the shard are done, with their sum, and dies after that.
    """

    dies: Callable[[str, int], bool]
    dead: set[str] = field(default_factory=set)
    given: list[tuple[str, int, int]] = field(default_factory=list)  # worker, shard, batches done before
    exceptions: Any = ray.exceptions

    def worker(self, name: str) -> Any:
        def fold(number: int, _documents: Any, begun: tuple[int, dict] | None) -> Any:
            self.given.append((name, number, 0 if begun is None else begun[0]))
            return iter([(name, number, (1, 5, "reading", (2, {}))), (name, number, ({}, {"documents": number}))])

        return SimpleNamespace(name=name, fold=SimpleNamespace(remote=fold))

    def wait(self, refs: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return refs[:num_returns], refs[num_returns:]

    def get(self, ref: tuple[str, int, tuple]) -> tuple:
        name, number, said = ref
        if name in self.dead or (len(said) == 2 and self.dies(name, number)):
            self.dead.add(name)
            raise ray.exceptions.RayActorError(error_msg="The worker died.\nIts log.")
        return said


def spread(paper: PaperRay, names: str, hired: str = "") -> tuple[list[int], list[str]]:
    """The numbers of the shards in the order in which they were done, and who was alive at the end."""
    pool, new = [paper.worker(name) for name in names], iter(hired)
    hire = lambda _: paper.worker(name) if (name := next(new, None)) else None  # noqa: E731
    done = [number for number, _ in module._spread(paper, pool, SHARDS, PLAN, hire)]
    return done, [worker.name for worker in pool]


def test_nobody_dies() -> None:
    assert spread(PaperRay(lambda *_: False), "ab") == (list(range(9)), ["a", "b"])


@pytest.mark.parametrize("hired", ["", "c"])
def test_a_machine_dies_and_every_shard_is_done_once(hired: str) -> None:
    done, alive = spread(PaperRay(lambda name, number: name == "b" and number == 3), "ab", hired)
    assert sorted(done) == list(range(9))
    assert alive == ["a", *hired]


def test_a_shard_of_a_worker_that_died_goes_on_where_it_was(tmp_path: Path) -> None:
    paper, heard = PaperRay(lambda name, number: name == "b" and number == 3), []
    pool = [paper.worker(name) for name in "ab"]
    for number, folded in module._spread(
        paper, pool, SHARDS, PLAN, lambda _: None, lambda *one: heard.append(one), tmp_path
    ):
        assert folded.plan == PLAN.digest
        assert (tmp_path / BEGUN / f"shard-{number:05d}.json").is_file()
    assert [batches for _, number, batches in paper.given if number == 3] == [0, 2], "the second begins after the first"
    assert {batches for _, number, batches in paper.given if number < 3} == {0}
    assert heard[0] == (0, 1, 5, "reading")
    assert list((tmp_path / BEGUN).iterdir()) == [], "what is done is not kept as begun"


def test_cores_of_the_last_worker_are_waited_for_longer() -> None:
    asked: list[float] = []
    pool = ["a", "b"]
    assert module._replaced(pool, "a", lambda seconds: asked.append(seconds)) == []
    assert module._replaced(pool, "b", lambda seconds: asked.append(seconds) or "c") == ["c"]
    assert pool == ["c"]
    assert asked == [module.ANSWER_SECONDS, module.LAST_SECONDS]
    assert module.LAST_SECONDS > module.ANSWER_SECONDS


def test_the_last_worker_dies_and_there_is_no_room() -> None:
    with pytest.raises(InputError, match=r"all have died and there is no room for another; the same command again"):
        spread(PaperRay(lambda _, number: number == 2), "a")


def test_a_shard_of_which_everyone_dies_is_not_tried_for_ever() -> None:
    with pytest.raises(InputError, match=r"^4 workers died of shard 2 \(The worker died\.\); the same command again"):
        spread(PaperRay(lambda _, number: number == 2), "ab", hired="cdefghijkl")


def test_a_cluster_that_is_gone_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise ray.exceptions.RaySystemError("The raylet is gone.\nPages of log.")

    shut: list[bool] = []
    paper = SimpleNamespace(exceptions=ray.exceptions, kill=gone, shutdown=lambda: shut.append(True), nodes=gone)
    monkeypatch.setattr(module, "_ray", lambda: paper)
    monkeypatch.setattr(module, "_connect", lambda *_: True)
    with pytest.raises(InputError) as told:
        list(module.fold_on_ray(SHARDS, PLAN, address=None, workers=1, threads=1))
    assert str(told.value).startswith(module.GONE)
    assert "\n" not in str(told.value)
    assert shut == [True]


@pytest.mark.parametrize("error", [SystemExit(143), KeyboardInterrupt(), ray.exceptions.RaySystemError("gone")])
def test_whatever_ends_a_run_its_workers_ray_and_its_helpers_are_ended(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM is a SystemExit in the middle of waiting; of a raylet that was killed the agents live on."""
    gone: list[str] = []

    def wait(*_: object, **__: object) -> None:
        raise error

    worker = PaperRay(lambda *_: False).worker("a")
    paper = SimpleNamespace(
        exceptions=ray.exceptions, kill=lambda who, **_: gone.append(who.name), wait=wait,
        shutdown=lambda: gone.append("ray"),
    )  # fmt: skip
    monkeypatch.setattr(module, "_ray", lambda: paper)
    monkeypatch.setattr(module, "_connect", lambda *_: True)
    monkeypatch.setattr(module, "_crew", lambda *_: 1)
    monkeypatch.setattr(module, "_actor", lambda *_: SimpleNamespace(remote=lambda *_: worker))
    monkeypatch.setattr(module, "_helpers", lambda _before: [SimpleNamespace(kill=lambda: gone.append("agent"))])
    source = Plan({}, {"source": {"device": "cpu"}}, PLAN.corpus)
    with pytest.raises((SystemExit, KeyboardInterrupt, InputError)):
        list(module.fold_on_ray(SHARDS, source, address=None, workers=1, threads=1))
    assert gone == ["a", "ray", "agent"]


def test_a_node_that_does_not_come_up_is_one_line() -> None:
    """Ray raises a bare Exception then, seen on a busy machine; what it has started is ended."""

    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nPages.")

    shut: list[bool] = []
    paper = SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: shut.append(True))
    with pytest.raises(InputError) as told:
        module._connect(paper, None)
    assert str(told.value) == (
        "Ray must start here, but it did not (The current node timed out during startup.); the same command again goes "
        "on where this one stopped."
    )
    assert shut == [True]


def test_sigterm_stays_ours_once_ray_is_up() -> None:
    """Ray sets an answer of its own, which aborts in the middle of cleaning up (exit code -6, seen)."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        mine = lambda *_: None  # noqa: E731
        signal.signal(signal.SIGTERM, mine)
        init = lambda **_: signal.signal(signal.SIGTERM, signal.SIG_IGN)  # noqa: E731
        assert module._connect(SimpleNamespace(is_initialized=lambda: False, init=init), None)
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_children_that_are_not_rays_are_left_alone() -> None:
    def child(name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", name])

    old = child("raylet of another")
    before = module._children()
    news = [child("raylet"), child("a browser")]
    try:
        found = {process.pid for process in module._helpers(before)}
        assert news[0].pid in found
        assert old.pid not in found
        assert news[1].pid not in found or "ray" in sys.executable
    finally:
        for process in (old, *news):
            process.kill()
            process.wait()

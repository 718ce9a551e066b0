"""The queue: order, limits, cancel, failure, what is kept."""

from __future__ import annotations

import threading
import time

import pytest

from headwise.errors import InputError
from headwise.server import jobs as module
from headwise.server.jobs import FullError, Job, Jobs
from references.patience import patience


class Gate:
    """Work that waits to be let through, so that a test decides what runs when."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.open = threading.Event()

    def work(self, job: Job) -> bytes:
        self.started.append(job.ask)
        while not self.open.wait(0.005):
            job.tell("at the gate", 0.5)
        return job.ask.encode()


def until(condition) -> None:
    deadline = time.monotonic() + patience()
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def jobs(gate):
    queue = Jobs(gate.work, most=3)
    yield queue
    gate.open.set()
    assert queue.close()


def test_jobs_are_done_one_after_another_in_their_order(jobs, gate):
    first, second = jobs.put("a"), jobs.put("b")
    until(lambda: first.step == "at the gate")
    assert (first.state, first.share, second.state) == ("running", 0.5, "waiting")
    assert (jobs.ahead(first), jobs.ahead(second)) == (0, 1)
    gate.open.set()
    until(lambda: second.finished)
    assert (first.page, second.page, gate.started) == (b"a", b"b", ["a", "b"])


def test_a_running_and_a_waiting_job_can_be_cancelled(jobs, gate):
    first, second, third = jobs.put("a"), jobs.put("b"), jobs.put("c")
    until(lambda: first.state == "running")
    jobs.cancel(second)
    assert second.state == "cancelled"
    jobs.cancel(first)
    until(lambda: first.finished)
    assert first.state == "cancelled"
    gate.open.set()
    until(lambda: third.finished)
    assert (third.state, gate.started) == ("done", ["a", "c"])
    jobs.cancel(third)
    assert third.state == "done"


def test_no_more_jobs_wait_than_may(jobs):
    kept = [jobs.put(name) for name in "abc"]
    with pytest.raises(FullError, match="At most 3 jobs") as told:
        jobs.put("d")
    assert told.value.seconds == 1, "nothing was done yet, so nothing is known but that it is soon"
    jobs.cancel(kept[2])
    assert jobs.put("e").state == "waiting"


@pytest.mark.parametrize(
    ("error", "told"), [(InputError("Say why."), "Say why."), (KeyError("secret"), "went wrong (KeyError)")]
)
def test_a_failure_is_told_and_the_next_job_runs(error, told, capsys):
    def work(job: Job) -> bytes:
        if job.ask == "bad":
            raise error
        return b"page"

    queue = Jobs(work, most=3)
    bad, good = queue.put("bad"), queue.put("good")
    until(lambda: good.finished)
    assert (bad.state, good.state) == ("failed", "done")
    assert told in bad.error
    assert "secret" not in bad.error
    assert ("Traceback" in capsys.readouterr().err) == isinstance(error, KeyError)
    assert queue.close()


def test_the_oldest_pages_are_let_go(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 25)
    queue = Jobs(lambda _: b"0123456789", most=3)
    done = []
    for name in "abcd":
        done.append(queue.put(name))
        until(lambda: done[-1].finished and queue.ahead(done[-1]) == 0)
    until(lambda: queue.find(done[1].id) is None)
    assert [queue.find(job.id) is not None for job in done] == [False, False, True, True]
    assert queue.close()


def test_closing_ends_what_runs_and_what_waits(gate):
    queue = Jobs(gate.work, most=3)
    first, second = queue.put("a"), queue.put("b")
    until(lambda: first.state == "running")
    assert queue.close()
    assert (first.state, second.state) == ("cancelled", "cancelled")
    with pytest.raises(FullError):
        queue.put("c")


def test_a_full_queue_says_when_there_is_room(jobs):
    jobs._took.extend([2.0, 3.5])
    for name in "abc":
        jobs.put(name)
    with pytest.raises(FullError, match="try again in about 3 s") as told:
        jobs.put("d")
    assert told.value.seconds == 3


def test_a_job_that_takes_too_long_is_stopped_and_the_next_one_runs(gate):
    queue = Jobs(lambda job: gate.work(job) if job.ask == "slow" else b"page", most=3, seconds=0.05)
    slow, next_ = queue.put("slow"), queue.put("next")
    until(lambda: next_.finished)
    assert (slow.state, next_.state) == ("failed", "done")
    assert slow.error.startswith("A text may take only so long here (--max-seconds)")
    assert queue.close()

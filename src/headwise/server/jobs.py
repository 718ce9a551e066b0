"""A queue of jobs with one worker thread, since a model runs one text at a time: progress, cancel, limits."""

from __future__ import annotations

import math
import secrets
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from headwise.errors import HeadwiseError, InputError

State = Literal["waiting", "running", "done", "failed", "cancelled"]
KEPT_BYTES = 100_000_000  # of finished pages; the oldest are let go first
KEPT_JOBS = 500  # finished ones, with a page or without


class FullError(HeadwiseError):
    """More jobs than may wait; `seconds` is about when there is room again."""

    def __init__(self, sentence: str, seconds: int):
        super().__init__(sentence)
        self.seconds = seconds


class Stopped(BaseException):  # no error: somebody asked for it, and nobody on the way may explain it
    """Raised inside a job that was cancelled."""


@dataclass(eq=False)
class Job:
    """One question and how far its answer is. The worker writes, everyone else reads."""

    ask: Any
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: State = "waiting"
    step: str = ""
    share: float = 0.0  # of the work that is done
    error: str = ""
    page: bytes = b""
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    deadline: float = math.inf  # on the monotonic clock, once it runs

    def tell(self, step: str, share: float) -> None:
        """How far the work is; the place where a cancelled job ends."""
        self.check()
        self.step, self.share = step, share

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped
        if time.monotonic() > self.deadline:
            raise InputError(
                "A text may take only so long here (--max-seconds), and this took longer; send a shorter one."
            )

    @property
    def finished(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


class Jobs:
    """Jobs by id, done one after another by `work`, which returns the page; at most `most` are unfinished at once.

    A job that runs for more than `seconds` ends at its next step.
    """

    def __init__(self, work: Callable[[Job], bytes], *, most: int, seconds: float = math.inf):
        self._work, self._most, self._seconds = work, most, seconds
        self._took: deque[float] = deque(maxlen=10)  # seconds of the last jobs
        self._jobs: dict[str, Job] = {}  # in the order in which they came
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._run, name="headwise-jobs", daemon=True)
        self._worker.start()

    def put(self, ask: Any) -> Job:
        with self._changed:
            unfinished = sum(not job.finished for job in self._jobs.values())
            if self._closed or unfinished >= self._most:
                wait = max(1, math.ceil(sum(self._took) / max(len(self._took), 1)))
                raise FullError(
                    f"At most {self._most} jobs may wait at once, and {unfinished} do; try again in about {wait} s.",
                    wait,
                )
            job = Job(ask)
            self._jobs[job.id] = job
            self._changed.notify_all()
        return job

    def find(self, id_: str) -> Job | None:
        with self._changed:
            return self._jobs.get(id_)

    def ahead(self, job: Job) -> int:
        """How many unfinished jobs come before this one."""
        with self._changed:
            before = list(self._jobs.values())
            return sum(not other.finished for other in before[: before.index(job)]) if job in before else 0

    def cancel(self, job: Job) -> None:
        """A waiting job ends at once, a running one at its next step; a finished one stays as it is."""
        with self._changed:
            job.stop.set()
            if job.state == "waiting":
                job.state = "cancelled"

    def close(self, seconds: float = 10.0) -> bool:
        """Cancel everything and wait for the worker; False where it did not end in time."""
        with self._changed:
            self._closed = True
            for job in self._jobs.values():
                job.stop.set()
                job.state = "cancelled" if job.state == "waiting" else job.state
            self._changed.notify_all()
        self._worker.join(seconds)
        return not self._worker.is_alive()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            began = time.monotonic()
            job.deadline = began + self._seconds
            state, page, error = _outcome(self._work, job)
            with self._changed:
                self._took.append(time.monotonic() - began)
                job.page, job.error, job.state = page, error, state
                self._forget()

    def _next(self) -> Job | None:
        """The job that waited longest, now running; None once the queue is closed."""
        with self._changed:
            while True:
                if self._closed:
                    return None
                waiting = next((job for job in self._jobs.values() if job.state == "waiting"), None)
                if waiting is not None:
                    waiting.state = "running"
                    return waiting
                self._changed.wait()

    def _forget(self) -> None:
        """Let the oldest finished jobs go, but never the newest."""
        finished = [job for job in self._jobs.values() if job.finished]
        size = sum(len(job.page) for job in finished)
        for at, job in enumerate(finished[:-1]):
            if size <= KEPT_BYTES and len(finished) - at <= KEPT_JOBS:
                return
            size -= len(job.page)
            del self._jobs[job.id]


def _outcome(work: Callable[[Job], bytes], job: Job) -> tuple[State, bytes, str]:
    try:
        return "done", work(job), ""
    except Stopped:
        return "cancelled", b"", ""
    except HeadwiseError as error:
        return "failed", b"", str(error)
    except Exception as error:  # a defect of ours: the visitor learns that there is one, the terminal which
        traceback.print_exc(file=sys.stderr)
        return (
            "failed",
            b"",
            f"Something in headwise went wrong ({type(error).__name__}); its terminal has the details.",
        )

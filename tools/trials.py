"""Running tests on mutants, at the price of the tests alone.

The tests of a package are collected once, in a process that has every library and headwise itself imported; a mutant is
a fork of it, in which the code of one function is exchanged (`exchange`), and only tests that reach the function are
run. Which do is noted by a first run, a file of tests at a time. A mistake in what is done at import (a table, a
default, a decorator, a function that a table is made with) needs everything imported anew: `afresh`.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutations import Mutant, mutated

BUDGET = 60.0  # seconds of processor a mutant, as the first run measured them
FIRST = 1500  # for the first run of a file
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"  # libraries are here before pytest is
FUNCTION = 0x1  # CO_OPTIMIZED: code of a function, neither of a module nor of a class
SURVIVED, KILLED, LOST = "survived", "killed", "ran out of time"
Tell = Callable[[Mutant, str], None]


class Reached:
    """Which tests call which function of a package, and how long each takes."""

    def __init__(self, package: Path, source: Path):
        self.package, self.source, self.now = str(package) + os.sep, source, ""
        self.calls: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.others: set[int] = set()  # functions of others, by id: looked at once, for there are many calls
        self.seen: set[int] = set()  # ours, in this test

    def trace(self, frame: Any, event: str, _: Any) -> None:
        code, key = frame.f_code, id(frame.f_code)
        if key in self.others or key in self.seen or event != "call":
            return
        if not code.co_filename.startswith(self.package):
            self.others.add(key)
            return
        self.seen.add(key)
        first = code.co_firstlineno if code.co_flags & FUNCTION else 0
        path = str(Path(code.co_filename).relative_to(self.source))
        self.calls.setdefault(f"{path}:{first}", set()).add(self.now)

    def add(self, found: dict[str, Any]) -> None:
        for key, tests in found["calls"].items():
            self.calls.setdefault(key, set()).update(tests)
        self.seconds.update(found["seconds"])

    def tests(self, mutant: Mutant) -> set[str]:
        """Those that reach the place; "" is what is done at import."""
        return self.calls.get(f"{mutant.path}:{mutant.first}", set())


class Trials:
    """A pytest plug-in: collects, then tries the mutants instead of running the tests."""

    def __init__(self, package: Path, source: Path, notes: Path, mutants: Sequence[Mutant], tell: Tell):
        self.reached = Reached(package, source)
        self.source, self.notes, self.mutants, self.tell = source, notes, mutants, tell
        self.later: list[Mutant] = []

    def pytest_sessionstart(self) -> None:
        sys.settrace(self.reached.trace)  # who is called at import
        sys.dont_write_bytecode = False  # the sources are as they are until all is collected

    def pytest_runtestloop(self, session: Any) -> bool:
        sys.settrace(None)
        sys.dont_write_bytecode = True
        items = self._noted(session)
        for mutant in self.mutants:
            chosen = within_budget(items, self.reached, mutant)
            if not chosen:
                self.tell(mutant, SURVIVED)  # no test comes here
            else:
                outcome = self._tried(session, mutant, chosen)
                self.later.append(mutant) if outcome is None else self.tell(mutant, outcome)
        tests = {m.name: self._tests(items, m) for m in self.later}
        (self.notes / "afresh.json").write_text(json.dumps(tests, ensure_ascii=False), encoding="utf-8")
        return True

    def _tests(self, items: list[Any], mutant: Mutant) -> dict[str, Any]:
        chosen = within_budget(items, self.reached, mutant)
        files = sorted({str(item.path) for item in chosen})
        return {"files": files, "tests": [item.nodeid for item in chosen], "seconds": limit(chosen, self.reached)}

    def _noted(self, session: Any) -> list[Any]:
        """The tests that pass on the sources as they are: the others would kill every mutant."""
        kept: list[Any] = []
        files: dict[Path, list[Any]] = {}
        for item in session.items:
            files.setdefault(Path(item.path), []).append(item)
        for path, items in files.items():
            note = self.notes / f"{Path(self.reached.package).name}.{path.parent.name}.{path.stem}.calls.json"
            if not note.exists() or note.stat().st_mtime < path.stat().st_mtime:
                forked(lambda items=items, note=note: self._note(session, items, note), FIRST, self.notes / "first.log")
            if not note.exists():
                print(f"{path} could not be run and is left out: see {self.notes / 'first.log'}", flush=True)
                continue
            found = json.loads(note.read_text(encoding="utf-8"))
            self.reached.add(found)
            kept += [item for item in items if item.nodeid in found["seconds"] and item.nodeid not in found["failed"]]
        return kept

    def _note(self, session: Any, items: list[Any], note: Path) -> int:
        note.unlink(missing_ok=True)
        reached = Reached(Path(self.reached.package), self.source)
        failed: list[str] = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            reached.now, before, wrong = item.nodeid, time.process_time(), session.testsfailed
            reached.seen.clear()
            _tracing(reached.trace)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            _tracing(None)
            reached.seconds[item.nodeid] = time.process_time() - before
            failed += [item.nodeid] * (session.testsfailed > wrong)
        calls = {key: sorted(tests) for key, tests in reached.calls.items()}
        found = {"calls": calls, "seconds": reached.seconds, "failed": failed}
        note.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        return 0

    def _tried(self, session: Any, mutant: Mutant, items: list[Any]) -> str | None:
        """What became of it; None where it must be tried afresh."""
        path = self.source / mutant.path
        source = path.read_text(encoding="utf-8")
        wrong = mutated(source, mutant)
        codes = codes_of(path, source, wrong)
        if codes is None or "" in self.reached.tests(mutant):
            return None
        with written(path, wrong):  # for what the tests start, and for what is imported only then
            return outcome(
                forked(lambda: _run(session, items, codes), limit(items, self.reached), self.notes / "last.log")
            )


class Only:
    """A pytest plug-in: these tests, in this order."""

    def __init__(self, tests: Sequence[str]):
        self.place = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda item: self.place[item.nodeid])


def _tracing(trace: Any) -> None:
    sys.settrace(trace)
    threading.settrace(trace)  # pyright: ignore[reportArgumentType] - None ends it


def _run(session: Any, items: list[Any], codes: dict[CodeType, CodeType]) -> int:
    exchange(codes)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def within_budget(items: list[Any], reached: Reached, mutant: Mutant) -> list[Any]:
    """The tests that reach the place, the quickest first, as many as the budget allows; at import: all of them."""
    tests = reached.tests(mutant)
    there = [item for item in items if "" in tests or item.nodeid in tests]
    there.sort(key=lambda item: reached.seconds[item.nodeid])
    spent, kept = 0.0, []
    for item in there:
        spent += reached.seconds[item.nodeid]
        if spent <= BUDGET or not kept:
            kept.append(item)
    return kept


def limit(items: list[Any], reached: Reached) -> int:
    return int(30 + 4 * sum(reached.seconds[item.nodeid] for item in items))


# The code of a function, exchanged


def codes_of(path: Path, before: str, after: str) -> dict[CodeType, CodeType] | None:
    """The code of every function that differs, and what it becomes; None if something done at import differs."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == str(path)), None)
    if module is None:
        return {}  # it will be imported with the mistake in it
    loader: Any = module.__loader__
    pairs = list(_pairs(*(loader.source_to_code(text.encode(), str(path)) for text in (before, after))))
    if any(_own(old) != _own(new) and not old.co_flags & FUNCTION for old, new in pairs):
        return None
    return {old: new for old, new in pairs if _own(old, deep=True) != _own(new, deep=True) and old.co_flags & FUNCTION}


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    yield old, new
    inner = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    for one, other in zip(*inner, strict=True):
        yield from _pairs(one, other)


def _own(code: CodeType, *, deep: bool = False) -> tuple[Any, ...]:
    """What a piece of code does, wherever it stands; with `deep`, what is defined in it as well."""
    consts = tuple(
        (type(c), _own(c, deep=True) if deep else None) if isinstance(c, CodeType) else (type(c), repr(c))
        for c in code.co_consts
    )
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars


def exchange(codes: dict[CodeType, CodeType]) -> None:
    for function in gc.get_objects():
        if type(function) is FunctionType and (new := codes.get(function.__code__)) is not None:
            function.__code__ = new


class written:  # noqa: N801 - used as `with written(path, text):`
    """A file with another text in it, for a while."""

    def __init__(self, path: Path, text: str):
        self.path, self.text = path, text

    def __enter__(self) -> None:
        self.before = self.path.read_text(encoding="utf-8")
        self.path.write_text(self.text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self.path.write_text(self.before, encoding="utf-8")


# Processes


def afresh(files: Sequence[str | Path], *, root: Path, seconds: int, log: Path, only: Sequence[str] = ()) -> int:
    """Tests in a fork that imports headwise anew: pytest's exit code; −1 if it ran on and on."""
    return forked(lambda: _main([*map(str, files), "-x"], root, Only(only) if only else None), seconds, log)


def collected(tests: Sequence[Path], plugin: Trials, *, root: Path, log: Path) -> int:
    """The plug-in's loop, in a fork."""
    return forked(lambda: _main([*map(str, tests), "-s"], root, plugin), None, log)


def _main(arguments: list[str], root: Path, plugin: object | None) -> int:
    import pytest

    os.chdir(root)
    options = ["-p", "no:xdist", "--tb=short", "-W", REWRITTEN]
    return int(pytest.main([*arguments, *options], plugins=[plugin] if plugin else []))


def forked(call: Callable[[], int], seconds: int | None, log: Path) -> int:
    """A call in a process of its own, its words in a file: −1 if it hangs, another negative number if it runs on."""
    child = os.fork()
    if child:
        return _wait(child, None if seconds is None else 20 * seconds)
    code = 3
    try:
        os.setsid()
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1), os.dup2(out, 2)
        code = call()
    finally:
        os._exit(code)


def _wait(child: int, seconds: int | None) -> int:
    end = None if seconds is None else time.monotonic() + seconds
    while end is None or time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def outcome(code: int) -> str:
    return {0: SURVIVED, -1: LOST}.get(code, KILLED)

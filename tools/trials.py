"""Running tests on mutants, at the price of the tests alone.

A process imports every library and headwise itself, once; a mutant is a fork of it, in which the code of one function
is exchanged (`exchange`), and only tests that reach the function are run. Which do is noted by a first run, a file of
tests at a time. A mistake in what is done at import (a table, a
default, a decorator, a function that a table is made with) needs everything imported anew: `afresh`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from mutations import Mutant, mutated

BUDGET = 40.0  # seconds of processor a mutant, as the first run measured them
FIRST = 1500  # for the first run of a file
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"  # libraries are here before pytest is
PLAIN = "-q --import-mode=importlib -p no:cacheprovider -p no:randomly"  # headwise is imported already, and checked
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


class Calls:
    """A pytest plug-in: notes which tests call what, what they cost and which fail.

    What a fixture of a module or session calls is called for all tests that use it, not for the first one alone.
    """

    def __init__(self, reached: Reached):
        self.reached, self.failed = reached, set[str]()
        self.users: dict[str, set[str]] = {}  # of such a fixture

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before = self.reached.now, set(self.reached.seen)
        self.reached.now = _named(fixturedef)
        self.reached.seen.clear()
        try:
            return (yield)
        finally:
            self.reached.now, self.reached.seen = before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.reached.now, before = item.nodeid, time.process_time()
        for fixture in (each for known in item._fixtureinfo.name2fixturedefs.values() for each in known):
            self.users.setdefault(_named(fixture), set()).add(item.nodeid)
        self.reached.seen.clear()
        _tracing(self.reached.trace)
        try:
            return (yield)
        finally:
            _tracing(None)
            self.reached.seconds[item.nodeid] = time.process_time() - before

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def written(self) -> str:
        calls = {
            key: sorted({test for name in names for test in self.users.get(name, {name})})
            for key, names in self.reached.calls.items()
        }
        found = {"calls": calls, "seconds": self.reached.seconds, "failed": sorted(self.failed)}
        return json.dumps(found, ensure_ascii=False)


def _named(fixture: Any) -> str:
    return f"fixture {fixture.baseid} {fixture.argname}"


class Only:
    """A pytest plug-in: these tests, in this order."""

    def __init__(self, tests: Sequence[str]):
        self.place = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda item: self.place[item.nodeid])


def _tracing(trace: Any) -> None:
    sys.settrace(trace)
    threading.settrace(trace)  # pyright: ignore[reportArgumentType] - None ends it


class Trials:
    """The mutants of one package, in a process that has all of headwise imported."""

    def __init__(self, root: Path, source: Path, package: str, notes: Path):
        self.root, self.source, self.package, self.notes = root, source, package, notes
        self.reached = Reached(source / "headwise" / package, source)
        self.files: dict[str, Path] = {}  # by test

    def run(self, files: Sequence[Path], mutants: Sequence[Mutant], tell: Tell) -> int:
        sys.settrace(self.reached.trace)  # who is called at import
        import_all(self.root)
        sys.settrace(None)
        for path in files:
            self._read(path)
        later: dict[str, Any] = {}
        for mutant in mutants:
            tests = within_budget(self.reached, mutant)
            if not tests:
                tell(mutant, SURVIVED)  # no test comes here
            elif (found := self._tried(mutant, tests)) is None:
                later[mutant.name] = {**self._asked(tests), "seconds": limit(tests, self.reached)}
            else:
                tell(mutant, found)
        (self.notes / "afresh.json").write_text(json.dumps(later, ensure_ascii=False), encoding="utf-8")
        return 0

    def _asked(self, tests: Sequence[str]) -> dict[str, Any]:
        return {"files": sorted({str(self.files[test]) for test in tests}), "tests": list(tests)}

    def _read(self, path: Path) -> None:
        """Who calls what in a file of tests; those that fail on the sources as they are would kill every mutant."""
        note = self.notes / f"{self.package}.{path.parent.name}.{path.stem}.calls.json"
        if not note.exists() or note.stat().st_mtime < path.stat().st_mtime:
            note.unlink(missing_ok=True)
            forked(lambda: self._note(path, note), FIRST, self.notes / "first.log")
        if not note.exists():
            print(f"{path} could not be run and is left out: see {self.notes / 'first.log'}", flush=True)
            return
        found = json.loads(note.read_text(encoding="utf-8"))
        if found["failed"]:
            print(f"{path}: {', '.join(found['failed'])} fail on the sources as they are and are left out", flush=True)
        for test in found["failed"]:
            del found["seconds"][test]
        self.reached.add(found)
        self.files |= dict.fromkeys(found["seconds"], path)

    def _note(self, path: Path, note: Path) -> int:
        calls = Calls(Reached(self.source / "headwise" / self.package, self.source))
        code = passing([str(path), "-m", "not slow"], self.root, calls, imported=True)
        if code in (0, 1):
            note.write_text(calls.written(), encoding="utf-8")
        return code

    def _tried(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """What became of it; None where it must be tried afresh."""
        path = self.source / mutant.path
        source = path.read_text(encoding="utf-8")
        wrong = mutated(source, mutant)
        codes = codes_of(path, source, wrong)
        if codes is None or "" in self.reached.tests(mutant):
            return None
        asked = self._asked(tests)
        with written(path, wrong):  # for what the tests start
            seconds, log = limit(tests, self.reached), self.notes / "last.log"
            return outcome(forked(lambda: self._exchanged(codes, asked), seconds, log))

    def _exchanged(self, codes: dict[CodeType, CodeType], asked: Mapping[str, Any]) -> int:
        exchange(codes)
        return passing([*asked["files"], "-x"], self.root, Only(asked["tests"]), imported=True)


def import_all(root: Path) -> None:
    """Every module of headwise, checked as the tests check it (`addopts` of pyproject.toml, tests/conftest.py)."""
    import jaxtyping

    sys.path.insert(0, str(root / "tests"))
    sys.dont_write_bytecode = False  # the sources are as they are
    with jaxtyping.install_import_hook("headwise", "beartype.beartype"):
        importlib.import_module("conftest")
        found = pkgutil.walk_packages(importlib.import_module("headwise").__path__, "headwise.")
        for module in found:
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    sys.dont_write_bytecode = True


def within_budget(reached: Reached, mutant: Mutant) -> list[str]:
    """The tests that reach the place, the quickest first, as many as the budget allows; at import: all of them."""
    tests = reached.tests(mutant)
    there = [test for test in reached.seconds if "" in tests or test in tests]
    there.sort(key=reached.seconds.__getitem__)
    spent, kept = 0.0, []
    for test in there:
        spent += reached.seconds[test]
        if spent <= BUDGET or not kept:
            kept.append(test)
    return kept


def limit(tests: Sequence[str], reached: Reached) -> int:
    return int(60 + 4 * sum(reached.seconds[test] for test in tests))


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
    """Where one has more functions in it than the other (a lambda left out), the whole of it is the pair."""
    yield old, new
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    if len(inner[0]) == len(inner[1]):
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
    """Tests in a fork that imports headwise anew: pytest's exit code; −1 if it hangs."""
    return forked(lambda: passing([*map(str, files), "-x"], root, Only(only) if only else None), seconds, log)


def passing(arguments: list[str], root: Path, plugin: object | None, *, imported: bool = False) -> int:
    """pytest's exit code, 0 if all pass."""
    os.chdir(root)
    options = ["-p", "no:xdist", "--tb=short", "-W", REWRITTEN, *(["-o", f"addopts={PLAIN}"] if imported else [])]
    return int(pytest.main([*arguments, *options], plugins=[plugin] if plugin else []))


def forked(call: Callable[[], int], seconds: int | None, log: Path) -> int:
    """A call in a process of its own, its words in a file: −1 if it hangs, another negative number if it runs on."""
    child = os.fork()
    if child:
        return _wait(child, None if seconds is None else 20 * seconds)
    code = 3
    try:
        os.setsid()
        _end_with_parent()
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1), os.dup2(out, 2)
        code = call()
    except BaseException:  # else it would end in silence
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with_parent() -> None:
    """A fork in a session of its own would otherwise go on when the run is stopped (Linux only; elsewhere it does)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


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

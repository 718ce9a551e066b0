"""`make mutants`: how much of what a package says would its tests miss if it were wrong?

A sample of small mistakes (`mutations.py`) is made, one at a time, in a copy of the sources, and the tests that belong
to the package are run on it. A mutant is killed when a test fails; one that survives marks a place that nothing guards.

    python tools/mutants.py                       20 of every package, resumed where it stopped
    python tools/mutants.py --only plots --count 40 --seed 1
    python tools/mutants.py --again               those that survived, once more (after better tests)
    python tools/mutants.py --say                 the score and the survivors, nothing run
    python tools/mutants.py --by-hand             eight mistakes in what people read (`by_hand.py`)

Why a script of our own: a suite whose tests load models is too slow for tools that run all tests on every mutant. Here
the libraries are imported once and every mutant is a fork; a first run notes which test calls which function, so a
mutant meets the tests that reach its function first, the quickest first, within BUDGET seconds of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from by_hand import SLIPS, Slip
from mutations import Mutant, mutants_of, mutated, sample

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "mutants"
COPY = OUT / "src"
# Which tests belong to which package: by name, and those that stand elsewhere because they test many at once.
TESTS = {
    "measures": ("measures", *(f"contracts/test_{name}.py" for name in ("quantities", "reductions", "records"))),
    "stats": ("stats",),
    "reports": ("reports", "studies/test_answers.py"),
    "papers": ("papers",),
    "cli": ("cli", "contracts/test_surface.py"),
    "plots": ("plots", "studies/test_figures.py", "reports"),
}  # fmt: skip
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"  # libraries are here before pytest is
BUDGET = 60.0  # seconds of tests a mutant, as the first run measured them
SLOW = ("torch", "numpy", "scipy.stats", "polars", "altair", "transformers")


class Calls:
    """A pytest plug-in: which functions of the package each test calls, and how long it takes."""

    def __init__(self, package: Path):
        self.package, self.now = str(package), ""
        self.found: dict[str, set[str]] = {}
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
        first = 0 if code.co_name == "<module>" else code.co_firstlineno
        path = str(Path(code.co_filename).relative_to(COPY))
        self.found.setdefault(f"{path}:{first}", set()).add(self.now)

    def pytest_sessionstart(self) -> None:
        sys.settrace(self.trace)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.now = nodeid
        self.seen.clear()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


class Order:
    """A pytest plug-in: tests that call the function first, the quickest first, as many as the budget allows."""

    def __init__(self, first: set[str], seconds: dict[str, float]):
        self.first, self.seconds = first, seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        # subtle: a test not seen before is new, written for a survivor perhaps, so it goes first.
        items.sort(key=lambda item: (item.nodeid not in self.first, self.seconds.get(item.nodeid, 0.0)))
        spent, kept = 0.0, []
        for item in items:
            spent += self.seconds.get(item.nodeid, 0.0)
            if spent <= BUDGET or not kept:
                kept.append(item)
        items[:] = kept


def main() -> None:
    asked = _arguments()
    OUT.mkdir(parents=True, exist_ok=True)
    if asked.by_hand:
        by_hand()
        return
    packages = asked.only or list(TESTS)
    chosen = {package: _chosen(package, asked.count, asked.seed) for package in packages}
    if not asked.say:
        _prepare()
        for package, mutants in chosen.items():
            run(package, mutants, again=asked.again)
    say(chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(TESTS), help="packages; all of them if not given")
    parser.add_argument("--count", type=int, default=20, help="mutants a package")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--again", action="store_true", help="run the survivors once more")
    parser.add_argument("--by-hand", action="store_true", help="the mistakes of by_hand.py instead")
    parser.add_argument("--say", action="store_true", help="run nothing; say what is known")
    return parser.parse_args()


def _chosen(package: str, count: int, seed: int) -> list[Mutant]:
    files = sorted((ROOT / "src" / "headwise" / package).rglob("*.py"))
    every = [m for f in files for m in mutants_of(str(f.relative_to(ROOT / "src")), f.read_text(encoding="utf-8"))]
    return sample(every, count, seed)


def by_hand() -> None:
    """Every one of them is to be killed, by tests that pass without it."""
    _prepare()
    passing = {tests for tests in {slip.tests for slip in SLIPS} if _pytest([ROOT / tests], None, cpu=1200) == 0}
    counts = Counter(_slipped(slip) if slip.tests in passing else "not run" for slip in SLIPS)
    print(_score("by hand", counts))


def _slipped(slip: Slip) -> str:
    path = COPY / slip.path
    source = path.read_text(encoding="utf-8")
    if source.count(slip.before) != 1:
        raise SystemExit(f"{slip.path} must have {slip.before!r} once; mend tools/by_hand.py.")
    path.write_text(source.replace(slip.before, slip.after), encoding="utf-8")
    try:
        code = _pytest([ROOT / slip.tests], None, cpu=int(4 * BUDGET))
    finally:
        path.write_text(source, encoding="utf-8")
    outcome = "survived" if code == 0 else "killed"
    print(f"{outcome:9} {slip.what}: {slip.path}, by {slip.tests}", flush=True)
    return outcome


def _prepare() -> None:
    """A copy of the sources to make mistakes in, and the libraries that all tests import."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "src", COPY, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(COPY))
    os.environ["PYTHONPATH"] = str(COPY)  # for what the tests start
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    for name in SLOW:
        importlib.import_module(name)


# Running


def run(package: str, mutants: list[Mutant], *, again: bool) -> None:
    """Every mutant that is not known yet; what is found is written down at once."""
    known = _known()
    left = [m for m in mutants if m.name not in known or (again and known[m.name] == "survived")]
    if not left:
        return
    calls = {str(path): found for path in _test_files(package) if (found := _calls(package, path)) is not None}
    for mutant in left if calls else ():
        outcome = _try(mutant, calls)
        print(f"{package}: {outcome:9} {mutant.path}:{mutant.line} {mutant.before} → {mutant.after}", flush=True)
        with (OUT / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": mutant.name, "outcome": outcome}, ensure_ascii=False) + "\n")


def _test_files(package: str) -> list[Path]:
    tests = [ROOT / "tests" / place for place in TESTS[package]]
    files = [f for place in tests for f in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])]
    return [file for file in files if file.exists()]


def _calls(package: str, tests: Path) -> dict[str, Any] | None:
    """Who calls what in one file of tests: from the first run, made again when the file has changed.

    None, said in a line, where the tests fail on the sources as they are: they would kill every mutant.
    """
    kept = OUT / f"{package}.{tests.parent.name}.{tests.stem}.json"
    if kept.exists() and kept.stat().st_mtime > tests.stat().st_mtime:
        return json.loads(kept.read_text(encoding="utf-8"))
    plugin = Calls(COPY / "headwise" / package)

    def note() -> None:
        found = {"calls": {k: sorted(v) for k, v in plugin.found.items()}, "seconds": plugin.seconds}
        kept.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")

    code = _pytest([tests], plugin, cpu=1200, then=note)
    if code != 0:
        log = shutil.copy(OUT / "last.log", kept.with_suffix(".failed.log"))
        print(f"{tests} fails on the sources as they are and is left out: see {log}", flush=True)
        kept.unlink(missing_ok=True)
        return None
    return json.loads(kept.read_text(encoding="utf-8"))


def _try(mutant: Mutant, calls: dict[str, dict[str, Any]]) -> str:
    key = f"{mutant.path}:{mutant.first}"
    files = [Path(path) for path, found in calls.items() if key in found["calls"]]
    if not files:
        return "survived"  # no test comes here
    first = {test for found in calls.values() for test in found["calls"].get(key, ())}
    seconds = {test: s for found in calls.values() for test, s in found["seconds"].items()}
    path = COPY / mutant.path
    source = path.read_text(encoding="utf-8")
    path.write_text(mutated(source, mutant), encoding="utf-8")
    try:
        code = _pytest(files, Order(first, seconds), cpu=int(60 + 4 * BUDGET))
    finally:
        path.write_text(source, encoding="utf-8")
    return "survived" if code == 0 else "killed"


def _pytest(files: list[Path], plugin: object | None, *, cpu: int, then: Any = None) -> int:
    """Tests in a fork of this process, which has the libraries already: pytest's exit code; −1 if it ran on and on."""
    import pytest

    child = os.fork()
    if child:
        return _wait(child, cpu * 4)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    log = os.open(OUT / "last.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    os.chdir(ROOT)
    stop = ["-x"] if then is None else []
    code = pytest.main(
        [*map(str, files), *stop, "-p", "no:xdist", "--tb=short", "-W", REWRITTEN], plugins=[plugin] if plugin else []
    )
    sys.settrace(None)
    if then:
        then()
    os._exit(int(code))


def _wait(child: int, seconds: int) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


# Saying


def _known() -> dict[str, str]:
    file = OUT / "results.jsonl"
    if not file.exists():
        return {}
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {row["name"]: row["outcome"] for row in rows}


def say(chosen: dict[str, list[Mutant]]) -> None:
    """The score of every package, then where to write a test."""
    known, total = _known(), Counter()
    for package, mutants in chosen.items():
        counts = Counter(known.get(m.name, "not run") for m in mutants)
        total += counts
        print(_score(package, counts))
    print(_score("all", total))
    for mutants in chosen.values():
        for m in mutants:
            if known.get(m.name) == "survived":
                print(f"survived: {m.path}:{m.line} {m.function} ({m.kind})\n    {m.before}\n    → {m.after}")


def _score(name: str, counts: Counter[str]) -> str:
    tried = counts["killed"] + counts["survived"]
    share = f"{counts['killed'] / tried:.0%}" if tried else "–"
    later = f", {counts['not run']} not run" if counts["not run"] else ""
    return f"{name:9} {share:>4} killed, {counts['killed']} of {tried}{later}"


if __name__ == "__main__":
    main()

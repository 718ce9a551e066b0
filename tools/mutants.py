"""`make mutants`: how much of what a package says would its tests miss if it were wrong?

A sample of small mistakes (`mutations.py`) is made, one at a time, in a copy of the sources, and the tests that belong
to the package are run on it. A mutant is killed when a test fails; one that survives marks a place that nothing guards.

    python tools/mutants.py                       20 of every package, resumed where it stopped
    python tools/mutants.py --only plots --count 40 --seed 1
    python tools/mutants.py --again               those that survived, once more (after better tests)
    python tools/mutants.py --say                 the score and the survivors, nothing run
    python tools/mutants.py --by-hand             eight mistakes in what people read (`by_hand.py`)

Why a script of our own: a suite whose tests load models is too slow for tools that run all tests on every mutant. Here
everything is imported once and every mutant is a fork that meets the tests which reach its function (`trials.py`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from by_hand import SLIPS, Slip
from mutations import Mutant, mutants_of, mutated, sample
from trials import KILLED, SURVIVED, Trials, afresh, forked, outcome, written

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "mutants"
COPY = OUT / "src"
# Which tests belong to which package: by name, and those that stand elsewhere because they test many at once. Those
# marked slow, which go through whole runs, are left out: what only they would notice counts as survived.
TESTS = {
    "measures": ("measures", "contracts/test_reductions.py", "contracts/test_records.py"),
    "stats": ("stats",),
    "reports": ("reports", "studies/test_answers.py", "studies/test_answers_tried.py"),
    "papers": ("papers", "experiments/test_evidence.py"),
    "cli": tuple(f"cli/test_{name}.py" for name in (
        "cli", "choices", "fail_if", "json", "list", "ranges", "remembered", "settings", "tables",
    )),
    "plots": ("plots", "studies/test_figures.py"),
}  # fmt: skip
SLOW = ("torch", "numpy", "scipy.stats", "polars", "altair", "transformers")


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
    passing = {tests for tests in {slip.tests for slip in SLIPS} if _passes(tests)}
    counts = Counter(_slipped(slip) if slip.tests in passing else "not run" for slip in SLIPS)
    print(_score("by hand", counts))


def _slipped(slip: Slip) -> str:
    path = COPY / slip.path
    source = path.read_text(encoding="utf-8")
    if source.count(slip.before) != 1:
        raise SystemExit(f"{slip.path} must have {slip.before!r} once; mend tools/by_hand.py.")
    with written(path, source.replace(slip.before, slip.after)):
        found = SURVIVED if _passes(slip.tests) else KILLED
    print(f"{found:9} {slip.what}: {slip.path}, by {slip.tests}", flush=True)
    return found


def _passes(tests: str) -> bool:
    return afresh([ROOT / tests], root=ROOT, seconds=1200, log=OUT / "last.log") == 0


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
    left = [m for m in mutants if m.name not in known or (again and known[m.name] == SURVIVED)]
    if not left:
        return
    later = OUT / "afresh.json"
    later.unlink(missing_ok=True)
    trials = Trials(ROOT, COPY, package, OUT)
    forked(lambda: trials.run(_test_files(package), left, _tell), None, OUT / "last.log")
    tests = json.loads(later.read_text(encoding="utf-8")) if later.exists() else {}
    for mutant in left:
        if mutant.name in tests:
            _tell(mutant, _afresh(mutant, tests[mutant.name]))


def _tell(mutant: Mutant, outcome: str) -> None:
    print(f"{outcome:9} {mutant.path}:{mutant.line} {mutant.before} → {mutant.after}", flush=True)
    with (OUT / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"name": mutant.name, "outcome": outcome}, ensure_ascii=False) + "\n")


def _test_files(package: str) -> list[Path]:
    tests = [ROOT / "tests" / place for place in TESTS[package]]
    files = [f for place in tests for f in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])]
    return [file for file in files if file.exists()]


def _afresh(mutant: Mutant, chosen: dict[str, Any]) -> str:
    path = COPY / mutant.path
    with written(path, mutated(path.read_text(encoding="utf-8"), mutant)):
        log = OUT / "last.log"
        return outcome(
            afresh(chosen["files"], root=ROOT, seconds=60 + chosen["seconds"], log=log, only=chosen["tests"])
        )


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

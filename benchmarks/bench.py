"""One table of what headwise costs: the ratio to the model's own pass, its range, the goal, and the machine's load.

    make bench                               # all rows, five rounds
    python benchmarks/bench.py --quick       # short texts, three rounds: about two minutes
    python benchmarks/bench.py --only decoder

Every round times the pass and the work one after the other and takes their ratio, in processor seconds of one thread,
so that other work on the machine disturbs both alike; the table has the median ratio and its range over the rounds.
With --keep the rows go to benchmarks/history/<time>-<commit>.json; the last column is what was kept last, so that a
regression shows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from foundation import capture, sample_batch

import headwise as hw
from headwise.engine.fold import batches, fold
from headwise.engine.plan import Plan, model_facts
from headwise.measures import ATTENTION, MIXING
from headwise.models.model import Model
from headwise.studies import STUDIES
from headwise.text.corpus import open_corpus
from headwise.types import Layer
from studies import CHOSEN, corpus_of

HISTORY = Path(__file__).parent / "history"
Task = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table; `low` and `high` are the range of the ratio over the rounds."""

    what: str
    ratio: float
    low: float
    high: float
    goal: float
    load: float

    def line(self, before: dict[str, float]) -> str:
        met = "" if self.ratio <= self.goal else "  not met"
        spread, was = f"{self.low:.2f}–{self.high:.2f}", f"{before[self.what]:.2f}" if self.what in before else "–"
        return f"{self.what:<52} {self.ratio:6.2f} {spread:>13}   ≤ {self.goal:<4} {self.load:5.1f} {was:>6}{met}"


def compare(what: str, goal: float, base: Task, work: Task, rounds: int) -> Row:
    """The ratio of two tasks that take turns."""
    base(), work()
    ratios = []
    for _ in range(rounds):
        below = _seconds(base)
        ratios.append(_seconds(work) / below)
    return Row(what, statistics.median(ratios), min(ratios), max(ratios), goal, os.getloadavg()[0])


def _seconds(task: Task) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def fresh(layers: list[Layer]) -> list[Layer]:
    """The layers with nothing remembered; the blocks of one layer share what depends on its keys, as in a run."""
    memos: dict[tuple[str, int], dict] = {}
    return [replace(one, memo={}, text_memo=memos.setdefault((one.stack, one.index), {})) for one in layers]


def decoder(quick: bool, rounds: int) -> Iterator[Row]:
    model = hw.load("demo-llm")
    for texts, tokens in ((1, 192),) if quick else ((1, 464), (8, 128)):
        batch = sample_batch(model, texts, tokens)
        layers = capture(model, batch)
        work = lambda layers=layers: [ATTENTION["effective"](one) for one in fresh(layers)]  # noqa: E731
        base = lambda batch=batch: capture(model, batch)  # noqa: E731
        yield compare(f"effective, demo-llm, {texts} × {tokens} tokens / trace", 0.7, base, work, rounds)


def mixing(quick: bool, rounds: int) -> Iterator[Row]:
    model = hw.load("demo")
    goals = {"norm-residual-ln": (0.6, 0.6), "globenc": (0.6, 0.6), "alti": (3.0, 6.0)}
    for at, tokens in enumerate((128,) if quick else (128, 512)):
        batch = sample_batch(model, 1, tokens)
        layers = capture(model, batch)
        for name, goal in goals.items():
            work = lambda name=name, layers=layers: [MIXING[name](one) for one in fresh(layers)]  # noqa: E731
            yield compare(f"{name}, demo, {tokens} tokens / pass", goal[at], _bare(model, [batch.inputs]), work, rounds)


def corpus(quick: bool, rounds: int) -> Iterator[Row]:
    for name, tokens, goal in (("demo", 128, 1.4), ("demo-llm", 128, 1.6), ("demo-llm", 512, 1.6)):
        model, segments = hw.load(name), (1024 if quick else 4096) // tokens
        with tempfile.TemporaryDirectory() as folder:
            spec = open_corpus(corpus_of(segments, Path(folder), joined=tokens // 128), segments=tokens)
            studies = {study: STUDIES[study]().settings() for study in CHOSEN}
            plan = Plan(studies, model_facts(model), spec, shard_documents=segments, batch_tokens=1024)
            (shard,) = plan.shards(model, Counter())
        built, texts = plan.build(), [model.encode(d.text, d.pair) for d in shard.documents]
        items = [type("Item", (), {"length": len(t), "number": n, "text": t}) for n, t in enumerate(texts)]
        inputs = [model.batch([item.text for item in group]).inputs for group in batches(items, 1024)]  # type: ignore[arg-type]
        work = lambda model=model, built=built, shard=shard, plan=plan: fold(model, built, shard, plan)  # noqa: E731
        what = f"{' + '.join(CHOSEN)}, {name}, {tokens} / pass"
        yield compare(what, goal, _bare(model, inputs), work, min(rounds, 3))


def _bare(model: Model, inputs: list) -> Task:
    """The model's own eager forward pass."""

    def run() -> None:
        before = model.hf.config._attn_implementation
        model.hf.set_attn_implementation("eager")
        with torch.inference_mode():
            for one in inputs:
                model.hf(**one)
        model.hf.set_attn_implementation(before)

    return run


PARTS = {"decoder": decoder, "mixing": mixing, "corpus": corpus}


def keep(rows: list[Row], quick: bool) -> Path:
    """The rows as JSON under the commit they were measured at."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    HISTORY.mkdir(exist_ok=True)
    path = HISTORY / f"{time.strftime('%Y%m%d-%H%M')}-{commit.stdout.strip()}{'-quick' if quick else ''}.json"
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return path


def kept_last() -> dict[str, float]:
    """The ratio of every row when it was last kept."""
    files = sorted(HISTORY.glob("*.json"))
    return {row["what"]: row["ratio"] for file in files for row in json.loads(file.read_text(encoding="utf-8"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'work / what it is measured against':<52} {'ratio':>6} {'range':>13}   goal   load   last", flush=True)
    rows, before = [], kept_last()
    for part in options.only:
        for row in PARTS[part](options.quick, 3 if options.quick else 5):
            print(row.line(before), flush=True)
            rows.append(row)
    if options.keep:
        print(f"kept in {keep(rows, options.quick)}", file=sys.stderr)


if __name__ == "__main__":
    main()

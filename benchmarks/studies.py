"""What corpus studies cost: against the bare forward pass, as the corpus grows, and on Ray.

    python benchmarks/studies.py --cost      # surface + norms + nullspace against the eager forward pass
    python benchmarks/studies.py --growth    # peak memory and time for 200 and 2,000 segments
    python benchmarks/studies.py --ray       # one single-thread worker against two

The segments are pairs of paragraphs of the sample corpus, 128 tokens, repeated with another word in front as needed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import headwise as hw
from headwise.engine.fold import batches, fold
from headwise.engine.plan import Plan, model_facts
from headwise.engine.run import run
from headwise.studies import STUDIES
from headwise.text.corpus import SAMPLE, open_corpus

CHOSEN = ("surface", "norms", "nullspace")


def corpus_of(segments: int, folder: Path, *, joined: int = 1) -> Path:
    """A text file with two paragraphs a segment, each of `joined` paragraphs of the sample corpus."""
    paragraphs = SAMPLE.read_text("utf-8").strip().split("\n\n")
    taken = lambda at: " ".join(paragraphs[(at * joined + more) % len(paragraphs)] for more in range(joined))  # noqa: E731
    wanted = [f"Note {at}. {taken(at)}" for at in range(2 * segments)]
    path = folder / f"{segments}.txt"
    path.write_text("\n\n".join(wanted) + "\n", encoding="utf-8")
    return path


def cost(segments: int) -> None:
    torch.set_num_threads(2)
    model = hw.load("demo")
    with tempfile.TemporaryDirectory() as folder:
        spec = open_corpus(corpus_of(segments, Path(folder)), segments=128)
        studies = {name: STUDIES[name]().settings() for name in CHOSEN}
        plan = Plan(studies, model_facts(model), spec, shard_documents=segments, batch_tokens=1024)
        (shard,) = plan.shards(model, Counter())
    built = plan.build()
    model.hf.set_attn_implementation("eager")
    texts = [model.encode(d.text, d.pair) for d in shard.documents]
    items = [type("Item", (), {"length": len(t), "number": n, "text": t}) for n, t in enumerate(texts)]
    inputs = [model.batch([item.text for item in group]).inputs for group in batches(items, 1024)]  # type: ignore[arg-type]

    def forward() -> None:
        with torch.inference_mode():
            for one in inputs:
                model.hf(**one)

    times = {"forward": [], "all": [], **{name: [] for name in CHOSEN}}
    for _ in range(3):
        times["forward"].append(_timed(forward))
        times["all"].append(_timed(lambda: fold(model, built, shard, plan)))
        for study in built:
            times[study.name].append(_timed(lambda study=study: fold(model, [study], shard, plan)))
    base = min(times["forward"])
    print(f"demo model, {segments} segments of up to 128 tokens in batches of 1,024 tokens, 2 threads")
    print(f"  bare eager forward pass               {base:6.2f} s")
    for name in (*CHOSEN, "all"):
        label = " + ".join(CHOSEN) if name == "all" else f"{name} alone"
        print(f"  {label:<37} {min(times[name]):6.2f} s  {min(times[name]) / base:5.2f} x forward, pass included")


def _timed(task) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def growth() -> None:
    """Each size in a process of its own, as peak memory never goes down."""
    rows = {}
    for segments in (20, 200, 2000):  # the first tells what a run costs before it reads
        command = [sys.executable, __file__, "--one", str(segments)]
        rows[segments] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"  {segments:5d} segments: {rows[segments]['seconds']:7.1f} s, peak {rows[segments]['peak_mb']:.0f} MB")
    _, small, large = rows.values()
    memory, seconds = (large[name] / small[name] for name in ("peak_mb", "seconds"))
    print(f"  memory x {memory:.3f}, time x {seconds:.2f} for x 10")


def one(segments: int, threads: int) -> None:
    torch.set_num_threads(threads)
    model = hw.load("demo")
    with tempfile.TemporaryDirectory() as folder:
        path = corpus_of(segments, Path(folder))
        start = time.perf_counter()
        run(CHOSEN, model, corpus=path, segments=128, out=Path(folder) / "out")
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def on_ray(segments: int) -> None:
    """Both runs on Ray, with the workers already up, so that only the work is compared."""
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    model = hw.load("demo")
    with tempfile.TemporaryDirectory() as folder:
        path = corpus_of(segments, Path(folder))
        spec = open_corpus(path, segments=128)
        plan = Plan({name: STUDIES[name]().settings() for name in CHOSEN}, model_facts(model), spec, shard_documents=16)
        shards = list(plan.shards(model, Counter()))
        seconds = {workers: _workers(ray, plan, shards, workers) for workers in (1, 2, 1, 2)}
    ray.shutdown()
    ratio = seconds[1] / seconds[2]
    print(f"  1 worker {seconds[1]:.1f} s, 2 workers {seconds[2]:.1f} s: x {ratio:.2f} ({segments} segments)")
    print(f"  two processes without Ray, each with all of the work: x {_side_by_side(segments):.2f} of what one does")


def _side_by_side(segments: int) -> float:
    """What the machine itself gives: how much more two single-thread processes do than one, in the same time."""
    command = [sys.executable, __file__, "--one", str(segments), "--threads", "1"]
    taken = []
    for together in (1, 2, 1, 2):
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(together)]
        taken.append(max(json.loads(each.communicate()[0])["seconds"] for each in started))
    return 2 * (taken[0] + taken[2]) / (taken[1] + taken[3])


def _workers(ray, plan: Plan, shards: list, workers: int) -> float:
    from headwise.engine.ray import _actor, _portable, _spread

    pool = [_actor(ray, 1, "cpu").remote(_portable(plan), 1) for _ in range(workers)]
    list(_spread(ray, pool, shards[:workers], plan, lambda _: None))  # every worker has loaded the model
    seconds = _timed(lambda: list(_spread(ray, pool, shards, plan, lambda _: None)))
    for worker in pool:
        ray.kill(worker)
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("cost", "growth", "ray"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--segments", type=int, default=64)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.threads)
    if options.cost:
        cost(options.segments)
    if options.growth:
        growth()
    if options.ray:
        on_ray(max(options.segments, 192))

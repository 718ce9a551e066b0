"""Ray with two machines on one (ray.cluster_utils): the same bits as one process, also when one of the two dies.

    python benchmarks/nodes.py [--documents 96]       what holds: bits, models loaded, the object store, a death
    python benchmarks/nodes.py --speed [--seconds 60]  two nodes against one; on a quiet machine, 4 minutes

Every node has one core and an object store of STORE bytes. A worker notes when it has loaded the model and when it
folds a shard, so that models and shards are counted and not believed.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
os.environ.setdefault("RAY_worker_niceness", "0")  # else 15: on a busy machine workers would get no processor
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray.cluster_utils import Cluster

import headwise as hw
from headwise.engine import ray as engine

WORDS = "the old dog sat in sun of city and it was said again river north".split()  # noqa: SIM905
STORE = 100 * 2**20
STUDIES = "surface,norms,nullspace"  # the largest states: about 5 MB a shard
NOTES = "HEADWISE_NODES_NOTES"


class Noting(engine.Worker):
    """A worker that notes what it does, a line each, in the file that the environment names."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._note("loaded")

    def fold(self, number: int, documents: list[Any], begun: engine.Sum | None) -> Iterator[tuple[Any, ...]]:
        self._note(f"shard {number}")
        yield from super().fold(number, documents, begun)

    def _note(self, what: str) -> None:
        node = ray.get_runtime_context().get_node_id()[:6]
        with open(os.environ[NOTES], "a") as notes:
            notes.write(f"{node} {os.getpid()} {what}\n")


def corpus_of(folder: Path, documents: int) -> Path:
    rng, path = random.Random(1), folder / f"corpus-{documents}.txt"
    path.write_text("".join(" ".join(rng.choices(WORDS, k=60)) + "\n" for _ in range(documents)))
    return path


def run(corpus: Path, out: Path, studies: str = STUDIES, shard: int = 8, **options: Any) -> tuple[float, bytes]:
    """Seconds, and the bytes of all states and tables."""
    began = time.perf_counter()
    hw.run(studies.split(","), "demo", corpus=corpus, out=out, shard_documents=shard, threads=1, **options)
    seconds = time.perf_counter() - began
    files = sorted(path for name in ("state.safetensors", "table.parquet") for path in out.rglob(name))
    assert files, f"no result in {out}"
    return seconds, b"".join(path.read_bytes() for path in files)


@contextmanager
def two_nodes(notes: Path) -> Iterator[tuple[Cluster, Any]]:
    """A cluster of two nodes with a core each; the second may be taken away."""
    os.environ[NOTES] = str(notes)
    engine.Worker = Noting  # type: ignore[misc]
    node = {"num_cpus": 1, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        second = cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield cluster, second
    finally:
        ray.shutdown()
        cluster.shutdown()


def told(notes: Path) -> str:
    """`2 models loaded by 2 workers on 2 nodes, 12 shards folded (12 different)`, then the notes are forgotten."""
    lines = [line.split(maxsplit=2) for line in notes.read_text().splitlines()]
    notes.unlink()
    loaded = Counter(pid for _, pid, what in lines if what == "loaded")
    shards = Counter(what for *_, what in lines if what != "loaded")
    nodes = {node for node, *_ in lines}
    return (
        f"{loaded.total()} models loaded by {len(loaded)} workers on {len(nodes)} nodes, {shards.total()} shards "
        f"folded ({len(shards)} different)"
    )


def what_holds(top: Path, documents: int) -> bool:
    corpus, notes = corpus_of(top, documents), top / "notes.txt"
    seconds, alone = run(corpus, top / "alone")
    print(f"one process: {seconds:.1f} s", flush=True)
    with two_nodes(notes) as (cluster, second):
        seconds, both = run(corpus, top / "both", engine="ray", workers=2)
        print(f"two nodes: {seconds:.1f} s, same bits {both == alone}; {told(notes)}", flush=True)

        def die() -> None:
            while len(list((top / "dies" / ".run").glob("shard-*.json"))) < 3:
                time.sleep(0.05)
            cluster.remove_node(second, allow_graceful=False)

        killer = threading.Thread(target=die, daemon=True)
        killer.start()
        seconds, rest = run(corpus, top / "dies", engine="ray", workers=2)
        killer.join()
        alive = sum(node["Alive"] for node in ray.nodes())
        print(f"a node died ({alive} left): {seconds:.1f} s, same bits {rest == alone}; {told(notes)}", flush=True)
    return both == alone == rest and alive == 1


def speed(top: Path, aim: float) -> None:
    """`surface` alone, whole runs: starting workers, loading, adding up and writing included."""
    notes = top / "notes.txt"
    few, more = (run(corpus_of(top, n), top / f"try-{n}", "surface", 16)[0] for n in (32, 160))
    documents = max(160, round(aim * 128 / max(more - few, 0.1) / 64) * 64)
    corpus = corpus_of(top, documents)
    with two_nodes(notes):
        run(
            corpus_of(top, 16), top / "warm", "surface", 4, engine="ray", workers=2
        )  # every node has read its files once
        found = {n: run(corpus, top / f"ray-{n}", "surface", 32, engine="ray", workers=n)[0] for n in (1, 2)}
        print(f"{documents} documents: one worker {found[1]:.1f} s, two on two nodes {found[2]:.1f} s", flush=True)
        print(f"ratio {found[1] / found[2]:.2f} (goal 1.8); {told(notes)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=96)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seconds", type=float, default=60, help="about what one worker is to take, for --speed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwise-nodes-") as folder:
        if options.speed:
            speed(Path(folder), options.seconds)
        else:
            raise SystemExit(not what_holds(Path(folder), options.documents))


if __name__ == "__main__":
    main()

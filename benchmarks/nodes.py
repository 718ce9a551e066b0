"""Ray with two machines on one (ray.cluster_utils): the same bits as one process, twice as fast, also when one dies.

python benchmarks/nodes.py [DOCUMENTS]
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")

import ray
from ray.cluster_utils import Cluster

import headwise as hw

WORDS = "the old dog sat in sun of city and it was said again river north".split()  # noqa: SIM905


def run(corpus: Path, out: Path, **options: object) -> tuple[float, bytes]:
    began = time.perf_counter()
    result = hw.run("surface", "demo", corpus=corpus, out=out, shard_documents=8, threads=1, **options)  # type: ignore[arg-type]
    return time.perf_counter() - began, (result.folder / "state.safetensors").read_bytes()


def main(documents: int) -> None:
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="headwise-nodes-") as folder:
        top = Path(folder)
        corpus = top / "corpus.txt"
        corpus.write_text("".join(" ".join(rng.choices(WORDS, k=60)) + "\n" for _ in range(documents)))
        seconds, alone = run(corpus, top / "alone")
        print(f"one process: {seconds:.1f} s", flush=True)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        for workers in (1, 2):
            seconds, bits = run(corpus, top / f"ray{workers}", engine="ray", workers=workers)
            print(f"{workers} worker(s) on two nodes: {seconds:.1f} s, same bits {bits == alone}", flush=True)

        def die() -> None:
            while len(list((top / "dies" / ".run").glob("shard-*.json"))) < 3:
                time.sleep(0.1)
            cluster.remove_node(second, allow_graceful=False)

        killer = threading.Thread(target=die, daemon=True)
        killer.start()
        seconds, bits = run(corpus, top / "dies", engine="ray", workers=2)
        nodes = sum(node["Alive"] for node in ray.nodes())
        print(f"a node died ({nodes} left): {seconds:.1f} s, same bits {bits == alone}", flush=True)
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

"""What identity finds in networks that learned nothing: the controls of this page's claims.

    python experiments/identity/controls.py ../shared/data out/identity-controls [PAIRS]

The demo model's shape, three seeds drawn anew and three with the weights shuffled; the first PAIRS (200) texts of each
corpus, one fold, cosine. Writes tables/PART-controls.parquet: rates on the test sentences, by kind and seed. A run that
is done is opened, one that was stopped goes on.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

import headwise as hw
from headwise.models.model import Model
from headwise.papers.reproduce import CONTROLS, KINDS
from headwise.results.files import write_files
from headwise.results.result import parquet_bytes

HERE = Path(__file__).parent
COMMON: dict[str, Any] = {"solver": "newton", "folds": 1, "distances": ("cosine",)}
MRPC: dict[str, Any] = {"corpus": "mrpc/dev.tsv"}
PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mrpc-input": (MRPC, {}),
    "mrpc-previous": (MRPC, {"target": "previous", "cross": False}),
    "mrpc-neighbours": (MRPC, {"maps": ("linear",), "offsets": (-1, 1), "cross": False}),
    "cola-input": ({"corpus": "cola/in_domain_dev.tsv", "columns": (3,)}, {"cross": False}),
}


def rates(demo: Model, part: str, kind: str, seed: int, data: Path, out: Path, first: int) -> pl.DataFrame:
    """Rates on the test sentences of one network."""
    where, settings = PARTS[part]
    results = hw.run(
        ["identity"], KINDS[kind](demo, seed), settings={"identity": {**COMMON, **settings}}, first=first,
        progress=False, out=out / f"{part}-{kind}-{seed}", **{**where, "corpus": data / where["corpus"]},
    )  # fmt: skip
    rows = results["identity"].table.filter((pl.col("what") == "rate") & (pl.col("set") == "test"))
    return rows.with_columns(pl.lit(kind).alias("kind"), pl.lit(seed).alias("seed"))


def main() -> None:
    data, out, first = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200
    demo = hw.load("demo")
    for part in PARTS:
        networks = product(KINDS, range(CONTROLS))
        table = pl.concat([rates(demo, part, kind, seed, data, out, first) for kind, seed in networks])
        write_files(HERE / "tables", {f"{part}-controls.parquet": parquet_bytes(table)})
        print(f"{part}: {len(table)} rates", flush=True)


if __name__ == "__main__":
    main()

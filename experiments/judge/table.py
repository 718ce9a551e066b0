"""The judge's tables for README.md: AUROC and precision by method and task, with 95 % intervals over texts.

python experiments/judge/table.py experiments/judge/held-out.csv [experiments/judge/peers.csv]
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from tasks import TASKS


def table(rows: pl.DataFrame) -> str:
    """One row a method; methods in the order of the file, tasks in that of tasks.py."""
    tasks = [task for task in TASKS if task in rows["task"]]
    lines = [
        "| method | " + " | ".join(f"{task}: AUROC | precision" for task in tasks) + " |",
        "|---|" + "---|---:|" * len(tasks),
    ]
    cells = {(row["method"], row["task"]): row for row in rows.to_dicts()}
    for method in rows["method"].unique(maintain_order=True):
        found = [cells.get((method, task)) for task in tasks]
        told = [f"{f['auroc']:.3f} ± {f['auroc_half']:.3f} | {f['precision']:.2f}" if f else "– | –" for f in found]
        lines.append(f"| {method} | " + " | ".join(told) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n\n".join(table(pl.read_csv(Path(path))) for path in sys.argv[1:]))

"""What an install costs: a clean environment, `pip install .` and a first `headwise inspect`, in seconds and megabytes.

    python benchmarks/install.py [--uv UV] [--keep FOLDER]

The first install of a machine also downloads; run it twice, and the second has a warm cache. Seconds on the wall are
of a quiet machine; those of the processor stand beside them. Sizes are of site-packages: torch, and what is beyond it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = ("torch", "torchgen", "functorch", "nvidia", "triton")
GOAL_SECONDS, GOAL_MB = 60, 1200


def timed(*words: str | Path) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def measure(folder: Path, uv: str | None) -> None:
    python = folder / "bin" / "python"
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    timed(
        *([uv, "venv", "--clear", "--python", sys.executable, folder] if uv else [sys.executable, "-m", "venv", folder])
    )
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    extra = os.environ.get("PIP_FIND_LINKS")
    links = ["--find-links", extra] if extra else []
    steps = {
        "pip install .": timed(*pip, "--quiet", *links, "-c", "constraints.txt", torch, "."),
        "headwise inspect": timed(folder / "bin" / "headwise", "inspect", "The dog sat in the sun."),
    }
    for name, (wall, processor) in steps.items():
        print(f"{name}: {wall:.1f} s, of the processor {processor:.1f} s")
    wall, processor = (sum(column) for column in zip(*steps.values(), strict=True))
    print(f"together {wall:.1f} s (goal {GOAL_SECONDS}), of the processor {processor:.1f} s")
    (packages,) = (folder / "lib").glob("python*/site-packages")
    of_torch = sum(megabytes(packages / name) for name in TORCH if (packages / name).is_dir())
    print(f"torch {of_torch:.0f} MB, beyond it {megabytes(packages) - of_torch:.0f} MB (goal {GOAL_MB})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uv", help="the path of uv, which links files instead of copying them")
    parser.add_argument("--keep", type=Path, help="where the environment is made, and stays")
    options = parser.parse_args()
    if options.keep is not None:
        measure(options.keep.resolve(), options.uv)
        return
    with tempfile.TemporaryDirectory(prefix="headwise-install-") as folder:
        measure(Path(folder) / "venv", options.uv)


if __name__ == "__main__":
    main()

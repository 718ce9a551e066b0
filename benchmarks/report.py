"""How long the demo report takes, how large it is, and when its first page is drawn; how long `--help` takes.

    python benchmarks/report.py [--first 64] [--threads 2]

Runs the commands as a user does. The page is opened in headless Chromium (Debian's, or HEADWISE_CHROMIUM) from the
disk; "drawn" is when the four answers are on the screen, counted from the start of loading.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

GOALS = {"help": 0.5, "report": 180.0, "megabytes": 15.0, "drawn": 2.0}


def seconds(*command: str, threads: int) -> float:
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-m", "headwise", *command], check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def drawn(page: Path) -> float:
    """Seconds until the answers are painted."""
    path = os.environ.get("HEADWISE_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        start = time.perf_counter()
        opened.goto(page.as_uri(), wait_until="commit")
        opened.locator("#answers article").nth(3).wait_for(state="visible")
        opened.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        taken = time.perf_counter() - start
        browser.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=64, help="texts of the sample")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds("--help", threads=1)  # the first start reads from the disk
        found = {"help": min(seconds("--help", threads=1) for _ in range(5))}
        found["report"] = seconds("report", "--first", str(asked.first), "--out", folder, threads=asked.threads)
        page = Path(folder) / "report.html"
        found["megabytes"] = page.stat().st_size / 1e6
        found["drawn"] = min(drawn(page) for _ in range(3))
    for name, value in found.items():
        print(f"{name:<10} {value:8.2f}   goal ≤ {GOALS[name]:g}   {'met' if value <= GOALS[name] else 'NOT MET'}")


if __name__ == "__main__":
    main()

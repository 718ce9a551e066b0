"""Size of the viewer's page and time to its first view, and the same input through bertviz.

    python benchmarks/viewer.py [--model demo-base] [--bertviz] [--json FILE]

Three inputs: 512 tokens × 12 layers × 12 heads of raw attention of a real text; the same shape with the most diffuse
rows there are, softmax of standard normal scores, which compresses worst; and 64 tokens of the demo model with every
quantity. Each page is opened in a fresh headless Chromium. With --bertviz the first input also goes through bertviz,
installed in a throw-away environment; its page loads scripts from the network, so only its size can be measured here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import headwise as hw
from headwise.viewer import view, view_of

LAYERS, HEADS, LONG, SHORT = 12, 12, 512, 64
LIMITS = {"512 real": 40e6, "512 diffuse": 40e6, "64 everything": 3e6}
FIRST_VIEW = 3.0  # seconds
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

BERTVIZ = """
import sys, time, numpy, torch
from bertviz import head_view, model_view
alpha = torch.tensor(numpy.load(sys.argv[1]))
start = time.perf_counter()
html = {"head": head_view, "model": model_view}[sys.argv[2]](
    [layer[None] for layer in alpha], [f"t{n}" for n in range(alpha.shape[-1])], html_action="return")
print(len(html.data.encode()), time.perf_counter() - start)
"""


def sample_text() -> str:
    return resources.files("headwise.text").joinpath("sample.txt").read_text("utf-8")


def short_trace() -> Any:
    """The demo model on as many words of the sample text as 64 tokens hold."""
    model, words = hw.load("demo"), sample_text().split()
    fitting = [count for count in range(1, SHORT) if len(model.encode(" ".join(words[:count]))) <= SHORT]
    return model.trace(" ".join(words[: max(fitting)]))


def real_attention(name: str) -> np.ndarray:
    """Raw attention [12 12 512 512] of a real text; the layers of a model with fewer are repeated."""
    alpha = hw.load(name).trace(sample_text()[: 20 * LONG], truncate=True).attention("raw").float().numpy()
    if alpha.shape[1:] != (HEADS, LONG, LONG):
        raise SystemExit(f"The model must have {HEADS} heads and read {LONG} tokens; its maps are {alpha.shape[1:]}.")
    return np.concatenate([alpha] * -(-LAYERS // len(alpha)))[:LAYERS]


def diffuse_attention() -> np.ndarray:
    scores = np.exp(np.random.default_rng(0).standard_normal((LAYERS, HEADS, LONG, LONG), np.float32))
    return scores / scores.sum(-1, keepdims=True)


def measure(name: str, shown: Any, folder: Path) -> dict[str, Any]:
    """Size, time to write, and the median time to the first view and to the model view."""
    start = time.perf_counter()
    path = shown.save(folder / f"{name.replace(' ', '-')}.html")
    written = time.perf_counter() - start
    runs = [open_times(path) for _ in range(3)]
    return {
        "input": name,
        "bytes": path.stat().st_size,
        "limit": LIMITS[name],
        "written_s": round(written, 2),
        "first_view_s": round(statistics.median(first for first, _ in runs), 2),
        "model_view_s": round(statistics.median(model for _, model in runs), 2),
    }


def open_times(path: Path) -> tuple[float, float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector('#view[aria-busy="false"]')
        first = time.perf_counter() - start
        start = time.perf_counter()
        page.click("#tab-model")
        page.wait_for_selector("#view .thumb")
        page.wait_for_selector('#view[aria-busy="false"]')
        model = time.perf_counter() - start
        browser.close()
    return first, model


def bertviz_sizes(alpha: np.ndarray, folder: Path) -> dict[str, Any]:
    """Bytes and seconds of bertviz's pages, from an environment that borrows this one's torch."""
    home = folder / "bertviz"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "ipython"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "bertviz"], check=True)
    site = next(home.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    np.save(folder / "alpha.npy", alpha)
    sizes = {}
    for kind in ("head", "model"):
        command = [python, "-c", BERTVIZ, folder / "alpha.npy", kind]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        sizes[kind] = {"bytes": int(said[-2]), "written_s": round(float(said[-1]), 1)}
    return sizes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="model of the real attention, 12 heads")
    parser.add_argument("--bertviz", action="store_true", help="also measure bertviz")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        real = real_attention(options.model)
        names = [f"t{n}" for n in range(LONG)]
        rows = [
            measure("512 real", view(real, names), folder),
            measure("512 diffuse", view(diffuse_attention(), names), folder),
            measure("64 everything", view_of(short_trace()), folder),
        ]
        result = {"model": options.model, "pages": rows}
        if options.bertviz:
            result["bertviz"] = bertviz_sizes(real, folder)
            sizes = {kind: each["bytes"] for kind, each in result["bertviz"].items()}
            result["ratio"] = {kind: round(size / rows[0]["bytes"], 1) for kind, size in sizes.items()}
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    failed = [row["input"] for row in rows if row["bytes"] > row["limit"] or row["first_view_s"] > FIRST_VIEW]
    if failed:
        print(f"over the limit: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

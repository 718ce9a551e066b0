"""What people wait for first:  python benchmarks/waits.py [--rounds 5]

Each command in a process of its own, taking turns, and beside them what bare transformers needs for less: import,
load the same checkpoint and its tokenizer, and read the same 16 tokens with its attention. Shown: seconds of processor,
user and system, of the whole process from its start to its end, and seconds on the clock; medians and ranges. Python
keeps what it compiled; the first round fills those caches and does not count.
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
from statistics import median

TEXT = "The trophy does not fit in the suitcase because it is too big."  # 16 tokens of demo, [CLS] and [SEP] too
BARE = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModel.from_pretrained(sys.argv[1], attn_implementation="eager").eval()
with torch.no_grad():
    print(len(model(**tokenizer(sys.argv[2], return_tensors="pt"), output_attentions=True).attentions))
"""
LOAD = "import headwise as hw; hw.load('demo')"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    from headwise.models.packaged import packaged_folder

    python, own = sys.executable, str(Path(sys.executable).with_name("headwise"))
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "page.html")
        commands = {
            "bare transformers: load, one pass": [python, "-c", BARE, str(packaged_folder("demo")), TEXT],
            "headwise view, 16 tokens": [own, "view", TEXT, "-o", page],
            "headwise inspect, 16 tokens": [own, "inspect", TEXT],
            'hw.load("demo") in Python': [python, "-c", LOAD],
            "headwise list studies": [own, "list", "studies"],
            "headwise reproduce --list": [own, "reproduce", "--list"],
            "headwise --help": [own, "--help"],
        }
        taken = {name: [] for name in commands}
        for _ in range(rounds + 1):
            for name, command in commands.items():
                taken[name].append(spent(command))
    print(f"processors {os.cpu_count()}, load {os.getloadavg()[0]:.1f}, rounds {rounds}")
    for name, times in taken.items():
        processor, clock = zip(*times[1:], strict=True)
        ends = f"({min(processor):.2f}–{max(processor):.2f})"
        print(f"{name:36} {median(processor):5.2f} s of processor {ends}, {median(clock):5.2f} s on the clock")


def spent(command: list[str]) -> tuple[float, float]:
    """Seconds of processor and on the clock of one process."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    after, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


if __name__ == "__main__":
    main()

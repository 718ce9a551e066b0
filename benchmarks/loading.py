"""What headwise adds to loading a bf16 checkpoint and reading one text:  python benchmarks/loading.py

A random Llama in bfloat16 (about 300 MB) is written to a folder of its own. Then, each in a process of its own and
taking turns, ROUNDS times:

    transformers   from_pretrained (and the tokenizer), then one forward pass of 64 tokens
    headwise       hw.load (the proof included), then one trace of the same text (the comparison of outputs included)

Shown: processor seconds of the load and of the pass (one thread; other work on the machine disturbs both alike), and
the most memory that the process had beyond what it had after its imports. Weights are mapped from the file, so that
memory counts only after a pass has touched them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS, WORDS = 5, "the old dog and the young cat sat in the sun and so it was that they all came to the sea " * 2
SIZES = {"hidden_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 16, "num_key_value_heads": 4,
         "intermediate_size": 3584, "max_position_embeddings": 512}  # fmt: skip


def written(folder: Path) -> int:
    """A checkpoint in `folder`; its bytes."""
    import torch
    import transformers

    from headwise.models.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer("bytes")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), **SIZES)
    transformers.LlamaModel(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def measured(way: str, folder: str) -> dict[str, float]:
    """In a process of its own: seconds of the load, seconds of the pass, megabytes at most beyond the imports."""
    import torch
    import transformers

    import headwise as hw

    torch.set_num_threads(1)
    hw.load("tiny:llama").trace("the sea")  # whatever is imported late
    before, began = peak(anew=True), time.process_time()
    if way == "transformers":
        model = transformers.AutoModel.from_pretrained(folder, dtype="auto").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        loaded = time.process_time()
        with torch.no_grad():
            model(**tokenizer(WORDS, return_tensors="pt"), use_cache=False, output_hidden_states=True)
    else:
        model = hw.load(folder, dtype="auto")
        loaded = time.process_time()
        model.trace(WORDS)
    return {"load": loaded - began, "pass": time.process_time() - loaded, "megabytes": peak() - before}


def peak(*, anew: bool = False) -> float:
    """Megabytes that this process had at most, or has now, from where it is counted anew.

    subtle: what `getrusage` tells is that of the parent before this program was started in its place, if larger.
    """
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    if len(sys.argv) == 3:
        print(json.dumps(measured(*sys.argv[1:])))
        return
    found: dict[str, list[dict[str, float]]] = {"transformers": [], "headwise": []}
    with tempfile.TemporaryDirectory() as folder:
        size = written(Path(folder))
        for _ in range(ROUNDS):
            for way, rows in found.items():
                alone = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
                command = [sys.executable, __file__, way, folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
                rows.append(json.loads(done.stdout.splitlines()[-1]))
                print(way, rows[-1], flush=True)
    print(f"checkpoint {size / 2**20:.0f} MB; medians of {ROUNDS} (range)")
    for what in ("load", "pass", "megabytes"):
        for way, rows in found.items():
            numbers = sorted(row[what] for row in rows)
            print(f"{what:10} {way:13} {median(numbers):8.2f} ({numbers[0]:.2f}–{numbers[-1]:.2f})")


if __name__ == "__main__":
    main()

"""A text too long for its maps: `model.trace(ids=…, keep="top")`, its time and the memory above the loaded model.

    python benchmarks/long.py --tokens 8192 --threads 2      demo-llm, raw + effective + norm
    python benchmarks/long.py --tokens 4096 --quantities raw

Peak memory is what the kernel counts for the process (VmHWM) less what it was after loading.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

import headwise as hw


def peak() -> float:
    """The most memory that this process has held, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo-llm")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--quantities", nargs="+", default=["raw", "effective", "norm"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = hw.load(options.model)
    size = len(model.tokenizer)
    ids = torch.randint(5, size, (options.tokens,), generator=torch.Generator().manual_seed(0)).tolist()
    model.trace(ids=ids[:64], keep="top")
    before, start, used = peak(), time.perf_counter(), time.process_time()
    trace = model.trace(ids=ids, keep=hw.Top(options.k, tuple(options.quantities)))
    took, busy = time.perf_counter() - start, time.process_time() - used
    kept = float(trace.top(options.quantities[0]).value.sum(-1).mean())
    print(
        f"{options.model}, {options.tokens} tokens, {' + '.join(options.quantities)}, k = {options.k}: {took:.0f} s "
        f"({busy:.0f} processor s), {peak() - before:.0f} MB above the model, {kept:.0%} of "
        f"{options.quantities[0]} kept, output error {trace.output_error:.0e}"
    )


if __name__ == "__main__":
    main()

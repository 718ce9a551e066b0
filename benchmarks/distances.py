"""All-pairs Jensen-Shannon distances against the plain NumPy form, as ratios measured in one run.

    python benchmarks/distances.py                 # demo model, 8 texts × 128 tokens, 2 threads
    python benchmarks/distances.py --texts 2

The plain form is that of the paper's released code: each head against all, two logarithms a pair, once in float64 and
once in float32. Both sides work on one thread whatever torch may use. Times are the least of several repetitions,
taking turns, and CPU time besides, as it hardly knows what else the machine is doing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from foundation import capture, sample_batch

import headwise as hw
from headwise.measures.distance import Smoothed, smoothed, summed_js
from headwise.types import Layer


def ours(layers: list[Layer]) -> np.ndarray:
    """From the captured maps to the matrix, as the study does it."""
    rows: list[Smoothed] = []
    total = torch.zeros(0, 0, dtype=torch.float64)
    for layer in layers:
        here = smoothed(layer.alpha, layer.visible)
        sums = summed_js(here, rows)
        rows.append(here)
        size = sums.shape[1]
        grown = torch.zeros(size, size, dtype=torch.float64)
        grown[: len(total), : len(total)] = total
        grown[-len(sums) :], grown[:, -len(sums) :] = sums, sums.mT
        total = grown
    return total.numpy()


def plain(layers: list[Layer], dtype: type) -> np.ndarray:
    """Each text and each head against all heads: JS = ½ Σ p log(p/m) + ½ Σ q log(q/m)."""
    maps = np.stack([layer.alpha.numpy() for layer in layers], axis=1).astype(dtype)
    total = np.zeros((maps.shape[1] * maps.shape[2],) * 2)
    for text in maps:
        q = text.reshape(-1, *text.shape[2:]) * dtype(0.999) + dtype(0.001 / text.shape[-1])
        for head, p in enumerate(q):
            m = (p + q) / 2
            js = p * np.log(p / m) + q * np.log(q / m)
            total[head] += js.sum((-2, -1)) / 2
    return total


def best(repetitions: int, tasks: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """The least CPU and wall seconds of each task."""
    times = {name: (float("inf"), float("inf")) for name in tasks}
    for _ in range(repetitions):
        for name, task in tasks.items():
            cpu, wall = time.process_time(), time.perf_counter()
            task()
            spent = time.process_time() - cpu, time.perf_counter() - wall
            times[name] = (min(times[name][0], spent[0]), min(times[name][1], spent[1]))
    return times


def main(texts: int, tokens: int, threads: int, repetitions: int) -> None:
    torch.set_num_threads(threads)
    model = hw.load("demo")
    layers = capture(model, sample_batch(model, texts, tokens))
    times = best(
        repetitions,
        {
            "headwise": lambda: ours(layers),
            "NumPy, float64": lambda: plain(layers, np.float64),
            "NumPy, float32": lambda: plain(layers, np.float32),
        },
    )
    heads = sum(layer.alpha.shape[1] for layer in layers)
    print(f"demo model, {texts} texts x {tokens} tokens, {heads} heads, {threads} threads")
    for name, (cpu, wall) in times.items():
        ratios = [spent / mine for spent, mine in zip((cpu, wall), times["headwise"], strict=True)]
        print(f"  {name:<16} cpu {cpu:7.3f} s ({ratios[0]:5.1f} x)   wall {wall:7.3f} s ({ratios[1]:5.1f} x)")
    got, expected = ours(layers), plain(layers, np.float64)
    different = ~np.eye(len(got), dtype=bool)
    errors = np.abs(got - expected)[different] / expected[different]
    print(f"  relative difference from NumPy in float64: at most {errors.max():.1e}, median {np.median(errors):.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    main(options.texts, options.tokens, options.threads, options.repetitions)

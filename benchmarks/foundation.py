"""What the quantities of a batch cost, as ratios measured in one run.

    python benchmarks/foundation.py            # demo model, 8 texts × 128 tokens, 2 threads
    python benchmarks/foundation.py --memory   # a 4,096-token text through the demo LLM, peak above the model

Times are the best of several repetitions, alternating, so that other work on the machine disturbs both sides alike.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

import torch

import headwise as hw
from headwise.measures import ATTENTION, MIXING
from headwise.models.model import Model
from headwise.text.tokens import encode
from headwise.types import Batch, Layer

QUANTITIES = ("raw", "effective", "null", "norm")


def best(repetitions: int, **tasks: Callable[[], object]) -> dict[str, float]:
    """The shortest time of each task, the tasks taking turns."""
    times = {name: float("inf") for name in tasks}
    for _ in range(repetitions):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def sample_batch(model: Model, texts: int, tokens: int) -> Batch:
    """Texts of exactly `tokens` tokens from the sample corpus."""
    sample = resources.files("headwise.text").joinpath("sample.txt").read_text("utf-8").split("\n\n")
    pieces = (" ".join(sample[at:]) for at in range(0, len(sample), len(sample) // (2 * texts)))
    cut = (encode(model.tokenizer, piece, limit=tokens, truncate=True) for piece in pieces)
    return model.batch([encoding for encoding in cut if len(encoding) == tokens][:texts])


def capture(model: Model, batch: Batch) -> list[Layer]:
    layers: list[Layer] = []
    with torch.no_grad():
        model.run(batch, layers.append)
    return layers


def fresh(layer: Layer) -> Layer:
    """The layer with nothing remembered."""
    return replace(layer, memo={}, text_memo={})


def naive_effective(layers: list[Layer]) -> list[torch.Tensor]:
    """The full SVD of T = V W_O per head, as the paper's code does it."""
    maps = []
    for layer in layers:
        for text in range(len(layer.alpha)):
            for head in range(layer.alpha.shape[1]):
                t = (layer.head_value[text, head] @ layer.circuit.w_o[head]).double()
                left, singular, _ = torch.linalg.svd(t, full_matrices=True)
                rank = int((singular > singular[0] * max(t.shape) * torch.finfo(torch.float32).eps).sum())
                null = left[:, rank:]
                alpha = layer.alpha[text, head].double()
                maps.append(alpha - alpha @ null @ null.mT)
    return maps


def naive_norm_sum(layers: list[Layer]) -> list[torch.Tensor]:
    """Every vector α f(x), summed over heads, then measured; one text at a time, as the whole batch fits no memory."""
    maps = []
    for layer in layers:
        f = torch.einsum("bhkd,hde->bhke", layer.head_value, layer.circuit.w_o)
        for text in range(len(f)):
            vectors = torch.einsum("hqk,hke->hqke", layer.alpha[text], f[text])
            maps.append(vectors.sum(0).norm(dim=-1))
    return maps


def speed(texts: int, tokens: int) -> None:
    torch.set_num_threads(2)
    model = hw.load("demo")
    batch = sample_batch(model, texts, tokens)
    layers = capture(model, batch)
    model.hf.set_attn_implementation("eager")

    def forward() -> None:
        with torch.no_grad():
            model.hf(**batch.inputs)

    def quantities() -> None:
        for layer in map(fresh, layers):
            for name in QUANTITIES:
                ATTENTION[name](layer)
            MIXING["norm-sum"](layer)

    ours = best(
        7,
        forward=forward,
        capture=lambda: capture(model, batch),
        effective=lambda: [ATTENTION["effective"](fresh(layer)) for layer in layers],
        norm_sum=lambda: [MIXING["norm-sum"](fresh(layer)) for layer in layers],
        quantities=quantities,
    )
    slow = best(1, effective=lambda: naive_effective(layers), norm_sum=lambda: naive_norm_sum(layers))
    forward_time = ours["forward"]
    print(f"demo model, {texts} texts x {tokens} tokens, {torch.get_num_threads()} threads")
    print(f"  eager forward pass                        {forward_time:7.3f} s")
    for name, task in (("the same, captured", "capture"), ("raw + effective + null + norm + norm-sum", "quantities")):
        print(f"  {name:<41} {ours[task]:7.3f} s   {ours[task] / forward_time:5.2f} x forward")
    for name, task, other in (("effective", "effective", "full SVD of T"), ("norm-sum", "norm_sum", "all vectors")):
        ratio = slow[task] / ours[task]
        print(f"  {name:<41} {ours[task]:7.3f} s   {ratio:5.0f} x faster than {other} ({slow[task]:.1f} s)")


def memory(tokens: int) -> None:
    torch.set_num_threads(2)
    model = hw.load("demo-llm")
    batch = sample_batch(model, 1, tokens)
    capture_nothing(model, sample_batch(model, 1, 64))
    before = peak_mb()
    start = time.perf_counter()
    seen = {"blocks": 0, "null": 0.0}

    def visit(layer: Layer) -> None:
        for name in QUANTITIES:
            ATTENTION[name](layer)
        seen["blocks"] += 1
        seen["null"] += float(ATTENTION["null"](layer).square().sum() / layer.alpha.square().sum())

    with torch.no_grad():
        model.run(batch, visit)
    print(f"demo-llm, one text of {tokens} tokens, {len(model.sites())} layers in {seen['blocks']} blocks of rows")
    print(f"  raw + effective + null + norm of every head in {time.perf_counter() - start:.0f} s")
    print(f"  peak memory above the loaded model: {peak_mb() - before:.0f} MB")
    print(f"  mean share of the map in the null space: {seen['null'] / seen['blocks']:.2f}")


def capture_nothing(model: Model, batch: Batch) -> None:
    with torch.no_grad():
        model.run(batch, lambda _: None)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="measure the peak memory of a long text instead")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--texts", type=int, default=8)
    options = parser.parse_args()
    if options.memory:
        memory(options.tokens or 4096)
    else:
        speed(options.texts, options.tokens or 128)

"""What origins and mixing cost, as ratios measured in one run.

    python benchmarks/attribution.py            # demo model, 2 threads, some minutes
    python benchmarks/attribution.py --quick    # 12 tokens, to see that it runs

Times are the best of several repetitions, the tasks taking turns, so that other work disturbs all sides alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from foundation import best, capture, fresh, sample_batch

import headwise as hw
from headwise.attributions import jacobians
from headwise.attributions.hidden_token import hidden_token
from headwise.attributions.passes import embedded, hidden_of, hidden_pass, tangents_of
from headwise.attributions.rollout import rollout
from headwise.attributions.value_zeroing import value_zeroing
from headwise.measures import MIXING
from headwise.models.model import Model
from headwise.types import Batch

K = 16


def plain_pass(model: Model, batch: Batch, copies: int = 1) -> Callable[[], object]:
    """A forward pass with its hidden states, of the text or of several copies at once."""
    inputs = {name: tensor.repeat(copies, 1) for name, tensor in batch.inputs.items()}

    def run() -> object:
        with torch.no_grad():
            return hidden_pass(model, inputs)

    return run


def tangent_bundle(model: Model, batch: Batch, count: int) -> Callable[[], object]:
    x = embedded(model, batch)
    tangents = torch.zeros(count, *x.shape)
    tangents[:, 0, 0] = torch.randn(count, x.shape[-1], generator=torch.Generator().manual_seed(0))
    return lambda: list(tangents_of(model, batch.inputs, x, tangents))


def grad_loop(model: Model, batch: Batch, steps: int) -> Callable[[], None]:
    """torch.autograd.grad for one layer, token and cotangent at a time: the first `steps` of L · n · K of them."""
    x = embedded(model, batch).requires_grad_()
    n, d = x.shape[1:]
    cotangents = torch.randn(K, d, generator=torch.Generator().manual_seed(0))
    every = [(layer, token, draw) for draw in range(K) for token in range(n) for layer in range(model.layers())]

    def run() -> None:
        with torch.enable_grad():
            states = hidden_of(model, batch.inputs, x)
            for layer, token, draw in every[:steps]:
                torch.autograd.grad(states[layer][0, token] @ cotangents[draw], x, retain_graph=True)[0].norm(dim=-1)

    return run


def forward_mode(model: Model, tokens: int) -> None:
    batch = sample_batch(model, 1, tokens)
    x, total = embedded(model, batch), tokens * K
    size = jacobians.tangents_at_once(model, x, budget=jacobians.BUDGET, kept=0)
    steps = tokens * model.layers()
    times = best(
        5,
        single=plain_pass(model, batch),
        batched=plain_pass(model, batch, size),
        tangents=tangent_bundle(model, batch, size),
        graph=grad_loop(model, batch, 0),
        loop=grad_loop(model, batch, steps),
    )
    start = time.perf_counter()
    hidden_token(model, batch, k=K)
    whole = time.perf_counter() - start
    loop = times["graph"] + (times["loop"] - times["graph"]) * K  # of K cotangents one was timed
    each, batched = times["tangents"] / size, times["batched"] / size
    print(
        f"hidden-token, k={K}, {tokens} tokens, all layers and pairs: {whole:.2f} s ({total} tangents, {size} at once)"
    )
    print(f"  a tangent / a forward pass of the text alone      {each / times['single']:6.2f}   (goal ≤ 1.3)")
    print(f"  a tangent / a forward pass in a batch of {size:<4}     {each / batched:6.2f}   (goal ≤ 1.3)")
    print(f"  the whole / forward passes, a tangent             {whole / total / times['single']:6.2f}")
    print(f"  autograd.grad over layers, tokens, {K} cotangents  {loop / whole:6.1f} × as long (goal ≥ 5)")


def error(model: Model, tokens: int) -> None:
    batch = sample_batch(model, 1, tokens)
    start = time.perf_counter()
    exact = hidden_token(model, batch, exact=True).maps
    took = time.perf_counter() - start
    for k in (K, 4 * K):
        found = hidden_token(model, batch, k=k)
        off, claimed = (found.maps - exact).abs().mean(), found.error.mean()
        print(
            f"mean absolute error of contributions, k={k}: {off:.5f}, mean standard error {claimed:.5f} (goal ≤ 0.002)"
        )
    print(f"  exact by unit tangents: {took:.1f} s")


def mixing(model: Model, tokens: int) -> None:
    batch = sample_batch(model, 1, tokens)
    layers = capture(model, batch)
    run = {
        name: lambda name=name: [MIXING[name](fresh(layer)) for layer in layers]
        for name in ("norm-residual-ln", "globenc", "alti")
    }
    times = best(5, forward=plain_pass(model, batch), **run)
    for name in run:
        goal = "" if name == "alti" else "   (goal ≤ 1.0)"
        print(f"{name:<18} of {tokens} tokens / its forward pass  {times[name] / times['forward']:6.2f}{goal}")


def others(model: Model, tokens: int) -> None:
    batch = sample_batch(model, 1, tokens)
    tasks = {
        "rollout": lambda: rollout(model, batch),
        "value-zeroing": lambda: value_zeroing(model, batch),
        "hidden-token, sum": lambda: hidden_token(model, batch, norm="sum"),
    }
    times = best(2, forward=plain_pass(model, batch), **tasks)
    for name in tasks:
        print(f"{name:<18} of {tokens} tokens / its forward pass  {times[name] / times['forward']:6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(2)
    model = hw.load("demo")
    print(f"{model.name}, {torch.get_num_threads()} threads")
    forward_mode(model, 12 if quick else 32)
    for tokens in (32,) if quick else (128, 512):
        mixing(model, tokens)
    others(model, 12 if quick else 32)
    error(model, 4 if quick else 32)


if __name__ == "__main__":
    main()

"""Every head of demo-llm taken away in one text, against as many forward passes; and all of them to first order.

    python benchmarks/matter.py [--model demo-llm] [--tokens 128] [--passes 3] [--all]

Ratios of one run, in processor seconds of one thread; a forward pass is the model's own, without anything of headwise,
timed before and after. The exact effects are compared with a plain loop of hooks on ten heads (all with --all).
"""

from __future__ import annotations

import argparse
import os
import time

import torch

import headwise as hw
from headwise.interventions.effects import Variant, effects, first_order, replaced, slopes
from headwise.interventions.outcomes import ask
from headwise.models.load import own_task
from headwise.text.corpus import open_corpus


def seconds(work, times: int = 1) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def plain(model: hw.Model, question, layer: int, head: int) -> float:
    """The loss with one head at zero, by a hook of ten lines."""
    site = model.sites()[layer]
    size = site.circuit.w_o.shape[1]

    def put(_module, args):
        x = args[0].clone()
        x[..., head * size : (head + 1) * size] = 0
        return (x,)

    handle = site.projection.register_forward_pre_hook(put)
    try:
        with torch.no_grad():
            return float(question.read(model.hf(**question.inputs, use_cache=False)).mean())
    finally:
        handle.remove()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="demo-llm")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model = hw.load(chosen.model, task=own_task(chosen.model))
    text = " ".join(document.text for document in open_corpus("sample").documents())
    question = ask(model, model.encode(text, truncate=True, limit=chosen.tokens))
    assert question is not None
    with torch.no_grad():
        own = float(question.read(model.hf(**question.inputs, use_cache=False)).mean())
        before = seconds(lambda: model.hf(**question.inputs, use_cache=False), chosen.passes)
    heads = [(layer, head) for layer in range(model.layers()) for head in range(model.heads())]
    w_o = model.sites()[0].circuit.w_o
    nothing = torch.zeros(1, *w_o.shape[:2])
    variants = [Variant(reads={("self", layer): replaced([head], nothing)}) for layer, head in heads]
    effects(model, question, variants[:1])  # tries the probe, once a model
    found = []
    exact = seconds(lambda: found.append(effects(model, question, variants)[:, 0]))
    guess = seconds(lambda: first_order(question, *slopes(model, question)))
    with torch.no_grad():
        after = seconds(lambda: model.hf(**question.inputs, use_cache=False), chosen.passes)
    once = (before + after) / 2
    some = heads if chosen.all else heads[:: max(1, len(heads) // 10)]
    apart = max(abs(plain(model, question, *one) - own - float(found[0][heads.index(one)])) for one in some)
    print(f"{model.name}, {question.length} tokens, {len(heads)} heads, one thread, load {os.getloadavg()[0]:.1f}")
    print(f"a forward pass                {once:8.3f} s (before {before:.3f}, after {after:.3f})")
    print(
        f"every head, exactly           {exact:8.1f} s = {exact / once / len(heads):.2f} × {len(heads)} passes (≤ 0.6)"
    )
    print(f"every head, to first order    {guess:8.2f} s = {guess / once:.2f} passes (≤ 4)")
    print(f"largest difference to a plain loop of hooks, {len(some)} heads: {apart:.1e}")


if __name__ == "__main__":
    main()

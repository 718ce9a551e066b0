"""Exact paths of one target and of 32 written tokens, against forward passes of the same text; and why a head looks.

    python benchmarks/explain.py [--model demo-llm] [--tokens 256] [--written 32] [--rounds 3]

Ratios of one run, in processor seconds of one thread. A forward pass is the model's own, of the same tokens.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import torch

import headwise as hw
from headwise.explanations.asking import Wish, ask
from headwise.explanations.paths import paths
from headwise.models.load import own_task
from headwise.text.corpus import open_corpus


def seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="demo-llm")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--written", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model = hw.load(chosen.model, task=own_task(chosen.model))
    text = " ".join(document.text for document in open_corpus("sample").documents())
    ids = model.encode(text, truncate=True, limit=chosen.tokens).ids
    text = model.tokenizer.decode(ids, skip_special_tokens=True)
    last = model.tokenizer.decode(ids[-chosen.written :])
    one = ask(model, text, wish=Wish(of="logit"))
    many = ask(model, text[: -len(last)], wish=Wish(target=last))  # as many given tokens as would be written
    print(f"{model.name}, {len(one)} tokens, {len(many.targets) - 1} in the answer, load {os.getloadavg()[0]:.1f}")
    one.answers, many.answers  # noqa: B018 - the model's own numbers, once a question
    ratios: dict[str, list[float]] = {}
    for _ in range(chosen.rounds):
        with torch.no_grad():
            once = seconds(lambda: model.hf(**one.inputs, use_cache=False))
        single = seconds(lambda: paths(one))
        ratios.setdefault("paths of one target, in forward passes (≤ 4)", []).append(single / once)
    answer = seconds(lambda: paths(many))
    ratios[f"paths of {len(many.targets) - 1} written tokens, in paths of one (≤ 8)"] = [answer / single]
    for what, found in ratios.items():
        print(f"{what:<55} {statistics.median(found):6.2f} ({min(found):.2f}–{max(found):.2f})")


if __name__ == "__main__":
    main()

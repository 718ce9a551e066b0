"""What it costs to score every head as a parser, against the forward pass alone, as ratios measured in one run.

    python benchmarks/linguistics.py --corpus ../shared/data/ud-ewt/en_ewt-ud-test.conllu
    python benchmarks/linguistics.py --corpus FILE.conllu --sentences 400 --threads 1

Batches are those of the engine (sentences of like length, 2,048 padded tokens). The forward pass is the model's own, on
its default attention, with nothing captured; "captured" is the pass that hands on the layers to nobody; the rest is
the study on top, raw alone and all three quantities, both directions, all heads, the pairs and the words of each
sentence included. Times are the least of several repetitions, taking turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch

import headwise as hw
from headwise.engine.fold import Item, batches
from headwise.studies.study import Reading
from headwise.studies.syntax import Syntax
from headwise.text.conllu import Sentence, sentences
from headwise.types import Batch


def read(path: str, most: int | None) -> list[Sentence]:
    with open(path, encoding="utf-8") as file:
        return [sentence for sentence, _ in zip(sentences(file), range(most or 10**9), strict=False)]


def forward(model: hw.Model, batches_: Sequence[Batch]) -> None:
    with torch.inference_mode():
        for batch in batches_:
            model.hf(**batch.inputs)


def captured(model: hw.Model, batches_: Sequence[Batch]) -> None:
    with torch.inference_mode():
        for batch in batches_:
            model.run(batch, lambda _: None)


def studied(model: hw.Model, batches_: Sequence[Batch], notes: Sequence[tuple[Sentence, ...]], study: Syntax) -> None:
    with torch.inference_mode():
        for batch, parses in zip(batches_, notes, strict=True):
            reading = Reading(batch, torch.arange(len(parses)), model.causal, parses)
            model.run(batch, lambda layer, reading=reading: study.observe(layer, reading) and None)


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


def main(name: str, corpus: str, most: int | None, threads: int, repetitions: int) -> None:
    torch.set_num_threads(threads)
    model, parses = hw.load(name), read(corpus, most)
    items = [Item(number, model.encode(one.text), None, one) for number, one in enumerate(parses)]
    groups = list(batches(items, 2048))
    ready = [model.batch([item.text for item in group]) for group in groups]
    notes = [tuple(item.notes for item in group) for group in groups]
    times = best(
        repetitions,
        {
            "forward": lambda: forward(model, ready),
            "captured": lambda: captured(model, ready),
            "raw": lambda: studied(model, ready, notes, Syntax(quantities=("raw",))),
            "raw, effective, norm": lambda: studied(model, ready, notes, Syntax()),
        },
    )
    tokens = sum(len(item.text) for item in items)
    print(f"{name}, {len(parses):,} sentences, {tokens:,} tokens, {threads} threads")
    base = times["forward"]
    before = times["captured"]
    for task, (cpu, wall) in times.items():
        line = f"  {task:<22} cpu {cpu:7.2f} s ({cpu / base[0]:.2f} x)   wall {wall:7.2f} s ({wall / base[1]:.2f} x)"
        if task not in ("forward", "captured"):
            alone = (cpu - before[0]) / base[0], (wall - before[1]) / base[1]
            line += f"   scoring alone: cpu {alone[0]:.2f} x, wall {alone[1]:.2f} x"
        print(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    main(options.model, options.corpus, options.sentences, options.threads, options.repetitions)

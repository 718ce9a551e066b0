"""What `alignment` costs beside the teacher-forced pass alone, in one process, the two by turns.

    python benchmarks/alignment.py --model FOLDER --data ../shared/data

The bare pass is transformers' own model on the same batches, without headwise (SDPA, its default; and eager). The study
is what the engine does: capture, all quantities of all layers and heads at both positions, links, the states added up.
Reading the corpus and tokenising are in neither. Best of `--rounds`, CPU time of one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import headwise as hw
from headwise.engine.fold import Item, _observe, batches
from headwise.engine.plan import Plan
from headwise.models.model import Model
from headwise.studies.alignment import Alignment
from headwise.studies.study import State
from headwise.text.alignments import Pair, read_pairs
from headwise.text.corpus import open_corpus

FOUR = ("raw", "effective", "norm", "norm-sum")
CHOICES = {"raw": ("raw",), "norm-sum": ("norm-sum",), "raw, effective, norm, norm-sum": FOUR,
           "the same and alti": (*FOUR, "alti")}  # fmt: skip


def made_up(count: int) -> list[Pair]:
    """Pairs of the sample's words, where the gold set is not at hand."""
    words = next(open_corpus("sample").documents()).text.split()
    text = [" ".join(words[at % 40 : at % 40 + 8 + at % 25]) for at in range(count + 3)]
    return [Pair(text[at], text[at + 3]) for at in range(count)]


def items(model: Model, pairs: Sequence[Pair]) -> list[list[Item]]:
    coded = [
        Item(number, model.encode(pair.source), model.encode_target(pair.target), pair)
        for number, pair in enumerate(pairs)
    ]
    return list(batches(coded, 2048))


def bare(model: Model, groups: Sequence[Sequence[Item]], attention: str) -> Callable[[], None]:
    inputs = [model.batch([item.text for item in group], [item.target for item in group if item.target]).inputs
              for group in groups]  # fmt: skip

    def go() -> None:
        model.hf.set_attn_implementation(attention)
        with torch.inference_mode():
            for batch in inputs:
                model.hf(**batch, use_cache=False)

    return go


def study(model: Model, groups: Sequence[Sequence[Item]], quantities: tuple[str, ...]) -> Callable[[], None]:
    plan, asked = Plan({}, {}, open_corpus("sample")), Alignment(quantities=quantities)

    def go() -> None:
        states: dict[str, State] = {"alignment": {}}
        for group in groups:
            _observe(model, [asked], group, states, plan)

    return go


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo-nmt")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pairs", type=int, default=508)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model, gold = hw.load(asked.model), asked.data / "align-de-en"
    pairs = read_pairs(gold / "de", gold / "en")[0] if gold.is_dir() else made_up(asked.pairs)
    groups = items(model, pairs[: asked.pairs])
    runs = {"bare, sdpa": bare(model, groups, "sdpa"), "bare, eager": bare(model, groups, "eager")}
    runs |= {f"study: {name}": study(model, groups, quantities) for name, quantities in CHOICES.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(asked.rounds):
        for name, go in runs.items():
            start = time.process_time()
            go()
            best[name] = min(best[name], time.process_time() - start)
    base = best["bare, sdpa"]
    facts = {name: {"seconds": round(value, 2), "times_bare": round(value / base, 2)} for name, value in best.items()}
    print(json.dumps({"model": asked.model, "pairs": sum(map(len, groups)), "cpu": facts}, indent=1))


if __name__ == "__main__":
    main()

"""Training of the attention-only probe, as ratios measured in one run: against the pass that makes its features.

    python benchmarks/probe.py --data ../shared/data                  # first 4,000 sentences of UD EWT train, 2 threads
    python benchmarks/probe.py --data ../shared/data --sentences 400

The goal is below 10 minutes on two cores with the demo model. Also the training step against one whose scores are
computed a pair and a head at a time, on a few sentences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch

import headwise as hw
from headwise.engine.fold import fold
from headwise.engine.plan import Plan
from headwise.stats import Pieces
from headwise.studies.probe import Probe
from headwise.studies.probe.dependency import AttentionProbe, Example, Padded, Training, trained
from headwise.studies.probe.treebank import Features, Treebank
from headwise.studies.study import State, Study, plus
from headwise.text.conllu import sentences
from headwise.text.corpus import Document, Shard, open_corpus

SHARD, GOAL = 64, 600


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def folded(model: hw.Model, studies: list[Study], documents: list[Document]) -> State:
    plan, state = Plan({}, {}, open_corpus("sample")), {}
    for start in range(0, len(documents), SHARD):
        shard = Shard(start, tuple(documents[start : start + SHARD]))
        state = plus(state, fold(model, studies, shard, plan).states.get("probe", {}))
    return state


def plain_scores(weights: dict[str, torch.Tensor], example: Example) -> list[list[float]]:
    """The same scores as one would write them down first."""
    assert example.maps is not None
    w, u = weights["head_to_dependent"][0], weights["dependent_to_head"][0]
    scores = []
    for j in range(2, 2 + example.words):
        row = []
        for i in range(2, 2 + example.words):
            pairs = zip(w, u, example.maps[i, j], example.maps[j, i], strict=True)
            row.append(float(sum(a * x + b * y for a, b, x, y in pairs)))
        scores.append(row)
    return scores


def main(data: Path, count: int, threads: int, epochs: int) -> None:
    torch.set_num_threads(threads)
    model = hw.load("demo")
    with (data / "ud-ewt" / "en_ewt-ud-train.conllu").open(encoding="utf-8") as file:
        parses = list(islice(sentences(file), count))
    documents = [Document(number, parse.text, notes=parse) for number, parse in enumerate(parses)]
    study = Probe(quantities=("raw",), vectors="model", random=False, structural_epochs=0)
    state = State()
    features_time = seconds(lambda: state.update(folded(model, [study], documents)))
    by_number = {key: dict(zip(p.numbers, p.tensors, strict=True)) for key, p in state.items() if isinstance(p, Pieces)}
    bank = Treebank.of(by_number["words"], count - 1)
    maps = tuple(by_number[f"raw@self.{layer}"] for layer in range(model.layers()))
    features = Features.of(bank.training, maps)
    probe = AttentionProbe(features.heads, 0)
    targets = [parsed.candidates(0) for parsed in bank.training]
    training = seconds(lambda: trained(probe, features.of_sentences(bank.training), targets, Training(epochs=epochs)))
    weights = probe.initial(1, 0)
    few = [features.example(parsed) for parsed in bank.training[:5]]
    ours = seconds(lambda: [probe.scores(weights, Padded.of([example])) for example in few])
    plain = seconds(lambda: [plain_scores(weights, example) for example in few])
    print(f"demo model, first {count} sentences of UD EWT train, {features.heads} heads, {threads} threads")
    print(f"  pass and word-level maps, batched    {features_time:7.1f} s")
    verdict = "met" if training < GOAL else "NOT met"
    print(
        f"  training, {epochs} epochs, task + control   {training:7.1f} s   {training / features_time:.2f} x the pass"
    )
    print(f"  goal: at most {GOAL} s of training, {verdict}")
    print(f"  scores against a loop over pairs and heads: {plain / ours:.0f} x faster")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    main(options.data, options.sentences, options.threads, options.epochs)

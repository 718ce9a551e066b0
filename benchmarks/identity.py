"""Learning the maps of fig2a: the plain loop, one batched problem, and the direct solvers, as ratios in one run.

    python benchmarks/identity.py --data ../shared/data                 # demo model, MRPC dev, 2 threads
    python benchmarks/identity.py --data ../shared/data --full 1        # also trains the last layer to its end

The plain loop trains one fold of one layer after another, as one would write it: nn.Linear, autograd, torch.optim.Adam,
batches of 256 by a random permutation, validation loss after each epoch, 20 epochs without gain end it. Trained to
their ends, the 120 maps of fig2a (6 layers, 10 folds, 2 losses) take hours, so

- the batched training is compared by the seconds of an epoch of one map. It makes the same steps as the plain loop
  (tests/studies/identity/test_identity_maps.py), so that their epochs are equally many;
- the direct solvers are timed as a whole, nearest neighbours included, and compared with the least that the plain loop
  can take: 21 epochs a map, as 20 epochs without gain end a training;
- `--full` trains the first fold of some layers to their ends, plainly and batched, and says how many epochs that took
  and how many tokens the maps recover, beside the direct solvers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

import headwise as hw
from headwise.studies.identity.learned import INPUT, TEST, TRAIN, VALIDATION, Material, Question, answer, roles, trained
from headwise.studies.identity.maps import Maps, Recipe, token_losses
from headwise.studies.identity.recovery import DISTANCES, Sentences, Targets, credit_of, search
from headwise.text.corpus import open_corpus

PATIENCE = 20
T = TypeVar("T")


def extracted(model: hw.Model, corpus: Path, folds: int) -> Material:
    hidden, ids = [], []
    with torch.inference_mode():
        for document in open_corpus(corpus).documents():
            text = model.encode(document.text, document.pair)
            output = model.hf(**model.batch([text]).inputs, output_hidden_states=True)
            hidden.append(torch.stack([states[0] for states in output.hidden_states]))
            ids.append(torch.tensor(text.ids))
    rows = torch.cat(hidden, 1).clone()
    sentences = Sentences(torch.tensor([len(tokens) for tokens in ids]), torch.cat(ids))
    by_layer = {layer: rows[layer + 1].contiguous() for layer in range(INPUT, len(rows) - 1)}
    return Material(by_layer, sentences, roles(torch.arange(len(ids)), folds=folds))


def plain_loop(material: Material, layer: int, fold: int, loss: str, epochs: int) -> tuple[torch.Tensor, int]:
    """One map, trained by itself; its weights [d_in d_out] and how many epochs were made."""
    x, y = material.hidden[layer], material.hidden[INPUT]
    train, validation = (material.tokens(fold, role, 0) for role in (TRAIN, VALIDATION))
    linear = torch.nn.Linear(x.shape[1], y.shape[1], bias=False)
    torch.nn.init.xavier_uniform_(linear.weight)
    adam = torch.optim.Adam(linear.parameters(), lr=1e-4)
    best, kept, waited = float("inf"), linear.weight.detach().clone(), 0
    for epoch in range(1, epochs + 1):
        for rows in train[torch.randperm(len(train))].split(256):
            adam.zero_grad()
            token_losses(linear(x[rows]), y[rows], loss).mean().backward()
            adam.step()
        with torch.no_grad():
            value = float(token_losses(linear(x[validation]), y[validation], loss).mean())
        waited = 0 if value < best else waited + 1
        if value < best:
            best, kept = value, linear.weight.detach().clone()
        if waited == PATIENCE:
            return kept.T, epoch
    return kept.T, epochs


def question(layers: tuple[int, ...], **options: Any) -> Question:
    return Question("linear", DISTANCES, layers, layers, lambda _: INPUT, cross=False, **options)


def timed(task: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def first_folds(material: Material, folds: int) -> Material:
    return Material(material.hidden, material.sentences, material.roles[:folds])


def rate(material: Material, maps: Maps, layer: int, distance: str) -> float:
    """The share of the first fold's test tokens that a map recovers."""
    chosen = material.chosen(0, TEST)
    tokens = material.sentences.tokens(chosen)
    targets = Targets.of(material.hidden[INPUT], material.sentences)
    mapped = maps(material.hidden[layer][tokens][None])
    found = search(mapped, tokens, targets, material.sentences, chosen=chosen, distances=[distance])[distance]
    return float(credit_of(found.nearest, tokens, targets, material.sentences)["position"].mean())


def an_epoch(material: Material, together: tuple[int, ...], repetitions: int) -> dict[str, float]:
    """Seconds of one epoch of one map: the plain loop, and the batched training at several sizes of a group."""
    layer, folds = max(material.hidden), max(together)
    some = first_folds(material, folds)
    times: dict[str, float] = {}
    for loss in DISTANCES:
        tasks = {f"plain, {loss}": (2, lambda loss=loss: plain_loop(some, layer, 0, loss, 2))}
        for size in together:
            part = first_folds(material, size)
            asked = question((layer,), solver="adam", recipe=Recipe(epochs=2, together=size))
            tasks[f"{size} together, {loss}"] = (
                2 * size,
                lambda part=part, asked=asked, loss=loss: trained(asked, part, loss, lambda _: None),
            )
        for _ in range(repetitions):
            for name, (epochs, task) in tasks.items():
                times[name] = min(times.get(name, float("inf")), timed(task)[0] / epochs)
    return times


def to_the_end(material: Material, layers: tuple[int, ...]) -> None:
    """Plain and batched training of the first fold of some layers until they stop, and the direct solvers."""
    one = first_folds(material, 1)
    for distance in DISTANCES:
        seconds, plain = timed(lambda loss=distance: [plain_loop(one, layer, 0, loss, 10_000) for layer in layers])
        told("plain loop", distance, seconds, seconds, [rate(one, Maps((w[None],)), at, distance) for at, (w, _) in
             zip(layers, plain, strict=True)], [epochs for _, epochs in plain])  # fmt: skip
        asked = question(layers, solver="adam", recipe=Recipe())
        spent, (maps, kept) = timed(lambda loss=distance, asked=asked: trained(asked, one, loss, lambda _: None))
        rates = [rate(one, maps[layer], layer, distance) for layer in layers]
        told("batched", distance, spent, seconds, rates, [int(epoch) + PATIENCE for epoch in kept[:, 0]])
        for solver in ("closed-form", "newton"):
            asked = replace(question(layers, solver=solver), distances=(distance,))
            spent, found = timed(lambda asked=asked: answer(asked, one))
            scores = (found[distance].credit / found[distance].count)[0, 0].diagonal(dim1=0, dim2=1)[0]
            told(solver, distance, spent, seconds, scores.tolist(), None)


def told(name: str, distance: str, spent: float, plain: float, rates: list[float], epochs: list[int] | None) -> None:
    scores = ", ".join(f"{score:.3f}" for score in rates)
    print(
        f"  to the end, {name:<11} {distance:<6} {spent:7.1f} s ({plain / spent:6.1f} x)  rate {scores}"
        + (f"  epochs {epochs}" if epochs else ""),
        flush=True,
    )


def main(data: Path, folds: int, full: int, threads: int, repetitions: int) -> None:
    torch.set_num_threads(threads)
    model = hw.load("demo")
    seconds, material = timed(lambda: extracted(model, data / "mrpc" / "dev.tsv", folds))
    layers, tokens = tuple(range(len(material.hidden) - 1)), len(material.sentences.ids)
    print(f"demo model, MRPC dev: {tokens:,} tokens extracted in {seconds:.0f} s; {threads} threads", flush=True)
    times = an_epoch(material, (1, 4, min(8, folds)), repetitions)
    for name, value in times.items():
        plain = times[f"plain, {name.rpartition(' ')[2]}"]
        print(f"  one epoch of one map, {name:<20} {value:6.3f} s ({plain / value:.2f} x)", flush=True)
    least = sum(times[f"plain, {loss}"] for loss in DISTANCES) * (PATIENCE + 1) * len(layers) * folds
    print(
        f"  fig2a (linear + none, both distances, {len(layers)} layers, {folds} folds), plainly: {least:.0f} s or more"
    )
    for solver in ("closed-form", "newton"):
        asked = question(layers, solver=solver)
        spent, found = timed(
            lambda asked=asked: (answer(replace(asked, map="none"), material), answer(asked, material))
        )
        print(f"  fig2a, {solver}: {spent:.1f} s ({least / spent:.0f} x or more)", flush=True)
        for distance in DISTANCES:
            scores = (found[1][distance].credit / found[1][distance].count)[0, 0].diagonal(dim1=0, dim2=1).mean(0)
            print(f"    linear {distance}, layer by layer: {', '.join(f'{float(s):.3f}' for s in scores)}", flush=True)
    if full:
        to_the_end(material, layers[-full:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds mrpc/dev.tsv")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--full", type=int, default=0, help="how many layers, from the last, to train to their ends")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    main(options.data, options.folds, options.full, options.threads, options.repetitions)

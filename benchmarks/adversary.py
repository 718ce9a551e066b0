"""All λ and seeds as one batched ensemble against one after another, as a ratio measured in one run.

    python benchmarks/adversary.py --data ../shared/data                      # CoNLL-2000, batches of 8 sentences
    python benchmarks/adversary.py --data ../shared/data --batch 32 --threads 2

Both do the same training steps on the same batches: forward and backward through the adversaries, the base's forward
pass, Adam. One after another, every adversary is a training of its own that asks its own base. Of those only some are
timed (they are alike; so is one ensemble a seed), in turns with the rest, so that a busy machine is unfair to none.
Seconds of the processor are what counts where the cores are shared; seconds of the clock are shown beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

from headwise.models.glove import glove
from headwise.studies.adversary.tagging.adversary import Objective, adversary_loss
from headwise.studies.adversary.tagging.conll import read_conll, split
from headwise.studies.adversary.tagging.ensemble import Training, train
from headwise.studies.adversary.tagging.features import Padded, Vocabulary
from headwise.studies.adversary.tagging.tagger import Shape, initial

LAMBDAS, SEEDS, GOAL = (0.0, 0.003, 0.01, 0.02, 0.05, 0.2, 1.0, 3.0), (0, 1, 2, 3, 4), 3.0


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Of the processor and of the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - clock


def steps_of(members: list[tuple[float, int]], shape: Shape, batches: list[Padded]) -> Callable[[], object]:
    """One epoch over the batches with members (λ, seed)."""
    seeds = sorted({seed for _, seed in members})
    base, start = initial(shape, seeds), initial(shape, [1000 + seed for _, seed in members])
    which = torch.tensor([seeds.index(seed) for _, seed in members])
    loss = adversary_loss(shape, base, which, torch.tensor([weight for weight, _ in members]), Objective())
    none = torch.zeros(len(members))
    return lambda: train(start, batches, loss, lambda _: none, Training(epochs=1))


def main(data: Path, size: int, steps: int, timed: int, rounds: int, threads: int) -> None:
    torch.set_num_threads(threads)
    sentences, _ = split(read_conll(data / "conll2000" / "train.txt"))
    words = Vocabulary.of(sentences, glove(), pos=False, seldom=20)
    shape = Shape(len(words.rows), words.vectors.shape[1], len(words.tags), d_feature=32, dropout=0.0)
    batches = words.batches(sentences, size=size, longest=shape.longest)
    chosen = batches[:: max(1, len(batches) // steps)][:steps]  # of all lengths
    members = [(weight, seed) for seed in SEEDS for weight in LAMBDAS]
    alone = members[:: max(1, len(members) // timed)][:timed]
    total = {40: torch.zeros(2), 8: torch.zeros(2), 1: torch.zeros(2)}
    for _ in range(rounds):
        total[40] += torch.tensor(seconds(steps_of(members, shape, chosen)))
        total[8] += len(SEEDS) * torch.tensor(seconds(steps_of(members[: len(LAMBDAS)], shape, chosen)))
        for member in alone:
            total[1] += len(members) / len(alone) * torch.tensor(seconds(steps_of([member], shape, chosen)))
    words_seen = sum(int(batch.mask.sum()) for batch in chosen)
    print(
        f"{len(LAMBDAS)} λ × {len(SEEDS)} seeds, {len(chosen)} steps of {size} sentences ({words_seen} words), "
        f"{threads} thread(s)"
    )
    names = {40: "all as one ensemble", 8: "an ensemble a seed", 1: "one after another"}
    for together, (cpu, clock) in total.items():
        ratio = total[1] / total[together]
        print(
            f"  {names[together]:20} {cpu / rounds:7.1f} s of the processor ({ratio[0]:.2f} ×), "
            f"{clock / rounds:7.1f} s of the clock ({ratio[1]:.2f} ×)"
        )
    best = float(max((total[1] / total[together])[0] for together in (40, 8)))
    print(f"  goal: at least {GOAL:g} ×, {'met' if best >= GOAL else 'NOT met'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--batch", type=int, default=8, help="sentences a batch")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--timed", type=int, default=8, help="members that are trained alone")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    main(options.data, options.batch, options.steps, options.timed, options.rounds, options.threads)

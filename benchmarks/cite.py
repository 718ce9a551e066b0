"""How well citations predict ablations that they have not seen: ours in up to 64 passes, plain ContextCite in 256.

    python benchmarks/cite.py out/cite.csv [--model demo-llm] [--contexts 3]

The linear datamodelling score (https://arxiv.org/abs/2409.00729): Spearman's rank correlation, over HELD_OUT random
ablations, between what the linear model says of a sentence of the answer and its log-probability. `plain`: a lasso of
256 ablations with the penalty of the released code (0.01 on standardised sources, for the log-odds a token),
whose own sources and guesses it does not have. Contexts are twelve sentences of made-up facts, so that no model knows
the answer by heart. Appends a row a sentence as it goes, and goes on where it stopped; then prints means with 95 %
bootstrap intervals over sentences.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

import numpy as np
import polars as pl
import torch

from headwise.explanations.asking import Wish, ask
from headwise.explanations.citations import ablated, by_sentence, chosen_sources, context_only, guess_of
from headwise.explanations.explain import load_predictor
from headwise.explanations.question import Question
from headwise.explanations.sparse import lasso, least_squares
from headwise.explanations.units import gathered, removed, units_of
from headwise.stats.spearman import spearman

OURS, PLAIN, HELD_OUT, LAMBDA, RESAMPLES = 64, 256, 32, 0.01, 1000
NAMES = ("Anna", "Boris", "Clara", "David", "Emma", "Felix")
TOWNS = ("Lisbon", "Oslo", "Krakow", "Lima", "Cairo", "Kyoto")
PETS = ("a grey cat", "two dogs", "a parrot", "six hens", "a tortoise", "a horse")


def context(number: int) -> tuple[str, str]:
    """Twelve facts in random order, and a question that two of them answer."""
    rng = random.Random(number)
    towns, pets = rng.sample(TOWNS, 6), rng.sample(PETS, 6)
    facts = [f"{name} lives in {town}." for name, town in zip(NAMES, towns, strict=True)]
    facts += [f"{name} has {pet}." for name, pet in zip(NAMES, pets, strict=True)]
    rng.shuffle(facts)
    asked = rng.choice(NAMES)
    return " ".join(facts), f"Where does {asked} live, and which animals does {asked} have?"


def plain(x: np.ndarray, y: np.ndarray, tokens: int) -> np.ndarray:
    """ContextCite as released: a lasso of standardised sources for the log-odds of the sentence, a token."""
    y = y - np.log(-np.expm1(np.minimum(y, -1e-9)))
    sizes = x.std(0)
    sizes[sizes == 0] = 1.0
    return lasso(x / sizes, y / tokens, LAMBDA) * tokens / sizes


def scored(question: Question, seed: int) -> list[dict[str, float]]:
    sources = tuple(unit for unit in units_of(question, "sentences") if unit.given)
    x, y, spent = ablated(question, sources, OURS, seed)
    guess = gathered(guess_of(question), sources).abs().numpy()
    gone = torch.rand(PLAIN + HELD_OUT, len(sources), generator=torch.Generator().manual_seed(10_000 + seed)) < 0.5
    values = question.without(removed(sources, gone, question), removal="delete")[..., 0].numpy()
    there = (~gone).double().numpy()
    rows = []
    for at, target in enumerate(question.targets):
        chosen, ours = chosen_sources(x, y[at], guess[at]), np.zeros(len(sources))
        ours[chosen] = least_squares(x[:, chosen], y[at])
        theirs = plain(there[:PLAIN], values[at, :PLAIN], len(target.chosen))
        fewer = plain(there[:OURS], values[at, :OURS], len(target.chosen))
        held, truth = there[PLAIN:], values[at, PLAIN:]
        both = {
            name: float(spearman(held @ w, truth))
            for name, w in (("ours", ours), ("plain", theirs), ("plain64", fewer))
        }
        rows.append({**both, "passes": spent, "sources": len(sources)})
    return rows


def told(path: Path) -> str:
    rows = pl.read_csv(path)
    lines = [
        f"{len(rows)} sentences of {rows['context'].n_unique()} answers, passes of ours {rows['passes'].mean():.0f}"
    ]
    draws = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    for name in ("ours", "plain", "plain64"):
        x = rows[name].to_numpy()
        low, high = np.quantile(x[draws].mean(1), [0.025, 0.975])
        lines.append(f"{name:<8} {x.mean():.3f} [{low:.3f}, {high:.3f}]")
    gap = (rows["ours"] - rows["plain"]).to_numpy()
    low, high = np.quantile(gap[draws].mean(1), [0.025, 0.975])
    return "\n".join([*lines, f"ours less plain {gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="demo-llm")
    parser.add_argument("--contexts", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model = load_predictor(chosen.model)
    done = set(pl.read_csv(chosen.out)["context"]) if chosen.out.is_file() else set()
    for number in range(chosen.contexts):
        if number in done:
            continue
        text, question = context(number)
        whole = ask(model, f"{text}\n\n{question}", wish=Wish(generate=20))
        rows = [{"context": number, **row} for row in scored(by_sentence(context_only(whole, question)), number)]
        new = not chosen.out.is_file()
        with chosen.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            if new:
                writer.writeheader()
            writer.writerows(rows)
        print(told(chosen.out), flush=True)


if __name__ == "__main__":
    main()

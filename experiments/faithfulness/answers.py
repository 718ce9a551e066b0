"""Which explanations of answers hold: every method on the same texts, tried by removing the words that it names.

    python experiments/faithfulness/answers.py llm ../shared/data out/llm.csv --texts 200
    python experiments/faithfulness/answers.py nmt ../shared/data out/nmt.csv --texts 100
    python experiments/faithfulness/answers.py table experiments/faithfulness

`llm`: the next word of demo-llm after the first 16 words of WikiText-2 paragraphs. `nmt`: the English of German
sentences of Tatoeba by demo-nmt (which was trained on Tatoeba, so these are no new sentences to it). AOPC is the mean
fall of the answer's probability as words are removed in the order of the scores, less that of 19 random orders on the
same text. Appends a row a text and method as it goes, and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import torch

import headwise as hw
from headwise.errors import InputError, ModelError
from headwise.explanations.asking import Wish, ask
from headwise.explanations.explain import load_predictor
from headwise.explanations.methods import METHODS
from headwise.explanations.question import Question, default_removal
from headwise.explanations.trial import ORDERS, fall, steps_of
from headwise.explanations.units import gathered, removed, units_of
from headwise.text.corpus import open_corpus

JUDGED = {
    "leave-one-out": {"removal": "block"}, "paths": {}, "integrated-gradients": {"steps": 16}, "gradient-input": {},
    "gradient-norm": {}, "raw-attention": {}, "rollout": {},
}  # fmt: skip
WORDS, RESAMPLES = 16, 1000


def paragraphs(data: Path) -> Iterator[tuple[str, None]]:
    for document in open_corpus(data / "wikitext2" / "wiki.test.raw").documents():
        words = document.text.split()
        if len(words) >= 60:
            yield " ".join(words[:WORDS]), None


def pairs(data: Path) -> Iterator[tuple[str, str]]:
    with (data / "tatoeba-de-en" / "challenge.txt").open(encoding="utf-8") as file:
        for line in file:
            row = line.rstrip("\n").split("\t")
            if len(row) == 4 and 6 <= len(row[2].split()) <= 14:
                yield row[2], row[3]


SOURCES = {"llm": ("demo-llm", paragraphs), "nmt": ("demo-nmt", pairs)}


def tried(question: Question, seed: int) -> dict[str, float]:
    """AOPC of every method and the mean of random orders, from one set of passes."""
    units = units_of(question, "words")
    given = [at for at, unit in enumerate(units) if unit.given]
    places = torch.tensor(given)
    generator = torch.Generator().manual_seed(seed)
    orders = {}
    for name, options in JUDGED.items():
        try:
            scores = gathered(METHODS[name](question, **options).tokens, units)[0]
        except (InputError, ModelError):
            continue  # rollout of two stacks
        orders[name] = places[scores[places].argsort(descending=True, stable=True)]
    orders |= {f"random {n}": places[torch.randperm(len(given), generator=generator)] for n in range(ORDERS)}
    steps = steps_of(len(given))
    sets = torch.zeros(len(orders), len(steps), len(units), dtype=torch.bool)
    for row, order in enumerate(orders.values()):
        for at, k in enumerate(steps):
            sets[row, at, order[:k]] = True
    gone = removed(units, sets.flatten(0, 1), question)
    p = question.without(gone, removal=default_removal(question.model))[0, :, 1].exp().view(len(orders), -1)
    falls = {name: fall(row.tolist()) for name, row in zip(orders, p, strict=True)}
    random = [falls.pop(f"random {n}") for n in range(ORDERS)]
    return {**falls, "random": float(np.mean(random))}


def run(which: str, data: Path, out: Path, texts: int) -> None:
    torch.set_num_threads(1)
    name, source = SOURCES[which]
    model: hw.Model = load_predictor(name)
    done = {int(row["text"]) for row in csv.DictReader(out.open())} if out.is_file() else set()
    with out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(["text", "method", "aopc", "random"])
        for number, (text, pair) in enumerate(islice(source(data), texts)):
            if number not in done:
                found = tried(ask(model, text, pair, wish=Wish()), number)
                for method in (name for name in JUDGED if name in found):
                    writer.writerow([number, method, f"{found[method]:.6f}", f"{found['random']:.6f}"])
                file.flush()


def table(path: Path, seed: int = 0) -> str:
    """One row a method: AOPC beyond random orders, mean over texts with a 95 % bootstrap interval."""
    rows = pl.read_csv(path).with_columns(gain=pl.col("aopc") - pl.col("random"))
    lines = [f"{path.stem}: {rows['text'].n_unique()} texts, random orders {rows['random'].mean():.3f}", "",
             "| method | AOPC beyond random orders | texts on which it beats them |", "|---|---|---|"]  # fmt: skip
    ordered = rows.group_by("method").agg(pl.col("gain")).with_columns(mean=pl.col("gain").list.mean())
    for row in ordered.sort("mean", descending=True).to_dicts():
        gain = np.array(row["gain"])
        draws = np.random.default_rng(seed).integers(len(gain), size=(RESAMPLES, len(gain)))
        low, high = np.quantile(gain[draws].mean(1), [0.025, 0.975])
        lines.append(f"| {row['method']} | {row['mean']:.3f} [{low:.3f}, {high:.3f}] | {np.mean(gain > 0):.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=[*SOURCES, "table"])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--texts", type=int, default=100)
    chosen = parser.parse_args()
    if chosen.what == "table":
        print("\n\n".join(table(path) for path in sorted(chosen.data.glob("*.csv"))))
    else:
        run(chosen.what, chosen.data, chosen.out, chosen.texts)


if __name__ == "__main__":
    main()

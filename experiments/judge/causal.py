"""Does the model of `negation` use the evidence that was planted, and which of its words does leave-one-out miss?

    python experiments/judge/causal.py out/judge [--texts-seed 78]

Each word of the evidence is changed into one with which the task demands the *other* answer: good ↔ bad; "not" deleted;
the name asked for, or the names of two clauses, exchanged with one whose answer is the other. Control: the same changes
in a clause that was not asked about, with which the answer must stay. Told is how often the model does what the task
demands, and, word kind by word kind, how often leave-one-out (attention blocked) scores the word above the words that
are no evidence (AUROC) and how often it scores it above zero at all: removing it lowers the answer's log-odds.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from judge import IDS, auroc, interval
from tasks import Text, negation

import headwise as hw
from headwise.explanations.asking import Wish, ask
from headwise.explanations.methods import METHODS

TEXTS = 100
KINDS = ("word", "not", "name", "asked")
OTHER = {"yes": "no", "no": "yes", "good": "bad", "bad": "good"}
Clause = dict[str, int]  # the places of its name, its "not" if it has one, and its word


def clauses(text: Text) -> list[Clause]:
    """Of "n3 not good n1 bad … n3 ?"."""
    found: list[Clause] = []
    for at, word in enumerate(text.words[:-2]):
        if word.startswith("n") and word != "not":
            found.append({"name": at})
        else:
            found[-1]["not" if word == "not" else "word"] = at
    return found


def says(text: Text, clause: Clause) -> str:
    return "yes" if (text.words[clause["word"]] == "good") != ("not" in clause) else "no"


def changes(text: Text) -> dict[str, tuple[list[str], str]]:
    """By kind: the changed words and the answer that the task demands of them."""
    every, words = clauses(text), list(text.words)
    own = next(c for c in every if words[c["name"]] == words[-2])
    rest = [c for c in every if c is not own]
    flipped, found = OTHER[text.answer], {}
    found["word"] = (_put(words, {own["word"]: OTHER[words[own["word"]]]}), flipped)
    if "not" in own:
        found["not"] = ([w for at, w in enumerate(words) if at != own["not"]], flipped)
    for clause in (c for c in rest if says(text, c) == flipped):
        name = words[clause["name"]]
        found["name"] = (_put(words, {own["name"]: name, clause["name"]: words[-2]}), flipped)
        found["asked"] = (_put(words, {len(words) - 2: name}), flipped)
        break
    found["control: word"] = (_put(words, {rest[0]["word"]: OTHER[words[rest[0]["word"]]]}), text.answer)
    a, b = rest[1]["name"], rest[2]["name"]
    found["control: names"] = (_put(words, {a: words[b], b: words[a]}), text.answer)
    return found


def _put(words: list[str], new: dict[int, str]) -> list[str]:
    return [new.get(at, word) for at, word in enumerate(words)]


def kind_at(text: Text) -> dict[str, int]:
    """The places of the evidence."""
    own = next(c for c in clauses(text) if text.words[c["name"]] == text.words[-2])
    return {**own, "asked": len(text.words) - 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts-seed", type=int, default=78)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    model, rng = hw.load(str(chosen.out / "llama-negation"), task="causal-lm"), random.Random(chosen.texts_seed)
    obeyed: dict[str, list[float]] = {}
    found: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    for text in (negation(rng) for _ in range(TEXTS)):
        question = ask(model, " ".join(text.words), wish=Wish(of="log-odds"))
        if question.targets[0].chosen[0] != IDS[text.answer]:
            continue
        for kind, (words, answer) in changes(text).items():
            ids = torch.tensor([[IDS["[BOS]"], *(IDS[word] for word in words)]])
            with torch.no_grad():
                said = int(model.hf(ids).logits[0, -1].argmax())
            obeyed.setdefault(kind, []).append(float(said == IDS[answer]))
        scores = METHODS["leave-one-out"](question, removal="block").tokens[0, 1 : 1 + len(text.words)].tolist()
        for kind, at in kind_at(text).items():
            others = [score for place, score in enumerate(scores) if place not in text.evidence]
            row = {"signed": auroc([scores[at], *others], [True, *[False] * len(others)]),
                   "by size": auroc([abs(s) for s in (scores[at], *others)], [True, *[False] * len(others)]),
                   "above zero": float(scores[at] > 0)}  # fmt: skip
            for name, value in row.items():
                found[kind].setdefault(name, []).append(value)
    print("| changed | the model answers as the task demands | texts |\n|---|---|---:|")
    for kind, rows in obeyed.items():
        print(f"| {kind} | {_told(rows)} | {len(rows)} |")
    print("\n| leave-one-out of | AUROC against others | by size | removal lowers the answer | texts |")
    print("|---|---|---|---|---:|")
    for kind, columns in found.items():
        print(f"| {kind} | {' | '.join(_told(rows) for rows in columns.values())} | {len(columns['signed'])} |")


def _told(values: list[float]) -> str:
    mean, half = interval(values)
    return f"{mean:.3f} ± {half:.3f}"


if __name__ == "__main__":
    main()

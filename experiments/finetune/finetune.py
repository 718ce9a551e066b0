"""A classification head on the demo model, fine-tuned on MRPC or CoLA on one or two CPU cores.

    python experiments/finetune/finetune.py mrpc --data ../shared/data
    python experiments/finetune/finetune.py cola --data ../shared/data

The result is a folder (`~/.cache/headwise/finetuned/mrpc`, or `--out`) that `hw.load(folder, task="classification")`
opens. A run that was stopped goes on where it was and ends with the same weights: the order of the batches depends on
the seed and the epoch, dropout on the seed and the step, and all else is in one file (`state.safetensors`: weights,
moments of AdamW, and the step in its header), which is replaced as a whole.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headwise.models.capture import quiet
from headwise.models.packaged import cache_root, packaged_folder
from headwise.results.files import write_files

STATE = "state.safetensors"
POOL = 50  # batches whose texts are sorted by length together
SAVE_EVERY = 50  # steps


@dataclass(frozen=True)
class Task:
    """Files and columns of a GLUE task; `columns` are those of the label and of one or two texts."""

    train: str
    dev: dict[str, str]  # name of a part → its file
    columns: tuple[int, ...]
    header: bool
    labels: tuple[str, str]  # of classes 0 and 1


TASKS = {
    "mrpc": Task("mrpc/train.tsv", {"dev": "mrpc/dev.tsv"}, (0, 3, 4), True, ("different", "paraphrase")),
    "cola": Task(
        "cola/in_domain_train.tsv",
        {"in-domain": "cola/in_domain_dev.tsv", "out-of-domain": "cola/out_of_domain_dev.tsv"},
        (1, 3),
        False,
        ("unacceptable", "acceptable"),
    ),
}


@dataclass(frozen=True)
class Recipe:
    """All that the weights depend on, besides the data and the demo model."""

    task: str
    epochs: int = 3
    batch: int = 16
    rate: float = 5e-5  # peak of the learning rate: up in a line over `warmup`, down in a line to 0
    warmup: float = 0.1  # part of all steps
    decay: float = 0.01  # weight decay, not of biases and norms
    clip: float = 1.0  # greatest norm of the gradient
    tokens: int = 128  # longer inputs are cut, the longer text of a pair first
    seed: int = 0


@dataclass(frozen=True)
class Example:
    texts: tuple[str, ...]
    label: int


def read_examples(path: Path, task: Task) -> list[Example]:
    """The lines of a tsv; quotes mean nothing in it."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")[1 if task.header else 0 :]
    rows = [line.rstrip("\r").split("\t") for line in lines if line.strip()]
    label, *texts = task.columns
    return [Example(tuple(row[at] for at in texts), int(row[label])) for row in rows]


# Measures of a binary classifier, by the four counts of what was said and what is so.


def counts(said: Sequence[int], so: Sequence[int]) -> tuple[int, int, int, int]:
    """True positives, false positives, false negatives, true negatives.

    >>> counts([1, 1, 0, 0, 1], [1, 0, 1, 0, 1])
    (2, 1, 1, 1)
    """
    pairs = list(zip(said, so, strict=True))
    return pairs.count((1, 1)), pairs.count((1, 0)), pairs.count((0, 1)), pairs.count((0, 0))


def measures(said: Sequence[int], so: Sequence[int]) -> dict[str, float]:
    """Accuracy, F1 of class 1, and Matthews' correlation (0 where a row or column of the table is empty).

    >>> measures([1, 1, 0, 0, 1], [1, 0, 1, 0, 1])  # 3/5, 4/6, (2·1 − 1·1)/√(3·3·2·2)
    {'accuracy': 0.6, 'f1': 0.6667, 'mcc': 0.1667, 'majority': 0.6}
    """
    tp, fp, fn, tn = counts(said, so)
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    found = {
        "accuracy": (tp + tn) / len(said),
        "f1": 2 * tp / max(2 * tp + fp + fn, 1),
        "mcc": (tp * tn - fp * fn) / math.sqrt(margins) if margins else 0.0,
        "majority": max(tp + fn, tn + fp) / len(said),
    }
    return {name: round(value, 4) for name, value in found.items()}


# Batches.


def bucketed(lengths: Sequence[int], recipe: Recipe, epoch: int) -> list[list[int]]:
    """The batches of an epoch: shuffled, sorted by length within pools of POOL batches, and shuffled again."""
    rng = random.Random(f"{recipe.seed}/{epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    size = recipe.batch * POOL
    pools = [sorted(order[start : start + size], key=lengths.__getitem__) for start in range(0, len(order), size)]
    batches = [pool[start : start + recipe.batch] for pool in pools for start in range(0, len(pool), recipe.batch)]
    rng.shuffle(batches)
    return batches


def encoded(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, tokens: int) -> list[dict[str, list[int]]]:
    sides = list(zip(*(example.texts for example in examples), strict=True))
    out = tokenizer(*map(list, sides), truncation=True, max_length=tokens)
    return [{name: out[name][at] for name in out} for at in range(len(examples))]  # type: ignore[index]


def padded(rows: Sequence[dict[str, list[int]]], pad: int) -> dict[str, Tensor]:
    width = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": pad}
    return {
        name: torch.tensor([row[name] + [fill.get(name, 0)] * (width - len(row[name])) for row in rows])
        for name in rows[0]
    }


# Learning.


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of a step, counted from 0."""
    warm = max(round(recipe.warmup * steps), 1)
    return recipe.rate * min((step + 1) / warm, (steps - step) / max(steps - warm, 1))


def optimiser(model: PreTrainedModel, recipe: Recipe) -> torch.optim.AdamW:
    plain = [p for p in model.parameters() if p.ndim > 1]
    bare = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": plain, "weight_decay": recipe.decay}, {"params": bare, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate)


def save_state(
    folder: Path, model: PreTrainedModel, adam: torch.optim.AdamW, step: int, header: dict[str, Any]
) -> None:
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for number, moments in adam.state_dict()["state"].items():
        tensors |= {f"adam/{number}/{name}": torch.as_tensor(moment) for name, moment in moments.items()}
    metadata = {"header": json.dumps({**header, "step": step})}
    write_files(folder, {STATE: save({name: t.contiguous() for name, t in tensors.items()}, metadata)})


def restore_state(folder: Path, model: PreTrainedModel, adam: torch.optim.AdamW, recipe: Recipe) -> dict[str, Any]:
    """The header of the state in `folder`, whose numbers go into the model and AdamW; of step 0 where there is none."""
    path = folder / STATE
    if not path.is_file():
        return {"recipe": asdict(recipe), "step": 0, "seconds": 0.0}
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["header"])
        if header["recipe"] != asdict(recipe):
            sys.exit(f"{path} was begun with {header['recipe']}; choose another --out, or delete it to begin again.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    model.load_state_dict({n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")})
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam/"):
            _, number, moment = name.split("/")
            state.setdefault(int(number), {})[moment] = tensor
    adam.load_state_dict({**adam.state_dict(), "state": state})
    return header


@torch.no_grad()
def predictions(model: PreTrainedModel, rows: Sequence[dict[str, list[int]]], pad: int) -> list[int]:
    order = sorted(range(len(rows)), key=lambda at: len(rows[at]["input_ids"]))
    said = [0] * len(rows)
    model.eval()
    for start in range(0, len(order), 32):
        chosen = order[start : start + 32]
        logits = model(**padded([rows[at] for at in chosen], pad)).logits
        for at, label in zip(chosen, logits.argmax(-1).tolist(), strict=True):
            said[at] = label
    return said


def evaluate(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: Path, recipe: Recipe) -> dict[str, Any]:
    """Measures of each dev part, and of all together where there are several."""
    task, said, so, found = TASKS[recipe.task], [], [], {}
    for name, file in task.dev.items():
        examples = read_examples(data / file, task)
        answers = predictions(model, encoded(examples, tokenizer, recipe.tokens), tokenizer.pad_token_id)  # type: ignore
        labels = [example.label for example in examples]
        found[name] = {"texts": len(examples), **measures(answers, labels)}
        said, so = said + answers, so + labels
    return found if len(found) == 1 else {**found, "all": {"texts": len(so), **measures(said, so)}}


def fine_tune(recipe: Recipe, source: Path, data: Path, out: Path, record: Path) -> dict[str, Any]:
    """Train the model of folder `source`, or go on training it, write folder `out`, and return the last measures."""
    task, work = TASKS[recipe.task], out.with_name(f".{out.name}-training")
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(source)
    torch.manual_seed(recipe.seed)  # of the new head
    names = dict(enumerate(task.labels))
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(
            source, num_labels=2, id2label=names, label2id={name: at for at, name in names.items()}
        )
    adam = optimiser(model, recipe)
    header = restore_state(work, model, adam, recipe)
    examples = read_examples(data / task.train, task)
    rows = encoded(examples, tokenizer, recipe.tokens)
    lengths = [len(row["input_ids"]) for row in rows]
    plan = [(epoch, batch) for epoch in range(recipe.epochs) for batch in bucketed(lengths, recipe, epoch)]
    begun, before = time.monotonic(), header["seconds"]
    with (work / "log.jsonl").open("a", encoding="utf-8", buffering=1) as log:
        for step in range(header["step"], len(plan)):
            epoch, batch = plan[step]
            torch.manual_seed(recipe.seed * 1_000_003 + step)  # of dropout
            for group in adam.param_groups:
                group["lr"] = rate_at(step, len(plan), recipe)
            model.train()
            labels = torch.tensor([examples[at].label for at in batch])
            loss = model(**padded([rows[at] for at in batch], tokenizer.pad_token_id), labels=labels).loss  # type: ignore
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            adam.step()
            adam.zero_grad()
            header["seconds"] = before + time.monotonic() - begun
            line: dict[str, Any] = {"step": step + 1, "of": len(plan), "epoch": epoch, "loss": round(loss.item(), 4)}
            line["seconds"] = round(header["seconds"], 1)
            last = step + 1 == len(plan) or plan[step + 1][0] != epoch
            if last:
                line["dev"] = evaluate(model, tokenizer, data, recipe)
            log.write(json.dumps(line) + "\n")
            if last or (step + 1) % 25 == 0:
                print(json.dumps(line), flush=True)
            if last or (step + 1) % SAVE_EVERY == 0:
                save_state(work, model, adam, step + 1, header)
    found = evaluate(model, tokenizer, data, recipe)
    install(model, tokenizer, out)
    result = {"recipe": asdict(recipe), "steps": len(plan), "seconds": round(header["seconds"]), "dev": found}
    result["train"] = {"texts": len(rows), "tokens": sum(lengths), "mean_tokens": round(sum(lengths) / len(rows), 1)}
    result["curve"] = curve(work / "log.jsonl")
    write_files(record, {f"{recipe.task}.json": (json.dumps(result, indent=1) + "\n").encode()})
    return found


def curve(log: Path) -> list[dict[str, Any]]:
    """Per epoch the mean training loss and the dev measures; of steps that a stopped run repeated, the last."""
    lines = {line["step"]: line for line in map(json.loads, log.read_text(encoding="utf-8").splitlines())}
    epochs: dict[int, list[dict[str, Any]]] = {}
    for step in sorted(lines):
        epochs.setdefault(lines[step]["epoch"], []).append(lines[step])
    return [
        {"epoch": at, "loss": round(sum(x["loss"] for x in some) / len(some), 4), "dev": some[-1].get("dev")}
        for at, some in epochs.items()
    ]


def install(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Write the folder beside its place, then rename it there."""
    staged = out.with_name(f".{out.name}-staged")
    shutil.rmtree(staged, ignore_errors=True)
    with quiet():
        model.eval().save_pretrained(staged)
        tokenizer.save_pretrained(staged)
    if out.exists():
        shutil.rmtree(out)
    staged.rename(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that has mrpc and cola")
    parser.add_argument("--out", type=Path, help="default: finetuned/TASK in headwise's cache")
    parser.add_argument("--record", type=Path, default=Path(__file__).parent, help="where TASK.json goes")
    parser.add_argument("--threads", type=int, default=1)
    for name, kind in {"epochs": int, "batch": int, "rate": float, "tokens": int, "seed": int}.items():
        parser.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    torch.set_num_threads(options.pop("threads"))
    data, record = options.pop("data"), options.pop("record")
    out = options.pop("out") or cache_root() / "finetuned" / options["task"]
    if not (data / TASKS[options["task"]].train).is_file():
        sys.exit(f"{data} must hold {TASKS[options['task']].train}, but does not; say where it is with --data.")
    print(json.dumps(fine_tune(Recipe(**options), packaged_folder("demo"), data, out.expanduser(), record)), f"→ {out}")


if __name__ == "__main__":
    main()

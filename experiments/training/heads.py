"""What happens to heads while the demo model is fine-tuned on MRPC, and while it is fine-tuned on nothing?

    python experiments/training/heads.py run --data ../shared/data      hours on a busy core; a stopped run goes on
    python experiments/training/heads.py page                          the tables of README.md and the two figures

A run is `transformers.Trainer` with `HeadwiseCallback` on the same dev pairs. Each seed is run twice: with the labels
of MRPC and with the same labels in another order (the control: as many steps of the same size, nothing to be learned).
A run that was finished (its table is in tables/) is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

from headwise.callbacks import HeadwiseCallback
from headwise.models.capture import quiet
from headwise.models.packaged import packaged_folder
from headwise.results.files import write_files

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "finetune"))
from finetune import TASKS, Example, encoded, measures, padded, predictions, read_examples  # noqa: E402

TABLES = HERE / "tables"
SEEDS, LABELS = (0, 1, 2), ("true", "shuffled")
STEPS, BATCH, RATE, TOKENS = 200, 16, 5e-5, 64
EVERY, PAIRS = 40, 16  # steps between looks; dev pairs looked at: the first eight of either class


def looked_at(dev: list[Example]) -> list[tuple[str, str]]:
    """The first half as many pairs of either class: they are the same in every run."""
    kept = [[pair for pair in dev if pair.label == label][: PAIRS // 2] for label in (0, 1)]
    return [(pair.texts[0], pair.texts[1]) for some in kept for pair in some]


def labels_of(examples: list[Example], labels: str, seed: int) -> list[int]:
    """As they are, or the same ones in another order."""
    found = [example.label for example in examples]
    if labels == "shuffled":
        random.Random(f"labels/{seed}").shuffle(found)
    return found


def one_run(data: Path, labels: str, seed: int) -> dict[str, Any]:
    """Fine-tune once; the heads of every look go to tables/, what the model then knows is returned."""
    task, source = TASKS["mrpc"], packaged_folder("demo")
    tokenizer = AutoTokenizer.from_pretrained(source)
    train, dev = (read_examples(data / file, task) for file in (task.train, task.dev["dev"]))
    torch.manual_seed(seed)  # of the new head
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=2)
    learned = labels_of(train, labels, seed)
    rows = [{**row, "labels": label} for row, label in zip(encoded(train, tokenizer, TOKENS), learned, strict=True)]

    def collate(some: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        inputs = [{name: value for name, value in row.items() if name != "labels"} for row in some]
        return padded(inputs, tokenizer.pad_token_id) | {"labels": torch.tensor([row["labels"] for row in some])}

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=RATE, warmup_steps=STEPS // 10,
            weight_decay=0.01, seed=seed, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
            logging_steps=EVERY,
        )  # fmt: skip
        trainer = Trainer(
            model, arguments, train_dataset=rows, data_collator=collate, processing_class=tokenizer  # type: ignore[arg-type]
        )  # fmt: skip
        out = Path(folder) / "heads"
        HeadwiseCallback.add_to(trainer, looked_at(dev), every=EVERY, out=out, max_tokens=2 * TOKENS)
        trainer.train()
        said = predictions(model, encoded(dev, tokenizer, TOKENS), tokenizer.pad_token_id)
        found = {"labels": labels, "seed": seed, **measures(said, [pair.label for pair in dev])}
        name = f"{labels}-{seed}"
        table = (out / "heads.parquet").read_bytes()
        write_files(TABLES, {f"{name}.parquet": table, f"{name}.json": (json.dumps(found) + "\n").encode()})
    return found


def run(data: Path) -> None:
    """All runs that are not there yet, both kinds of a seed after one another."""
    for seed in SEEDS:
        for labels in LABELS:
            if not (TABLES / f"{labels}-{seed}.json").is_file():
                print(json.dumps(one_run(data, labels, seed)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "page"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that has mrpc")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "run":
        run(options.data)
    else:
        from page import write_page

        write_page()


if __name__ == "__main__":
    main()

"""Train a small German→English translation model on idle cores, to be stopped and resumed at any time.

    python experiments/nmt/train.py --data ../shared/data --minutes 240

The budget is CPU time of the process, not wall-clock: a run at idle priority is as long as one on a quiet machine.
The work folder holds recipe.json, tokenizer/, pairs.safetensors (the encoded data), checkpoint.safetensors,
log.jsonl, and model/ (running average of the weights in float16, written when the budget is used up or on a signal).
SIGTERM or Ctrl-C end the current step, write a checkpoint and leave; the same command goes on from there, to the
same weights as without the break.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import TextIO

import torch
from data import SOURCES, Pair, read_corpus
from jaxtyping import Bool, Float, Int
from model import PAD_ID, POSITIONS, Recipe, export, new_model, train_tokenizer
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, MarianMTModel, PreTrainedTokenizerFast

FOLDER = Path("~/.cache/headwise/nmt-de-en").expanduser()
CHECKPOINT_EVERY, VALIDATE_EVERY, LOG_EVERY = 300, 600, 20  # seconds, CPU seconds, steps


@dataclass(frozen=True)
class Encoded:
    """Pairs as token numbers, each side ending in </s>."""

    sources: Sequence[Tensor]
    targets: Sequence[Tensor]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Examples:
    """A padded batch, teacher-forced: the decoder reads the target one step late."""

    source: Int[Tensor, "batch source"]
    source_mask: Bool[Tensor, "batch source"]
    decoder: Int[Tensor, "batch target"]
    labels: Int[Tensor, "batch target"]
    label_mask: Bool[Tensor, "batch target"]


@dataclass(frozen=True)
class Progress:
    """Where training is; `position` counts the batches of `epoch` that are done."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    target_tokens: int = 0
    cpu_seconds: float = 0.0


class Trainer:
    """Model, optimizer and running average of one run, which live and are saved together."""

    def __init__(self, recipe: Recipe, vocabulary: int) -> None:
        self.recipe = recipe
        self.model = new_model(recipe, vocabulary).train()
        self.weights = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.average = {name: p.detach().clone() for name, p in self.weights.items()}
        self.optimizer = torch.optim.AdamW(
            self.weights.values(), lr=recipe.peak, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )

    def update(self, examples: Examples, step: int) -> float:
        """One step of learning; the smoothed loss in nats a token."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, self.recipe)
        loss = loss_of(self.model, examples, smoothing=self.recipe.smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        # subtle: an average of the first steps would long remember the random start; its memory grows with the steps.
        decay = min(self.recipe.average, (1 + step) / (10 + step))
        for name, p in self.weights.items():
            self.average[name].lerp_(p.detach(), 1 - decay)
        return loss.item()

    @contextmanager
    def averaged(self) -> Iterator[MarianMTModel]:
        """The model with the running average as its weights, without dropout; as it was, afterwards."""
        kept = {name: p.detach().clone() for name, p in self.weights.items()}
        self._set(self.average)
        try:
            yield self.model.eval()
        finally:
            self._set(kept)
            self.model.train()

    def save(self, path: Path, progress: Progress) -> None:
        """One file, put in place at once: a run that is killed leaves the old checkpoint or the new one."""
        tensors = {f"weight.{name}": p.detach() for name, p in self.weights.items()}
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.items()}
        for name, p in self.weights.items():
            tensors |= {f"{part}.{name}": tensor for part, tensor in self.optimizer.state[p].items()}
        tensors["random"] = torch.get_rng_state()
        fresh = path.with_suffix(".new")
        save_file(tensors, fresh, metadata={"progress": json.dumps(asdict(progress))})
        os.replace(fresh, path)

    def restore(self, path: Path) -> Progress:
        with safe_open(path, "pt") as stored:
            progress = Progress(**json.loads(stored.metadata()["progress"]))
        tensors = load_file(path)
        parts = {
            part: {name: tensors[f"{part}.{name}"] for name in self.weights}
            for part in ("weight", "average", "exp_avg", "exp_avg_sq", "step")
        }
        self._set(parts["weight"])
        self.average = parts["average"]
        for name, p in self.weights.items():
            self.optimizer.state[p] = {part: parts[part][name] for part in ("exp_avg", "exp_avg_sq", "step")}
        torch.set_rng_state(tensors["random"])
        return progress

    @torch.no_grad()
    def _set(self, tensors: Mapping[str, Tensor]) -> None:
        for name, p in self.weights.items():
            p.copy_(tensors[name])


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then the inverse square root (https://arxiv.org/abs/1706.03762, section 5.3); steps from 1."""
    return recipe.peak * min(step / recipe.warm_up, (recipe.warm_up / step) ** 0.5)


def loss_of(model: MarianMTModel, examples: Examples, *, smoothing: float = 0.0) -> Float[Tensor, ""]:
    """Mean cross-entropy of the target tokens in nats; the output layer is not computed for padding."""
    hidden = model.model(
        input_ids=examples.source, attention_mask=examples.source_mask.long(),
        decoder_input_ids=examples.decoder, use_cache=False,
    ).last_hidden_state  # fmt: skip
    logits = model.lm_head(hidden[examples.label_mask])
    return cross_entropy(logits, examples.labels[examples.label_mask], label_smoothing=smoothing)


@torch.no_grad()
def validation_loss(model: MarianMTModel, pairs: Encoded, tokens: int) -> float:
    """Nats a target token over all pairs, without label smoothing."""
    total, count = 0.0, 0
    for rows in batches(pairs, tokens, seed=0, epoch=0):
        examples = gather(pairs, rows)
        total += loss_of(model, examples).item() * int(examples.label_mask.sum())
        count += int(examples.label_mask.sum())
    return total / count


def batches(pairs: Encoded, tokens: int, *, seed: int, epoch: int) -> list[list[int]]:
    """Rows of every batch of an epoch, the same for the same seed: pairs of like length, in random order.

    No batch takes more than `tokens` places on either side, padding included, unless it is a single pair.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    lengths = [(len(target), len(source)) for source, target in zip(pairs.sources, pairs.targets, strict=True)]
    order = sorted(torch.randperm(len(pairs), generator=generator).tolist(), key=lengths.__getitem__)
    found, current, widest = [], [], 0
    for row in order:
        widest = max(widest, *lengths[row])
        if current and widest * (len(current) + 1) > tokens:
            found.append(current)
            current, widest = [], max(lengths[row])
        current.append(row)
    found.append(current)
    return [found[at] for at in torch.randperm(len(found), generator=generator).tolist()]


def gather(pairs: Encoded, rows: Sequence[int]) -> Examples:
    """subtle: the decoder starts from <pad>, as Marian's does; masks come from lengths and not from token numbers."""
    source, source_mask = _packed([pairs.sources[row] for row in rows])
    labels, label_mask = _packed([pairs.targets[row] for row in rows])
    return Examples(source, source_mask, pad(labels[:, :-1], (1, 0), value=PAD_ID), labels, label_mask)


def _packed(rows: Sequence[Tensor]) -> tuple[Int[Tensor, "batch token"], Bool[Tensor, "batch token"]]:
    mask = pad_sequence([torch.ones_like(row, dtype=torch.bool) for row in rows], batch_first=True)
    return pad_sequence([row.long() for row in rows], batch_first=True, padding_value=PAD_ID), mask


def prepare(
    folder: Path, data: Path, recipe: Recipe, sources: Sequence[str] = SOURCES
) -> tuple[PreTrainedTokenizerFast, dict[str, Encoded]]:
    """Tokenizer and encoded pairs ("train", and each validation set), made once and kept in `folder`."""
    known = folder / "recipe.json"
    if known.exists() and {"sources": list(SOURCES), **json.loads(known.read_text())} != _told(recipe, sources):
        raise SystemExit(f"{folder} was begun with another recipe ({known}); resume with that one, or use --out.")
    if not (folder / "pairs.safetensors").exists():
        _prepare(folder, data, recipe, sources)
    return AutoTokenizer.from_pretrained(folder / "tokenizer"), _stored_pairs(folder / "pairs.safetensors")


def _told(recipe: Recipe, sources: Sequence[str]) -> dict[str, object]:
    return {**asdict(recipe), "sources": [source for source in SOURCES if source in sources]}


def _prepare(folder: Path, data: Path, recipe: Recipe, sources: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus(data, sources)
    tokenizer = train_tokenizer((side for pair in corpus.train for side in pair), recipe.vocabulary)
    tokenizer.save_pretrained(folder / "tokenizer")
    parts = {"train": corpus.train, **{f"validation-{name}": pairs for name, pairs in corpus.validation.items()}}
    tensors = {}
    for part, pairs in parts.items():
        tensors |= {f"{part}.{name}": tensor for name, tensor in _encoded(tokenizer, pairs).items()}
    (folder / "recipe.json").write_text(json.dumps(_told(recipe, sources), indent=2) + "\n")
    fresh = folder / "pairs.new"
    save_file(tensors, fresh)
    os.replace(fresh, folder / "pairs.safetensors")


def _encoded(tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]) -> dict[str, Tensor]:
    """Both sides as one long row of token numbers each, with the lengths; pairs that are too long are left out."""
    sides = [tokenizer([pair[side] for pair in pairs], verbose=False)["input_ids"] for side in (0, 1)]
    fitting = [(s, t) for s, t in zip(*sides, strict=True) if max(len(s), len(t)) <= POSITIONS]
    tensors = {}
    for name, rows in zip(("source", "target"), zip(*fitting, strict=True), strict=True):
        tensors[name] = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
        tensors[f"{name}-lengths"] = torch.tensor([len(row) for row in rows])
    return tensors


def _stored_pairs(path: Path) -> dict[str, Encoded]:
    tensors = load_file(path)
    parts = sorted({name.partition(".")[0] for name in tensors})
    rows = {
        name: tensors[name].split(tensors[f"{name}-lengths"].tolist()) for name in tensors if "-lengths" not in name
    }
    return {part: Encoded(rows[f"{part}.source"], rows[f"{part}.target"]) for part in parts}


class Stop:
    """Becomes true when the process is asked to leave."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class Journal:
    """log.jsonl: the mean training loss and speed of every few steps, and the validation losses, a line each."""

    def __init__(self, stream: TextIO, start: Progress) -> None:
        self.stream, self.mark, self.losses = stream, start, []

    def learned(self, loss: float, progress: Progress) -> None:
        self.losses.append(loss)
        if len(self.losses) < LOG_EVERY:
            return
        tokens = progress.target_tokens - self.mark.target_tokens
        speed = tokens / (progress.cpu_seconds - self.mark.cpu_seconds)
        self.write(progress, loss=sum(self.losses) / LOG_EVERY, target_tokens_a_cpu_second=speed)
        self.mark, self.losses = progress, []

    def write(self, progress: Progress, **values: float) -> None:
        rounded = {name: round(value, 4) for name, value in (asdict(progress) | values).items()}
        self.stream.write(json.dumps(rounded) + "\n")
        self.stream.flush()


def remaining(pairs: Encoded, recipe: Recipe, progress: Progress) -> Iterator[tuple[list[int], Progress]]:
    """The batches still to come, epoch after epoch without end, each with where training is once it is learned."""
    while True:
        epoch = batches(pairs, recipe.batch_tokens, seed=recipe.seed, epoch=progress.epoch)
        while progress.position < len(epoch):
            rows = epoch[progress.position]
            progress = replace(progress, step=progress.step + 1, position=progress.position + 1)
            yield rows, progress
        progress = replace(progress, epoch=progress.epoch + 1, position=0)


@dataclass(frozen=True)
class Run:
    """What one process works with, from start or checkpoint to the end of the budget."""

    trainer: Trainer
    parts: Mapping[str, Encoded]
    checkpoint: Path
    journal: Journal

    def go_on(self, progress: Progress, budget: float, stop: Stop) -> Progress:
        """Learn until `budget` CPU seconds are used over all runs, or `stop` was asked; then save."""
        before, saved, validated = progress.cpu_seconds, time.monotonic(), progress.cpu_seconds
        pairs = self.parts["train"]
        for rows, after in remaining(pairs, self.trainer.recipe, progress):
            if stop.asked or progress.cpu_seconds >= budget:
                break
            examples = gather(pairs, rows)
            loss = self.trainer.update(examples, after.step)
            tokens = progress.target_tokens + int(examples.label_mask.sum())
            progress = replace(after, target_tokens=tokens, cpu_seconds=before + time.process_time())
            self.journal.learned(loss, progress)
            if progress.cpu_seconds - validated > VALIDATE_EVERY:
                validated = progress.cpu_seconds
                self.journal.write(progress, **self.validation())
            if time.monotonic() - saved > CHECKPOINT_EVERY:
                saved = time.monotonic()
                self.trainer.save(self.checkpoint, progress)
        self.journal.write(progress, **self.validation())
        self.trainer.save(self.checkpoint, progress)
        return progress

    def validation(self) -> dict[str, float]:
        """Loss of every validation set under the averaged weights, in nats a token."""
        tokens = self.trainer.recipe.batch_tokens
        with self.trainer.averaged() as model:
            return {
                name: validation_loss(model, pairs, tokens) for name, pairs in self.parts.items() if name != "train"
            }


def train(folder: Path, data: Path, recipe: Recipe, minutes: float, sources: Sequence[str] = SOURCES) -> None:
    """Train until `minutes` of CPU time are used, over all runs of this folder, or until a signal."""
    stop = Stop()
    torch.set_flush_denormal(True)
    tokenizer, parts = prepare(folder, data, recipe, sources)
    trainer, checkpoint, progress = Trainer(recipe, len(tokenizer)), folder / "checkpoint.safetensors", Progress()
    if checkpoint.exists():
        progress = trainer.restore(checkpoint)
    with (folder / "log.jsonl").open("a") as log:
        run = Run(trainer, parts, checkpoint, Journal(log, progress))
        progress = run.go_on(progress, 60 * minutes, stop)
    with trainer.averaged() as model:
        size = export(model, tokenizer, folder / "model")
    print(f"step {progress.step}, epoch {progress.epoch}, {progress.cpu_seconds / 60:.1f} CPU minutes, {size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the three corpora")
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"the work folder, {FOLDER} unless told")
    parser.add_argument("--minutes", type=float, default=240, help="CPU minutes over all runs")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES, help="learned from; all unless told")
    for field in fields(Recipe):
        kind = type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    asked = vars(parser.parse_args())
    folder, data, minutes, sources = (asked.pop(name) for name in ("out", "data", "minutes", "sources"))
    train(folder, data, Recipe(**asked), minutes, sources)


if __name__ == "__main__":
    main()

"""Adversarial attention on CoNLL-2000: base taggers, adversaries over a λ grid, controls, probes; every stage resumable.

    python experiments/adversary/run.py --data ../shared/data --out out/adversary base adversaries probes facts

Stages are named in order; each writes its members (safetensors) or tables (parquet) as it goes, and the same command
again goes on. One thread is enough; `--threads` takes more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from headwise.models.glove import glove
from headwise.results import provenance
from headwise.results.files import digest_of, write_files
from headwise.results.result import json_bytes, parquet_bytes
from headwise.tagging.adversary import (
    Objective,
    adversary_loss,
    adversary_score,
    check_lambdas,
    f1_score,
    gold_loss,
    permuted,
    random_attention,
    uniform,
)
from headwise.tagging.chunks import Scheme
from headwise.tagging.conll import read_conll, split
from headwise.tagging.ensemble import Progress, Training, seeded, train
from headwise.tagging.features import Padded, Vocabulary
from headwise.tagging.frozen import FORMS, Stored, guided, probe, probe_loss
from headwise.tagging.tagger import Attention, Shape, initial, tagged

STAGES = ("base", "adversaries", "probes", "facts")
LAMBDAS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 3.0)
GUIDES = ("base", "adversary λ=0.2", "adversary λ=3", "uniform", "random", "permuted base")


@dataclass(frozen=True)
class Plan:
    """Everything that a number of this experiment depends on."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    lambdas: tuple[float, ...] = LAMBDAS
    distance: str = "nll"
    divergence: str = "kl"
    pos: bool = False
    seldom: int = 20
    d_feature: int = 32
    dropout: float = 0.1
    batch: int = 8
    rate: float = 3e-3
    base_epochs: int = 6
    adversary_epochs: int = 4
    probe_epochs: int = 3
    sentences: int = 0  # of training; 0 for all


@dataclass(frozen=True)
class Experiment:
    """The data, the models and where they are kept."""

    plan: Plan
    data: Path
    out: Path

    @cached_property
    def parts(self) -> dict[str, list[Padded]]:
        """Batches to train on, to validate on and to test on."""
        train_part, validation = split(read_conll(self.data / "conll2000" / "train.txt"))
        if self.plan.sentences:
            train_part = train_part[: self.plan.sentences]
        return {
            "train": self.words.batches(train_part, size=self.plan.batch, longest=self.shape.longest),
            "validation": self.words.batches(validation, size=64, longest=self.shape.longest),
            "test": self.words.batches(self.test, size=32, longest=self.shape.longest),
        }

    @cached_property
    def test(self):
        return read_conll(self.data / "conll2000" / "test.txt")

    @cached_property
    def words(self) -> Vocabulary:
        train_part, _ = split(read_conll(self.data / "conll2000" / "train.txt"))
        return Vocabulary.of(train_part, glove(), pos=self.plan.pos, seldom=self.plan.seldom)

    @cached_property
    def shape(self) -> Shape:
        return Shape(
            len(self.words.rows), self.words.vectors.shape[1], len(self.words.tags), d_feature=self.plan.d_feature,
            dropout=self.plan.dropout,
        )  # fmt: skip

    @cached_property
    def scheme(self) -> Scheme:
        return Scheme.of(self.words.tags)

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(json.dumps({"plan": asdict(self.plan), "shape": asdict(self.shape)}))

    def training(self, epochs: int) -> Training:
        return Training(epochs=epochs, patience=2, rate=self.plan.rate, warmup=100)

    def members(self, name: str) -> dict[str, Tensor]:
        return Progress.read(self.out / name).best

    def train(self, name: str, parameters: Mapping[str, Tensor], loss: Any, score: Any, epochs: int) -> None:
        start, cpu = time.time(), time.process_time()

        def report(line: str) -> None:
            print(f"{name}: {line} ({time.time() - start:.0f} s, {time.process_time() - cpu:.0f} s of one core)", flush=True)

        train(
            parameters, self.parts["train"], loss, score, self.training(epochs), folder=self.out / name,
            facts=self.facts, report=report,
        )  # fmt: skip
        spent = {"seconds": time.time() - start, "cpu_seconds": time.process_time() - cpu, "threads": torch.get_num_threads()}
        old = self.out / name / "seconds.json"
        if old.is_file():
            before = json.loads(old.read_bytes())
            spent |= {key: spent[key] + before[key] for key in ("seconds", "cpu_seconds")}
        write_files(self.out / name, {"seconds.json": json_bytes(spent)})


def base(run: Experiment) -> None:
    """Taggers on the gold tags, one a seed."""
    score = f1_score(lambda p, batch: tagged(p, batch, run.shape), run.parts["validation"], run.scheme)
    run.train("base", initial(run.shape, run.plan.seeds), gold_loss(run.shape), score, run.plan.base_epochs)


def adversaries(run: Experiment) -> None:
    """All λ and seeds in one ensemble; member (λ, s) starts from a fresh seed and is driven from base s."""
    lambdas, seeds = check_lambdas(run.plan.lambdas), run.plan.seeds
    which = torch.arange(len(seeds)).repeat(len(lambdas))
    weights = torch.tensor(lambdas).repeat_interleave(len(seeds))
    objective, based = Objective(run.plan.distance, run.plan.divergence), run.members("base")
    fresh = initial(run.shape, [1000 + seed for _ in lambdas for seed in seeds])
    score = adversary_score(run.shape, based, which, weights, objective, run.parts["validation"])
    loss = adversary_loss(run.shape, based, which, weights, objective)
    run.train("adversaries", fresh, loss, score, run.plan.adversary_epochs)


def probes(run: Experiment) -> None:
    """Fresh models under stored attention, both forms, five seeds of each guide."""
    for guide in GUIDES:
        missing = [form for form in FORMS if not (run.out / probe_name(form, guide) / "seconds.json").is_file()]
        if not missing:
            continue
        stored = Stored.of(attention_of(run, guide), run.parts["train"] + run.parts["validation"])
        sealed = stored.digest()
        for form in missing:
            run.train(
                probe_name(form, guide), probe(run.shape, [2000 + seed for seed in run.plan.seeds], form),
                probe_loss(run.shape, stored, form), probe_score(run, stored, form), run.plan.probe_epochs,
            )  # fmt: skip
        assert stored.digest() == sealed, "stored attention has changed"


def probe_name(form: str, guide: str) -> str:
    return f"probe-{form}-{guide.replace(' ', '-').replace('λ=', '')}"


def probe_score(run: Experiment, stored: Stored, form: str) -> Any:
    tag = lambda p, batch: guided(p, batch, run.shape, stored(batch), form)  # noqa: E731
    return f1_score(tag, run.parts["validation"], run.scheme)


def attention_of(run: Experiment, guide: str) -> Callable[[Padded], Attention]:
    """What guides: attention of trained members in evaluation mode, or by rule."""
    count = len(run.plan.seeds)
    if guide == "uniform":
        return lambda batch: uniform(batch.mask, run.shape, count)
    if guide == "random":
        return lambda batch: random_attention(batch.mask, run.shape, count, seeded(7, *batch.numbers[:1].tolist()))
    if guide.startswith("adversary"):
        at = check_lambdas(run.plan.lambdas).index(float(guide.partition("=")[2]))
        members = {name: value[at * count : (at + 1) * count] for name, value in run.members("adversaries").items()}
    else:
        members = run.members("base")
    if guide == "permuted base":
        return lambda batch: permuted(
            tagged(members, batch, run.shape).alpha, batch.mask, seeded(8, *batch.numbers[:1].tolist())
        )
    return lambda batch: tagged(members, batch, run.shape).alpha


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=STAGES)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("out/adversary"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pos", action="store_true", help="let the tagger read the part-of-speech column")
    parser.add_argument("--sentences", type=int, default=0, help="train on the first so many sentences only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    run = Experiment(Plan(pos=options.pos, sentences=options.sentences), options.data, options.out)
    stages = {"base": base, "adversaries": adversaries, "probes": probes}
    for stage in options.stages:
        if stage == "facts":
            from facts import facts  # beside this file: it draws and needs altair

            facts(run)
        else:
            stages[stage](run)


if __name__ == "__main__":
    main()

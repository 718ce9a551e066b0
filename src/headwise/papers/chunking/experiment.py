"""Taggers, their adversaries over a λ grid, and probes under frozen attention: the training, resumable at every epoch.

After Yang's report on CoNLL-2000, with what its code left out: masked rows, divergences of each distribution, a
validation part, five seeds, attention without dropout, probes whose attention is data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.allowed import SEED, check_fields, setting
from headwise.errors import InputError
from headwise.models.glove import glove
from headwise.results.files import write_files
from headwise.results.records import DamagedError, read_record
from headwise.results.result import json_bytes
from headwise.studies.adversary.tagging.adversary import (
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
from headwise.studies.adversary.tagging.chunks import Scheme
from headwise.studies.adversary.tagging.conll import Sentence, read_conll, split
from headwise.studies.adversary.tagging.ensemble import Progress, Training, seeded, train
from headwise.studies.adversary.tagging.features import Padded, Vocabulary
from headwise.studies.adversary.tagging.frozen import FORMS, Stored, guided, probe, probe_loss
from headwise.studies.adversary.tagging.tagger import Attention, Shape, initial, tagged

LAMBDAS = (0.0, 0.003, 0.01, 0.02, 0.05, 0.2, 0.5, 1.0, 3.0)
RULES = ("uniform", "random", "permuted base")
GUIDING = (0.01, 0.2, 3.0)  # the λ of adversaries whose attention guides a probe too
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Everything that a number of this experiment depends on."""

    sentences: int = setting(0, least=0)  # of the files, the first so many; 0 for all
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), least=0, most=SEED)
    lambdas: tuple[float, ...] = setting(LAMBDAS, least=0, most=1000)
    distance: str = setting("nll", one_of=("nll", "tvd"))
    divergence: str = setting("kl", one_of=("kl", "js"))
    pos: bool = False
    seldom: int = setting(20, least=0)
    d_feature: int = setting(32, least=1)
    dropout: float = setting(0.1, least=0, below=1)
    batch: int = setting(8, least=1)
    rate: float = setting(4e-3, above=0, most=10)
    base_epochs: int = setting(5, least=1)
    adversary_epochs: int = setting(3, least=1)
    probe_epochs: int = setting(3, least=1)
    probe_sentences: int = setting(2000, least=0)  # probes are trained on about so many; 0 for all

    def __post_init__(self) -> None:
        check_fields(type(self), vars(self), whose="the plan of yang")
        object.__setattr__(self, "lambdas", check_lambdas(tuple(map(float, self.lambdas))))
        if not self.seeds:
            raise InputError("seeds of the plan of yang must be at least one; leave them out for five.")


@dataclass(frozen=True)
class Experiment:
    """The data, the models and where they are kept."""

    plan: Plan
    data: Path  # the folder of train.txt and test.txt
    out: Path
    say: Say = print

    @cached_property
    def parts(self) -> dict[str, list[Padded]]:
        """Batches to train on, to validate on and to test on."""
        train_part, validation = self.learned
        return {
            "train": self.words.batches(train_part, size=self.plan.batch, longest=self.shape.longest),
            "validation": self.words.batches(validation, size=64, longest=self.shape.longest),
            "test": self.words.batches(self.test, size=32, longest=self.shape.longest),
        }

    @cached_property
    def learned(self) -> tuple[list[Sentence], list[Sentence]]:
        """Sentences to train on and to validate on."""
        found = split(self._read("train.txt"))
        if not all(found):
            raise InputError(
                f"Taggers need sentences to learn from and to validate on, but {self.data / 'train.txt'} gave "
                f"{len(found[0])} and {len(found[1])}; take more (--first 10, at least)."
            )
        return found

    @cached_property
    def test(self) -> list[Sentence]:
        return self._read("test.txt")

    def _read(self, name: str) -> list[Sentence]:
        return list(read_conll(self.data / name))[: self.plan.sentences or None]

    @cached_property
    def words(self) -> Vocabulary:
        training, validation = self.learned
        return Vocabulary.of(
            training, glove(), pos=self.plan.pos, seldom=self.plan.seldom, others=[*validation, *self.test]
        )

    @cached_property
    def shape(self) -> Shape:
        return Shape(
            len(self.words.rows), self.words.vectors.shape[1], len(self.words.tags), d_feature=self.plan.d_feature,
            dropout=self.plan.dropout,
        )  # fmt: skip

    @cached_property
    def scheme(self) -> Scheme:
        return Scheme.of(self.words.tags)

    @cached_property
    def few(self) -> list[Padded]:
        """Every so many batches of training, so that lengths are as in the whole."""
        step = max(1, round(len(self.parts["train"]) * self.plan.batch / (self.plan.probe_sentences or 10**9)))
        return self.parts["train"][::step]

    @property
    def guides(self) -> tuple[str, ...]:
        """What probes are guided by."""
        return ("base", *RULES, *(f"adversary λ={value:g}" for value in GUIDING if value in self.plan.lambdas))

    @property
    def told(self) -> dict[str, Any]:
        return json.loads(json.dumps({**asdict(self.plan), "shape": asdict(self.shape)}))

    def training(self, epochs: int) -> Training:
        return Training(epochs=epochs, patience=2, rate=self.plan.rate, warmup=100)

    def members(self, name: str) -> dict[str, Tensor]:
        return Progress.read(self.out / name).best

    def train(
        self, name: str, parameters: Mapping[str, Tensor], loss: Any, score: Any, epochs: int, *,
        batches: Sequence[Padded] | None = None, **told: Any,
    ) -> None:  # fmt: skip
        """Train, or go on; `told` is what this training depends on beside the plan's data and shape."""
        plan = {name: getattr(self.plan, name) for name in ("sentences", "seeds", "pos", "seldom", "batch", "rate")}
        facts = json.loads(json.dumps({**plan, "shape": asdict(self.shape), **told}))
        start, cpu = time.time(), time.process_time()

        def report(line: str) -> None:
            spent = f"{time.time() - start:.0f} s, {time.process_time() - cpu:.0f} s of one core"
            self.say(f"{name}: {line} ({spent})")

        train(
            parameters, batches or self.parts["train"], loss, score, self.training(epochs), folder=self.out / name,
            facts=facts, report=report,
        )  # fmt: skip
        spent = {
            "seconds": time.time() - start,
            "cpu_seconds": time.process_time() - cpu,
            "threads": torch.get_num_threads(),
        }
        with suppress(FileNotFoundError, DamagedError):  # what was spent before is not worth a stop
            before = read_record(self.out / name / "seconds.json", {"seconds": float, "cpu_seconds": float})
            spent |= {key: spent[key] + before[key] for key in ("seconds", "cpu_seconds")}
        write_files(self.out / name, {"seconds.json": json_bytes(spent)})

    def probe_name(self, form: str, guide: str) -> str:
        return f"probe-{form}-{guide.replace(' ', '-').replace('λ=', '')}"

    def attention_of(self, guide: str) -> Callable[[Padded], Attention]:
        """What guides: attention of trained members in evaluation mode, or by rule."""
        count, shape = len(self.plan.seeds), self.shape
        if guide == "uniform":
            return lambda batch: uniform(batch.mask, shape, count)
        if guide == "random":
            return lambda batch: random_attention(batch.mask, shape, count, seeded(7, int(batch.numbers[0])))
        if guide.startswith("adversary"):
            at = check_lambdas(self.plan.lambdas).index(float(guide.partition("=")[2]))
            members = {
                name: value[at * count : (at + 1) * count] for name, value in self.members("adversaries").items()
            }
        else:
            members = self.members("base")
        if guide == "permuted base":
            return lambda batch: permuted(
                tagged(members, batch, shape).alpha, batch.mask, seeded(8, int(batch.numbers[0]))
            )
        return lambda batch: tagged(members, batch, shape).alpha


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
    shape = replace(run.shape, dropout=0.0)  # attention is then the same in training and after it
    fresh = initial(shape, [1000 + seed for _ in lambdas for seed in seeds])
    score = adversary_score(shape, based, which, weights, objective, run.parts["validation"])
    loss = adversary_loss(shape, based, which, weights, objective)
    run.train(
        "adversaries", fresh, loss, score, run.plan.adversary_epochs, lambdas=lambdas, objective=asdict(objective)
    )


def probes(run: Experiment) -> None:
    """Fresh models under stored attention, both forms, all seeds of each guide."""
    for guide in run.guides:
        missing = [form for form in FORMS if not (run.out / run.probe_name(form, guide) / "seconds.json").is_file()]
        if not missing:
            continue
        learned, held = (Stored.of(run.attention_of(guide), batches) for batches in (run.few, run.parts["validation"]))
        sealed = learned.digest()
        for form in missing:
            fresh = probe(run.shape, [2000 + seed for seed in run.plan.seeds], form)
            loss, score = probe_loss(run.shape, learned, form), probe_score(run, held, form)
            name, epochs = run.probe_name(form, guide), run.plan.probe_epochs
            run.train(name, fresh, loss, score, epochs, batches=run.few, guide=guide, form=form)
        assert learned.digest() == sealed, "stored attention has changed"


def probe_score(run: Experiment, stored: Stored, form: str) -> Any:
    tag = lambda p, batch: guided(p, batch, run.shape, stored(batch), form)  # noqa: E731
    return f1_score(tag, run.parts["validation"], run.scheme)

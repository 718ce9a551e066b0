"""Training of many taggers at once: one batch of sentences goes through all members, forward and backward.

Members see the same sentences in the same order with the same dropout noise, and differ in what they start from and in
what they are asked for. So the words are looked up once, a layer is one batched product, and the losses, one a member,
are added up before the backward pass: no member's gradient depends on another. Adam works element by element, so it
keeps them apart as well. A seed is therefore a seed of the *initialisation*; the order of the data is a setting.

A member's weights are those of the epoch that validation liked best; it is done once `patience` epochs brought no gain.
Batches, their order and the noise are functions of (seed, epoch, step) alone, and the state is written after each
epoch, so an interrupted training goes on to the same weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from safetensors.torch import load, save
from torch import Tensor
from torch.optim.adam import adam

from headwise.errors import InputError
from headwise.results.files import write_files
from headwise.studies.adversary.tagging.features import Padded
from headwise.studies.adversary.tagging.tagger import Parameters

STATE, SETTINGS = "state.safetensors", "settings.json"
Loss = Callable[[Parameters, Padded, torch.Generator], Float[Tensor, " member"]]
Score = Callable[[Parameters], Float[Tensor, " member"]]  # on validation; higher is better


@dataclass(frozen=True)
class Training:
    """Adam at `rate`, reached over `warmup` steps and then falling to zero at the end of the last epoch."""

    epochs: int = 8
    patience: int = 3
    rate: float = 2e-3
    warmup: int = 200
    seed: int = 0  # of the order of batches and of dropout

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1 or self.rate <= 0 or self.warmup < 0:
            raise InputError(
                "Training needs at least one epoch, a patience of one, a rate above 0 and no negative warm-up, but "
                f"{self} was asked for."
            )

    def rate_at(self, step: int, steps: int) -> float:
        """Of step 0 … steps − 1."""
        return self.rate * min((step + 1) / (self.warmup + 1), (steps - step) / max(steps - self.warmup, 1), 1.0)


@dataclass(frozen=True)
class Progress:
    """The members as they are after some epochs, and as they were at their best."""

    parameters: dict[str, Tensor]
    averages: dict[str, Tensor]  # Adam's, of gradients and of their squares
    squares: dict[str, Tensor]
    best: dict[str, Tensor]
    scores: Float64[Tensor, "epoch member"]
    best_epoch: Int[Tensor, " member"]

    @classmethod
    def start(cls, parameters: Parameters) -> Progress:
        own = {name: value.clone() for name, value in parameters.items()}
        zero = lambda: {name: torch.zeros_like(value) for name, value in own.items()}  # noqa: E731
        members = len(next(iter(own.values())))
        none = torch.zeros(0, members, dtype=torch.float64)
        return cls(own, zero(), zero(), {n: v.clone() for n, v in own.items()}, none, torch.full((members,), -1))

    @property
    def epochs(self) -> int:
        return len(self.scores)

    def waiting(self, patience: int) -> Bool[Tensor, " member"]:
        """Members that may still gain."""
        return self.epochs - 1 - self.best_epoch < patience

    def scored(self, scores: Float64[Tensor, " member"], patience: int) -> Progress:
        """After an epoch: the members that gained are remembered."""
        before = torch.where(self.best_epoch >= 0, self._best_scores(), -torch.inf)
        gained = self.waiting(patience) & (scores > before)
        best = {
            name: torch.where(gained.view(-1, *[1] * (value.ndim - 1)), self.parameters[name].detach(), value)
            for name, value in self.best.items()
        }
        return replace(
            self,
            best=best,
            scores=torch.cat([self.scores, scores[None]]),
            best_epoch=torch.where(gained, self.epochs, self.best_epoch),
        )

    def _best_scores(self) -> Float64[Tensor, " member"]:
        if not self.epochs:
            return torch.full(self.best_epoch.shape, -torch.inf, dtype=torch.float64)
        return self.scores.gather(0, self.best_epoch.clamp(min=0)[None])[0]

    def write(self, folder: Path) -> None:
        groups = {"parameters": self.parameters, "averages": self.averages, "squares": self.squares, "best": self.best}
        tensors = {
            f"{group}/{name}": value.detach() for group, values in groups.items() for name, value in values.items()
        }
        tensors |= {"scores": self.scores, "best_epoch": self.best_epoch}
        write_files(folder, {STATE: save({name: value.contiguous() for name, value in tensors.items()})})

    @classmethod
    def read(cls, folder: Path) -> Progress:
        tensors = load((folder / STATE).read_bytes())
        part = lambda group: {  # noqa: E731
            name.removeprefix(f"{group}/"): value for name, value in tensors.items() if name.startswith(f"{group}/")
        }
        groups = {group: part(group) for group in ("parameters", "averages", "squares", "best")}
        return cls(**groups, scores=tensors["scores"], best_epoch=tensors["best_epoch"])


def train(
    parameters: Parameters,
    batches: Sequence[Padded],
    loss: Loss,
    score: Score,
    training: Training,
    *,
    folder: Path | None = None,
    facts: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Progress:
    """Train all members until none may gain or the epochs are over; goes on from `folder` where that was begun.

    `facts` say what is trained: a folder that was begun with others is refused.
    """
    progress = Progress.start(parameters) if folder is None else _resumed(parameters, folder, training, facts or {})
    while progress.epochs < training.epochs and bool(progress.waiting(training.patience).any()):
        for tensor in progress.parameters.values():
            tensor.requires_grad_()
        _epoch(progress, batches, loss, training)
        with torch.no_grad():
            progress = progress.scored(score(progress.parameters).double(), training.patience)
        if folder is not None:
            progress.write(folder)
        shown = ", ".join(f"{value:.4f}" for value in progress.scores[-1].tolist())
        report(f"epoch {progress.epochs} of {training.epochs}: {shown}")
    return progress


def _resumed(parameters: Parameters, folder: Path, training: Training, facts: Mapping[str, Any]) -> Progress:
    settings = json.dumps({**asdict(training), **facts}, sort_keys=True, indent=1).encode()
    if not (folder / SETTINGS).is_file():
        write_files(folder, {SETTINGS: settings})
    elif (folder / SETTINGS).read_bytes() != settings:
        raise InputError(
            f"A training goes on with the settings it was begun with; those in {folder} differ. Remove it."
        )
    return Progress.read(folder) if (folder / STATE).is_file() else Progress.start(parameters)


def _epoch(progress: Progress, batches: Sequence[Padded], loss: Loss, training: Training) -> None:
    """One pass over all batches; the members' parameters and Adam's averages change in place."""
    epoch, steps = progress.epochs, len(batches) * training.epochs
    order = torch.randperm(len(batches), generator=seeded(training.seed, epoch)).tolist()
    names = list(progress.parameters)
    tensors = [progress.parameters[name] for name in names]
    for place, number in enumerate(order):
        step = epoch * len(batches) + place
        losses = loss(progress.parameters, batches[number], seeded(training.seed, epoch, place))
        gradients = torch.autograd.grad(losses.sum(), tensors, allow_unused=True)
        used = [(name, gradient) for name, gradient in zip(names, gradients, strict=True) if gradient is not None]
        _adam(progress, dict(used), step, training.rate_at(step, steps))


@torch.no_grad()
def _adam(progress: Progress, gradients: Mapping[str, Tensor], step: int, rate: float) -> None:
    """Kingma & Ba 2015 (https://arxiv.org/abs/1412.6980) with its usual constants, in place."""
    tensors, averages, squares = (
        [group[name] for name in gradients] for group in (progress.parameters, progress.averages, progress.squares)
    )
    # subtle: torch's fused step goes through memory as it lies, and a gradient may lie there transposed
    adam(
        tensors, [gradient.contiguous() for gradient in gradients.values()], averages, squares, [],
        [torch.tensor(float(step)) for _ in tensors], fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=rate,
        weight_decay=0.0, eps=1e-8, maximize=False,
    )  # fmt: skip


def seeded(*numbers: int) -> torch.Generator:
    """A generator for a place in a training, e.g. (seed, epoch, step)."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**63 - 1)
    return torch.Generator().manual_seed(mixed)

r"""What heads do while a model learns: numbers every so many steps, on the same few texts.

    from headwise.callbacks import HeadwiseCallback
    HeadwiseCallback.add_to(trainer, texts, every=100, out="out/heads")    for transformers.Trainer
    seen = watch(model, tokenizer, texts); …; log(seen.look(step))         for a loop of one's own

    sink_share      Σ α to special tokens and to the first token, mean over rows            share
    null_share      ‖α_null‖² / ‖α‖²: the part of the weights that the output does not see    share
    entropy         −Σ α ln α, mean over rows                                               nats
    drift_js        JS(α, α at the first look), mean over rows                              nats, at most ln 2
    drift_profile   mean |difference to the first look| of what goes to sinks, to the previous, same and next token
    importance      |what the model would lose without the head|, to first order: no ablation, one backward pass

All are means over the texts. A look leaves training as it was: the same mode, the same random numbers to come, no
gradient touched. The weights have changed since the last look, so the model is proved again each time.

The callback's numbers go to `trainer.log`, so that TensorBoard, W&B or MLflow get them, to OUT/heads.parquet, and at
the end to a figure over the steps, OUT/heads.svg.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import TrainerCallback

from headwise.errors import HeadwiseError, InputError
from headwise.interventions.effects import first_order, slopes
from headwise.interventions.outcomes import ask
from headwise.measures import rows
from headwise.measures.divergence import js
from headwise.models.load import load
from headwise.models.model import Model
from headwise.plots.lines import line_by
from headwise.plots.theme import save_chart, themed
from headwise.results.files import write_files
from headwise.results.result import parquet_bytes
from headwise.traces import Trace

__all__ = ["HeadWatch", "HeadwiseCallback", "watch"]
PREFIX = "headwise/"
NUMBERS = {
    "sink_share": "to sinks (share)", "null_share": "in the null space (share)", "entropy": "entropy (nats)",
    "drift_js": "drift of rows (JS, nats)", "drift_profile": "drift of the profile (share)",
    "importance": "loss without the head (to first order)",
}  # fmt: skip
TABLE, FIGURE = "heads.parquet", "heads.svg"
TINY = 1e-30  # below every weight: its logarithm stands for that of 0
Maps = Float[Tensor, "layer head query key"]
Watched = str | tuple[str, str]  # a text, or a pair as a classifier of pairs reads it


@dataclass
class HeadWatch:
    """Looks at a (model, tokenizer) pair; `table` has a row a step and head.

    `importance` costs a backward pass a text; texts are cut at `max_tokens`, of a pair the longer side first.
    """

    model: Any
    tokenizer: Any
    texts: Sequence[Watched]
    out: Path | None = None
    importance: bool = True
    max_tokens: int = 64
    table: pl.DataFrame = field(default_factory=pl.DataFrame)
    _first: list[Maps] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.texts, str) or not self.texts:
            raise InputError("A watch needs a list of texts to look at, but none was given; give it a few.")

    def look(self, step: int) -> dict[str, float]:
        """The mean over heads of every number at this step; the heads themselves are added to `table`."""
        with as_it_was(self.model):
            model = load((self.model, self.tokenizer))
            seen = [self._seen(model, number, text) for number, text in enumerate(self.texts)]
        heads = {name: torch.stack([one[name] for one in seen]).mean(0) for name in seen[0]}
        self.table = pl.concat([self.table, _rows(heads, step)])
        if self.out is not None:
            write_files(self.out, {TABLE: parquet_bytes(self.table)})
        return {name: float(values.mean()) for name, values in heads.items()}

    def figure(self) -> Any:
        """Every number over the steps, the mean over the heads of a layer."""
        import altair as alt

        names = [name for name in NUMBERS if name in self.table.columns]
        means = self.table.group_by("step", "layer", maintain_order=True).agg(pl.col(names).mean())
        parts = [
            line_by(means.select("step", "layer", value=name), "step", titles=("step", NUMBERS[name]), colour="layer")
            for name in names
        ]
        texts = f"Mean over the heads of a layer and over {len(self.texts)} texts that stay the same."
        return themed(alt.concat(*parts, columns=3), "What heads do while the model learns", texts)

    def save(self) -> Path:
        """The figure beside the table."""
        if self.out is None:
            raise InputError("A watch is saved in a folder, but it has none; make it with out=FOLDER.")
        return save_chart(self.figure(), self.out / FIGURE)

    def _seen(self, model: Model, number: int, text: Watched) -> dict[str, Float[Tensor, "layer head"]]:
        if model.is_encoder_decoder:
            raise InputError("A watch reads single texts, but this model reads a source and a target; not supported.")
        trace = model.trace(*shortened(model, (text,) if isinstance(text, str) else text, self.max_tokens))
        alpha = trace.attention("raw")
        if len(self._first) == number:
            self._first.append(alpha)
        found = numbers(trace, alpha, self._first[number])
        return found | (_importance(model, trace) if self.importance else {})


def shortened(model: Model, sides: tuple[str, ...], most: int) -> list[str]:
    """A text, or both sides of a pair, up to the last of the first `most` tokens."""
    short = model.encode(*sides, limit=most, truncate=True)
    ends = [0] * len(sides)
    for (_, end), side, special in zip(short.offsets, short.segment, short.special, strict=True):
        if not special:
            ends[side] = max(ends[side], end)
    return [side[:end] for side, end in zip(sides, ends, strict=True)]


def watch(
    model: Any, tokenizer: Any, texts: Sequence[Watched], *, out: str | Path | None = None, **options: Any
) -> HeadWatch:
    """For a loop of one's own: `seen = watch(model, tokenizer, texts); …; log(seen.look(step))`."""
    return HeadWatch(model, tokenizer, list(texts), None if out is None else Path(out), **options)


def numbers(trace: Trace, alpha: Maps, first: Maps) -> dict[str, Float[Tensor, "layer head"]]:
    """What the table at the top says, but for importance."""
    logs = [maps.double().clamp(min=TINY).log() for maps in (alpha, first)]
    return {
        "sink_share": _profile(trace, alpha)["sink"],
        "null_share": trace.nullspace().null_share.double(),
        "entropy": rows.entropy(alpha).double().mean(-1),
        "drift_js": js(*logs).mean(-1).clamp(min=0.0),
        "drift_profile": _apart(_profile(trace, alpha), _profile(trace, first)),
    }


def _profile(trace: Trace, alpha: Maps) -> dict[str, Float[Tensor, "layer head"]]:
    """What goes, in the mean over rows, to sinks and to the neighbours."""
    sinks = torch.tensor(trace.text.special)
    sinks[0] = True
    near = {str(offset): rows.at_offset(alpha, offset) for offset in (-1, 0, 1)}
    counted = torch.ones(len(alpha), alpha.shape[2], dtype=torch.bool)
    means = {name: rows.mean_rows(values, counted).double() for name, values in near.items()}
    return {"sink": alpha.double()[..., sinks].sum(-1).mean(-1)} | means


def _apart(now: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> Float[Tensor, "layer head"]:
    return torch.stack([(now[name] - before[name]).abs() for name in now]).nanmean(0)


def _importance(model: Model, trace: Trace) -> dict[str, Float[Tensor, "layer head"]]:
    try:
        question = ask(model, trace.text)
        found = {} if question is None else first_order(question, *slopes(model, question))
    except HeadwiseError:  # a head that has no outcome
        return {}
    return {"importance": torch.stack([*found.values()]).abs().double()} if found else {}


def _rows(heads: Mapping[str, Float[Tensor, "layer head"]], step: int) -> pl.DataFrame:
    layers, count = next(iter(heads.values())).shape
    places = [(layer, head) for layer in range(layers) for head in range(count)]
    return pl.DataFrame(
        {
            "step": [step] * len(places),
            "layer": [layer for layer, _ in places],
            "head": [head for _, head in places],
            "name": [f"L{layer}.H{head}" for layer, head in places],
            **{name: values.flatten().tolist() for name, values in heads.items()},
        }
    )


class as_it_was:  # noqa: N801 - used as `with as_it_was(model):`
    """Training mode of every module, random numbers and gradients as they were before."""

    def __init__(self, model: torch.nn.Module):
        self.model = model

    def __enter__(self) -> None:
        self.modes = {module: module.training for module in self.model.modules()}
        self.random = torch.random.get_rng_state()

    def __exit__(self, *_: object) -> None:
        for module, training in self.modes.items():
            module.training = training
        torch.random.set_rng_state(self.random)


class HeadwiseCallback(TrainerCallback):
    """Looks at the heads before the first step, every `every` steps, and after the last."""

    def __init__(
        self,
        texts: Sequence[Watched],
        *,
        every: int = 100,
        out: str | Path | None = None,
        trainer: Any = None,
        **options: Any,
    ):
        if every < 1:
            raise InputError(f"A callback looks every so many steps, at least 1, but every={every} was given.")
        self.texts, self.every, self.out, self.trainer, self.options = list(texts), every, out, trainer, options
        self.watch: HeadWatch | None = None

    @classmethod
    def add_to(cls, trainer: Any, texts: Sequence[Watched], **options: Any) -> HeadwiseCallback:
        """Made, added to a Trainer, and writing to its log."""
        callback = cls(texts, trainer=trainer, **options)
        trainer.add_callback(callback)
        return callback

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002 - the Trainer's
        tokenizer = given.get("processing_class") or getattr(self.trainer, "processing_class", None)
        if tokenizer is None:
            raise InputError(
                "A callback reads texts, but the Trainer has no tokenizer; pass processing_class=tokenizer."
            )
        self.watch = watch(given["model"], tokenizer, self.texts, out=self.out, **self.options)
        self._look(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if state.global_step % self.every == 0:
            self._look(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if self.watch is None:
            return
        if self.watch.table["step"].max() != state.global_step:
            self._look(state)
        if self.out is not None:
            self.watch.save()

    def _look(self, state: Any) -> None:
        assert self.watch is not None, "training has begun"
        found = {f"{PREFIX}{name}": value for name, value in self.watch.look(state.global_step).items()}
        if self.trainer is not None:
            # subtle: a log of ours would count as the Trainer's own of this step, and its loss be left out.
            control = self.trainer.control
            due = control.should_log
            self.trainer.log(found)
            control.should_log = due
        else:
            state.log_history.append({**found, "step": state.global_step})

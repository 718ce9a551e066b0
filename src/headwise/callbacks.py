"""`HeadwiseCallback` for transformers.Trainer: what heads do while a model is fine-tuned, in the Trainer's own log.

    from headwise.callbacks import HeadwiseCallback
    HeadwiseCallback.add_to(trainer, texts, every=100, out="out/heads")

The numbers (training/watch.py) go to `trainer.log`, so that TensorBoard, W&B or MLflow get them, to OUT/heads.parquet,
and at the end to a figure over the steps, OUT/heads.svg. For a loop of one's own there is `watch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from headwise.errors import InputError
from headwise.training.watch import HeadWatch, watch

__all__ = ["HeadWatch", "HeadwiseCallback", "watch"]
PREFIX = "headwise/"


class HeadwiseCallback(TrainerCallback):
    """Looks at the heads before the first step, every `every` steps, and after the last."""

    def __init__(
        self,
        texts: Sequence[str],
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
    def add_to(cls, trainer: Any, texts: Sequence[str], **options: Any) -> HeadwiseCallback:
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
            self.trainer.log(found)
        else:
            state.log_history.append({**found, "step": state.global_step})

"""A question: one text before one model, with the targets that are to be explained, and what may be taken out of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from headwise.attributions.passes import plain_experts
from headwise.attributions.prediction import Removal, attend_all
from headwise.explanations.targets import Target
from headwise.models.capture import Call, watching
from headwise.models.model import Model
from headwise.types import Encoding

REMOVALS = ("mask", "delete", "block")
CHUNK_TOKENS = 4096  # padded tokens of one pass over changed inputs
SLACK = 0.25  # by how much the longest text of such a pass may exceed the shortest: the rest is padding
CHUNK_LOGITS = 2**26  # numbers of the vocabulary that one pass may make


@dataclass(frozen=True)
class Question:
    """`text` is what the first stack reads, `prefix` what a decoder of its own reads; both share one axis, in this
    order.

    `given` are the tokens of the user's text: the others (special tokens, a chat template, the answer itself) always
    stay. `rows` are the positions whose logits the targets read; empty for a sequence classifier, which has one row a
    text.
    """

    model: Model
    text: Encoding
    prefix: Encoding | None
    given: tuple[bool, ...]
    rows: tuple[int, ...]
    targets: tuple[Target, ...]
    note: str = ""  # what was decided for the user
    texts: tuple[str, str | None] = ("", None)  # the strings that the offsets of `text` are about

    def __len__(self) -> int:
        return len(self.text) + (0 if self.prefix is None else len(self.prefix))

    @cached_property
    def inputs(self) -> Mapping[str, Tensor]:
        """Of one text."""
        return self.model.batch([self.text], [] if self.prefix is None else [self.prefix]).inputs

    @cached_property
    def may(self) -> Bool[Tensor, " token"]:
        """Tokens of the first stack that may be removed."""
        return torch.tensor(self.given)

    def logits(
        self, inputs: Mapping[str, Tensor] | None = None, rows: Int[Tensor, "batch row"] | None = None
    ) -> Float[Tensor, "batch row choice"]:
        """The rows that the targets read, for the question's own text or for changed inputs."""
        inputs = self.inputs if inputs is None else inputs
        if not self.rows:
            return self.model.hf(**inputs, **self._options).logits[:, None]
        if rows is None:
            rows = torch.tensor([self.rows], device=self.model.hf.device).expand(len(inputs["input_ids"]), -1)
        if "logits_to_keep" not in inspect.signature(type(self.model.hf).forward).parameters:
            return _rows(self.model.hf(**inputs, **self._options).logits, rows)
        if bool((rows == rows[:1]).all()):  # of all the rows of the vocabulary only these are made
            kept = rows[0].unique()
            made = self.model.hf(**inputs, **self._options, logits_to_keep=kept).logits
            return _rows(made, torch.searchsorted(kept, rows.contiguous()))
        head: Any = self.model.hf.get_output_embeddings()
        with _only(head, rows):
            return self.model.hf(**inputs, **self._options).logits

    @property
    def _options(self) -> dict[str, bool]:
        return {"use_cache": False} if self.model.causal or self.model.is_encoder_decoder else {}

    @contextmanager
    def running(self, watch: Any = None) -> Iterator[None]:
        """The model as it is asked: its own eager attention (seen by `watch`), experts one after the other."""
        with watching(self.model.hf, watch or attend_all), plain_experts(self.model):
            yield

    @cached_property
    def answers(self) -> Float64[Tensor, "target what"]:
        """Of the whole text, each target's value and its log-probability."""
        return self.without(torch.zeros(1, len(self.text), dtype=torch.bool), removal="block")[:, 0]

    def without(
        self, removed: Bool[Tensor, "variant token"], *, removal: str
    ) -> Float64[Tensor, "target variant what"]:
        """Each target's value (0) and log-probability (1) without some tokens; NaN where nothing is left to read.

        Equal sets are asked once.
        """
        how = Removal.of(self.model, removal, among=REMOVALS)
        unique, place = removed.unique(dim=0, return_inverse=True)
        left = len(self.text) - unique.sum(-1) * (how.how == "delete")
        found = torch.full((len(self.targets), len(unique), 2), torch.nan, dtype=torch.float64)
        for some in self._chunks(left):
            inputs, rows = changed(self, how, unique[some])
            with torch.no_grad(), self.running():
                z = self.logits(inputs, rows).double()
            for at, target in enumerate(self.targets):
                found[at, some, 0] = target.value(z).cpu()
                found[at, some, 1] = target.log_probability(z).cpu()
        return found[:, place]

    def _chunks(self, left: Int[Tensor, " variant"]) -> Iterator[Int[Tensor, " some"]]:
        """Variants that have tokens left, shortest first, so many a pass as fit and are about as long as each other."""
        order = left.argsort(stable=True)
        readable = order[left[order] > 0]
        lengths = left[readable]
        logits = max(len(self.rows), 1) * int(self.model.hf.config.vocab_size)
        size = max(min(CHUNK_TOKENS // len(self), CHUNK_LOGITS // logits), 1)
        start = 0
        while start < len(readable):
            alike = int((lengths[start:] <= (1 + SLACK) * lengths[start]).sum())
            yield readable[start : start + min(alike, size)]
            start += min(alike, size)


@contextmanager
def _only(head: nn.Module, rows: Int[Tensor, "batch row"]) -> Iterator[None]:
    """The output layer reads these positions alone, of each text its own."""

    def gather(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (_rows(args[0], rows), *args[1:])

    handle = head.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


def _rows(logits: Float[Tensor, "batch token choice"], rows: Int[Tensor, "batch row"]) -> Tensor:
    return logits.gather(1, rows[..., None].expand(-1, -1, logits.shape[-1]))


def changed(
    question: Question, removal: Removal, removed: Bool[Tensor, "variant token"]
) -> tuple[dict[str, Tensor], Int[Tensor, "variant row"] | None]:
    """The inputs without those tokens, and where the rows that are read now stand."""
    removed = removed.to(question.model.hf.device)
    size = len(removed)
    inputs = {name: tensor.expand(size, -1) for name, tensor in question.inputs.items()}
    own = removal({name: x for name, x in inputs.items() if not name.startswith("decoder_")}, removed)
    rows = torch.tensor([question.rows], device=removed.device).expand(size, -1) if question.rows else None
    if removal.how == "delete" and rows is not None and question.prefix is None:
        rows = ((~removed).int().cumsum(-1) - 1).gather(1, rows)
    return {**inputs, **own}, rows


def default_removal(model: Model) -> str:
    """The mask token where a model was taught it, else deletion."""
    return "delete" if model.causal or model.is_encoder_decoder or model.tokenizer.mask_token_id is None else "mask"


__all__ = ["REMOVALS", "Call", "Question", "default_removal"]

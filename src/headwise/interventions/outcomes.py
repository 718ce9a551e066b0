r"""What a model does with a text, as numbers that a change may move.

    next-token     mean −log p(next token), nats                                   decoders with a language-model head
    masked-token   mean −log p(token) over 15 % masked tokens, nats                masked language models
    label          −log p(label), nats; the label's probability; whether it is chosen      sequence classifiers
    token-label    mean −log p(label) over the tokens that are not special, nats   token classifiers
    translation    mean −log p(target token | source, target before it), nats      encoder–decoders with a head
    sentence       1 − cos of the mean of the last hidden tokens and that without the change     encoders without a head
    tokens         the mean over tokens of 1 − cos of the last hidden tokens       whatever else has no head

The label is the corpus's where it is one of the model's classes, else what the model itself says, and of tokens always
what it says. A head of another kind (answers to questions) is passed over: its encoder is looked at.

How far what a model says of one text moves (`ask_far`) is KL(p ‖ p′) of its distributions, nats, in the mean over the
same places; of a decoder also of its own next token, the answer; of a label its loss. Distances and divergences are 0
without a change and have no slope there, so that their first order is the second:  1 − cos = ½ ‖Δu‖²  for unit u,
and  KL = ½ Δᵀ F Δ  with  F = E_y∼p [∇ log p(y) ∇ log p(y)ᵀ].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)

from headwise.errors import InputError, ModelError
from headwise.interventions.labels import class_of, no_class
from headwise.models.capture import at_least_float
from headwise.models.model import Model
from headwise.models.tasks import gives_number, labels_apart
from headwise.stats.reservoir import hashed
from headwise.types import Encoding

HEADS: Mapping[str, Mapping[Any, Any]] = {
    "masked-token": MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "label": MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "token-label": MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "translation": MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "next-token": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}
DISTANCES, LABELS = ("sentence", "tokens"), ("label", "token-label")
KINDS = (*HEADS, *DISTANCES)
MOVES = {
    "next-token": "mean loss of the text's next tokens", "masked-token": "mean loss of masked tokens",
    "label": "loss of the label", "token-label": "mean loss of the tokens' labels",
    "translation": "mean loss of the translation's tokens", "sentence": "sentence vector",
    "tokens": "last hidden tokens",
}  # fmt: skip
FAR = {  # what moves, up or down, where distributions are compared
    **MOVES,
    "next-token": "distribution of the answer (or of the text's next tokens, in the mean)",
    "masked-token": "distribution of a masked token, in the mean,",
    "token-label": "distribution of a token's label, in the mean,",
    "translation": "distribution of a token of the translation, in the mean,",
    "tokens": "vector of a last hidden token, in the mean,",
}
UNITS = {kind: "1 − cos" if kind in DISTANCES else "nats" for kind in KINDS}
IN_WORDS = {kind: f"({UNITS[kind]})" if kind in DISTANCES else UNITS[kind] for kind in KINDS}  # behind a number
ROWS = 16  # of logits whose loss is taken at once
MASKED, POSITIONS = 0.15, 1 << 24  # as in the study `importance`


def head_kind(model: Model) -> str | None:
    """What the model's head is for; None without one, or with one of another kind."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    found = [kind for kind, classes in HEADS.items() if names & set(classes.values())]
    if model.is_encoder_decoder:  # (BART's class for translation is also transformers' one for masked tokens)
        found = [kind for kind in found if kind == "translation"]
    return found[0] if found else None


def kind_of(model: Model) -> str:
    """What this model does: what its head is for, or the distances of an encoder's or decoder's hidden tokens.

    Numbers (regression) and labels that are each given by themselves have no loss of one label: their encoder is asked.
    """
    head = head_kind(model)
    if head == "label" and (gives_number(model.hf) or labels_apart(model.hf)):
        head = None
    kind = head or ("tokens" if model.causal or model.is_encoder_decoder else "sentence")
    if kind == "masked-token" and model.tokenizer.mask_token_id is None:
        raise ModelError(f"A masked language model needs a mask token, but the tokenizer of {model.name} has none.")
    return kind


@dataclass(frozen=True)
class Question:
    """One text, alone and unpadded, and what is to be read off the model's output for it."""

    kind: str
    inputs: Mapping[str, Tensor]
    labels: Int[Tensor, " place"]  # −1 where nothing is asked; the class of a classifier
    choices: Int[Tensor, " choice"] | None = (
        None  # the tokens that come into question, where not all do; labels count them
    )
    whole: bool = False  # distributions are compared, not losses of labels
    answered: bool = False  # of the places that are asked the last is the model's answer, which counts by itself

    @property
    def length(self) -> int:
        return max(t.shape[1] for t in self.inputs.values())

    @property
    def numbers(self) -> tuple[str, ...]:
        """What `effects` tells of this question."""
        return ("loss", "probability", "accuracy") if self.kind == "label" else ("effect",)

    def until_asked(self) -> Question:
        """Without the tokens after the last place that is asked: in a causal model nothing that is asked reads them."""
        end = int((self.labels >= 0).nonzero()[-1]) + 1
        return replace(self, inputs={name: t[:, :end] for name, t in self.inputs.items()}, labels=self.labels[:end])

    def read(self, output: Any) -> Float[Tensor, "copy place ..."]:
        """The loss of every place that is asked, the three numbers of a label, or vectors of length 1."""
        if self.kind in DISTANCES:
            return _unit(output, self.kind)
        logits = at_least_float(output.logits)
        if self.kind == "label":
            said = logits.log_softmax(-1)[:, self.labels[0]]
            right = (logits.argmax(-1) == self.labels[0]).to(said)
            return torch.stack([-said, said.exp(), right], dim=-1)
        asked = self.labels >= 0
        if self.choices is not None:
            logits = logits[..., self.choices]
        if logits.shape[1] == len(asked):  # else the output layer read only what is asked (`asked_only`)
            logits = logits[:, asked]
        return logits if self.whole else torch.stack([_losses(copy, self.labels[asked]) for copy in logits])

    def parts(self, read: Float[Tensor, "copy place ..."]) -> list[Float[Tensor, "copy _ ..."]]:
        """What was read of the text's own tokens, where it has some, and of the answer, where that counts by itself."""
        return [part for part in (read[:, :-1], read[:, -1:]) if part.shape[1]] if self.answered else [read]

    def effects(self, clean: Tensor, found: Float[Tensor, "copy place ..."]) -> Float64[Tensor, "copy number"]:
        """How far `found` is from `clean`: mean differences, or the mean distance of vectors."""
        if self.kind in DISTANCES:
            return _apart(clean, found).mean(-1, keepdim=True)
        change = found.double() - clean.double()
        return change if self.kind == "label" else change.mean(-1, keepdim=True)

    def moved(self, clean: Tensor, found: Float[Tensor, "copy place ..."]) -> Float64[Tensor, "copy one"]:
        """The same without a sign: the mean over places of how far each one's loss, or vector, is from the clean.

        Of whole distributions it is their divergence, in the mean over the text's own tokens or at the answer if more.
        """
        if self.kind in DISTANCES:
            return self.effects(clean, found)
        if self.whole:
            own = clean[0].log_softmax(-1)
            apart = torch.stack([_divergence(own, copy) for copy in found])
            return torch.stack([part.mean(-1) for part in self.parts(apart)]).amax(0)[:, None]
        change = (found.double() - clean.double()).abs()
        return change[:, :1] if self.kind == "label" else change.mean(-1, keepdim=True)


@contextmanager
def asked_only(model: Model, question: Question) -> Iterator[None]:
    """Within it the model's output layer reads only the places that are asked: a vocabulary is wide."""
    layer = None if question.kind in (*DISTANCES, *LABELS) else model.hf.get_output_embeddings()
    if not isinstance(layer, nn.Module):
        yield
        return
    length, places = len(question.labels), (question.labels >= 0).nonzero()[:, 0]

    def before(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        read, *others = args or (None,)
        if not isinstance(read, Tensor) or read.ndim != 3 or read.shape[1] != length:
            return None
        return (read[:, places], *others)

    handle = layer.register_forward_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


def _losses(logits: Float[Tensor, "place token"], labels: Int[Tensor, " place"]) -> Float[Tensor, " place"]:
    """A few rows at a time, which stay in the cache: all of a text are some 25 MB."""
    parts = zip(logits.split(ROWS), labels.split(ROWS), strict=True)
    return torch.cat([torch.nn.functional.cross_entropy(row, label, reduction="none") for row, label in parts])


def _divergence(own: Float[Tensor, "place token"], found: Float[Tensor, "place token"]) -> Float64[Tensor, " place"]:
    """KL(p ‖ p′) of every place, from log p and the logits of p′, a few rows at a time; 0 · log 0 is 0."""
    rows = zip(own.split(ROWS), found.split(ROWS), strict=True)
    parts = [torch.where(p > -torch.inf, p.exp() * (p - other.log_softmax(-1)), 0.0).sum(-1) for p, other in rows]
    return torch.cat(parts).double().clamp(min=0)


def _apart(clean: Tensor, found: Tensor) -> Float64[Tensor, "copy place"]:
    return (1 - torch.cosine_similarity(found.double(), clean.double(), dim=-1)).clamp(min=0)


def looked_at(model: Model, kind: str) -> dict[str, bool]:
    """What to ask of a pass besides: the hidden tokens, where only they are looked at and a head stands above them."""
    return {"output_hidden_states": True} if kind in DISTANCES and model.hf.base_model is not model.hf else {}


def last_hidden(output: Any) -> Float[Tensor, "copy token d_model"]:
    """The last hidden tokens, of a model without a head or of one that was asked for them (`looked_at`)."""
    if (found := output.get("last_hidden_state")) is None:
        found = (output.get("hidden_states") or output["decoder_hidden_states"])[-1]
    return at_least_float(found)


def _unit(output: Any, kind: str) -> Float[Tensor, "copy token d_model"]:
    hidden = last_hidden(output)
    vectors = hidden.mean(1, keepdim=True) if kind == "sentence" else hidden
    return torch.nn.functional.normalize(vectors, dim=-1)


def ask(
    model: Model,
    text: Encoding,
    target: Encoding | None = None,
    *,
    label: str | int | None = None,
    number: int = 0,
    seed: int = 0,
    kind: str | None = None,
) -> Question | None:
    """The question for one text; None where it has nothing to ask (one token). `number` and `seed` decide the masks."""
    kind = kind or kind_of(model)
    if kind not in KINDS:
        raise InputError(f"What a model does is one of {', '.join(KINDS)}, but {kind!r} was asked for.")
    device = model.hf.device
    if kind == "label":
        batch = model.batch([text])
        return Question(kind, batch.inputs, torch.tensor([_label(model, batch.inputs, label)], device=device))
    if model.is_encoder_decoder:
        assert target is not None
        labels = torch.tensor([*target.ids[1:], -1], device=device)
        return Question(kind, model.batch([text], [target]).inputs, labels) if len(target) > 1 else None
    if kind == "token-label":
        return _of_tokens(model, text)
    if kind == "masked-token":
        text, labels = masked(model, text, number, seed)
    else:
        labels = torch.tensor([*text.ids[1:], -1])
    if kind not in DISTANCES and not bool((labels >= 0).any()):
        return None
    return Question(kind, model.batch([text]).inputs, labels.to(device))


def ask_far(model: Model, text: Encoding, target: Encoding | None = None) -> Question | None:
    """How far what the model says moves: whole distributions, of a decoder that of its answer too."""
    kind = kind_of(model)
    if kind == "next-token":
        labels = torch.tensor([*text.ids[1:], 0], device=model.hf.device)  # which token the last is is not asked
        return Question(kind, model.batch([text]).inputs, labels, whole=True, answered=True)
    question = ask(model, text, target, kind=kind)
    return question if question is None or kind in ("label", *DISTANCES) else replace(question, whole=True)


def _of_tokens(model: Model, text: Encoding) -> Question | None:
    """The label that the model itself gives each token that is not special."""
    inputs, plain = model.batch([text]).inputs, ~torch.tensor(text.special, device=model.hf.device)
    if not bool(plain.any()):
        return None
    with torch.no_grad():
        said = model.hf(**inputs).logits[0].argmax(-1)
    return Question("token-label", inputs, said.where(plain, -1))


def masked(model: Model, text: Encoding, number: int, seed: int) -> tuple[Encoding, Int[Tensor, " token"]]:
    """15 % of the tokens that are not special, at least one, in the order of their hashes; −1 elsewhere."""
    plain = torch.tensor([at for at, special in enumerate(text.special) if not special], dtype=torch.int64)
    order = hashed(number * POSITIONS + plain, seed).argsort()
    hidden = set(plain[order[: max(1, round(MASKED * len(plain)))]].tolist())
    token = int(model.tokenizer.mask_token_id)  # type: ignore[arg-type] - looked at in `kind_of`
    ids = tuple(token if at in hidden else i for at, i in enumerate(text.ids))
    return replace(text, ids=ids), torch.tensor([i if at in hidden else -1 for at, i in enumerate(text.ids)])


def _label(model: Model, inputs: Mapping[str, Tensor], label: str | int | None) -> int:
    """The number of a class, by its number or its name; what the model says where there is none."""
    if label is None:
        with torch.no_grad():
            return int(model.hf(**inputs).logits.argmax())
    at = class_of(model, label)
    if at is None:
        raise no_class(model, str(label))
    return at

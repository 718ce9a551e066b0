"""What the model itself answers to a text, in words: it stands on top of every page that shows its attention.

    label          the classes with their probabilities                       sequence classifiers
    labels         the same, each by itself (sigmoid)                         classifiers of several labels at once
    number         the number                                                 regression
    token-label    the words that are not "O", the surest first               token classifiers
    next-token     the likeliest tokens after the text                        language models
    masked-token   the likeliest tokens for the mask, where the text has one  masked language models
    translation    its own translation, and its probability a token           encoder–decoders with a head
    target         a target that it would not write itself, with the same     the same
    span           the part of a text that answers a question                 heads that point at answers
    sentence       a vector, and the nearest of some sentences by its cosine  encoders without a head

A model without a head that is no encoder has no answer: None; nor has a masked language model without a mask, or a
head for questions without a question and a text, which `unanswered` tells. `headless` tells of a head that the
checkpoint has and the model was loaded without.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError
from headwise.interventions.labels import class_of, no_class, told
from headwise.interventions.outcomes import head_kind, kind_of, last_hidden, looked_at
from headwise.interventions.spans import answers_questions, span_of
from headwise.models.capture import at_least_float, quiet
from headwise.models.heads import own_task
from headwise.models.model import Model
from headwise.models.probe import last_logits
from headwise.models.tasks import gives_number, labels_apart
from headwise.results.shown import number
from headwise.text.corpus import Document, open_corpus
from headwise.traces import WAYS
from headwise.types import Encoding

MOST, SMALL = 5, 0.005
OUTSIDE = "O"  # the label of words that are nothing, as tagging schemes call it
NEAR = 0.3  # the cosine below which no sentence is called near
HEADLINE = 160  # characters of an answer that a line shows
LONGEST = 60  # characters of a sentence to compare with
COMPARED, STEP = 24, 3  # so many of them, a third of those there are: the sample goes from subject to subject
SIGNS = str.maketrans("\n\r\t", "↵↵⇥")
HEADLESS = "Loaded without its head: hw.load({!r}, task={!r}) shows what it answers."
LED = {"label": "The model says", "token-label": "It labels", "next-token": "Next comes",
       "labels": "Each by itself, the model says", "number": "The model gives", "masked-token": "For the mask it says",
       "translation": "It translates this as", "target": "The target read here",
       "span": "It answers"}  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """`choices` are what was answered with how sure: a probability, or for sentences a cosine.

    `vector` is a sentence's, of length 1.
    """

    kind: str
    choices: tuple[tuple[str, float], ...]
    rest: str = ""  # of the words that are not told
    size: int = 0  # numbers of a sentence's vector
    vector: tuple[float, ...] = field(default=(), repr=False)

    @property
    def says(self) -> str:
        """In one line: "The model says positive (97 %), negative (3 %)".

        Of a sentence what the model gives, and its neighbour, which may be far.
        """
        told = ", ".join(
            f"{name} {number(of, '.4g')}" if self.kind == "number" else f"{short(name)} ({_sure(self.kind, of)})"
            for name, of in self.choices
        )
        told += f", {self.rest}" if self.rest else ""
        if self.kind != "sentence":
            return f"{LED[self.kind]}: {told}"
        given = f"A sentence vector of {self.size} numbers, the mean over its tokens"
        if self.choices[0][1] < NEAR:
            return f"{given}; none of the sample sentences that headwise brings is near, the nearest is {told}"
        return f"{given}; of the sample sentences that headwise brings the nearest is {told}"


def seen(words: str) -> str:
    """With signs for ends of lines and tabs."""
    return words.replace("\r\n", "↵").translate(SIGNS)


def short(words: str) -> str:
    """An answer on one line, with signs for ends of lines and tabs; cut at a word where it is long, its quote kept.

    >>> short("“" + "very " * 40 + "long”")[-12:], short("“the dog”"), short("“\\n\\t”")
    ('very very …”', '“the dog”', '“↵⇥”')
    """
    words = seen(words)
    if len(words) <= HEADLINE:
        return words
    return f"{words[:HEADLINE].rpartition(' ')[0] or words[:HEADLINE]} …{'”' * words.endswith('”')}"


def _sure(kind: str, of: float) -> str:
    """How sure, as people write it; what is not nothing is not written as 0 %."""
    if kind == "sentence":
        return f"cos {number(of, '.2f')}"
    sure = "<\u00a01\u00a0%" if 0 < of < SMALL else number(of, ".0%")
    return f"{sure} a token, geometric mean" if kind in ("translation", "target") else sure


@WAYS.add("says", "What the model itself answers.")
def said_to(model: Model, text: str, pair: str | None = None, *, truncate: bool = False) -> Answered | None:
    """The model's answer to a text; for a translation model `pair` is the target."""
    if model.is_encoder_decoder and not model.reads_source_twice:
        target = None if pair is None else model.encode_target(pair, truncate=truncate)
        return answered(model, model.encode(text, truncate=truncate), target)
    return answered(model, model.encode(text, pair, truncate=truncate))


def answered(model: Model, text: Encoding, target: Encoding | None = None) -> Answered | None:
    """The model's answer to a text that is encoded already; None where it has none."""
    if answers_questions(model):
        return Answered("span", found) if (found := span_of(model, text)) else None
    kind = head_kind(model) or kind_of(model)
    alone = kind == "sentence" and model.sense != "text"  # no sentence to be near to
    if kind == "tokens" or alone or (kind == "translation" and target is None):
        return None
    with torch.no_grad(), quiet():
        if kind == "sentence":
            return _nearest(model, text)
        few = last_logits(model.hf) if kind == "next-token" else {}  # of a long text all would be gigabytes
        output = model.hf(**model.batch([text], [] if target is None else [target]).inputs, **few)
    rows = at_least_float(output.logits)[0].log_softmax(-1)
    if kind == "label":
        return _classified(model, at_least_float(output.logits)[0])
    if kind == "token-label":
        return _labelled(model, text, rows)
    if kind == "translation":
        assert target is not None
        said = rows[:-1].gather(1, torch.tensor(target.ids[1:], device=rows.device)[:, None])
        words = "".join(model.tokenizer.decode(list(target.ids), skip_special_tokens=True))
        own = rows[:-1].argmax(-1).tolist() == list(target.ids[1:])
        return Answered(kind if own else "target", ((f"“{words.strip()}”", math.exp(float(said.mean()))),))
    at = -1
    if kind == "masked-token":
        masks = [place for place, token in enumerate(text.ids) if token == model.tokenizer.mask_token_id]
        if not masks:
            return None
        at = masks[0]
    return Answered(kind, _best(rows[at], None, model))


def unanswered(model: Model) -> str:
    """How to get an answer out of a model that gives none to a text as it is; empty where nothing is known."""
    if answers_questions(model):
        return "It answers questions: give it two texts, the question and what it is asked of, to see what it says."
    if kind_of(model) != "masked-token":  # only then there is a tokenizer for sure, and it has a mask
        return ""
    return f"It fills in blanks: put {model.tokenizer.mask_token} in place of a word to see what it says."


def headless(model: Model) -> str:
    """That the checkpoint has a head which was not loaded, and how it is; empty where it has none, or was asked for."""
    source = model.source or {"task": "its own"}
    if source["task"] is not None or model.sense != "text" or head_kind(model) or answers_questions(model):
        return ""
    task = own_task(source["source"])
    return "" if task is None else HEADLESS.format(source["source"], task)


def right(
    model: Model, documents: Iterable[Document], *, limit: int | None = None, truncate: bool = False
) -> list[bool]:
    """Of every text with a label that a run reads too, whether the model says so; one text at a time."""
    found = []
    for document in documents:
        label = told(model, document.notes)
        if label is None:
            continue
        if (at := class_of(model, label)) is None:
            raise no_class(model, label)
        try:
            text = model.encode(document.text, document.pair, limit=limit, truncate=truncate)
        except InputError:  # too long, or nothing to read: the run has counted it as left out
            continue
        with torch.no_grad(), quiet():
            found.append(int(model.hf(**model.batch([text]).inputs).logits[0].argmax()) == at)
    return found


def _best(
    row: Float[Tensor, " choice"], names: Sequence[str] | None, model: Model | None = None
) -> tuple[tuple[str, float], ...]:
    """The likeliest, the first of them first; tokens between quotes, so that spaces are seen."""
    best = row.exp().topk(min(MOST, len(row)))
    tokens = [str(names[i]) if names else f"“{model.tokenizer.decode([i])}”" for i in best.indices.tolist()]  # type: ignore[union-attr]
    return tuple(zip(tokens, best.values.tolist(), strict=True))


def _classified(model: Model, logits: Float[Tensor, " label"]) -> Answered:
    """By what the head was trained for: one of its labels, each of them by itself, or numbers."""
    named = {int(at): str(name) for at, name in (model.hf.config.id2label or {}).items()}
    names = [named.get(at, str(at)) for at in range(len(logits))]
    if gives_number(model.hf):
        return Answered("number", tuple(zip(names, logits.tolist(), strict=True)))
    if labels_apart(model.hf):
        return Answered("labels", _best(torch.nn.functional.logsigmoid(logits), names))
    return Answered("label", _best(logits.log_softmax(-1), names))


def _labelled(model: Model, text: Encoding, rows: Float[Tensor, "token label"]) -> Answered | None:
    """Words with another label than "O", or than most have where no label is called so, by how sure.

    All of them where they have one label. A word's label is that of its first token.
    """
    names = {int(at): str(name) for at, name in (model.hf.config.id2label or {}).items()}
    firsts = {text.unit[at]: at for at in reversed(range(len(text))) if not text.special[at]}
    if not firsts:
        return None
    sure, said = (found[sorted(firsts.values())].tolist() for found in rows.exp().max(-1))
    (most, _), *_ = Counter(said).most_common(1)
    usual = next((at for at, name in names.items() if name == OUTSIDE), most)
    words = list(zip((text.words[unit].strip() for unit in sorted(firsts)), said, sure, strict=True))
    rare = sorted((word for word in words if word[1] != usual), key=lambda word: -word[2])
    told = (rare or sorted(words, key=lambda word: -word[2]))[:MOST]
    rest = f"{len(rare) - MOST} more" if len(rare) > MOST else f"the other words {names.get(usual, usual)}"
    rest = rest if len(told) < len(words) else ""
    return Answered("token-label", tuple((f"“{word}” {names.get(at, at)}", p) for word, at, p in told), rest)


def _nearest(model: Model, text: Encoding) -> Answered:
    """Among the first sentences of the sample; the text itself does not count."""
    others = [(sentence, model.encode(sentence, truncate=True)) for sentence in _sentences()]
    others = [(sentence, coded) for sentence, coded in others if coded.ids != text.ids]
    vectors = _vectors(model, [text, *(coded for _, coded in others)])
    near = (vectors[1:] @ vectors[0]).clamp(-1, 1)
    at = int(near.argmax())
    own = tuple(vectors[0].tolist())
    return Answered("sentence", ((f"“{others[at][0]}”", float(near[at])),), size=len(own), vector=own)


@cache
def _sentences() -> tuple[str, ...]:
    """A few short ones of the sample, of as many texts, so that they cost little."""
    texts = [document.text.split(". ") for document in open_corpus("sample").documents()]
    short = [min(sentences, key=len).rstrip(".") + "." for sentences in texts]
    return tuple([sentence for sentence in short if len(sentence) <= LONGEST][::STEP][:COMPARED])


def _vectors(model: Model, texts: Sequence[Encoding]) -> Float[Tensor, "text d_model"]:
    """The means of the last hidden tokens, of length 1."""
    if not model.proof.padding and len(texts) > 1:
        return torch.cat([_vectors(model, [text]) for text in texts])
    batch = model.batch(list(texts))
    hidden = last_hidden(model.hf(**batch.inputs, **looked_at(model, "sentence")))
    mask = batch.mask.to(hidden)[..., None]
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

"""How far attention mixes tokens: what a hidden token is made of, layer by layer, over a corpus.

Brunner et al. 2019 (https://arxiv.org/abs/1908.04211v1) fig2–15 with `quantities=output-weighted`, Brunner et al. 2020
(https://arxiv.org/abs/1908.04211) fig3, fig4, fig18–37 with `quantities=hidden-token`; any other origins quantity as
well. Texts go through the model one at a time, so that what a text comes to never depends on its batch; the random
tangents of document d come from the seed (seed, d).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.attributions import ORIGINS
from headwise.errors import InputError
from headwise.interventions.labels import class_of, no_class, told
from headwise.models.model import Model
from headwise.models.packaged import packaged_folder
from headwise.studies import STUDIES
from headwise.studies.answers import FEWEST, Answer
from headwise.studies.mixing.answers import answers
from headwise.studies.mixing.facts import Maps, example, facts, unsure
from headwise.studies.mixing.figures import mixing_figures
from headwise.studies.mixing.table import mixing_table
from headwise.studies.needs import Cost, Means
from headwise.studies.study import Reading, Setting, State, Stats, Study, asked_of, only_quantity, plus
from headwise.text.conllu import Sentence
from headwise.text.tags import TAGSETS, Tagged, by_sentence, by_spacy, check_spacy, source, tag_file, token_tags
from headwise.types import Encoding

MOST = 64  # tangents of an input token, where they are chosen by their error


@STUDIES.add(
    "mixing", "what hidden tokens are made of: themselves, neighbours, by part of speech (Brunner et al.)", order=60
)
@dataclass(frozen=True)
class Mixing(Study):
    """`quantities`: an origins quantity, one at a time.

    `tangents`: random directions an input token, 0 for exact; `seed` draws them. `unsure`: the largest share of a
    text's hidden tokens of which the error may leave open whether they are their own main origin; tangents double up to
    64 until it does not. 1: they stay as they are.

    `target`: the output that `output-weighted` follows: sum, predicted, gold or the number of a class. `tags`: corpus
    (those that a CoNLL-U corpus brings), none, spacy, or a CoNLL-U file with a sentence for each document (for each
    text of a pair) in order; `tagset`: xpos or upos. `example`: document:token (also several, 0:3:7), a document for
    its middle token, or document*count for so many tokens spread over it.
    `texts`: how many documents from the first on are asked, as each costs many passes; 0 for all.
    """

    title: ClassVar[str] = "What hidden tokens are made of"
    first_by: ClassVar[tuple[str, ...]] = ("statistic=median", "group=", "kind=not-own")
    cost: ClassVar[Cost] = "passes"
    one_by_one: ClassVar[bool] = True
    captions: ClassVar[Mapping[str, str]] = {
        "fig2a": "how much of a token is left in its place, layer by layer (Brunner et al. 2019)",
        "fig3a": "how much of a token is left in its place, layer by layer (Brunner et al. 2020)",
        "fig2b": "where a token ranks among all that went into it",
        "fig3b": "hidden tokens whose main origin is another token",
        "fig4a": "in which layer neighbours of a distance count most",
        "fig4b": "how far the context of a token reaches",
        "fig18": "what the first token is made of, by place",
        "fig19": "what one token of one text is made of, layer by layer",
        "fig3": "how much of a token is left, by part of speech",
        "fig4": "where a token ranks among its origins, by part of speech",
        "fig5-15": "how much of a token is left, by part of speech, in every layer",
        "fig26-37": "how much of a token is left, by part of speech, in every layer",
    }
    quantities: tuple[str, ...] = setting(("hidden-token",), of=ORIGINS)
    tangents: int = setting(2, least=0)
    unsure: float = setting(1.0, least=0, most=1)
    seed: int = setting(0, least=0, most=SEED)
    target: str | int = setting("predicted", least=0)
    tags: str = "corpus"
    tagset: str = setting("xpos", one_of=TAGSETS)
    example: str | int = setting("0", least=0)
    texts: int = setting(16, least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._example, self.quantity

    @property
    def quantity(self) -> str:
        return only_quantity(self, self.quantities)

    def check(self, model: Model) -> None:  # noqa: ARG002
        """Tags must be at hand before hours of passes are made."""
        if self.tags == "spacy":
            check_spacy()
            packaged_folder("spacy-en")
        elif self.tags not in ("corpus", "none"):
            tag_file(self.tags)

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        """Tangents double where the error asks for it, once in the mean; exact ones are as many as dimensions."""
        return 2 * (self.tangents or MOST) * tokens

    def ask(self, model: Model, reading: Reading) -> Stats:
        state: Stats = {}
        for row, text in enumerate(reading.batch.texts):
            document = int(reading.documents[row])
            if self.texts and document >= self.texts:
                continue
            note = reading.notes[row] if reading.notes else None
            maps, error = self._maps(model, reading, row)
            tags = self._tags(text, document, note)
            state = plus(state, facts(maps, text, tags, causal=model.causal, error=error))
            if document == self._example[0]:
                state |= example(maps, text, document, self._example_tokens(text))
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:  # noqa: ARG002
        """One row a fact: kind, layer, group, statistic, value, and of how many tokens."""
        return mixing_table(state).select(pl.lit(self.quantity).alias("quantity"), pl.all())

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        """A tangent of a token costs about one forward pass of its text."""
        return {"texts": FEWEST if means.seconds is None else means.passes(cls.tangents * means.tokens)}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, asked_of(setting, self.texts))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """By the papers' numbers: fig2a or fig3a, fig2b, fig3b, fig4a, fig4b, fig18, fig19; with tags fig3, fig4, …"""
        return mixing_figures(state, setting.model, self.quantity)

    def _maps(self, model: Model, reading: Reading, row: int) -> tuple[Maps, Maps | None]:
        """The origins of one text and their error; float64, since shares are added up."""
        targets = reading.batch.targets[row : row + 1]
        batch = model.batch([reading.batch.texts[row]], targets)
        options = self._options(model, int(reading.documents[row]), reading.notes[row] if reading.notes else None)
        while True:
            found = ORIGINS[self.quantity](model, batch, **options)
            maps, error = found.maps[0].detach().double().cpu(), found.error
            if error is None:
                return maps, torch.zeros_like(maps) if "k" in options else None
            error = error[0].double().cpu()
            if options["k"] >= MOST or float(unsure(maps, error).double().mean()) <= self.unsure:
                return maps, error
            options = {**options, "k": min(MOST, 2 * options["k"])}

    def _options(self, model: Model, document: int, note: Any) -> dict[str, Any]:
        if self.quantity == "hidden-token":
            if self.tangents == 0:
                return {"exact": True}
            return {"k": self.tangents, "seed": self.seed + 1_000_003 * document}
        if self.quantity == "output-weighted":
            target = int(self.target) if str(self.target).isdecimal() else self.target
            return {
                "target": target,
                **({"labels": _label(model, note)} if target == "gold" and note is not None else {}),
            }
        return {}

    def _tags(self, text: Encoding, document: int, note: Any) -> tuple[str | None, ...] | None:
        if self.tags == "corpus":
            sentences = [note] if isinstance(note, Sentence) else []
        elif self.tags in ("none", "spacy"):
            sentences = []
        else:
            sentences = self._sentences(text, document)
        texts = [source(text, segment) for segment in range(max(text.segment) + 1)]
        if self.tags == "spacy":
            folder = packaged_folder("spacy-en")
            return token_tags(text, [by_spacy(side, folder, tagset=self.tagset) for side in texts])
        sides: list[Tagged] = [by_sentence(*pair, tagset=self.tagset) for pair in zip(texts, sentences, strict=False)]
        return token_tags(text, sides) if sides else None

    def _sentences(self, text: Encoding, document: int) -> tuple[Sentence, ...]:
        """The sentences of one document in the tag file: one, or one for each text of a pair."""
        sides = max(text.segment) + 1
        found = tag_file(self.tags)[document * sides : (document + 1) * sides]
        if len(found) < sides:
            raise InputError(
                f"{self.tags} must have a sentence for every text, but it ends after {len(tag_file(self.tags))} and "
                f"document {document} needs number {(document + 1) * sides}; tag the whole corpus, or set texts."
            )
        return found

    @cached_property
    def _example(self) -> tuple[int, tuple[int, ...], int]:
        """The document; its tokens, or how many there shall be."""
        found = re.fullmatch(r"([0-9]+)(?:\*([1-9][0-9]*)|((?::[0-9]+)*))", str(self.example))
        if found is None:
            raise InputError(
                f"An example is document:token, both from 0, or document*count, but {self.example!r} was asked for."
            )
        return int(found[1]), tuple(int(token) for token in (found[3] or "").split(":")[1:]), int(found[2] or 1)

    def _example_tokens(self, text: Encoding) -> tuple[int, ...]:
        document, tokens, count = self._example
        if max(tokens, default=0) >= len(text):
            raise InputError(
                f"Document {document} has tokens 0 to {len(text) - 1}, but example {self.example} was asked for."
            )
        return tokens or tuple(dict.fromkeys((2 * at + 1) * len(text) // (2 * count) for at in range(count)))


def _label(model: Model, note: Any) -> Int[Tensor, "1"]:
    label = told(model, note)
    if label is None:
        raise InputError(f"target=gold needs documents with a label, but one has {note!r}; choose sum.")
    at = class_of(model, label)
    if at is None:
        raise no_class(model, label)
    return torch.tensor([at])

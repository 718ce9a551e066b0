"""How far each head of one model is from each head of another: Σ JS of their rows on the same tokens.

Rows can be compared only where both models read the same tokens and may look at the same keys: the same tokenizer, and
both causal or neither. Anything else is refused with the reason. The formula is that of `measures/distance.py`.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from headwise.errors import InputError, TooLongError
from headwise.measures.distance import Smoothed, smoothed, summed_js
from headwise.models.model import Model
from headwise.text.corpus import CorpusSpec, Document
from headwise.types import Batch, Layer

OTHERWISE = "match by position or by profile instead"


class Between(NamedTuple):
    """Σ JS in nats, of every document; and its number of tokens."""

    sums: Float[ndarray, "document a b"]
    tokens: Float[ndarray, " document"]


def between(a: Model, b: Model, corpus: CorpusSpec, *, texts: int, max_tokens: int | None, truncate: bool) -> Between:
    """Over the first `texts` documents that both can read; heads of the only stack, layer by layer."""
    for model in (a, b):
        if model.stacks != ("self",):
            raise InputError(f"Rows are compared of models with one stack, but {model.name} has several; {OTHERWISE}.")
    if a.causal != b.causal:
        raise InputError(f"Rows must be over the same keys, but one model is causal and one is not; {OTHERWISE}.")
    readable = (
        batches for document in corpus.documents() if (batches := _batches(a, b, document, max_tokens, truncate))
    )
    found = [_one(a, b, *batches) for batches in islice(readable, texts)]
    if not found:
        raise InputError("There must be a text that both models can read, but there is none; raise --max-tokens.")
    return Between(np.stack([sums for sums, _ in found]), np.array([float(tokens) for _, tokens in found]))


def _batches(
    a: Model, b: Model, document: Document, max_tokens: int | None, truncate: bool
) -> tuple[Batch, Batch] | None:
    """The document as both models read it, None where one cannot; refused where they read different tokens."""
    try:
        first, second = (m.encode(document.text, document.pair, limit=max_tokens, truncate=truncate) for m in (a, b))
    except (TooLongError, InputError):
        return None
    if first.tokens != second.tokens:
        at = next((n for n, (x, y) in enumerate(zip(first.tokens, second.tokens, strict=False)) if x != y), -1)
        raise InputError(
            f"Rows must be over the same tokens, but text {document.index} is {len(first)} tokens for {a.name} and "
            f"{len(second)} for {b.name}, and they differ from token {at if at >= 0 else min(len(first), len(second))} "
            f"on; {OTHERWISE}."
        )
    return a.batch([first]), b.batch([second])


def _one(a: Model, b: Model, of_a: Batch, of_b: Batch) -> tuple[Float[ndarray, "a b"], int]:
    first, second = _rows(a, of_a), _rows(b, of_b)
    heads = sum(map(len, first))
    sums = [summed_js(layer, first)[:, :heads] for layer in second]
    return torch.cat(sums).mT.numpy(), len(of_a.texts[0])


def _rows(model: Model, batch: Batch) -> list[Smoothed]:
    """The smoothed rows of every layer; keys that no layer may look at are left out in causal models."""
    found: list[Smoothed] = []

    def see(layer: Layer) -> None:
        n = layer.alpha.shape[2]
        pairs = torch.ones(1, n, n, dtype=torch.bool)
        found.append(smoothed(layer.alpha, pairs.tril() if model.causal else pairs))

    with torch.inference_mode():
        model.run(batch, see, rows=0)
    return found

r"""How much a head looks along a relation that the corpus tells: from a word to its syntactic head, or its antecedent.

    w_r = mean over the pairs (d, h) of relation r in a text of A_{d, h}    between words (measures/wordmaps.py)

Of a parsed sentence d is a dependent and h its head; of a text with coreference d is the head word of a mention and h
that of the mention before it of the same entity. NaN where the text has no such pair, or none that can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.measures.wordmaps import Words, word_map, words
from headwise.studies.study import Reading
from headwise.studies.syntax.pairs import pairs
from headwise.text.conllu import Sentence, words_of
from headwise.text.coref import CorefDocument
from headwise.types import Layer

COREFERENCE = "coreference"
RELATIONS = ("nsubj", "obj", "det", "amod", "advmod", "aux", "nmod:poss", "case", COREFERENCE)

Pairs = list[tuple[int, int, int]]  # relation, from which word, to which


def related_weights(layer: Layer, reading: Reading) -> Float64[Tensor, "batch head relation"] | None:
    """The weights of a layer's heads along each relation; None without relations, or while rows are still to come."""
    notes = reading.notes
    if layer.stack != "self" or not notes or not all(isinstance(one, Sentence | CorefDocument) for one in notes):
        return None
    if "related" not in reading.memo:
        reading.memo["related"] = _asked(reading, layer.alpha.dtype)
    asked, told = reading.memo["related"]
    maps = word_map(layer, "raw", asked)
    if maps is None:
        return None
    return torch.stack([_means(of, pairs) for of, pairs in zip(maps.double(), told, strict=True)])


def _asked(reading: Reading, dtype: torch.dtype) -> tuple[Words, list[Pairs]]:
    """The words of every text, and the pairs of which both words have a token."""
    of_token = [words_of(text, note.spans) for text, note in zip(reading.batch.texts, reading.notes, strict=True)]
    told = [[pair for pair in _pairs(note) if {*pair[1:]} <= set(owners)]
            for note, owners in zip(reading.notes, of_token, strict=True)]  # fmt: skip
    return words(of_token, [len(note.spans) for note in reading.notes], dtype=dtype), told


def _pairs(note: Sentence | CorefDocument) -> Iterator[tuple[int, int, int]]:
    if isinstance(note, Sentence):
        for pair in pairs(note):
            if pair.relation in RELATIONS:
                yield RELATIONS.index(pair.relation), pair.asker, pair.head
        return
    last: dict[int, int] = {}
    for mention, head in zip(note.mentions, note.heads, strict=True):
        if mention.entity in last and last[mention.entity] != head:
            yield RELATIONS.index(COREFERENCE), head, last[mention.entity]
        last[mention.entity] = head


def _means(maps: Float64[Tensor, "head word word"], told: Pairs) -> Float64[Tensor, "head relation"]:
    """The mean weight of each relation's pairs; 0 says that none was seen, as under a causal mask, and is no place."""
    found = torch.full((maps.shape[0], len(RELATIONS)), torch.nan, dtype=torch.float64)
    for relation in {relation for relation, _, _ in told}:
        weights = [maps[:, asker, head] for which, asker, head in told if which == relation]
        found[:, relation] = torch.stack(weights).mean(0)
    return found.where(found != 0, torch.nan)

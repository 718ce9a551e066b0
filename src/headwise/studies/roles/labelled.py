"""What heads look like where the corpus has labels: how often the most attended word is the one that labels name.

| role | asked | the most attended word is | of |
|---|---|---|---|
| governor | every word but the root and punctuation | its syntactic head | CoNLL-U (Clark et al. 2019) |
| dependent | the same pairs | … is the one whose row gives the dependent most | the same |
| antecedent | mentions with an earlier one of the same entity | the head word of such a one | .conll |
| alignment, alignment-next | target words with links, by rows that read or foretell them | a link | .pairs with links |

Maps are between words, without the diagonal (measures/wordmaps.py). A word that is not seen counts as wrong.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.measures.wordmaps import only, visible_words, word_map
from headwise.stats import Sums
from headwise.studies.alignment.sides import Sides, sides
from headwise.studies.coref.mentions import asked as asked_mentions
from headwise.studies.coref.mentions import passage
from headwise.studies.study import Reading, Stats, at
from headwise.studies.syntax.pairs import NO_PUNCTUATION, labels
from headwise.studies.syntax.pairs import asked as asked_pairs
from headwise.text.alignments import Pair
from headwise.text.conllu import Sentence
from headwise.text.coref import CorefDocument
from headwise.types import Layer

LABELLED = ("governor", "dependent", "antecedent", "alignment", "alignment-next")
POSITIONS = {"alignment": "input", "alignment-next": "output"}
Hits = Bool[Tensor, "item head"]


def labelled(layer: Layer, reading: Reading, quantity: str) -> Stats:
    """`ROLE@stack.layer`: hits and how many were asked; nothing where the notes are of another kind."""
    if not reading.notes:
        return {}
    hits: dict[str, Hits] = {}
    if layer.stack != "cross" and not reading.batch.targets:
        if _all(reading, Sentence):
            hits = _syntax(layer, reading, quantity)
        elif _all(reading, CorefDocument):
            hits = _coreference(layer, reading, quantity)
    elif layer.stack == "cross" and _all(reading, Pair):
        hits = _alignment(layer, reading, quantity)
    return {at(role, layer): _sums(found) for role, found in hits.items()}


def _syntax(layer: Layer, reading: Reading, quantity: str) -> dict[str, Hits]:
    if "roles syntax" not in reading.memo:
        reading.memo["roles syntax"] = asked_pairs(reading.batch.texts, reading.notes, dtype=layer.alpha.dtype)
    asked = reading.memo["roles syntax"]
    maps, seen = word_map(layer, quantity, asked.words), visible_words(layer, asked.words)
    if maps is None or seen is None:
        return {}
    other = ~torch.eye(seen.shape[1], dtype=torch.bool)
    choices = only(maps.abs(), seen & asked.words.there[:, None] & other)
    kept = torch.tensor([NO_PUNCTUATION in labels(relation) for relation in asked.relations], dtype=torch.bool)
    text, word, head = asked.text[kept], asked.asker[kept], asked.head[kept]
    from_word, to_word = (choices.max(axis).indices[text, :, word] == head[:, None] for axis in (-1, -2))
    # subtle: where nothing may be chosen `max` says word 0; a choice counts only if the gold word is a candidate
    return {
        "governor": from_word & (choices[text, 0, word, head] > -torch.inf)[:, None],
        "dependent": to_word & (choices[text, 0, head, word] > -torch.inf)[:, None],
    }


def _coreference(layer: Layer, reading: Reading, quantity: str) -> dict[str, Hits]:
    if "roles coreference" not in reading.memo:
        parts = [passage(note, text) for note, text in zip(reading.notes, reading.batch.texts, strict=True)]
        reading.memo["roles coreference"] = asked_mentions(parts, dtype=layer.alpha.dtype)
    asked = reading.memo["roles coreference"]
    maps, seen = word_map(layer, quantity, asked.words), visible_words(layer, asked.words)
    if maps is None or seen is None:
        return {}
    candidates = asked.candidates["words"] & seen[asked.text, asked.row]
    rows = maps.abs()[asked.text, :, asked.row].masked_fill(~candidates[:, None], -torch.inf)
    return {"antecedent": (asked.gold & candidates).gather(1, rows.argmax(-1))}


def _alignment(layer: Layer, reading: Reading, quantity: str) -> dict[str, Hits]:
    if any(note.links is None for note in reading.notes):
        return {}
    if "roles alignment" not in reading.memo:
        reading.memo["roles alignment"] = sides(reading.batch, reading.notes, dtype=layer.alpha.dtype)
    both: Sides = reading.memo["roles alignment"]
    found = {}
    for role, position in POSITIONS.items():
        maps = word_map(layer, quantity, both.words[position])
        if maps is not None:
            found[role] = _linked(maps.abs(), both, position)
    return found


def _linked(maps: Float[Tensor, "batch head row column"], both: Sides, position: str) -> Hits:
    """Of every target word that has links and a row: whether its highest source word (or special token) is linked."""
    gold = torch.zeros(maps.shape[0], *maps.shape[2:], dtype=torch.bool)
    for text, pair in enumerate(both.pairs):
        assert pair.links is not None
        for source, target in pair.links.possible:
            gold[text, target, source] = True
    text, row = (gold.any(-1) & both.rows(position)).nonzero(as_tuple=True)
    rows = maps[text, :, row].masked_fill(~both.columns[text][:, None], -torch.inf)
    return gold[text, row].gather(1, rows.argmax(-1))


def _sums(hits: Hits) -> Sums:
    return Sums(hits.double().sum(0), torch.full((hits.shape[1],), float(len(hits)), dtype=torch.float64))


def _all(reading: Reading, kind: type) -> bool:
    return all(isinstance(note, kind) for note in reading.notes)

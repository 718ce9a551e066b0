"""The questions that a parsed sentence puts to a head: which word is the head of this one?

Relations are those of Universal Dependencies, with their subtypes. Two more are made from them, to stand beside the
Stanford Dependencies of Clark et al. 2019 (https://arxiv.org/abs/1906.04341). There a preposition is the head of its
object and the dependent of what the phrase modifies; in UD the object is the head of the preposition (`case`) and the
dependent of what the phrase modifies (`obl`, `nmod`). So of "sat on the mat":

    sd:prep   on → sat    (the head of the head of `case`)
    sd:pobj   mat → on    (`case` turned around)

The other names of their Table 1 have a UD relation each (`STANFORD`), which agrees in most cases but not in all: where
UD makes a noun or adjective the predicate and the copula its dependent, `nsubj` has another head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.errors import InputError
from headwise.measures.wordmaps import Words, words
from headwise.text.conllu import Sentence, words_of
from headwise.types import Encoding

STANFORD: Mapping[str, str] = {
    "prep": "sd:prep", "pobj": "sd:pobj", "det": "det", "nn": "compound", "nsubj": "nsubj", "amod": "amod",
    "dobj": "obj", "advmod": "advmod", "aux": "aux", "poss": "nmod:poss", "auxpass": "aux:pass", "ccomp": "ccomp",
    "mark": "mark", "prt": "compound:prt",
}  # fmt: skip
ALL, NO_PUNCTUATION = "all", "all but punctuation"
CLITICS = ("'s", "’s", "'", "’")


@dataclass(frozen=True)
class Pair:
    """`asker` is the word whose attention answers for the dependent: the dependent itself but for possessives."""

    dependent: int
    head: int
    relation: str
    asker: int


@dataclass(frozen=True)
class Asked:
    """The pairs of a batch, flat, and the words they are about."""

    words: Words
    text: Int[Tensor, " pair"]
    asker: Int[Tensor, " pair"]
    head: Int[Tensor, " pair"]
    relations: tuple[str, ...]
    counts: tuple[int, ...]  # pairs of each text
    untold: int  # pairs of which a word has no token of its own


def pairs(sentence: Sentence, *, clitic: bool = True) -> Iterator[Pair]:
    """Every word but the root with its head, then the two Stanford relations that UD spells otherwise.

    `clitic`: for a possessor with 's the clitic answers, as in the paper's Table 1.
    """
    for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if head >= 0:
            asker = word + 1 if clitic and relation == "nmod:poss" and _has_clitic(sentence, word) else word
            yield Pair(word, head, relation, asker)
    for word, (noun, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
        if relation == "case" and noun >= 0 and sentence.upos[word] == "ADP":
            yield Pair(noun, word, "sd:pobj", noun)
            if sentence.heads[noun] >= 0:
                yield Pair(word, sentence.heads[noun], "sd:prep", word)


def labels(relation: str) -> tuple[str, ...]:
    """The sets a pair counts in."""
    if relation.startswith("sd:"):
        return (relation,)
    return (relation, ALL) if relation.split(":")[0] == "punct" else (relation, ALL, NO_PUNCTUATION)


def asked(
    texts: Sequence[Encoding],
    notes: Sequence[object],
    *,
    first: bool = False,
    clitic: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Asked:
    """The questions of a batch of parsed sentences; pairs with a word that has no token of its own are counted only."""
    sentences = [_sentence(note) for note in notes]
    of_token = [words_of(text, sentence.spans) for text, sentence in zip(texts, sentences, strict=True)]
    every = [list(pairs(sentence, clitic=clitic)) for sentence in sentences]
    told = [
        [pair for pair in found if {pair.asker, pair.dependent, pair.head} <= owners]
        for found, owners in zip(every, map(set, of_token), strict=True)
    ]
    flat = [(text, pair) for text, found in enumerate(told) for pair in found]
    return Asked(
        words=words(of_token, [len(sentence) for sentence in sentences], first=first, dtype=dtype),
        text=torch.tensor([text for text, _ in flat], dtype=torch.int64),
        asker=torch.tensor([pair.asker for _, pair in flat], dtype=torch.int64),
        head=torch.tensor([pair.head for _, pair in flat], dtype=torch.int64),
        relations=tuple(pair.relation for _, pair in flat),
        counts=tuple(map(len, told)),
        untold=sum(map(len, every)) - len(flat),
    )


def _has_clitic(sentence: Sentence, word: int) -> bool:
    after = word + 1
    return after < len(sentence) and sentence.heads[after] == word and sentence.forms[after] in CLITICS


def _sentence(note: object) -> Sentence:
    if isinstance(note, Sentence):
        return note
    raise InputError(
        "This study reads parsed sentences, but the corpus has none; pass a CoNLL-U file (--corpus x.conllu)."
    )

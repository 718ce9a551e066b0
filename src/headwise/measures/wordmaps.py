"""From maps between tokens to maps between words.

    to a word      Σ of what its tokens receive
    from a word    the mean of what its tokens give; with `first=True` what its first token gives

so that a row of weights still sums to what it gave to words (Clark et al. 2019 §4.1, https://arxiv.org/abs/1906.04341;
their released code takes the first token). Tokens that belong to no word, special ones above all, are left out.

A text of many tokens comes in blocks of query rows, and a word may have tokens in two of them: its rows are added up
until the last block came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.measures.reductions import key_sums
from headwise.types import Layer

WordMap = Float[Tensor, "batch head query_word key_word"]


@dataclass(frozen=True)
class Words:
    """Which tokens make which words, as matrices; words may be all of a text, or those that a study asks about."""

    giving: Float[Tensor, "batch query_word query"]  # 1 / (tokens of the word), or 1 at its first token
    receiving: Float[Tensor, "batch key key_word"]  # 1 at the word's tokens

    @cached_property
    def there(self) -> Bool[Tensor, "batch key_word"]:
        """True at words that have a token; False at padding and at words whose characters another word's token has."""
        return self.receiving.sum(1) > 0

    def block(self, layer: Layer) -> Float[Tensor, "batch query_word query"]:
        """The part of `giving` that belongs to a layer's rows."""
        return self.giving[:, :, layer.first_row : layer.first_row + layer.alpha.shape[2]]

    def ends_with(self, layer: Layer) -> bool:
        return layer.first_row + layer.alpha.shape[2] >= self.giving.shape[2]


def words(
    of_token: Sequence[Sequence[int]], counts: Sequence[int], *, first: bool = False, dtype: torch.dtype = torch.float32
) -> Words:
    """`of_token[b][t]` is the word of token t in text b, −1 for none; text b has `counts[b]` words."""
    belongs = torch.zeros(len(counts), max(counts), max(len(row) for row in of_token), dtype=dtype)
    for text, row in enumerate(of_token):
        owners = torch.tensor(row)
        tokens = torch.nonzero(owners >= 0).squeeze(1)
        belongs[text, owners[tokens], tokens] = 1
    chosen = belongs * (belongs.cumsum(-1) == 1) if first else belongs
    return Words(chosen / chosen.sum(-1, keepdim=True).clamp(min=1), belongs.mT.contiguous())


def of_rows(words: Words, rows: Sequence[Sequence[int]]) -> Words:
    """The same keys, but only some words as queries: row r of text b is word `rows[b][r]`."""
    giving = words.giving.new_zeros(len(rows), max(1, *map(len, rows)), words.giving.shape[2])
    for text, chosen in enumerate(rows):
        giving[text, : len(chosen)] = words.giving[text, list(chosen)]
    return Words(giving, words.receiving)


def word_map(layer: Layer, quantity: str, words: Words) -> WordMap | None:
    """The map between words, on the CPU, where words are chosen; None while blocks of rows are still to come."""
    giving, receiving = (side.to(layer.alpha.device) for side in (words.block(layer), words.receiving))
    return whole(layer, words, (giving[:, None] @ key_sums(layer, quantity, receiving)).cpu(), quantity)


def visible_words(layer: Layer, words: Words) -> Bool[Tensor, "batch query_word key_word"] | None:
    """Where some token of the query word sees some token of the key word; None while blocks are still to come."""
    seen = (words.block(layer) > 0).float() @ layer.visible.cpu().float() @ words.receiving.float()
    total = whole(layer, words, seen, "visible")
    return None if total is None else total > 0


def whole(layer: Layer, words: Words, part: Tensor, name: str) -> Tensor | None:
    """The sum of the parts of all blocks, once the last one came."""
    if layer.first_row == 0 and words.ends_with(layer):
        return part
    key = f"{__name__}.{name}.{id(words)}"
    layer.text_memo[key] = layer.text_memo[key] + part if key in layer.text_memo else part
    return layer.text_memo.pop(key) if words.ends_with(layer) else None


def only(
    maps: WordMap, candidates: Bool[Tensor, "batch query_word key_word"]
) -> Float[Tensor, "batch head query_word key_word"]:
    """The map with −∞ where a word may not be chosen, so that `max` along either axis is the choice."""
    return maps.masked_fill(~candidates[:, None], -torch.inf)

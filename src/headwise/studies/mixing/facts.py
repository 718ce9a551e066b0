"""What the origins of one text tell about mixing, as statistics that add up over texts.

Of maps c [layer token input], the share of input i in the hidden token at j after a layer:

    own          c_jj, and its rank 1 + #{i : c_ij > c_jj} among the inputs of j (a tie is the token's own)
    unsure       of estimated maps: whether c_jj and the largest other c_ij are within SURE standard errors
    neighbours   groups of distances |i − j|: 1, 2, 3, 4–5, 6–10, 11+
    offset       Σ_j c_ij by i − j; what is farther than REACH is one class a side
    to first     the row of [CLS], by position and by distance from the first [SEP]
    tags         own and rank by part of speech; special tokens are tags of their own

All tokens count, special ones too, as in the papers; padding never does. Tokens that can only come from themselves (the
first one of a causal model) say nothing and are left out, and so are rows of NaN, which have no origin. In a causal
model only earlier tokens are neighbours, and the row of the first token is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.stats import Groups, Histogram, LinearBins, Moments, OctaveBins, Pieces, Sums, ravel
from headwise.studies.study import Stats
from headwise.types import Encoding

GROUPS = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4–5": (4, 5), "6–10": (6, 10), "11+": (11, 10**9)}
REACH = 50  # the farthest offset of its own
POSITIONS = 2 * REACH  # the last position of its own
SHARES = OctaveBins(-14, 1, 64)  # a median is known to 1.6 % of itself at worst
SURE = 2.0  # standard errors
RANKS = LinearBins(0.5, 256.5, 256)  # whole numbers; higher ranks are told as "over 256"

Maps = Float[Tensor, "layer token input"]


def facts(
    maps: Maps, text: Encoding, tags: Sequence[str | None] | None, *, causal: bool, error: Maps | None = None
) -> Stats:
    """The statistics of one text; `tags` has one tag a token, or is None where none are known."""
    seen = visible(len(text), causal=causal)
    counted = ~maps.isnan().any(-1) & (seen.sum(-1) > 1)
    maps = maps.nan_to_num(0.0)
    own, rank = own_and_rank(maps)
    state: Stats = {
        "own": Histogram.of(own, counted, SHARES),
        "own-mean": Moments.of(own, counted),
        "rank": Histogram.of(rank, counted, RANKS),
        "length": Moments.of(torch.tensor([float(len(text))]), torch.ones(1)),
        "chance": Sums.of(1.0 / seen.sum(-1).expand_as(own), counted),
        "offset": _by_offset(maps, seen, counted),
        **_neighbours(maps, seen, counted),
    }
    if error is not None:
        state["unsure"] = Sums.of(unsure(maps, error).double(), counted)
    if not causal and text.special[0]:
        state |= _to_first(maps[:, 0], counted[:, 0], text)
    for tag in sorted({tag for tag in tags or () if tag is not None}):
        mask = counted & torch.tensor([other == tag for other in tags or ()])
        state[f"tag-own {tag}"] = Histogram.of(own, mask, SHARES)
        state[f"tag-rank {tag}"] = Histogram.of(rank, mask, RANKS)
    return state


def visible(length: int, *, causal: bool) -> Bool[Tensor, "token input"]:
    """Which inputs a token can come from."""
    whole = torch.ones(length, length, dtype=torch.bool)
    return whole.tril() if causal else whole


def own_and_rank(maps: Maps) -> tuple[Float[Tensor, "layer token"], Int[Tensor, "layer token"]]:
    own = maps.diagonal(dim1=-2, dim2=-1)
    return own, 1 + (maps > own[..., None]).sum(-1)


def unsure(maps: Maps, error: Maps) -> Bool[Tensor, "layer token"]:
    """Where the error leaves open whether a token is its own main origin."""
    own, own_error = (each.diagonal(dim1=-2, dim2=-1) for each in (maps, error))
    itself = torch.eye(maps.shape[-1], dtype=torch.bool)
    rival, at = maps.masked_fill(itself, -1.0).max(-1)
    rival_error = error.gather(-1, at[..., None])[..., 0]
    return (own - rival).abs() < SURE * torch.hypot(own_error, rival_error)


def example(maps: Maps, text: Encoding, document: int, tokens: Sequence[int]) -> Stats:
    """The origins of some tokens through the layers, with the tokens' names as bytes: a state holds only tensors."""
    names = bytearray("\n".join(name.replace("\n", " ") for name in text.tokens).encode())
    return {
        "example": Pieces.of({document: maps[:, list(tokens)].permute(1, 2, 0).float().contiguous()}),
        "example tokens": Pieces.of({document: torch.frombuffer(names, dtype=torch.uint8).clone()}),
        "example token": Pieces.of({document: torch.tensor(list(tokens))}),
    }


def _offsets(length: int) -> Int[Tensor, "token input"]:
    """i − j of input i and token j."""
    place = torch.arange(length)
    return place[None, :] - place[:, None]


def _by_offset(maps: Maps, seen: Bool[Tensor, "token input"], counted: Bool[Tensor, "layer token"]) -> Sums:
    """Cells [layer offset]: from −REACH − 1 (all that is farther) to REACH + 1."""
    column = _offsets(maps.shape[-1]).clamp(-REACH - 1, REACH + 1) + REACH + 1
    shape = (len(maps), 2 * REACH + 3)
    cells = Groups(ravel((torch.arange(len(maps))[:, None, None], column), shape), shape)
    return Sums.of(maps, (counted[..., None] & seen).expand_as(maps), over=cells)


def _neighbours(maps: Maps, seen: Bool[Tensor, "token input"], counted: Bool[Tensor, "layer token"]) -> Stats:
    """Cells [layer group]: the mean of one neighbour, over tokens that have such neighbours; and of all of them."""
    distance = _offsets(maps.shape[-1]).abs()
    member = torch.stack([(distance >= low) & (distance <= high) & seen for low, high in GROUPS.values()])
    together = torch.einsum("ltn,gtn->lgt", maps.double(), member.double())
    number = member.sum(-1)
    there = (counted[:, None] & (number > 0)).expand_as(together)
    return {
        "neighbour": Sums.of(together / number.clamp(min=1), there),
        "neighbours": Sums.of(together, counted[:, None].expand_as(together)),
    }


def _to_first(row: Float[Tensor, "layer input"], counted: Bool[Tensor, " layer"], text: Encoding) -> Stats:
    """What [CLS] is made of but itself: by position, and by distance from the first separator where there is one."""
    place = torch.arange(len(text))
    weight = (counted[:, None] & (place > 0)).expand_as(row)
    state: Stats = {"first": _placed(row, weight, place.clamp(max=POSITIONS + 1), POSITIONS + 2)}
    separators = [at for at, special in enumerate(text.special) if special and at > 0]
    if separators:
        column = (place - separators[0]).clamp(-REACH - 1, REACH + 1) + REACH + 1
        state["separator"] = _placed(row, weight, column, 2 * REACH + 3)
    return state


def _placed(
    row: Float[Tensor, "layer input"], weight: Bool[Tensor, "layer input"], column: Int[Tensor, " input"], size: int
) -> Sums:
    shape = (len(row), size)
    return Sums.of(row, weight, over=Groups(ravel((torch.arange(len(row))[:, None], column), shape), shape))

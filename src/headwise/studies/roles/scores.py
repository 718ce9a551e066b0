"""What each head looks like: shares of its attention by where it goes, mean over the rows of a text, then over texts.

| role | share of a row's attention that goes to | from |
|---|---|---|
| previous, next, same | the neighbours, the token itself | TransformerLens `detect_head`; Clark et al. 2019 |
| offset−2, offset−3 | a fixed place before | Raganato et al. 2020 |
| first, separator, punctuation | the first token; [SEP] and its like; . and , | Clark et al. 2019; Xiao et al. 2023 |
| duplicate | earlier places of the same token (rows that have one) | `detect_head`; Wang et al. 2022 |
| induction | the token after the earlier place of this one, in random tokens repeated once | Olsson et al. 2022 |
| retrieval | hits: the most attended key is the needle's token to be copied | Wu et al. 2024, arXiv:2404.15574 |
| subject | the subject, from the last token before its verb, in sentences made for it | Linzen et al. 2016 |
| governor, dependent, antecedent, alignment | hits, where the corpus has labels | roles/labelled.py |
| copying, suppression | z of a token's own logit in what its OV circuit writes | Olsson et al. 2022 |
| broad | entropy / log(keys seen): 1 is uniform | Clark et al. 2019 |
| null | share of the squared weights in the null space | Brunner et al. 2020 |

Any attention quantity may be scored: rows are |map| / Σ |map|, which for raw weights is the row itself.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.measures import ATTENTION, reductions
from headwise.measures.rows import at_offset, entropy
from headwise.stats import Sums
from headwise.studies.roles.labelled import LABELLED
from headwise.studies.study import Reading, Stats, at
from headwise.text.categories import CATEGORIES
from headwise.types import Layer

OFFSETS = {"previous": -1, "next": 1, "same": 0, "offset−2": -2, "offset−3": -3}
KINDS = ("first", "separator", "punctuation")
MADE = ("induction", "retrieval", "subject", "copying", "suppression")
ROLES = (*OFFSETS, *KINDS, "duplicate", *MADE, *LABELLED, "broad", "null")
Rows = Float[Tensor, "batch head query"]


def shares(layer: Layer, quantity: str) -> Float[Tensor, "batch head query key"]:
    """|map| / Σ |map| of every row; raw weights as they are."""
    if quantity == "raw":
        return layer.alpha
    sizes = ATTENTION[quantity](layer).abs()
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)


def observed(layer: Layer, reading: Reading, quantity: str) -> Stats:
    """`ROLE@stack.layer`: the scores that texts of the corpus give."""
    maps, weights = shares(layer, quantity), reading.row_weights(layer)
    whole, reached = reductions.squared_norms(layer)
    seen = layer.visible.sum(-1)[:, None].clamp(min=2).double().log()
    rows: dict[str, Rows] = {"broad": entropy(maps).double() / seen, "null": 1 - reached / whole}
    kinds = reading.key_categories(layer)[..., None] == torch.arange(len(CATEGORIES), device=layer.alpha.device)
    sums = torch.einsum("bhqk,bkc->bhqc", maps.double(), kinds.double())
    rows |= {kind: sums[..., CATEGORIES.index(kind)] for kind in KINDS}
    if layer.stack != "cross":
        rows |= {role: _at(layer, maps, offset) for role, offset in OFFSETS.items()}
        same, there = duplicates(layer, reading)
        rows["duplicate"] = torch.where(there[:, None], (maps * same[:, None]).sum(-1), torch.nan)
    return {at(role, layer): _mean(values, weights) for role, values in rows.items()}


def _at(layer: Layer, maps: Float[Tensor, "batch head query key"], offset: int) -> Rows:
    """What each query gives to a fixed place; NaN where there is no key that it sees (padding, causal masks)."""
    seen = at_offset(layer.visible[:, None].float(), offset, first_row=layer.first_row)
    return torch.where(seen == 1, at_offset(maps, offset, first_row=layer.first_row), torch.nan)


def duplicates(layer: Layer, reading: Reading) -> tuple[Bool[Tensor, "batch query key"], Bool[Tensor, "batch query"]]:
    """Pairs of a query and an earlier key of the same token, and the rows that have one."""
    ids = [torch.tensor(text.ids) for text in reading.queries(layer)]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-1).to(layer.alpha.device)
    rows = padded[:, layer.first_row : layer.first_row + layer.alpha.shape[2]]
    place = torch.arange(padded.shape[1], device=padded.device)
    before = place[None, :] < (place[: rows.shape[1], None] + layer.first_row)
    same = (rows[:, :, None] == padded[:, None, :]) & before & layer.visible
    return same, same.any(-1)


def _mean(rows: Rows, weights: Float[Tensor, "batch query"]) -> Sums:
    """Mean over the rows that have the score; a text weighs as much as its rows that do."""
    return Sums.of(rows.transpose(0, 1).flatten(1), weights.flatten().expand(rows.shape[1], -1))

"""Which tokens lose their identity: by part of speech, by frequency, and by how much of themselves they still hold."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from headwise.stats import Groups, Sums, ravel
from headwise.stats.spearman import spearman

TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
        "SYM", "VERB", "X", "special")  # fmt: skip
OCTAVES = 16  # of frequency: 1, 2–3, 4–7, …
MEASURES = ("spearman_margin", "spearman_rate", "own_recovered", "own_lost", "tokens")


def by_tag(credit: Float64[Tensor, "layer token"], tags: Int64[Tensor, " token"]) -> Sums:
    """Credit by part of speech, [layer tag]; tokens without one do not count."""
    return _grouped(credit, tags, len(TAGS))


def by_frequency(credit: Float64[Tensor, "layer token"], ids: Int64[Tensor, " token"]) -> Sums:
    """Credit by how often the token's id occurs in the sentences used, [layer octave]: 1, 2–3, 4–7, …"""
    count = ids.bincount()[ids]
    return _grouped(credit, count.double().log2().floor().long().clamp(max=OCTAVES - 1), OCTAVES)


def _grouped(credit: Float64[Tensor, "layer token"], group: Int64[Tensor, " token"], groups: int) -> Sums:
    shape = (len(credit), groups)
    cells = Groups(ravel((torch.arange(len(credit))[:, None], group.clamp(min=0)), shape), shape)
    return Sums.of(credit, (group >= 0).expand(credit.shape), over=cells)


def with_attribution(
    credit: Float64[Tensor, "layer token"], margin: Float64[Tensor, "layer token"], own: Float64[Tensor, "layer token"]
) -> Sums:
    """Whether tokens that hold less of themselves are those that are lost, [layer measure]; see MEASURES.

    Spearman's correlation of the own contribution c_jj with the margin by which the right token wins, and with the
    credit; and the mean contribution of the tokens that were recovered more often than not, and of the others.
    """
    rows = torch.stack([_related(*layer) for layer in zip(credit, margin, own, strict=True)])
    return Sums(rows.nan_to_num(0.0), (~rows.isnan()).double())


def _related(credit: Tensor, margin: Tensor, own: Tensor) -> Float64[Tensor, " measure"]:
    known = ~(credit.isnan() | own.isnan())
    credit, margin, own = credit[known], margin[known], own[known]
    recovered = credit > 0.5
    values = [_spearman(own, margin), _spearman(own, credit), own[recovered].mean(), own[~recovered].mean(), len(own)]
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


def _spearman(a: Float64[Tensor, " token"], b: Float64[Tensor, " token"]) -> float:
    """NaN where one of them does not vary."""
    return float(spearman(a.numpy(), b.numpy())) if len(a) > 1 else float("nan")

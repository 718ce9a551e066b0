"""From scores to links.

    argmax      each target word is linked with its highest source word, the first of equals; with none where a special
                token is higher
    threshold   … with every source word that has at least a given share of its row, special tokens included
    mutual      argmax both ways: the links found from either side, grown along the diagonal by those found from one
                (grow-diag of Koehn et al. 2003, https://aclanthology.org/N03-1017)

All take scores [batch many row column] with the words among the columns first and −∞ in columns that are not there
(`only`), and give links [batch many row word].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

Scores = Float[Tensor, "batch many row column"]
Links = Bool[Tensor, "batch many row word"]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def only(scores: Scores, columns: Bool[Tensor, "batch column"]) -> Scores:
    """The scores with −∞ in columns that are not there, in place."""
    return scores.masked_fill_(~columns[:, None, None], -torch.inf)


def forwards(scores: Scores, rows: Bool[Tensor, "batch row"], words: int) -> Links:
    """Each row's highest column, where that is a word."""
    size = scores.shape[-1]
    highest = scores.max(-1).indices.masked_fill_(~rows[:, None], size)  # a row that is not there: one column more
    chosen = torch.zeros(*scores.shape[:-1], size + 1, dtype=torch.bool, device=scores.device)
    return chosen.scatter_(-1, highest[..., None], True)[..., :words]


def backwards(scores: Scores, rows: Bool[Tensor, "batch row"], words: int) -> Links:
    """Each word's highest row."""
    open_rows = scores[..., :words].masked_fill(~rows[:, None, :, None], -torch.inf)
    best = open_rows.max(-2)
    chosen = torch.zeros_like(open_rows, dtype=torch.bool).scatter_(-2, best.indices[:, :, None], True)
    return chosen & (best.values > -torch.inf)[:, :, None]


def above(scores: Scores, rows: Bool[Tensor, "batch row"], words: int, share: float) -> Links:
    """Words with at least `share` of what is positive in the row."""
    positive = scores.clamp(min=0)
    total = positive.sum(-1, keepdim=True)
    return (positive[..., :words] >= share * total) & (total > 0) & rows[:, None, :, None]


def mutual(forward: Links, backward: Links) -> Links:
    """`grown` for every map of a batch."""
    flat = [grown(*maps) for maps in zip(forward.flatten(0, 1).numpy(), backward.flatten(0, 1).numpy(), strict=True)]
    return torch.from_numpy(np.stack(flat)).view(forward.shape)


def grown(
    forward: Bool[np.ndarray, "row word"], backward: Bool[np.ndarray, "row word"]
) -> Bool[np.ndarray, "row word"]:
    """The links of both, and of their neighbours those of one that link a word that is not linked yet.

    >>> one, other = np.array([[1, 0], [1, 0]], bool), np.array([[1, 0], [0, 1]], bool)
    >>> grown(one, other).astype(int).tolist()
    [[1, 0], [1, 1]]
    """
    links, either = forward & backward, forward | backward
    row_linked, word_linked = links.max(1, initial=False), links.max(0, initial=False)
    waiting = [(int(row), int(word)) for row, word in zip(*np.nonzero(links), strict=True)]
    while waiting:  # a sweep over the links, row by row and word by word, as Koehn's GROW-DIAG makes them
        heapify(waiting)
        behind = []
        while waiting:
            row, word = heappop(waiting)
            for down, right in NEIGHBOURS:
                at = (row + down, word + right)
                inside = 0 <= at[0] < links.shape[0] and 0 <= at[1] < links.shape[1]
                if inside and either[at] and not links[at] and not (row_linked[at[0]] and word_linked[at[1]]):
                    links[at] = row_linked[at[0]] = word_linked[at[1]] = True
                    # subtle: a link ahead is grown from in this sweep, one behind in the next; none needs two visits
                    heappush(waiting, at) if at > (row, word) else behind.append(at)
        waiting = behind
    return links


Extract = Callable[[Scores, Bool[Tensor, "batch row"], int, float], Links]
EXTRACTIONS: Mapping[str, Extract] = {
    "argmax": lambda scores, rows, words, _: forwards(scores, rows, words),
    "threshold": above,
    "mutual": lambda scores, rows, words, _: mutual(forwards(scores, rows, words), backwards(scores, rows, words)),
}

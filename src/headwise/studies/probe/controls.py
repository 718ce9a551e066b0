"""Control tasks: what a probe scores where there is nothing to find, and selectivity, what it scores beyond that.

Hewitt & Liang 2019 (https://arxiv.org/abs/1909.03368): every word type draws a behaviour at random, once, and all its
tokens are labelled by it. Such labels can be memorised, but no representation can know them. A probe is to be believed
as far as it does better on the real task:  selectivity = accuracy of the task − accuracy of its control.

Their behaviours for arcs are: attach to oneself, to the first word, to the last word. A parser cannot attach a word to
itself; here its third behaviour is the previous word. With the first word as the root and the last word attached to the
first, the control heads of every sentence are a tree with one root, so that each decoder and score applies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.stats.reservoir import hashed

BEHAVIOURS = ("first", "last", "previous")


def word_type(form: str) -> int:
    """A number for a word type that is the same on every machine; case is no difference."""
    return int.from_bytes(hashlib.blake2b(form.lower().encode(), digest_size=8).digest(), "big", signed=True)


def word_types(forms: Sequence[str]) -> Int[Tensor, " word"]:
    return torch.tensor([word_type(form) for form in forms], dtype=torch.int64)


def control_heads(types: Int[Tensor, " word"], *, seed: int) -> Int[Tensor, " word"]:
    """The heads that the control task of a seed gives to a sentence, −1 for the root.

    >>> control_heads(word_types("a rose is a rose".split()), seed=0).tolist()
    [-1, 0, 0, 2, 0]
    """
    words = len(types)
    behaviour = hashed(types, seed).remainder(len(BEHAVIOURS))
    targets = torch.stack([torch.zeros(words), torch.full((words,), words - 1), torch.arange(words) - 1]).long()
    heads = targets.gather(0, behaviour[None])[0]
    heads[-1] = 0
    heads[0] = -1
    return heads


def selectivity(task: float, control: float) -> float:
    """Accuracy of the task less that of its control."""
    return task - control

"""Targets: the numbers of a model that can be explained, all of one kind.

A target reads some rows of the model's logits z and chooses one entry c of each (a label, a token); p = softmax(z):

    logit                 Σ_r z_r,c
    log-probability       Σ_r log p_r,c              of several tokens: their joint log-probability, nats
    log-odds              Σ_r log p_r,c / (1 − p_r,c)     against all the others; where p is near 1 it still moves
    contrast              Σ_r z_r,c − z_r,y          "c rather than y", the same for logits and log-probabilities

Where a head says yes or no to each label by itself (`apart`), p_c is the sigmoid of z_c, and its logit is its log-odds.

Each is a sum over logits with weights w that are constants, plus a constant:  Σ_r w_r · z_r + rest.  For a logit w is 1
at c. For a log-probability w = 1_c − p, as  log p_c = z_c − Σ_k p_k z_k − H(p),  and the rest is −H(p); for log-odds
the same with q, the softmax over all but c, in place of p. So what splits
the logits exactly splits every target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from headwise.errors import InputError

OUTPUTS = ("logit", "log-probability", "log-odds")
KINDS = ("label", "token-label", "masked-token", "next-token", "continuation", "answer", "translation")


@dataclass(frozen=True)
class Target:
    """One number of a model. `rows` are places among the rows that a question reads, `chosen` what is read there."""

    kind: str
    of: str
    name: str  # what is chosen, as people read it
    rows: tuple[int, ...]
    chosen: tuple[int, ...]
    rather: tuple[int, ...] = ()  # of a contrast
    rather_name: str = ""
    apart: bool = False  # the label by itself, not one of several

    def __post_init__(self):
        if self.kind not in KINDS:
            raise InputError(f"A target is one of {', '.join(KINDS)}, but {self.kind!r} was asked for.")
        if self.of not in OUTPUTS:
            raise InputError(f"What is explained is one of {', '.join(OUTPUTS)}, but {self.of!r} was asked for.")
        if self.rather and len(self.rather) != len(self.chosen):
            raise InputError("A contrast is between two tokens or two labels, but one side has several tokens.")
        if self.apart and self.of != "logit":
            raise InputError(f"Of a label by itself the logit is explained, which is its log-odds, but not {self.of}.")
        if self.apart and self.rather:
            raise InputError("Labels that the model gives each by itself are no choice; explain one without `rather`.")

    def __str__(self) -> str:
        rather = f" rather than {self.rather_name!r}" if self.rather else ""
        return f"{self.kind} {self.name!r}{rather} ({self.of})"

    def value(self, logits: Float[Tensor, "batch row choice"]) -> Float[Tensor, " batch"]:
        """The number itself."""
        rows = logits[:, list(self.rows)]
        total = _entries(rows, self.chosen).sum(-1)
        if self.of != "logit" and not self.rather:
            return total - (rows if self.of == "log-probability" else self._others(rows)).logsumexp(-1).sum(-1)
        return total - _entries(rows, self.rather).sum(-1) if self.rather else total

    def log_probability(self, logits: Float[Tensor, "batch row choice"]) -> Float[Tensor, " batch"]:
        """log p of what is chosen, the mean over its rows: of several tokens the geometric mean of a token, in nats.

        Of a contrast it is that among the two alone, so that what is tested is what is explained.
        """
        rows = logits[:, list(self.rows)]
        if self.rather:
            return logsigmoid(_entries(rows, self.chosen) - _entries(rows, self.rather)).mean(-1)
        if self.apart:
            return logsigmoid(_entries(rows, self.chosen)).mean(-1)
        return _entries(rows.log_softmax(-1), self.chosen).mean(-1)

    @property
    def among(self) -> str:
        """What its probability is one of, where that is not everything."""
        return " of the two" if self.rather else ""

    def _others(self, rows: Float[Tensor, "batch row choice"]) -> Float[Tensor, "batch row choice"]:
        """The logits with −∞ where the chosen ones stand."""
        at = torch.tensor(self.chosen, device=rows.device)[None, :, None].expand(len(rows), -1, 1)
        return rows.scatter(-1, at, -torch.inf)

    def weights(self, logits: Float[Tensor, "row choice"]) -> tuple[Float[Tensor, "some choice"], float]:
        """(w of the rows that are read, rest): value = Σ w · z + rest, both constants."""
        rows = logits.detach()[list(self.rows)]
        w = _ones(rows, self.chosen)
        if self.rather:
            return w - _ones(rows, self.rather), 0.0
        if self.of == "logit":
            return w, 0.0
        p = (rows if self.of == "log-probability" else self._others(rows[None])[0]).double().softmax(-1)
        return w - p.to(w), float(torch.special.entr(p).sum()) * -1


def _entries(rows: Float[Tensor, "batch row choice"], chosen: tuple[int, ...]) -> Float[Tensor, "batch row"]:
    at = torch.tensor(chosen, device=rows.device)
    return rows.gather(-1, at[None, :, None].expand(len(rows), -1, 1))[..., 0]


def _ones(rows: Float[Tensor, "row choice"], chosen: tuple[int, ...]) -> Float[Tensor, "row choice"]:
    at = torch.tensor(chosen, device=rows.device)[:, None]
    return torch.zeros_like(rows).scatter_(1, at, 1.0)

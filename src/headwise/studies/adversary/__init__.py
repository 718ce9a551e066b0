r"""Could another attention have given the same answer? Of a user's own classifier, text by text, and head by head.

    per-instance   the farthest attention of all layers and heads that was found for a text with TVD(prediction) ≤ ε
                   (Jain & Wallace 2019, https://arxiv.org/abs/1902.10186); measures/rivals.py
    exact          for a row of a head the farthest distribution with the *same* head output, so that nothing at all
                   changes (Brunner et al. 2020, §3.3); there is one where a query sees more than rank([V, 1]) keys, so
                   surely beyond head size + 1; measures/simplex.py
    importance     Kendall's τ between the last layer's attention at the output and |gradient × input|, |leave-one-out|

Nothing is trained: the model stays as it is and only the weights of its heads are replaced (`head_only`). Adversaries
that are trained from scratch are made of taggers (headwise.studies.adversary.tagging, `headwise reproduce yang`).
Divergences are Jensen-Shannon in nats (at most ln 2 = 0.693), a mean over rows; intervals are mean ± 1.96 standard
errors over texts (of the exact form: over rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.attributions.asked import asked_by_lot
from headwise.attributions.explain import explain
from headwise.attributions.faithfulness import kendall
from headwise.attributions.prediction import removable, removal_for
from headwise.attributions.substitution import (
    check_predicts,
    log_probabilities,
    own_attention,
    tags_tokens,
)
from headwise.errors import InputError
from headwise.measures.agreement import js_divergence
from headwise.measures.nullspace import seen_values
from headwise.measures.rivals import Rivals, Search, rivals
from headwise.measures.simplex import far_alternative
from headwise.models.model import Model
from headwise.stats import Moments
from headwise.stats.reservoir import hashed
from headwise.studies import STUDIES
from headwise.studies.adversary.answers import answers
from headwise.studies.adversary.facts import facts
from headwise.studies.adversary.figures import drawn
from headwise.studies.answers import Answer
from headwise.studies.needs import Cost, Means, Needs
from headwise.studies.study import Reading, Setting, State, Stats, Study, at
from headwise.types import Batch, Layer

PASSES = 250  # of one text, about, beside one for every token
METHODS = ("gradient-input", "leave-one-out", "random")


@STUDIES.add(
    "adversary",
    "how far weights can be moved while the answer stays, and whether attention ranks tokens as importance does",
    order=120,
)
@dataclass(frozen=True)
class Adversary(Study):
    """`epsilon`: most that a prediction may change (total variation distance). `steps`, `rate`: of the search.

    `rows` of each text and layer for which the exact form is looked for in every head. `removal`: mask, pad or delete,
    of leave-one-out. `head_only`: only the heads' weights change; nothing is trained. `texts`: how many
    documents from the first on are asked, as each costs some hundred passes; 0 for all.
    """

    title: ClassVar[str] = "Could other weights have given the same answer"
    needs: ClassVar[Needs] = Needs(task=("classification", "token-classification"))
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    votes_on: ClassVar[tuple[str, ...]] = ("matters",)
    captions: ClassVar[Mapping[str, str]] = {
        "divergence": "how far attention can be moved while the answer stays, head by head",
        "importance": "whether attention ranks tokens as gradients and removal do",
    }
    epsilon: float = setting(0.05, above=0, most=1)
    steps: int = setting(60, least=1)
    rate: float = setting(0.3, above=0)
    rows: int = setting(2, least=0)
    removal: str = "mask"
    head_only: bool = True
    texts: int = setting(0, least=0)
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.head_only:
            raise InputError(
                "Adversaries that are trained start from scratch, which is done for taggers only "
                "(`headwise reproduce yang`); of a model as it is, head_only must hold. Leave it out."
            )
        self._search()

    def _search(self) -> Search:
        return Search(epsilon=self.epsilon, steps=self.steps, rate=self.rate, seed=self.seed)

    def check(self, model: Model) -> None:
        super().check(model)
        check_predicts(model)
        removal_for(model, self.removal)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """The exact form, for some rows of every text."""
        found = [exact_rows(layer, text, row) for text, row in self._chosen(layer, reading)]
        if not found:
            return {}
        js, change = (torch.stack(column, dim=-1) for column in zip(*found, strict=True))
        here = torch.ones(js.shape[-1], dtype=torch.float64)
        return {
            at("exact", layer): Moments.of(js, here),
            at("change", layer): Moments.of(change, here),
            at("free", layer): Moments.of((~js.isnan()).double(), here),
        }

    def _chosen(self, layer: Layer, reading: Reading) -> list[tuple[int, int]]:
        """(text, row of this block) by a hash of the document, the layer and the draw: whatever the batches."""
        chosen = []
        for text, document in enumerate(reading.documents.tolist()):
            if self.texts and document >= self.texts:
                continue
            length = len(reading.queries(layer)[text])
            ids = torch.arange(self.rows) + (document * 4096 + layer.index) * 4096
            for row in hashed(ids, self.seed).remainder(length).tolist():
                if 0 <= row - layer.first_row < layer.alpha.shape[2]:
                    chosen.append((text, row - layer.first_row))
        return chosen

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002
        return PASSES + tokens

    def ask(self, model: Model, reading: Reading) -> Stats:
        """Per-instance adversaries, and the ranks of attention against those of importance."""
        first = reading.first(self.texts, model)
        return {} if first is None else {**self._rivals(model, first), **self._importance(model, first)}

    def _rivals(self, model: Model, reading: Reading) -> Stats:
        batch = reading.batch
        alpha, visible = own_attention(model, batch)
        shape = alpha.shape[1:3]

        def predict(maps: Float[Tensor, "batch map query key"]) -> Float[Tensor, "batch place choice"]:
            return log_probabilities(model, batch, maps.unflatten(1, shape))[0]

        with torch.no_grad():
            said, places = log_probabilities(model, batch)
        found = rivals(
            alpha.flatten(1, 2), predict, visible=visible, queries=batch.mask.clone(), places=places.clone(),
            search=self._search(), numbers=reading.documents.tolist(),
        )  # fmt: skip
        with torch.no_grad():
            other = log_probabilities(model, batch, found.alpha.unflatten(1, shape))[0]
        flipped = ((other.argmax(-1) != said.argmax(-1)) & places).any(-1)
        return _rival_state(found, flipped, batch, shape, model.stacks[0])

    def _importance(self, model: Model, reading: Reading) -> Stats:
        """Of a token classifier: what is said of one token of each text, drawn among those that may be removed."""
        batch, may = reading.batch, removable(reading.batch)
        if tags_tokens(model):
            batch = asked_by_lot(batch, reading.documents, may, self.seed)
        options: dict[str, dict[str, Any]] = {"leave-one-out": {"removal": self.removal}, "random": {"seed": self.seed}}
        found = {
            name: explain(model, batch, name, **options.get(name, {})).scores for name in ("raw-attention", *METHODS)
        }
        attention = found.pop("raw-attention")
        ranks = {name: kendall(attention, scores.abs(), may) for name, scores in found.items()}
        return {f"tau/{name}": _over_texts(tau[None]) for name, tau in ranks.items()}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact: which form, where, which number (`what`), its value and interval, and of how many."""
        return facts(state, setting)

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        return {"texts": 12 if means.seconds is None else means.passes(PASSES + means.tokens)}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG002 - n is the table's own
        return answers(table)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        return drawn(self.table(state, setting), setting, epsilon=self.epsilon)


def exact_rows(layer: Layer, text: int, row: int) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """JS to the farthest distribution with the same output, and by how much the output changes all the same (relative).

    NaN where a head has no other distribution.
    """
    seen = layer.visible[text, row]
    values = seen_values(layer)[text][:, seen].double()
    groups, found = layer.alpha.shape[1] // len(values), []
    for head, weights in enumerate(layer.alpha[text, :, row][:, seen].double()):
        own = weights.cpu().numpy()
        other = far_alternative(own, values[head // groups].cpu().numpy())
        if other is own:
            found.append((torch.nan, torch.nan))
            continue
        before, after = (torch.as_tensor(w) @ values[head // groups].cpu() for w in (own, other))
        js = js_divergence(torch.as_tensor(own), torch.as_tensor(other))
        found.append((float(js), float((after - before).norm() / before.norm())))
    js, change = zip(*found, strict=True)
    return torch.tensor(js, dtype=torch.float64), torch.tensor(change, dtype=torch.float64)


def _rival_state(found: Rivals, flipped: Tensor, batch: Batch, shape: tuple[int, ...], stack: str) -> Stats:
    """Means over a text's rows, by layer and head, and over all of them; the largest change of its predictions."""
    by_head = (found.js.sum(-1) / batch.mask.sum(-1)[:, None]).unflatten(1, shape)
    whole = torch.stack([by_head.mean((1, 2)), found.tvd.max(-1).values, flipped.to(by_head)])
    state: Stats = {"rival": _over_texts(whole)}
    for layer in range(shape[0]):
        state[f"rival@{stack}.{layer}"] = _over_texts(by_head[:, layer].T)
    return state


def _over_texts(x: Float[Tensor, "*any batch"]) -> Moments:
    return Moments.of(x.double().cpu(), torch.ones(x.shape[-1], dtype=torch.float64))

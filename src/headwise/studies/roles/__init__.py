"""An atlas of heads: what each one looks like, and whether it does what it looks like.

Scores (roles/scores.py) come from the maps over texts of the corpus, from texts made for a role (roles/made.py), and of
copying from the weights. A head whose score reaches the role's threshold *looks like* it. Then all heads that look like
a role (eight at most) are taken away in the task that needs it, against as many random heads of the same layers
(roles/trials.py). The role is one only where that changes more: the 95 % bootstrap interval over texts of the
difference lies above 0, and nine of ten random draws change less.

Where the corpus has labels (CoNLL-U, coreference, pairs with links), heads are scored against them too
(roles/labelled.py); `syntax`, `coref` and `alignment` do so relation by relation, with baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch

from headwise.allowed import SEED, setting
from headwise.interventions.outcomes import Question, kind_of
from headwise.measures import ATTENTION
from headwise.models.model import Model
from headwise.stats import Pieces, Sums
from headwise.studies import STUDIES
from headwise.studies.ablation import curves, questions
from headwise.studies.answers import Answer
from headwise.studies.needs import Cost, Means
from headwise.studies.roles import made
from headwise.studies.roles.agreement import agreeing
from headwise.studies.roles.atlas import answers, drawn_atlas, table_of
from headwise.studies.roles.labelled import labelled
from headwise.studies.roles.scores import ROLES, observed
from headwise.studies.roles.trials import TASKS, Head, Trial, drawn, looking, task_of, tried
from headwise.studies.roles.trials import Means as HeadMeans
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, only_quantity
from headwise.types import Layer


@STUDIES.add("roles", "what each head looks like, and whether it does what it looks like: an atlas", order=56)
@dataclass(frozen=True)
class Roles(Study):
    """`quantities`: what is scored, one at a time. `sequences`: made texts of each kind. `texts` of the corpus on which
    heads are taken away. `draws` of random heads. `seed` of all that is drawn. `outcome`: what the model does with
    plain texts."""

    title: ClassVar[str] = "What heads look like, and whether they do it"
    cost: ClassVar[Cost] = "passes"
    own_head: ClassVar[bool] = True
    first_by: ClassVar[tuple[str, ...]] = ("part=trial", "-looks", "-value")
    captions: ClassVar[Mapping[str, str]] = {
        "atlas": "the role that each head looks like most",
        "trials": "what is lost without the heads of a role, beyond random heads of the same layers",
    }
    quantities: tuple[str, ...] = setting(("raw",), of=ATTENTION)
    sequences: int = setting(12, least=1)
    texts: int = setting(12, least=1)
    draws: int = setting(10, least=1)
    outcome: str = ""
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.quantity

    @property
    def quantity(self) -> str:
        return only_quantity(self, self.quantities)

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:  # noqa: ARG003
        return {"sequences": 6, "texts": 6, "draws": 6}

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        return observed(layer, reading, self.quantity) | labelled(layer, reading, self.quantity)

    def ask(self, model: Model, reading: Reading) -> Stats:
        """Only keeps the texts: what is taken away is known when all were read."""
        first = reading.first(self.texts, model)
        found: dict[str, dict[int, Any]] = {}
        for question, number, _ in questions(self, model, first) if first is not None else ():
            for name, tensor in curves.kept(question).items():
                found.setdefault(name, {})[number] = tensor
        return {name: Pieces.of(tensors) for name, tensors in found.items()}

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        report("scoring heads on made texts")
        asked: dict[str, dict[int, Question]] = {"plain": curves.questions(state, model)}
        means: dict[str, HeadMeans] = {}
        state = State(state)
        if model.causal and not model.is_encoder_decoder:
            texts = {"induction": list(made.repeated(model, self.sequences, self.seed)),
                     "retrieval": list(made.needles(model, self.sequences, self.seed)),
                     "subject": list(agreeing(model, self.sequences, self.seed))}  # fmt: skip
            for role, some in texts.items():
                seen = made.seen(model, some, self.quantity)
                for place, (share, hits) in seen.scores.items():
                    score = hits if role == "retrieval" else share
                    state[f"{role}@{place[0]}.{place[1]}"] = Sums(score, torch.ones_like(score))
                if some and kind_of(model) == "next-token":
                    task = TASKS[role]
                    means[task] = seen.means
                    asked[task] = {number: one.question(model).until_asked() for number, one in enumerate(some)}
        for place, z in made.copying(model, self.seed).items():
            state[f"copying@{place[0]}.{place[1]}"] = Sums(z, torch.ones_like(z))
            state[f"suppression@{place[0]}.{place[1]}"] = Sums(-z, torch.ones_like(z))
        return {**state, **self._tried(state, model, asked, means, report)}

    def _tried(
        self,
        state: State,
        model: Model,
        asked: Mapping[str, Mapping[int, Question]],
        means: Mapping[str, HeadMeans],
        report: Callable[[str], None],
    ) -> Stats:
        """`trial@ROLE@TASK` [1 set] by question, `named@ROLE` [head 3]: stack, layer, head."""
        sizes = {(site.stack, site.index): site.circuit.w_o.shape[0] for site in model.proof.sites}
        heads = {role: looking(scores_of(state, role, model.stacks), role) for role in ROLES}
        trials = [
            Trial(role, task_of(role, list(asked)), some, drawn(some, sizes, self.draws, self.seed))
            for role, some in heads.items() if some
        ]  # fmt: skip
        found: Stats = {}
        for task, texts in asked.items():
            some = [trial for trial in trials if trial.task == task]
            report(f"taking heads away: {task}, {len(some)} roles")
            for role, rows in tried(model, texts, some, means.get(task)).items():
                found[f"trial@{role}@{task}"] = Pieces.of(rows)
        stacks = list(model.stacks)
        for trial in trials:
            codes = torch.tensor([(stacks.index(stack), layer, head) for stack, layer, head in trial.heads])
            found[f"named@{trial.role}"] = Pieces.of({0: codes})
        return found

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a head and role, and one a role that was tried."""
        scores = {role: scores_of(state, role, tuple(setting.stacks)) for role in ROLES}
        return table_of(state, scores, list(setting.stacks), seed=self.seed, unit=curves.unit_of(state))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        return drawn_atlas(self.table(state, setting), setting)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, setting)


def scores_of(state: State, role: str, stacks: tuple[str, ...]) -> dict[Head, float]:
    """The score of every head that has one."""
    found: dict[Head, float] = {}
    for stack in stacks:
        for layer, sums in enumerate(state.by_layer(Sums, role, stack)):
            for head, score in enumerate(sums.mean.tolist()):
                if score == score:
                    found[stack, layer, head] = score
    return found


__all__ = ["Roles", "at", "scores_of"]

"""How much the loss hangs on each attention weight: mean |∂loss/∂α| by kind of key (Clark et al. 2019 §3.2, fig3).

    masked LM   mean −log p(token) over the masked tokens of a text: round(15 %) of those that are not special, at least
                one, all of them replaced by the mask token
    causal LM   mean −log p(next token) over the tokens of a text
    translation mean −log p(next token) over the tokens that the decoder reads of the target (teacher forcing)

in nats, without label smoothing. Losses of texts are added, never averaged, so that a text's gradient does not know its
batch-mates. Which tokens are masked depends on the seed, the number of the document and the position alone. A masked
token counts as what the model reads, so `other`.

Mean over the pairs of a text whose key is of a kind and whose query sees it, then over the texts that have such keys.
In the last layer of a masked LM only the rows of masked tokens reach the loss; the other rows count as the 0 they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from headwise.errors import ModelError
from headwise.models.model import Model
from headwise.plots import scatter
from headwise.plots.theme import themed
from headwise.results.shown import finite
from headwise.stats import Sums
from headwise.stats.reservoir import hashed
from headwise.studies import STUDIES
from headwise.studies.answers import NOISE, Answer
from headwise.studies.needs import Needs
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack, head_rows, masked_pairs
from headwise.studies.tables import counted
from headwise.text.categories import CATEGORIES
from headwise.types import Encoding, Layer

MASKED = 0.15
POSITIONS = 1 << 24  # more than any text has
UNIT = "mean |∂loss/∂α| (nats)"
NAMES = {"first": "the first token", "separator": "separators", "punctuation": "punctuation", "other": "other tokens"}
LABELS = {
    "to_first": "[CLS] / first",
    "to_separator": "[SEP]",
    "to_punctuation": ". and ,",
    "to_other": "other",
}


@STUDIES.add("importance", "mean |∂loss/∂α| by kind of key, for language models (Clark et al. fig3)", order=50)
@dataclass(frozen=True)
class Importance(Study):
    """Nothing to choose."""

    title: ClassVar[str] = "What the loss depends on"
    first_by: ClassVar[tuple[str, ...]] = ("-to_other",)
    needs: ClassVar[Needs] = Needs(task=("masked-lm", "causal-lm", "translation"))
    captions: ClassVar[Mapping[str, str]] = {
        "fig3": "how much the loss hangs on attention to each kind of token, head by head (Clark et al. 2019)",
    }
    gradient: ClassVar[bool] = True

    def check(self, model: Model) -> None:
        objective(model)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """`layer.memo` holds gradient [batch head query key] and loss [batch], NaN for texts that have none."""
        loss = layer.memo["loss"].double()
        kinds = reading.key_kinds(layer)
        pairs = masked_pairs(layer).double()
        found = torch.einsum("bhqk,bqk,bkc->bhc", layer.memo["gradient"].double().abs(), pairs, kinds.double())
        count = torch.einsum("bqk,bkc->bc", pairs, kinds.double())
        counted = ((count > 0) & ~loss.isnan()[:, None]).double()
        mean = found / count.clamp(min=1)[:, None]
        total = torch.einsum("bhc,bc->hc", mean, counted)
        state: Stats = {at("importance", layer): Sums(total, counted.sum(0).expand_as(total).clone())}
        if layer.index == 0:
            state[at("loss", layer)] = Sums.of(loss[None], (~loss.isnan())[None])
        return state

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a head."""
        tables = []
        for stack in setting.stacks:
            layers = state.by_layer(Sums, "importance", stack)
            columns = {f"to_{kind}": [sums.mean[:, at] for sums in layers] for at, kind in enumerate(CATEGORIES)}
            tables.append(head_rows(columns, stack=stack))
        return pl.concat(tables)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        for stack, heads in table.group_by("stack", maintain_order=True):
            means = {kind: finite(heads, f"to_{kind}")[f"to_{kind}"].mean() for kind in CATEGORIES}
            found = sorted((float(mean), NAMES[kind]) for kind, mean in means.items() if mean is not None)  # type: ignore[arg-type]
            if len(found) > 1:
                (least, few), (most, many) = found[0], found[-1]
                yield Answer(
                    NOISE,
                    f"{_beginning(str(stack[0]))} hangs least on weights to {few} (mean |∂loss/∂α| {least:.2g} nats) "
                    f"and most on those to {many} ({most:.2g}), over {counted(setting.tokens['documents'], 'text')}.",
                )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        table = self.table(state, setting)

        def drawn(stack: str, where: str) -> dict[str, Any]:
            heads = table.filter(stack=stack)
            there = {column: label for column, label in LABELS.items() if heads[column].is_not_nan().any()}
            loss = float(state.by_layer(Sums, "loss", stack)[0].mean)
            chart = themed(
                scatter.by_layer(heads, there, UNIT),
                f"{where}: how much the loss hangs on attention",
                "One point a head; lines are layer means. Where a line is near zero, attending there more or less",
                f"changes nothing. Mean loss of a predicted token: {loss:.2f} nats.",
            )
            return {"fig3": chart}

        return each_stack(setting, drawn)


def _beginning(stack: str) -> str:
    return "The loss" if stack == "self" else f"In {stack} attention the loss"


@dataclass(frozen=True)
class Lesson:
    """What the model reads and what it is to say: −1 where nothing is asked."""

    texts: tuple[Encoding, ...]
    labels: Int[Tensor, "batch token"]


def objective(model: Model) -> str:
    """masked-lm, causal-lm or translation; raises for a model that has no such head, or no gradients to speak of."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    tasks = {"masked-lm": MODEL_FOR_MASKED_LM_MAPPING_NAMES, "causal-lm": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    if model.is_encoder_decoder:
        tasks = {"translation": MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
    found = [task for task, classes in tasks.items() if names & set(classes.values())]
    if not found:
        raise ModelError(
            f"Importance is the gradient of a language model's loss, but {model.name} ({type(model.hf).__name__}) has "
            "none; load a model with task='masked-lm' (BERT and its like), task='causal-lm' (decoders) or "
            "task='translation' (encoder–decoders)."
        )
    if model.hf.dtype not in (torch.float32, torch.float64):
        raise ModelError(
            f"Gradients need float32 or float64, but {model.name} is in {str(model.hf.dtype).removeprefix('torch.')}; "
            "load it with dtype='float32'."
        )
    if found[0] == "masked-lm" and model.tokenizer.mask_token_id is None:
        raise ModelError(f"A masked language model needs a mask token, but the tokenizer of {model.name} has none.")
    return found[0]


def lesson(
    model: Model, texts: Sequence[Encoding], documents: Int[Tensor, " batch"], seed: int,
    targets: Sequence[Encoding] = (),
) -> Lesson:  # fmt: skip
    """The texts and their labels: the next token (of the target, where there is one), or the masked tokens."""
    if objective(model) != "masked-lm":
        return Lesson(tuple(texts), _padded([(*text.ids[1:], -1) for text in targets or texts]))
    chosen = [hidden(text, int(document), seed) for text, document in zip(texts, documents, strict=True)]
    token, number = str(model.tokenizer.mask_token), int(model.tokenizer.mask_token_id)  # type: ignore[arg-type]
    masked = tuple(
        replace(text, tokens=_with(text.tokens, hide, token), ids=_with(text.ids, hide, number))
        for text, hide in zip(texts, chosen, strict=True)
    )
    labels = [
        tuple(i if at in hide else -1 for at, i in enumerate(text.ids))
        for text, hide in zip(texts, chosen, strict=True)
    ]
    return Lesson(masked, _padded(labels))


def hidden(text: Encoding, document: int, seed: int) -> set[int]:
    """The positions to mask: those of the lowest hashes."""
    plain = torch.tensor([at for at, special in enumerate(text.special) if not special], dtype=torch.int64)
    order = hashed(document * POSITIONS + plain, seed).argsort()
    return set(plain[order[: max(1, round(MASKED * len(plain)))]].tolist())


def _padded(labels: Sequence[tuple[int, ...]]) -> Int[Tensor, "batch token"]:
    rows = [torch.tensor(row) for row in labels]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


def _with(sequence: tuple[Any, ...], positions: set[int], value: Any) -> tuple[Any, ...]:
    return tuple(value if at in positions else old for at, old in enumerate(sequence))


def losses(
    logits: Float[Tensor, "batch token vocabulary"], labels: Int[Tensor, "batch token"]
) -> Float[Tensor, " batch"]:
    """Mean −log p(label) over the labelled tokens of each text, in nats; NaN for a text without any."""
    asked: Bool[Tensor, "batch token"] = labels >= 0
    surprise = torch.nn.functional.cross_entropy(logits[asked], labels[asked], reduction="none")
    text = torch.arange(len(labels), device=labels.device)[:, None].expand_as(labels)[asked]
    return surprise.new_zeros(len(labels)).index_add(0, text, surprise) / asked.sum(-1)

"""What a task model says of a text, as a function of its inputs: the ground on which explanations stand.

A prediction is one row of logits a text: of a sequence classifier its own, of a token classifier those of the token it
is asked about (asked.py), of a causal language model those of the next token after the last one. It can be asked of
other inputs (tokens removed), at other vectors x in place of the embedded tokens, and for the hidden tokens of the last
layer that it reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)

from headwise.attributions.asked import ASKED, asked_inputs
from headwise.attributions.passes import embedded, entering, trunk
from headwise.errors import InputError, ModelError
from headwise.models.capture import Call, watching
from headwise.models.model import Model
from headwise.models.tasks import check_chooses
from headwise.types import Batch

Inputs = Mapping[str, Tensor]  # of one padded batch: input_ids, attention_mask, …, each [batch token]
OUTPUTS = ("logit", "log-probability")
REMOVALS = ("mask", "pad", "delete")  # of a batch; `block` is asked for where one text is explained
CHUNK_TOKENS = 4096  # padded tokens of one pass over changed inputs


def head_of(model: Model) -> str:
    """ "classification", "token-classification" or "causal-lm"; raises, with what to load, where there is no prediction
    to explain."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    tasks = {
        "classification": MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        "token-classification": MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
        "causal-lm": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    }
    found = [task for task, classes in tasks.items() if names & set(classes.values())]
    if model.is_encoder_decoder or not found:
        raise ModelError(
            f"An explanation needs a model that predicts, but {model.name} ({type(model.hf).__name__}) has no head for "
            "it; load a fine-tuned folder with task='classification' (--task classification), or a decoder with "
            "task='causal-lm'."
        )
    if found[0] != "causal-lm":
        check_chooses(model.name, model.hf, choices(model))
    if model.hf.dtype not in (torch.float32, torch.float64):
        raise ModelError(
            f"Gradients need float32 or float64, but {model.name} is in {str(model.hf.dtype).removeprefix('torch.')}; "
            "load it with dtype='float32'."
        )
    return found[0]


def choices(model: Model) -> int:
    """Among how many things a prediction chooses."""
    rows = model.hf.get_output_embeddings()
    return int(model.hf.config.num_labels or 0) if rows is None else int(rows.weight.shape[0])


# The model as a function.


def logits(model: Model, inputs: Inputs) -> Float[Tensor, "batch choice"]:
    """The prediction for each text: a row of classes, or of the vocabulary after the last token."""
    task, asked = head_of(model), inputs.get(ASKED)
    inputs = {name: rows for name, rows in inputs.items() if name != ASKED}
    with watching(model.hf, attend_all):
        if task == "classification":
            return model.hf(**inputs, **_options(model)).logits
        if task == "token-classification":
            return model.hf(**inputs, **_options(model)).logits[_places(model, asked)]
        last = last_tokens(inputs["attention_mask"])
        if "logits_to_keep" not in inspect.signature(type(model.hf).forward).parameters:
            rows = model.hf(**inputs, **_options(model)).logits
            return rows[torch.arange(len(rows)), last]
        kept = last.unique()  # of all the rows of the vocabulary only these are made
        rows = model.hf(**inputs, **_options(model), logits_to_keep=kept).logits
        return rows[torch.arange(len(rows)), torch.searchsorted(kept, last)]


def _places(model: Model, asked: Tensor | None) -> Bool[Tensor, "batch token"]:
    if asked is None:
        raise InputError(
            f"{model.name} labels every token, so say about which one it is asked: headwise.attributions.asked.asked_at"
            "(batch, places)."
        )
    return asked


def attend_all(call: Call) -> tuple[Tensor, Tensor]:
    """The model's own eager attention, except that padding rows that see no key (windows) see all of them.

    subtle: such a row is NaN otherwise; its output does not count, but every gradient would be NaN with it.
    """
    if call.mask is not None:
        seen = (call.mask > torch.finfo(call.mask.dtype).min / 2).any(-1, keepdim=True)
        call = replace(call, mask=torch.where(seen, call.mask, 0.0))
    return call.rows(0, call.length)


def _options(model: Model) -> dict[str, bool]:
    return {"use_cache": False} if model.causal else {}


def last_tokens(mask: Int[Tensor, "batch token"]) -> Int[Tensor, " batch"]:
    """The position of the last token that is not masked."""
    return (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).argmax(-1)


def output_of(
    logits: Float[Tensor, "batch choice"], target: Int[Tensor, " batch"], of: str = "logit"
) -> Float[Tensor, " batch"]:
    """The number that is explained: the target's logit, or its log-probability in nats."""
    if of not in OUTPUTS:
        raise InputError(f"What is explained is one of {', '.join(OUTPUTS)}, but {of!r} was asked for.")
    rows = logits if of == "logit" else logits.log_softmax(-1)
    return rows.gather(-1, target[:, None])[:, 0]


def predicted(model: Model, batch: Batch) -> Int[Tensor, " batch"]:
    """What the model chooses for each text."""
    with torch.no_grad():
        return logits(model, asked_inputs(batch)).argmax(-1)


def targets(model: Model, batch: Batch, target: Int[Tensor, " batch"] | int | None) -> Int[Tensor, " batch"]:
    """The choice to explain of each text: as given, one for all, or by default what the model chooses."""
    if target is None:
        return predicted(model, batch)
    chosen = torch.as_tensor(target, device=model.hf.device).expand(len(batch.texts))
    last = choices(model) - 1
    if not bool(((chosen >= 0) & (chosen <= last)).all()):
        raise InputError(f"Targets of {model.name} go from 0 to {last}, but {chosen.tolist()} was asked for.")
    return chosen


# Gradients of what it says.


def slope(
    model: Model,
    inputs: Inputs,
    target: Int[Tensor, " batch"],
    x: Float[Tensor, "batch token d_model"],
    *,
    of: str = "logit",
) -> tuple[Float[Tensor, "batch token d_model"], Float[Tensor, " batch"]]:
    """∂output/∂x where x enters the first block, and the output there."""
    point = x.detach().requires_grad_()
    with torch.enable_grad(), entering(model, point):
        output = output_of(logits(model, inputs), target, of)
        (gradient,) = torch.autograd.grad(output.sum(), point)
    return gradient, output.detach()


def readout(model: Model, batch: Batch, target: Int[Tensor, " batch"]) -> Float[Tensor, "batch token"]:
    """How much the prediction reads each hidden token of the last layer: ‖∂logit/∂e_j‖ as a share of all tokens.

    One token of BERT's like ([CLS]) and of GPT's (the last one) has all of it; heads that average read every token.
    """
    point = embedded(model, batch).requires_grad_()  # a model whose parameters are frozen would leave no graph
    found: list[Tensor] = []
    with torch.enable_grad(), entering(model, point):
        handle = trunk(model).register_forward_hook(lambda _module, _args, out: found.append(out[0]))
        try:
            output = output_of(logits(model, asked_inputs(batch)), target)
        finally:
            handle.remove()
        (gradient,) = torch.autograd.grad(output.sum(), found)
    lengths = torch.where(batch.mask, gradient.norm(dim=-1), 0.0)
    return lengths / lengths.sum(-1, keepdim=True)


# Inputs with tokens removed.


@dataclass(frozen=True)
class Removal:
    """How a token is taken out of a text.

    `mask`: the mask token stands in its place. `pad`: the padding token does, and nobody attends to it; the other
    tokens keep their positions (but in RoBERTa and its like, which count only tokens that are no padding). `block`: it
    stays where it is, and nobody attends to it. `delete`: the tokens after it move up.
    """

    how: str
    token: int  # the id that fills its place; for `delete` the one that fills up the row

    @classmethod
    def of(cls, model: Model, how: str, *, among: Sequence[str] = REMOVALS) -> Removal:
        if how not in among:
            raise InputError(f"A token is removed by {', '.join(among)}, but {how!r} was asked for.")
        name = "mask" if how == "mask" else "pad"
        token = getattr(model.tokenizer, f"{name}_token_id")
        if token is None and how in ("mask", "pad"):
            others = " or ".join(repr(other) for other in among if other not in ("mask", "pad"))
            raise ModelError(
                f"Removing tokens by {how!r} needs a {name} token, but the tokenizer of {model.name} has none; choose "
                f"removal={others}."
            )
        return cls(how, 0 if token is None else int(token))

    def __call__(self, inputs: Inputs, removed: Bool[Tensor, "batch token"]) -> dict[str, Tensor]:
        """The inputs without the tokens where `removed` holds."""
        inputs = dict(inputs)
        if self.how == "delete":
            return self._shortened(inputs, removed)
        if self.how != "block":
            inputs["input_ids"] = inputs["input_ids"].masked_fill(removed, self.token)
        if self.how != "mask":
            inputs["attention_mask"] = inputs["attention_mask"].masked_fill(removed, 0)
        return inputs

    def _shortened(self, inputs: Inputs, removed: Bool[Tensor, "batch token"]) -> dict[str, Tensor]:
        kept = ~removed & inputs["attention_mask"].bool()
        order = (~kept).int().argsort(dim=-1, stable=True)[:, : int(kept.sum(-1).max())]
        there = kept.gather(1, order)
        fill = {"input_ids": self.token}
        return {name: torch.where(there, rows.gather(1, order), fill.get(name, 0)) for name, rows in inputs.items()}


def removal_for(model: Model, how: str) -> Removal:
    """A removal that the model's prediction can be asked after: tokens that have labels keep their places."""
    if how == "delete" and head_of(model) == "token-classification":
        raise InputError("A token classifier's tokens keep their places, but removal='delete' was asked for; use mask.")
    return Removal.of(model, how)


def removable(batch: Batch) -> Bool[Tensor, "batch token"]:
    """Tokens that may be removed: all but padding and the special ones that the tokenizer added."""
    rows = [torch.tensor([not special for special in text.special]) for text in batch.texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(batch.inputs["input_ids"].device)


def outputs_without(
    model: Model,
    batch: Batch,
    removed: Bool[Tensor, "variant batch token"],
    target: Int[Tensor, " batch"],
    removal: Removal,
    *,
    of: str = "log-probability",
) -> Float64[Tensor, "variant batch"]:
    """The target's log-probability (or logit) for every text and every set of tokens that is removed from it.

    Equal sets are asked once, whoever wants them; a pass takes up to CHUNK_TOKENS tokens, shortest texts first. NaN
    where nothing would be left to read.
    """
    variants, size, _ = removed.shape
    number = torch.arange(size, device=removed.device).expand(variants, size)
    asked = torch.cat([number[..., None], removed.long()], dim=-1).flatten(0, 1)
    unique, place = asked.unique(dim=0, return_inverse=True)
    texts, sets = unique[:, 0], unique[:, 1:].bool()
    left = batch.mask.sum(-1)[texts] - sets.sum(-1) * (removal.how != "mask")
    given = asked_inputs(batch)
    found = torch.full((len(unique),), torch.nan, dtype=torch.float64, device=removed.device)
    for rows in _chunks(left, batch.inputs["input_ids"].shape[1]):
        inputs = removal({name: tensor[texts[rows]] for name, tensor in given.items()}, sets[rows])
        with torch.no_grad():
            found[rows] = output_of(logits(model, inputs).double(), target[texts[rows]], of)
    return found[place].view(variants, size)


def _chunks(left: Int[Tensor, " row"], width: int) -> Iterator[Int[Tensor, " some"]]:
    """The rows that have tokens left, by how many these are, in passes of up to CHUNK_TOKENS tokens of full width."""
    order = left.argsort(stable=True)
    readable = order[left[order] > 0]
    if len(readable):  # subtle: nothing splits into one empty part
        yield from readable.split(max(CHUNK_TOKENS // width, 1))

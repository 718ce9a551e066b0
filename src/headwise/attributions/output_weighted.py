r"""Hidden token attribution weighted by the output (Brunner et al. 2019, https://arxiv.org/abs/1908.04211v1): shares of

    ‖g_ij‖,   g_ij = (∂f/∂e_j^l) (∂e_j^l/∂x_i),

input i in what hidden token j of layer l passes on to the model's output f. One backward pass gives ∂f/∂e_j^l of all
tokens and layers; each is then pulled back to x (n·L cotangents, exact), or compared with k random tangents an input
token, (∂f/∂e_j^l) (J_ij q), whose squares are unbiased for ‖g_ij‖² (n·k tangents).

f is, for a classifier, the sum of its logits, the predicted one's, the gold label's, or that of a class by number. For
a causal language model these are the logits after the last token, for a masked one those at its mask tokens; "gold" is
there the log-likelihood of the labels. A row is NaN where f does not read the token at all: in BERT's last layer all
but [CLS].
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from headwise.attributions import ORIGINS, Origins
from headwise.attributions.hidden_token import check_draws, estimated
from headwise.attributions.jacobians import BUDGET, pulled_back, squared_draws
from headwise.attributions.passes import embedded, entering, shares
from headwise.errors import InputError, ModelError
from headwise.models.capture import watching
from headwise.models.model import Model
from headwise.models.probe import without_cache
from headwise.quantities import SHARE
from headwise.types import Batch

TARGETS = ("sum", "predicted", "gold")
Gradients = list[Float[Tensor, "batch token d_model"]]


@ORIGINS.add(
    "output-weighted",
    "The share of each input token in what a hidden token passes on to the model's output.",
    label="Output-weighted attribution",
    rows="Each row adds up to 1; rows that the output does not read are empty.",
    unit=SHARE,
    distribution=True,
    cost="n·L backward passes",
    work=lambda size: 2 * size.tokens * size.layers * size.a_pass,
    needs=lambda model, _: check_output(model),
    paper="https://arxiv.org/abs/1908.04211v1",
    order=20,
)
def output_weighted(
    model: Model,
    batch: Batch,
    *,
    target: str | int = "predicted",
    labels: Tensor | None = None,
    k: int | None = None,
    seed: int = 0,
    budget: int = BUDGET,
) -> Origins:
    """‖g_ij‖ as shares; exact, or estimated by `k` tangents. `labels`: [batch], for language models [batch token]."""
    check_target(model, target, labels)
    x = embedded(model, batch)
    slopes = output_slopes(model, batch, x, target, labels)
    if k is None or k >= x.shape[-1]:
        return Origins(shares(pulled_back(model, batch, x, slopes, budget=budget), batch.mask))
    check_draws(k)

    def along(layer: int, moved: Tensor) -> Tensor:
        return torch.einsum("tbnd,bnd->tbn", moved, slopes[layer].to(moved)).square()

    return estimated(squared_draws(model, batch, x, along, k=k, seed=seed, budget=budget), batch, x.shape[-1])


def check_target(model: Model, target: str | int, labels: Tensor | None) -> None:
    if not (target in TARGETS or (isinstance(target, int) and target >= 0)):
        raise InputError(f"A target is {', '.join(TARGETS)} or the number of a class, but {target!r} was asked for.")
    if labels is not None and target != "gold":
        raise InputError(f"Labels are read for target='gold' only, but the target is {target!r}; leave labels out.")
    _check_one_stack(model)


def check_output(model: Model) -> None:
    """That a model has one stack and a head for texts, by its class alone."""
    _check_one_stack(model)
    names = {base.__name__ for base in type(model.hf).__mro__}
    classifies = names & set(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.values())
    if not classifies and model.hf.get_output_embeddings() is None:
        raise _headless(model)


def _check_one_stack(model: Model) -> None:
    if model.is_encoder_decoder:
        raise ModelError(
            f"output-weighted needs one stack from input to output, but {model.name} reads its input again at every "
            "token it writes; use hidden-token for its encoder."
        )


def _headless(model: Model) -> ModelError:
    return ModelError(
        f"output-weighted needs a model with an output, but {model.name} ({type(model.hf).__name__}) has no head "
        "for texts; load it with task='classification' (a fine-tuned one), 'masked-lm' or 'causal-lm'."
    )


def output_slopes(model: Model, batch: Batch, x: Tensor, target: str | int, labels: Tensor | None) -> Gradients:
    """∂f/∂e^1 … ∂f/∂e^L; texts do not read each other, so one backward pass serves the batch."""
    with torch.enable_grad(), entering(model, x.detach().requires_grad_()):
        with watching(model.hf, lambda call: call.rows(0, call.length)):
            output = model.hf(**batch.inputs, **without_cache(model.hf), output_hidden_states=True)
        states = list(output.hidden_states[1:])
        total = _output(model, batch, getattr(output, "logits", None), target, labels)
        slopes = torch.autograd.grad(total, states, allow_unused=True)
    return [torch.zeros_like(s) if slope is None else slope for s, slope in zip(states, slopes, strict=True)]


def _output(model: Model, batch: Batch, logits: Tensor | None, target: str | int, labels: Tensor | None) -> Tensor:
    """f, summed over the texts."""
    speaks = model.hf.get_output_embeddings() is not None
    if logits is None or (logits.ndim == 3 and not speaks):
        raise _headless(model)
    if logits.ndim == 3 and target == "gold":
        return _likelihood(model, batch, logits, labels)
    rows = logits if logits.ndim == 2 else _read_rows(model, batch, logits)
    if target == "sum":
        return rows.sum()
    if target == "predicted":
        return rows.amax(-1).sum()
    chosen = _classes(model, labels, len(rows)) if target == "gold" else torch.full((len(rows),), int(target))
    if not bool(((chosen >= 0) & (chosen < rows.shape[-1])).all()):
        raise InputError(f"Classes go from 0 to {rows.shape[-1] - 1}, but {chosen.tolist()} was asked for.")
    return rows.gather(-1, chosen.to(rows.device)[:, None]).sum()


def _classes(model: Model, labels: Tensor | None, texts: int) -> Int[Tensor, " batch"]:
    if labels is None or labels.shape != (texts,):
        got = "none were given" if labels is None else f"their shape is {tuple(labels.shape)}"
        raise InputError(
            f"target='gold' of {model.name} needs one label a text, [{texts}], but {got}; pass labels=, or take "
            "target='predicted'."
        )
    return labels


def _read_rows(model: Model, batch: Batch, logits: Tensor) -> Float[Tensor, "row vocabulary"]:
    """The logits of a language model that are about something not yet there: after the last token, or at a mask."""
    if model.causal:
        last = batch.mask.sum(-1) - 1
        return logits[torch.arange(len(logits), device=logits.device), last]
    masked = (batch.inputs["input_ids"] == model.tokenizer.mask_token_id) & batch.mask
    if not bool(masked.any(-1).all()):
        mask = model.tokenizer.mask_token
        raise InputError(
            f"A masked language model predicts where {mask} stands, but a text has none; write {mask} into it, or pass "
            "target='gold' with labels=."
        )
    return logits[masked]


def _likelihood(model: Model, batch: Batch, logits: Tensor, labels: Tensor | None) -> Tensor:
    """Σ log p(label), nats; of a causal model by default each next token of the text."""
    ids = batch.inputs["input_ids"]
    if labels is None and model.causal:
        labels = torch.where(batch.mask, ids, -100).roll(-1, dims=1)
        labels[:, -1] = -100
    if labels is None or labels.shape != ids.shape:
        got = "none were given" if labels is None else f"their shape is {tuple(labels.shape)}"
        raise InputError(
            f"target='gold' of a masked language model needs labels of shape {tuple(ids.shape)}, -100 where nothing is "
            f"asked, but {got}."
        )
    return -torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten().to(ids.device), reduction="sum")

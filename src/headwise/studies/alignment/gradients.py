r"""Alignment by gradients: how the probability of a target token depends on each source token.

With x_j what the encoder's embedding module gives for source token j (its position included) and log p_i the
log-probability of target token i, given the source and the target before it:

    gradient-norm     ‖∂ log p_i / ∂x_j‖                               Li et al. 2016, https://arxiv.org/abs/1506.01066
    gradient-input    x_j · ∂ log p_i / ∂x_j, signed                   Ding et al. 2019, https://arxiv.org/abs/1906.10282
    smooth-gradient   the same, the mean over `samples` copies of x with Gaussian noise; its standard deviation is
                      `noise` times the spread (largest − smallest) of x    Smilkov et al. 2017, SmoothGrad

One backward pass for every row of the decoder, shared by the texts of a batch: gradients of different texts do not mix.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.attributions.passes import embedded, entering
from headwise.errors import ModelError
from headwise.models.capture import watching
from headwise.models.model import Model
from headwise.types import Batch

METHODS = ("gradient-norm", "gradient-input", "smooth-gradient")
Maps = Float[Tensor, "batch query key"]


def check(model: Model) -> None:
    """Refuse a model that predicts nothing, or too coarsely."""
    if model.hf.get_output_embeddings() is None or not model.hf.can_generate():
        raise ModelError(
            f"Gradients are those of a prediction, but {model.name} was loaded without its head; load it with "
            "task='translation' (--task translation)."
        )
    if model.hf.dtype not in (torch.float32, torch.float64):
        raise ModelError(f"Gradients need float32 or float64, but {model.name} is in {model.hf.dtype}; load it so.")


def maps(
    model: Model,
    batch: Batch,
    documents: Sequence[int],
    methods: Sequence[str],
    *,
    samples: int = 10,
    noise: float = 0.15,
    seed: int = 0,
) -> Float[Tensor, "batch method query key"]:
    """Row r is about the token that row r predicts; the last row, which predicts the end, is zero."""
    x, found = embedded(model, batch), {}
    if {"gradient-norm", "gradient-input"} & set(methods):
        found["gradient-norm"], found["gradient-input"] = _at(model, batch, x)
    if "smooth-gradient" in methods:
        spread = [noise * float(own[: len(text)].max() - own[: len(text)].min())
                  for own, text in zip(x, batch.texts, strict=True)]  # fmt: skip
        total = torch.zeros_like(_empty(batch, x))
        for sample in range(samples):
            moved = x + torch.tensor(spread).to(x)[:, None, None] * _noise(batch, x, documents, (seed, sample))
            total += _at(model, batch, moved)[1]
        found["smooth-gradient"] = total / samples
    return torch.stack([found[method] for method in methods], dim=1)


def _at(model: Model, batch: Batch, x: Float[Tensor, "batch key d_model"]) -> tuple[Maps, Maps]:
    """‖∂ log p / ∂x‖ and x · ∂ log p / ∂x, at x."""
    point = x.detach().requires_grad_(True)
    with torch.enable_grad(), watching(model.hf, lambda call: call.rows(0, call.length)), entering(model, point):
        logits = model.hf(**batch.inputs, use_cache=False).logits
        said = logits[:, :-1].log_softmax(-1).gather(-1, _next(batch)[..., None]).squeeze(-1)
        real = batch.target_mask[:, 1:].clone()  # subtle: may have been made in inference mode, which no gradient takes
        said = torch.where(real, said, 0.0).sum(0)
        norms, products = _empty(batch, x), _empty(batch, x)
        for row, log_p in enumerate(said):
            gradient = torch.autograd.grad(log_p, point, retain_graph=True)[0]
            norms[:, row], products[:, row] = gradient.norm(dim=-1), (gradient * x).sum(-1)
    return norms, products


def _next(batch: Batch) -> Int[Tensor, "batch row"]:
    """The token that each row but the last predicts."""
    return batch.inputs["decoder_input_ids"][:, 1:]


def _empty(batch: Batch, x: Float[Tensor, "batch key d_model"]) -> Maps:
    return x.new_zeros(len(x), batch.inputs["decoder_input_ids"].shape[1], x.shape[1])


def _noise(
    batch: Batch, x: Float[Tensor, "batch key d_model"], documents: Sequence[int], seed: tuple[int, int]
) -> Float[Tensor, "batch key d_model"]:
    """Drawn a text by its own number, so that batches do not matter."""
    drawn = torch.zeros_like(x)
    for own, text, number in zip(drawn, batch.texts, documents, strict=True):
        generator = torch.Generator().manual_seed((seed[0] * 1_000_003 + seed[1]) * 1_000_003 + number)
        own[: len(text)] = torch.randn(len(text), x.shape[2], generator=generator).to(x)
    return drawn

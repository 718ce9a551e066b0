"""∂loss/∂α of every layer of a batch, for the studies that ask for it.

The weights are those that the model's own eager attention multiplied the values with, so that autograd gives their
gradient as it stands. Texts of any length are captured whole: the graph holds all maps anyway. No parameter's `.grad`
is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.models.model import Model
from headwise.studies.importance import losses
from headwise.types import Batch, Layer


def graded_layers(model: Model, batch: Batch, labels: Int[Tensor, "batch token"]) -> Iterator[Layer]:
    """Every layer, cut off from the graph, with memo["gradient"] [batch head query key] and memo["loss"] [batch]."""
    found: list[Layer] = []
    with torch.enable_grad():
        with ExitStack() as hooks:
            for table in _tables(model):
                hooks.callback(table.register_forward_hook(_begin_graph).remove)
            output = model.run(batch, found.append, rows=0)
        loss = losses(output.logits, labels)
        gradients = _gradients(loss, found)
    for layer, gradient in zip(found, gradients, strict=True):
        yield _detached(layer, {"gradient": gradient, "loss": loss.detach()})


def _tables(model: Model) -> set[torch.nn.Module]:
    """The modules that embed tokens; an encoder–decoder may have one a side."""
    hf: Any = model.hf
    sides = [hf.get_encoder(), hf.get_decoder()] if model.is_encoder_decoder else []
    return {side.get_input_embeddings() for side in (hf, *sides)}


def _begin_graph(_module: torch.nn.Module, _args: object, embedded: Tensor) -> Tensor:
    """A model whose parameters are frozen would leave no graph."""
    return embedded if embedded.requires_grad else embedded.requires_grad_()


def _gradients(loss: Float[Tensor, " batch"], layers: list[Layer]) -> list[Float[Tensor, "batch head query key"]]:
    total = loss[~loss.isnan()].sum()
    if not total.requires_grad:  # no text has anything to predict
        return [torch.zeros_like(layer.alpha) for layer in layers]
    return list(torch.autograd.grad(total, [layer.alpha for layer in layers]))


def _detached(layer: Layer, memo: dict[str, Tensor]) -> Layer:
    residual = None if layer.residual is None else layer.residual.detach()
    return replace(
        layer, alpha=layer.alpha.detach(), value=layer.value.detach(), out=layer.out.detach(), residual=residual,
        memo=memo, text_memo={},
    )  # fmt: skip

r"""Value zeroing (Mohebbi et al. 2023, https://arxiv.org/abs/2301.12971): take a key's value away and see who moves.

    C_ij = 1 − cos(e_i, e_i without the value of token j),   rows normalised,

where e is the output of one whole block: attention with its weights as they are, residuals, norms and feed-forward.
Each block is run again on its own input with a copy of the text for every j, so a text costs n passes (n · L blocks).

Texts are taken one by one and unpadded, so neither padding nor other texts play a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from headwise.attributions import PASSES
from headwise.attributions.jacobians import BUDGET, tangents_at_once
from headwise.attributions.passes import hidden_pass, trunk_inputs
from headwise.errors import ModelError
from headwise.models.capture import Call, first_tensor, watching
from headwise.models.model import Model
from headwise.quantities import SHARE
from headwise.types import Batch


@dataclass(frozen=True)
class BlockCall:
    """A block as it was called in a pass: it can be called again on another state."""

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def state(self) -> Float[Tensor, "batch token d_model"]:
        state = first_tensor(self.args, self.kwargs)
        assert state is not None
        return state

    def again(self, state: Float[Tensor, "copy token d_model"]) -> Float[Tensor, "copy token d_model"]:
        if self.args:
            out = self.block(state, *self.args[1:], **self.kwargs)
        else:
            out = self.block(**{**self.kwargs, "hidden_states": state})
        return out[0] if isinstance(out, tuple) else out


@PASSES.add(
    "value-zeroing",
    "How far a token's output moves when one key's value is set to zero.",
    residual=True,
    label="Value zeroing",
    unit=SHARE,
    distribution=True,
    cost="n passes of each block",
    work=lambda size: size.tokens * size.a_pass,
    paper="https://arxiv.org/abs/2301.12971",
    order=50,
)
def value_zeroing(model: Model, batch: Batch, *, budget: int = BUDGET) -> Float[Tensor, "batch layer query key"]:
    """C_ij of every layer of the first stack, rows normalised; NaN in a row that no key moves."""
    n, precision = batch.mask.shape[1], torch.promote_types(model.hf.dtype, torch.float32)
    maps = torch.zeros(len(batch.texts), model.layers(), n, n, dtype=precision, device=batch.mask.device)
    for text, encoding in enumerate(batch.texts):
        alone = model.batch([encoding])
        with torch.no_grad():
            for layer, moved in enumerate(_moved(model, alone, budget)):
                maps[text, layer, : len(encoding), : len(encoding)] = moved / moved.sum(-1, keepdim=True)
    return maps


def _moved(model: Model, text: Batch, budget: int) -> Iterator[Float64[Tensor, "query key"]]:
    """C_ij of one text, a layer after the other."""
    calls = block_calls(model, text)
    size = tangents_at_once(model, calls[0].state, budget=budget, kept=0)
    n = calls[0].state.shape[1]
    for call in calls:
        with zeroing(model, torch.full((1,), n)):
            before = call.again(call.state)
        columns = []
        for keys in torch.arange(n).split(size):
            with zeroing(model, keys) as seen:
                after = call.again(call.state.repeat(len(keys), 1, 1))
            apart = 1 - torch.cosine_similarity(before.double(), after.double(), dim=-1)
            columns.append(torch.where(seen[-1][:, keys].T.to(apart.device), apart.clamp(min=0), 0.0))
        yield torch.cat(columns).T


@contextmanager
def zeroing(model: Model, keys: Tensor) -> Iterator[list[Bool[Tensor, "query key"]]]:
    """In copy c of the text the value of token keys[c] is zero (none where it is past the end); tells who sees whom."""
    seen: list[Tensor] = []

    def watch(call: Call) -> tuple[Tensor, Tensor | None]:
        every_key = torch.ones(1, call.key.shape[2], dtype=torch.bool, device=call.key.device)
        seen.append(call.visible(every_key)[0].cpu())
        taken = keys[:, None] == torch.arange(call.value.shape[2])
        value = torch.where(taken[:, None, :, None].to(call.value.device), 0.0, call.value)
        return replace(call, value=value).rows(0, call.length)

    with watching(model.hf, watch):
        yield seen


def block_calls(model: Model, text: Batch) -> list[BlockCall]:
    """The blocks of the first stack, in the order of the pass, with what they were given."""
    calls: list[BlockCall] = []

    def note(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(BlockCall(block, args, kwargs))

    with ExitStack() as stack:
        for block in dict.fromkeys(block_of(model, site.module) for site in model.sites()):
            stack.callback(block.register_forward_pre_hook(note, with_kwargs=True).remove)
        hidden_pass(model, trunk_inputs(text.inputs))
    if len(calls) != model.layers():
        raise ModelError(
            f"Value zeroing runs each block again, but {model.name} calls {len(calls)} blocks for {model.layers()} "
            "attention layers; use globenc or alti."
        )
    return calls


def block_of(model: Model, attention: nn.Module) -> nn.Module:
    """The block around an attention module: the outermost element of a list of modules that holds it."""
    for module in model.hf.modules():
        if isinstance(module, nn.ModuleList):
            for block in module:
                if any(part is attention for part in block.modules()):
                    return block
    raise ModelError(
        f"The blocks of a model must stand in a list, but those of {model.name} do not; use globenc or alti."
    )

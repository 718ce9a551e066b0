"""A short text of made-up tokens through a model, with everything noted that a module is given or gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headwise.errors import HeadwiseError, ModelError
from headwise.models.capture import PROJECTIONS, Call, at_least_float, first_tensor, followed, watching
from headwise.models.senses import probe_of, sense_of, starting

PROBE, TARGET_PROBE = 5, 3  # tokens; unequal, so that the shape of a call tells its stack
LONG_PROBE, LONG_TARGET_PROBE = 40, 23  # of the comparison of outputs: windows and top-k of tiny models bite
NAMES_OF_LIMITS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_encoder_position_embeddings")
Event = tuple[str, nn.Module, Tensor]


@dataclass
class Timeline:
    """The probe's forward pass as a list: what each module was given and gave, and each attention call."""

    events: list[Event] = field(default_factory=list)
    calls: list[tuple[int, Call, Tensor, Tensor]] = field(default_factory=list)  # place, call, output, weights
    readers: dict[int, int] = field(default_factory=dict)  # number of an event → of the call whose output it is given

    def watch(self, call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = call.rows(0, call.length)
        self.calls.append((len(self.events), call, out, alpha))
        return out, alpha

    def note(self, kind: str, module: nn.Module, tensor: object) -> None:
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            mode = followed.get()
            number = None if mode is None or kind != "in" else mode.call_of(tensor)
            if number is not None:
                self.readers[len(self.events)] = number
            # A copy, as some models add to their residual in place.
            self.events.append((kind, module, at_least_float(tensor.detach()).clone()))


def observe(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[Timeline, Tensor]:
    timeline = Timeline()
    hooks = []

    def hook(module: nn.Module) -> None:
        hooks.append(module.register_forward_pre_hook(
            lambda m, args, kwargs: timeline.note("in", m, first_tensor(args, kwargs)), with_kwargs=True))  # fmt: skip
        hooks.append(module.register_forward_hook(lambda m, _, out: timeline.note("out", m, out)))

    for module in (*model.modules(), *PROJECTIONS.get(model, {}).values()):
        hook(module)
    try:
        with watching(model, timeline.watch, probing=True, made=hook):
            output = first_output(model(**inputs, **without_cache(model)))
    finally:
        for one in hooks:
            one.remove()
    return timeline, output


def first_output(output: object) -> Tensor:
    """The first tensor of a model output: hidden states of a base model, logits of a task model."""
    return next(value for value in output.values() if isinstance(value, Tensor))  # type: ignore[attr-defined]


def probe_inputs(model: PreTrainedModel, length: int = PROBE, target: int = TARGET_PROBE) -> dict[str, Tensor]:
    """Token ids spread over the vocabulary, the last of them the end of the text where the model looks for it.

    A model of pictures or sound gets noise of its own size, whatever `length` is.
    """
    if sense_of(model) != "text":
        return {**probe_of(model), **starting(model, target)}
    ids = torch.arange(1, length + 1, device=model.device)[None] * vocabulary(model) // (length + 2)
    if reads_source_twice(model):
        ids[:, -1] = eos_id(model)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids.roll(1, dims=1)}
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids[:, :target]
    return {name: value for name, value in inputs.items() if accepts(model, name)}


def vocabulary(model: PreTrainedModel) -> int:
    """How many token ids the model knows."""
    table = getattr(token_table(model), "weight", None)
    size = getattr(model.config, "vocab_size", None) if table is None else len(table)  # type: ignore[arg-type]
    if size is None and hasattr(model.config, "num_hash_buckets"):  # CANINE hashes the code points of Unicode
        return 0x110000
    if not isinstance(size, int):
        raise ModelError(
            "A model must have a table of token embeddings or a vocab_size, but "
            f"{model.config.model_type} has neither; it does not read tokens as others do and cannot be analysed."
        )
    return size


def token_table(model: PreTrainedModel) -> Any:
    """The module that gives tokens their vectors; None where the model does not say which it is (SAM 3's text part)."""
    try:
        return model.get_input_embeddings()
    except NotImplementedError:
        return None


def reads_source_twice(model: PreTrainedModel) -> bool:
    """Encoder–decoders as classifiers (bart-large-mnli): the decoder reads the source again."""
    return bool(getattr(model.config, "is_encoder_decoder", False)) and "SequenceClassification" in type(model).__name__


def eos_id(model: PreTrainedModel) -> int:
    eos = getattr(model.config, "eos_token_id", None)
    return eos if isinstance(eos, int) else 1


def accepts(model: PreTrainedModel, name: str) -> bool:
    """Whether the model's forward may be given an argument of this name."""
    parameters = inspect.signature(model.forward).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def last_logits(model: nn.Module) -> dict[str, Any]:
    """The option that keeps a model from computing the logits of all tokens, where it knows one."""
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def without_cache(model: nn.Module) -> dict[str, Any]:
    """The option that keeps a model from making a cache, where it knows one (MPNet has none and refuses it)."""
    return {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}


def position_limit(model: PreTrainedModel) -> int | None:
    """The most tokens the model can read; None where its positions know no limit."""
    named = (getattr(model.config, name, None) for name in NAMES_OF_LIMITS)
    positions = next((number for number in named if number is not None and number > 0), None)  # XLNet has -1
    if positions is None:
        return None
    # subtle: RoBERTa-like models count positions from padding_idx + 1, and so lose as many.
    tables = (m for m in model.modules() if isinstance(m, nn.Embedding))
    padded = [m.padding_idx for m in tables if m.num_embeddings == positions and m.padding_idx is not None]
    return positions - (padded[0] + 1 if padded else 0)


@contextmanager
def checking(model: PreTrainedModel, what: str) -> Iterator[None]:
    """Any exception in here becomes one line with the family and what was being checked."""
    try:
        yield
    except HeadwiseError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")[:160]
        raise ModelError(
            f"A model must run on what it is given, but {model.config.model_type} raised {type(error).__name__} "
            f"({reason}) while headwise was {what}; it cannot be analysed."
        ) from error


def hidden_states(output: Any) -> dict[str, Float[Tensor, "layer batch token d_model"]]:
    """x and e^1 … e^L, by stack; x is the output of the embedding module.

    Where the model changes its width at the end (OPT-350m), the last is left out.
    """
    names = {"self": "hidden_states", "encoder": "encoder_hidden_states", "decoder": "decoder_hidden_states"}
    states = {stack: getattr(output, name, None) for stack, name in names.items()}
    # subtle: Pegasus-X keeps global and local tokens apart, and its states are pairs
    plain = {stack: state for stack, state in states.items() if state and all(isinstance(s, Tensor) for s in state)}
    return {stack: torch.stack(_of_one_width(state)) for stack, state in plain.items()}


def _of_one_width(states: Sequence[Tensor]) -> list[Tensor]:
    return [state for state in states if state.shape == states[0].shape]

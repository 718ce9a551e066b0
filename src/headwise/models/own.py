"""A model of one's own, in whatever it is wrapped: its transformers model and its tokenizer, or one line that says why.

A pipeline, a SentenceTransformer, a DataParallel hold both; a bare model knows the name that its tokenizer is found by.
PEFT keeps its changes beside the weights, so that W_O would be the unchanged one: it must be merged first. A learned
prefix cannot be: it is keys and values that belong to no token.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headwise.errors import InputError, ModelError
from headwise.models.capture import quiet
from headwise.models.senses import NoTokenizer, sense_of, textless
from headwise.models.tasks import tower

PARALLEL = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")


def own_pair(source: Any, task: str | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """(model, tokenizer) of what the user has; of a model of two towers the one that `task` names.

    In the place of a tokenizer a model of pictures may have none, and one of sound its feature extractor.
    """
    if isinstance(source, tuple):
        if len(source) != 2:
            raise InputError(f"A model of one's own is a (model, tokenizer) pair, but {len(source)} things were given.")
        model, tokenizer = source
    elif type(source).__name__ == "SentenceTransformer":
        model, tokenizer = source[0].auto_model, source.tokenizer
    else:
        model, tokenizer = getattr(source, "model", source), getattr(source, "tokenizer", None)
        model = source if isinstance(source, PreTrainedModel) else model
    model = tower(unwrapped(model), task)
    if textless(model):
        nobody: Any = NoTokenizer(model.config.model_type, sense_of(model))
        return model, nobody
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor, which holds an extractor, too
    return model, tokenizer_of(model) if tokenizer is None else checked(tokenizer)


def given_extractor(source: Any) -> Any:
    """The feature extractor of (model, extractor), (model, processor) or a pipeline; None where there is none."""
    with_it = source[1] if isinstance(source, tuple) and len(source) == 2 else source
    found = getattr(with_it, "feature_extractor", with_it)
    return found if hasattr(found, "sampling_rate") else None


def unwrapped(model: Any) -> PreTrainedModel:
    """The transformers model inside a DataParallel; anything else that is no such model is named."""
    if type(model).__name__ in PARALLEL:
        model = model.module
    if type(model).__name__.startswith("Peft"):
        if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
            raise learned_prefix(f"a {type(model).__name__}")
        raise ModelError(
            f"A PEFT model must be merged before it is read, but a {type(model).__name__} was given; pass "
            "(model.merge_and_unload(), tokenizer)."
        )
    if not isinstance(model, PreTrainedModel):
        kind = f"the module {type(model).__name__}" if isinstance(model, nn.Module) else f"a {type(model).__name__}"
        raise InputError(
            f"A model is a name, a folder, or a transformers PreTrainedModel with its tokenizer, but {kind} was given; "
            "pass (model, tokenizer)."
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ModelError(
            "All weights of a model must be in memory, but some of this one are on the meta device (offloaded or never "
            "loaded); load it without device_map or disk offload."
        )
    if any("lora_" in name for name, _ in model.named_parameters()):
        raise ModelError("A model with LoRA layers must be merged before it is read; pass model.merge_and_unload().")
    return model


def learned_prefix(what: str) -> ModelError:
    """Of prefix, prompt and P-tuning."""
    return ModelError(
        f"Attention must be between the tokens of a text, but {what} has a learned prefix (prefix, prompt or P-tuning) "
        "whose keys are no tokens; it cannot be analysed. Its base model can: pass that."
    )


def tokenizer_of(model: PreTrainedModel) -> PreTrainedTokenizerBase:
    name = model.config.name_or_path
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(name)
    except Exception as error:  # a missing file, a tokenizer of another library: whatever transformers says
        raise InputError(
            f"A model needs its tokenizer, but none was given and none is found by its name {name!r} "
            f"({type(error).__name__}); pass (model, tokenizer)."
        ) from error


def checked(tokenizer: Any) -> PreTrainedTokenizerBase:
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(
            "The second of a (model, tokenizer) pair must be a transformers tokenizer, but a "
            f"{type(tokenizer).__name__} was given."
        )
    return tokenizer

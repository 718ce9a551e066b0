"""Which transformers class serves which task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import transformers
from transformers import PreTrainedModel

from headwise.errors import InputError

TASKS: Mapping[str, str] = {
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "translation": "AutoModelForSeq2SeqLM",
    "transcription": "AutoModelForSpeechSeq2Seq",
    "image-classification": "AutoModelForImageClassification",
    "audio-classification": "AutoModelForAudioClassification",
}

TOWERS: Mapping[str, tuple[str, ...]] = {
    "text": ("text_model", "language_model"),
    "image": ("vision_model", "vision_tower", "visual"),
    "audio": ("audio_model", "audio_tower"),
}


def auto_class(task: str | None) -> Any:
    """The transformers class for a task; the base model without one, and where a tower of it is meant."""
    if task is None or task in TOWERS:
        return transformers.AutoModel
    if task not in TASKS:
        raise InputError(f"A task is one of {', '.join((*TASKS, *TOWERS, 'encoder'))}, but {task!r} was asked for.")
    return getattr(transformers, TASKS[task])


def tower(model: PreTrainedModel, task: str | None) -> PreTrainedModel:
    """The part of a model of two towers that reads text, pictures or sound; any other model as it is."""
    base: Any = model
    towers = {kind: part for kind, names in TOWERS.items() for name in names
              if isinstance(part := getattr(base, name, None), PreTrainedModel)}  # fmt: skip
    if task in TOWERS and task not in towers:
        have = ", ".join(f"task={kind!r}" for kind in towers) or "no towers: leave the task out"
        raise InputError(f"A tower must be there to be loaded, but {model.config.model_type} has {have}.")
    if task is not None and task in TOWERS:
        return towers[task]
    if task is None and "text_model" in dict(model.named_children()) and len(towers) > 1:
        raise InputError(
            f"A model of two towers is looked at one by one, but {model.config.model_type} was loaded whole; pass "
            f"{' or '.join(f'task={kind!r}' for kind in towers)}."
        )
    return model

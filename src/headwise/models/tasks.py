"""Which transformers class serves which task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import transformers
from transformers import PreTrainedModel

from headwise.errors import InputError, ModelError

TASKS: Mapping[str, str] = {
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
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


def gives_number(hf: PreTrainedModel) -> bool:
    """A head of regression: what it gives is no choice among labels."""
    return hf.config.problem_type == "regression" or hf.config.num_labels == 1


def labels_apart(hf: PreTrainedModel) -> bool:
    """A head that says yes or no to each of its labels by itself."""
    return hf.config.problem_type == "multi_label_classification"


def check_chooses(name: str, hf: PreTrainedModel, labels: int) -> None:
    """Raise, in a line, where a classifier does not choose one of several labels."""
    if labels < 2 or gives_number(hf):
        raise ModelError(
            f"A classifier must choose among at least two classes, but {name} gives one number; load one with two "
            "labels or more."
        )
    if labels_apart(hf):
        raise ModelError(
            f"A classifier must choose one of its labels, but {name} says yes or no to each by itself "
            "(multi_label_classification); load one that chooses, or one label of it as a model of its own."
        )


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

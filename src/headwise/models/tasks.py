"""Which transformers class serves which task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import transformers

from headwise.errors import InputError

TASKS: Mapping[str, str] = {
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "translation": "AutoModelForSeq2SeqLM",
}


def auto_class(task: str | None) -> Any:
    """The transformers class for a task; the base model without one."""
    if task is None:
        return transformers.AutoModel
    if task not in TASKS:
        raise InputError(f"A task is one of {', '.join(TASKS)}, but {task!r} was asked for.")
    return getattr(transformers, TASKS[task])

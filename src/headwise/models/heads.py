"""The head that a checkpoint was saved with: the class that its configuration names, if its weights are there too.

subtle: many sentence encoders keep the name of the class they were trained as (all-mpnet-base-v2 says MPNetForMaskedLM)
and were saved without its head; asked for that head, transformers would fill it with random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, PretrainedConfig
from transformers.utils import cached_file  # type: ignore[attr-defined]

from headwise.models.capture import quiet
from headwise.models.packaged import PACKAGED, SHIPPED, packaged_folder
from headwise.models.sizes import check_sizes
from headwise.models.tasks import auto_class
from headwise.results.records import DamagedError, read_record

ENDINGS = {"ForCausalLM": "causal-lm", "WithLMHeadModel": "masked-lm", "LMHeadModel": "causal-lm",
           "ForMaskedLM": "masked-lm", "ForSequenceClassification": "classification",
           "ForTokenClassification": "token-classification", "ForQuestionAnswering": "question-answering",
           "WhisperForConditionalGeneration": "transcription",
           "ForConditionalGeneration": "translation", "MTModel": "translation",
           "ForImageClassification": "image-classification", "ForSpeechSeq2Seq": "transcription"}  # fmt: skip


def own_task(name: str) -> str | None:
    """The task of the head that a checkpoint was saved with; None where it has none."""
    if name.startswith("tiny:"):
        return None
    where = str(packaged_folder(name)) if name in PACKAGED else str(SHIPPED.get(name, name))
    try:
        with quiet():
            config = AutoConfig.from_pretrained(where)
    except Exception:  # whatever transformers makes of a broken configuration: `load` says it in a line
        return None
    saved = str((config.architectures or [""])[0])
    task = next((task for ending, task in ENDINGS.items() if saved.endswith(ending)), None)
    return task if task is None or _is_there(where, config, task) else None


def _is_there(where: str, config: PretrainedConfig, task: str) -> bool:
    """False only where the checkpoint's names are known and none of the head's own is among them."""
    stored = _stored(where)
    if not stored:
        return True
    check_sizes(where)  # ten million layers take hours without a weight, too
    try:
        with quiet(), torch.device("meta"):
            model: Any = auto_class(task).from_config(config)
    except Exception:  # the same
        return True
    body = f"{model.base_model_prefix}."
    own = {key for key in model.state_dict() if not key.startswith(body)} - set(model.all_tied_weights_keys)
    return not own or bool(own & stored)


def _stored(where: str) -> Set[str]:
    """The names of the weights in a checkpoint's safetensors, read from the headers alone; nothing of another kind."""
    found = lambda file: cached_file(where, file, _raise_exceptions_for_missing_entries=False)  # noqa: E731
    try:
        with quiet():
            if index := found("model.safetensors.index.json"):
                names = read_record(Path(index), {}).get("weight_map")
                return set(names) if isinstance(names, Mapping) else set()
            if whole := found("model.safetensors"):
                with safe_open(whole, framework="pt") as weights:
                    return set(weights.keys())
    except (OSError, SafetensorError, DamagedError):
        pass  # `load` says why
    return set()

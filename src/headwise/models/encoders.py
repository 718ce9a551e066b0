"""The encoder of an encoder–decoder as a model of its own, for texts that have no translation: `task="encoder"`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from transformers import PreTrainedModel

from headwise.errors import InputError

ENCODER = "encoder"


def encoder_alone(hf: PreTrainedModel) -> PreTrainedModel:
    """A copy of the encoder; nothing of it refers to the decoder, and its configuration says so."""
    if not getattr(hf.config, "is_encoder_decoder", False):
        raise InputError(
            f"task='encoder' takes the encoder of an encoder–decoder, but {hf.config.model_type} is none; leave it out."
        )
    encoder: Any = deepcopy(hf.get_encoder())
    config = deepcopy(encoder.config)
    config.is_encoder_decoder = False
    for module in encoder.modules():
        if hasattr(module, "config"):
            module.config = config
    return encoder

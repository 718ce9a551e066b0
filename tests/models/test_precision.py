"""The tolerance of a family is decided by watching it: known cases on both sides, and that it matters."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedModel

import headwise as hw
from references.precision import IN_FLOAT64, WITH_FLOAT32_INSIDE, float32_inside, nearness


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "marian"])
def test_families_that_stay_in_float64(family: str) -> None:
    assert nearness(hw.load(f"tiny:{family}", dtype="float64")) == IN_FLOAT64


@pytest.mark.parametrize("family", ["llama", "t5", "gemma2", "modernbert"])
def test_families_with_float32_inside(family: str) -> None:
    """Their sources say so: norms `.to(torch.float32)`, rotary angles `.float()`, softmax `dtype=torch.float32`."""
    assert nearness(hw.load(f"tiny:{family}", dtype="float64")) == WITH_FLOAT32_INSIDE


def test_one_step_through_float32_is_seen() -> None:
    model = hw.load("tiny:gpt2", dtype="float64")
    assert not float32_inside(model)
    hf: PreTrainedModel = model.hf
    hook = hf.get_submodule("ln_f").register_forward_hook(lambda *of: of[-1].to(torch.float32).to(torch.float64))
    assert float32_inside(model)
    hook.remove()

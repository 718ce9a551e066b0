"""A model trained for ten steps, saved and loaded from its folder, is the model that was trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.models.tiny import tiny_model
from references.compare import assert_close

TEXTS = ("The old dog sat in the sun.", "It is said that the sea is big and old.", "They came to the city.")


@pytest.mark.parametrize(("name", "task"), [("deberta", "classification"), ("t5", "translation")])
def test_ten_steps_then_a_folder(name: str, task: str, tmp_path: Path) -> None:
    hf, tokenizer = tiny_model(name, task=task)
    before = {key: weight.clone() for key, weight in hf.state_dict().items()}
    optimiser = torch.optim.AdamW(hf.parameters(), lr=1e-3)
    inputs = dict(tokenizer(list(TEXTS), padding=True, return_tensors="pt"))
    labels = torch.tensor([0, 1, 1]) if task == "classification" else inputs["input_ids"]
    hf.train()
    for _ in range(10):
        loss = hf(**inputs, labels=labels).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    hf.eval()
    assert any(not torch.equal(weight, before[key]) for key, weight in hf.state_dict().items())
    hf.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pair = TEXTS[1] if name == "t5" else None
    saved = hw.load(str(tmp_path), task=task).trace(TEXTS[0], pair)
    own = hw.load((hf, tokenizer)).trace(TEXTS[0], pair)
    assert saved.output_error < 1e-5
    for stack in own.stacks:
        assert_close(saved.attention("raw", stack=stack), own.attention("raw", stack=stack), 1e-6)
        assert_close(saved.attention("norm", stack=stack), own.attention("norm", stack=stack), 1e-5)

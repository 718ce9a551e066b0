"""The fine-tuning script: its measures by hand, its batches, and a stopped run that ends as one that was not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import headwise as hw
from headwise.models.tiny import tiny_model
from references.scripts import script


@pytest.fixture(scope="module")
def finetune():
    return script("experiments/finetune/finetune.py")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A tiny model's folder, and CoLA's files with a few sentences."""
    model, tokenizer = tiny_model("bert")
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    (tmp_path / "data" / "cola").mkdir(parents=True)
    texts = ["the sea is big", "it was the end of it", "the old dog", "so it was", "the sun, again", "they say"]
    lines = "".join(f"x\t{at % 2}\t\t{text}\n" for at, text in enumerate(texts * 2))
    for name in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
        (tmp_path / "data" / "cola" / f"{name}.tsv").write_text(lines)
    return tmp_path / "tiny", tmp_path / "data"


def test_measures_by_hand(finetune) -> None:
    got = finetune.measures([1, 1, 1, 0, 0, 0, 0, 1], [1, 1, 0, 0, 0, 1, 0, 1])  # tp 3, fp 1, fn 1, tn 3
    assert got == {"accuracy": 0.75, "f1": 0.75, "mcc": 0.5, "majority": 0.5}
    assert finetune.measures([1, 1], [1, 0])["mcc"] == 0.0  # one answer for all
    assert finetune.measures([0, 1], [1, 0])["mcc"] == -1.0


def test_every_text_once_an_epoch_and_batches_of_like_length(finetune) -> None:
    lengths = [5 + at * 7 % 40 for at in range(131)]
    recipe = finetune.Recipe("cola", batch=8)
    batches = finetune.bucketed(lengths, recipe, 0)
    assert sorted(at for batch in batches for at in batch) == list(range(131))
    assert batches != finetune.bucketed(lengths, recipe, 1)
    assert batches == finetune.bucketed(lengths, recipe, 0)
    assert max(max(lengths[at] for at in b) - min(lengths[at] for at in b) for b in batches) <= 5


def test_the_rate_goes_up_and_down(finetune) -> None:
    recipe = finetune.Recipe("cola", rate=1.0, warmup=0.2)
    rates = [finetune.rate_at(step, 10, recipe) for step in range(10)]
    assert rates == pytest.approx([1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_a_stopped_run_ends_as_one_that_was_not(finetune, places, tmp_path, monkeypatch) -> None:
    source, data = places
    recipe = finetune.Recipe("cola", epochs=2, batch=4, rate=1e-3)
    whole = finetune.fine_tune(recipe, source, data, tmp_path / "whole", tmp_path / "a")
    monkeypatch.setattr(finetune, "SAVE_EVERY", 2)
    rate_at = finetune.rate_at

    def stop(step: int, steps: int, recipe: object) -> float:
        if step == 5:
            raise KeyboardInterrupt
        return rate_at(step, steps, recipe)

    monkeypatch.setattr(finetune, "rate_at", stop)
    with pytest.raises(KeyboardInterrupt):
        finetune.fine_tune(recipe, source, data, tmp_path / "parts", tmp_path / "b")
    monkeypatch.setattr(finetune, "rate_at", rate_at)
    assert finetune.fine_tune(recipe, source, data, tmp_path / "parts", tmp_path / "b") == whole
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    results = [json.loads((tmp_path / name / "cola.json").read_text()) for name in ("a", "b")]
    assert results[0]["curve"] == results[1]["curve"]
    assert math.isfinite(results[0]["curve"][0]["loss"])
    loaded = hw.load(str(tmp_path / "parts"), task="classification")
    assert loaded.hf.config.id2label == {0: "unacceptable", 1: "acceptable"}


def test_another_recipe_is_not_mixed_in(finetune, places, tmp_path) -> None:
    source, data = places
    finetune.fine_tune(finetune.Recipe("cola", epochs=1, batch=4), source, data, tmp_path / "x", tmp_path)
    with pytest.raises(SystemExit, match="was begun with"):
        finetune.fine_tune(finetune.Recipe("cola", epochs=1, batch=4, seed=1), source, data, tmp_path / "x", tmp_path)

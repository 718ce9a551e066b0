"""The masked-LM head: the encoder stays as it was, a stopped run ends as one that was not, its loss is the study's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.models.tiny import tiny_model
from references.scripts import script

LINES = ["the sea is big and the old dog was there", "it was the end of it all , so they say",
         "the sun , again , was the end of the day", "they say it is the old sea"]  # fmt: skip


@pytest.fixture(scope="module")
def head():
    return script("experiments/masked-lm/head.py")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("masked-lm")
    model, tokenizer = tiny_model("bert")
    model.save_pretrained(root / "tiny")
    tokenizer.save_pretrained(root / "tiny")
    (root / "data" / "wikitext2").mkdir(parents=True)
    for name, lines in (("valid", LINES * 5), ("test", LINES[::-1])):
        (root / "data" / "wikitext2" / f"wiki.{name}.raw").write_text("\n\n".join(lines) + "\n")
    return root / "tiny", root / "data"


def test_the_encoder_stays_and_the_loss_falls(head, places, tmp_path: Path) -> None:
    source, data = places
    recipe = head.Recipe(passes=2, epochs=6, batch=8, rate=0.02)
    found = head.make(recipe, source, data, tmp_path / "out")
    assert found["curve"][-1] < found["curve"][0] - 0.1
    assert found["scored"]["perplexity"] == pytest.approx(math.exp(found["scored"]["nats"]), rel=1e-3)
    before, after = tiny_model("bert")[0].state_dict(), hw.load(str(tmp_path / "out"), task="masked-lm").hf
    kept = after.base_model.state_dict()
    assert all(torch.equal(weight, before[name]) for name, weight in kept.items())
    assert after.cls.predictions.decoder.weight is after.base_model.embeddings.word_embeddings.weight


def test_a_stopped_run_ends_as_one_that_was_not(head, places, tmp_path: Path, monkeypatch) -> None:
    source, data = places
    recipe = head.Recipe(passes=1, epochs=3, batch=8)
    whole = head.make(recipe, source, data, tmp_path / "whole")
    write, calls = head.write_files, []

    def stop(folder: Path, files: dict[str, bytes]) -> None:
        write(folder, files)
        calls.append(files)
        if len(calls) == 3:  # the recipe, the states, the first epoch
            raise KeyboardInterrupt

    monkeypatch.setattr(head, "write_files", stop)
    with pytest.raises(KeyboardInterrupt):
        head.make(recipe, source, data, tmp_path / "cut")
    monkeypatch.undo()
    assert head.make(recipe, source, data, tmp_path / "cut") == whole
    with pytest.raises(SystemExit, match="was begun with"):
        head.make(head.Recipe(passes=1, epochs=4, batch=8), source, data, tmp_path / "cut")


def test_the_score_is_the_loss_that_the_study_takes(head, places, tmp_path: Path) -> None:
    """`importance` masks the same tokens and has the same mean loss, text by text."""
    source, data = places
    found = head.make(head.Recipe(passes=1, epochs=1), source, data, tmp_path / "out")
    model = hw.load(str(tmp_path / "out"), task="masked-lm")
    from headwise.studies.importance import lesson

    texts = head.read(model, data / head.SCORED, head.Recipe(), 9)
    asked = lesson(model, texts, torch.arange(len(texts)), 0)
    logits = model.forward(model.batch(asked.texts)).logits
    log_p = logits.log_softmax(-1)
    nats = [-log_p[at, place, token].item() for at, row in enumerate(asked.labels.tolist())
            for place, token in enumerate(row) if token >= 0]  # fmt: skip
    assert found["scored"]["nats"] == pytest.approx(sum(nats) / len(nats), abs=1e-3)
    assert found["scored"]["segments"] == len(texts) == 2


def test_frequencies_by_hand(head) -> None:
    assert head.frequencies(torch.tensor([1, 1, 2]), 4).exp().tolist() == pytest.approx([1 / 7, 3 / 7, 2 / 7, 1 / 7])

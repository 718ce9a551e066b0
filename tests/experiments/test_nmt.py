"""The training script of experiments/nmt: what it learns from, how it batches, and that a break changes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
import torch

import headwise as hw
from headwise.errors import InputError

pytest.importorskip("sacremoses", reason="experiments/nmt needs sacremoses: pip install sacremoses")
FOLDER = Path(__file__).parents[2] / "experiments" / "nmt"
PAIRS = [("Das ist ein Haus.", "That is a house."), ("Er geht nach Hause , oder ?", "He goes home , doesn 't he ?"),
         ("Wir sehen sie.", "We see her."), ("Ja.", "Yes.")] * 3  # fmt: skip


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """data.py, model.py, train.py and package.py, which are scripts beside one another and not a package."""
    names = ("data", "model", "train", "package")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        found = {name: __import__(name) for name in names}
        for name in names:
            patch.delitem(sys.modules, name)
        yield found


@pytest.fixture(scope="module")
def tokenizer(scripts):
    return scripts["model"].train_tokenizer((side for pair in PAIRS for side in pair), 120)


@pytest.fixture(scope="module")
def recipe(scripts):
    return scripts["model"].Recipe(vocabulary=120, d_model=12, d_ff=11, heads=2, encoder_layers=1, decoder_layers=2,
                                   warm_up=3, batch_tokens=40)  # fmt: skip


@pytest.fixture(scope="module")
def pairs(scripts, tokenizer):
    rows = [tokenizer([pair[side] for pair in PAIRS])["input_ids"] for side in (0, 1)]
    return scripts["train"].Encoded(*([torch.tensor(row) for row in side] for side in rows))


def test_a_tokenizer_keeps_words_whole_beside_punctuation_and_gives_the_text_back(tokenizer):
    written, apart = tokenizer.tokenize("ein Haus,"), tokenizer.tokenize("ein Haus ,")
    assert written[:-1] == apart[:-1]
    assert (written[-1], apart[-1]) == (",", "▁,")
    for german, _ in PAIRS:
        assert tokenizer.decode(tokenizer(german)["input_ids"], skip_special_tokens=True) == german


def test_batches_hold_every_pair_once_within_the_limit_and_differ_by_epoch(scripts, pairs):
    batches = scripts["train"].batches
    first = batches(pairs, 40, seed=0, epoch=0)
    assert sorted(row for batch in first for row in batch) == list(range(len(PAIRS)))
    for batch in first:
        widest = max(len(side[row]) for row in batch for side in (pairs.sources, pairs.targets))
        assert len(batch) == 1 or widest * len(batch) <= 40
    assert first == batches(pairs, 40, seed=0, epoch=0)
    assert first != batches(pairs, 40, seed=0, epoch=1)


def test_the_decoder_reads_one_step_late(scripts, pairs):
    examples = scripts["train"].gather(pairs, [0, 3])
    long, short = pairs.targets[0].tolist(), pairs.targets[3].tolist()
    assert examples.labels[0].tolist() == long
    assert examples.decoder[0].tolist() == [0, *long[:-1]]
    assert examples.decoder[1, : len(short)].tolist() == [0, *short[:-1]]
    assert examples.label_mask.sum(1).tolist() == [len(long), len(short)]


def test_loss_is_that_of_hugging_face_and_knows_no_padding(scripts, pairs, recipe, tokenizer):
    train = scripts["train"]
    model = scripts["model"].new_model(recipe, len(tokenizer)).eval()
    for rows in ([0], [0, 1, 3]):
        examples = train.gather(pairs, rows)
        theirs = model(
            input_ids=examples.source,
            attention_mask=examples.source_mask.long(),
            labels=examples.labels.masked_fill(~examples.label_mask, -100),
        ).loss
        torch.testing.assert_close(train.loss_of(model, examples), theirs)


def test_learning_rate_rises_to_its_peak_and_halves_at_four_times_the_warm_up(scripts, recipe):
    rate = scripts["train"].learning_rate
    assert [rate(step, recipe) for step in (1, 3, 12)] == pytest.approx([1e-3 / 3, 1e-3, 5e-4])


def test_a_break_changes_nothing(scripts, pairs, recipe, tokenizer, tmp_path):
    train = scripts["train"]

    def go(trainer, progress, steps):
        for _, (rows, after) in zip(range(steps), train.remaining(pairs, recipe, progress), strict=False):
            trainer.update(train.gather(pairs, rows), after.step)
            progress = after
        return progress

    whole = train.Trainer(recipe, len(tokenizer))
    end = go(whole, train.Progress(), 11)

    broken = train.Trainer(recipe, len(tokenizer))
    broken.save(tmp_path / "checkpoint.safetensors", go(broken, train.Progress(), 7))
    torch.manual_seed(99)
    resumed = train.Trainer(recipe, len(tokenizer))
    assert go(resumed, resumed.restore(tmp_path / "checkpoint.safetensors"), 4) == end
    assert end.epoch > 0
    for name in whole.weights:
        assert torch.equal(whole.weights[name], resumed.weights[name])
        assert torch.equal(whole.average[name], resumed.average[name])


def test_what_is_written_loads_offline_and_has_its_cross_attention_proved(scripts, recipe, tokenizer, tmp_path):
    trainer = scripts["train"].Trainer(recipe, len(tokenizer))
    with trainer.averaged() as model:
        size = scripts["model"].export(model, tokenizer, tmp_path / "model")
    assert size == (tmp_path / "model" / "model.safetensors").stat().st_size
    assert trainer.model.training
    loaded = hw.load(tmp_path / "model", task="translation")
    assert loaded.layers("cross") == 2
    trace = loaded.trace("Das ist ein Haus.", "That is a house.")
    assert trace.target is not None
    assert trace.target.tokens[0] == "<pad>"
    inputs = loaded.tokenizer("Das ist ein Haus.", return_tensors="pt")
    assert loaded.hf.generate(**inputs, max_length=9).shape[1] <= 9


def test_what_is_packaged_loads_and_its_card_says_what_was_measured(scripts, recipe, tokenizer, tmp_path, monkeypatch):
    work, out = tmp_path / "work", tmp_path / "weights" / "demo-nmt"
    scripts["model"].export(scripts["model"].new_model(recipe, len(tokenizer)), tokenizer, work / "model")
    (work / "recipe.json").write_text(json.dumps({**asdict(recipe), "sources": ["tatoeba"]}))
    (work / "log.jsonl").write_text('{"step": 7, "cpu_seconds": 180.0, "target_tokens": 1234}\n')
    scores = {"tatoeba": {"pairs": 5, "bleu": 12.5, "chrf": 30.1}}
    (work / "bleu.json").write_text(json.dumps({"sacrebleu": "2", "scores": scores}))
    monkeypatch.setattr(sys, "argv", ["package.py", "--work", str(work), "--out", str(out)])
    scripts["package"].main()
    card = (out / "README.md").read_text("utf-8")
    assert "| tatoeba | 5 | 12.5 | 30.1 |" in card
    assert "for 3 minutes of one CPU thread, 7 steps" in card
    assert "CC BY 2.0 FR" in card
    assert hw.load(out).layers("cross") == 2
    (work / "recipe.json").write_text(json.dumps({**asdict(recipe), "sources": ["tatoeba", "multi30k"]}))
    with pytest.raises(InputError, match="Tatoeba alone"):
        scripts["package"].main()

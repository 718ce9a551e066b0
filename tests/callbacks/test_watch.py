"""Heads while a model learns: by hand, a real fine-tuning, and training that is as it was without."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch

from headwise.callbacks import NUMBERS, HeadWatch, shortened, watch
from headwise.errors import InputError
from headwise.measures.divergence import LN_2
from headwise.models.model import Model

TEXTS = ["the old dog sat in the sun", "it was said in the city, and again"]
LEARNED = ["the river of the city", "the dog is old", "it is in the north", "a cat sat in the sun"]
STEPS = 10


def pair(load: Callable[..., Model], task: str | None = "masked-lm") -> tuple[torch.nn.Module, object]:
    model = load("tiny:bert", task=task)
    return copy.deepcopy(model.hf).train(), model.tokenizer


def train(model: torch.nn.Module, tokenizer, seen: HeadWatch | None = None) -> list[float]:
    """Ten steps of a real fine-tuning: every token is to be foretold, dropout on."""
    torch.manual_seed(0)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for step in range(STEPS):
        if seen is not None:
            seen.look(step)
        batch = tokenizer(LEARNED, padding=True, return_tensors="pt")
        loss = model(**batch, labels=batch["input_ids"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def test_training_is_as_it_was_without_and_drift_begins_at_nothing(load: Callable[..., Model], tmp_path: Path) -> None:
    (alone, tokenizer), (watched, _) = pair(load), pair(load)
    seen = watch(watched, tokenizer, TEXTS, out=tmp_path)
    assert train(alone, tokenizer) == train(watched, tokenizer, seen)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))
    assert watched.training
    table = pl.read_parquet(tmp_path / "heads.parquet")
    heads = table.filter(step=0).height
    assert table.height == STEPS * heads
    assert set(NUMBERS) <= set(table.columns)
    first, last = (table.filter(step=step) for step in (0, STEPS - 1))
    assert first["drift_js"].abs().max() < 1e-9  # pyright: ignore[reportOperatorIssue, reportOptionalOperand]
    assert first["drift_profile"].max() == 0
    assert 1e-6 < last["drift_js"].mean() <= LN_2  # pyright: ignore[reportOperatorIssue]
    assert table.select(pl.col(list(NUMBERS)).is_finite().all()).row(0) == (True,) * len(NUMBERS)
    assert seen.save().read_text().startswith("<svg")


def test_numbers_by_hand(load: Callable[..., Model]) -> None:
    """Against plain loops over the same traces."""
    model, tokenizer = pair(load, None)
    seen = watch(model, tokenizer, TEXTS, importance=False)
    means, wrapped = seen.look(3), load("tiny:bert")
    sinks, entropies = [], []
    for text in TEXTS:
        trace = wrapped.trace(text)
        alpha, special = trace.attention("raw").double(), trace.text.special
        for head in alpha.flatten(0, 1):
            for row in head:
                sinks.append(sum(float(row[k]) for k in range(len(row)) if special[k] or k == 0) / len(head))
                entropies.append(-sum(float(p) * float(p.log()) for p in row if p > 0) / len(head))
    count = seen.table.height * len(TEXTS)
    assert means["sink_share"] == pytest.approx(sum(sinks) / count, abs=1e-6)
    assert means["entropy"] == pytest.approx(sum(entropies) / count, abs=1e-5)
    assert "importance" not in means
    assert seen.table["step"].unique().to_list() == [3]


def test_a_pair_is_watched_as_the_model_reads_it(load: Callable[..., Model]) -> None:
    """Both sides in one input: not what either side alone gives, and equal to the trace of the pair."""
    model, tokenizer = pair(load, None)
    both, alone = (watch(model, tokenizer, [texts], importance=False) for texts in (tuple(TEXTS), TEXTS[0]))
    trace = load("tiny:bert").trace(*TEXTS)
    alpha, sinks = trace.attention("raw").double(), [at for at, s in enumerate(trace.text.special) if s or at == 0]
    assert len(sinks) == 3  # [CLS] first [SEP] second [SEP]
    expected = sum(float(alpha[..., at].sum()) for at in sinks) / alpha[..., 0].numel()
    found = both.look(0)["sink_share"]
    assert found == pytest.approx(expected, abs=1e-6)
    assert alone.look(0)["sink_share"] != pytest.approx(expected, abs=1e-3)


def test_both_sides_of_a_pair_are_cut(load: Callable[..., Model]) -> None:
    model = load("tiny:bert")
    long = "the old dog sat in the sun and it was said again in the city of the north"
    cut = shortened(model, (long, "it was the end"), 12)
    assert cut[1] == "it was the end"
    assert long.startswith(cut[0])
    assert cut[0] != long
    assert len(model.encode(*cut)) == 12
    assert shortened(model, ("the old dog",), 12) == ["the old dog"]


@pytest.mark.parametrize("texts", [[], "a text"])
def test_it_needs_texts(load: Callable[..., Model], texts: object) -> None:
    with pytest.raises(InputError, match="needs a list of texts"):
        HeadWatch(*pair(load), texts)  # pyright: ignore[reportArgumentType]


def test_the_callback_of_a_trainer(load: Callable[..., Model], tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    from headwise.callbacks import HeadwiseCallback

    model, tokenizer = pair(load)
    coded = [tokenizer(text, padding="max_length", max_length=12) for text in LEARNED]  # pyright: ignore[reportCallIssue]
    rows = [
        {**{key: torch.tensor(value) for key, value in one.items()}, "labels": torch.tensor(one["input_ids"])}
        for one in coded
    ]
    arguments = TrainingArguments(
        str(tmp_path / "t"), max_steps=STEPS, per_device_train_batch_size=2, learning_rate=1e-2, report_to=[],
        save_strategy="no", disable_tqdm=True, use_cpu=True, logging_steps=4,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)  # pyright: ignore[reportArgumentType]
    HeadwiseCallback.add_to(trainer, TEXTS, every=4, out=tmp_path / "heads")
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "headwise/sink_share" in entry]
    assert [entry["step"] for entry in logged] == [0, 4, 8, 10]
    losses = [entry["step"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses == [4, 8], "the Trainer's own log is not lost where both are due"
    assert logged[0]["headwise/drift_js"] < 1e-9 < logged[-1]["headwise/drift_js"]
    assert sorted(pl.read_parquet(tmp_path / "heads" / "heads.parquet")["step"].unique()) == [0, 4, 8, 10]
    assert (tmp_path / "heads" / "heads.svg").is_file()

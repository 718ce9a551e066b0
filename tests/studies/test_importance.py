"""The study of gradients: against Hugging Face's own maps one text at a time, and against finite differences."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.engine.fold import Folded, fold
from headwise.engine.gradients import graded_layers
from headwise.engine.plan import Plan
from headwise.errors import ModelError
from headwise.models.capture import ROWS, Call, watching
from headwise.stats import Sums
from headwise.studies import STUDIES
from headwise.studies.importance import Importance, hidden, lesson, losses
from headwise.studies.study import Setting
from headwise.studies.surface import Surface
from headwise.text.corpus import Document, Shard, open_corpus
from headwise.text.tokens import encode
from headwise.types import Batch
from references import studies_importance as twin
from references.precision import nearness

TEXTS = (
    "The old dog and the young cat sat in the sun, and so it was. It was the end.",
    "It is said that the sea is big.",
    "the sea",
)
PAIRS = (("The old dog sat in the sun, and so it was.", "It was said, again."), ("the sea", "so it is, they say."))
MODELS = {"bert": "masked-lm", "roberta": "masked-lm", "llama": "causal-lm", "gpt2": "causal-lm"}
every_model = pytest.mark.parametrize("family", list(MODELS))


@pytest.fixture(scope="module")
def double() -> dict[str, hw.Model]:
    return {family: hw.load(f"tiny:{family}", task=task, dtype="float64") for family, task in MODELS.items()}


def folded(model: hw.Model, studies: list, *, tokens: int = 2048, texts=TEXTS, first: int = 0, seed: int = 5) -> Folded:
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=tokens, seed=seed)
    documents = tuple(Document(first + number, text) for number, text in enumerate(texts))
    return fold(model, studies, Shard(0, documents), plan)


def means(result: Folded) -> np.ndarray:
    """[layer head kind]"""
    return torch.stack([s.mean for s in result.states["importance"].by_layer(Sums, "importance", "self")]).numpy()


@every_model
def test_equal_to_its_twin(double, family: str) -> None:
    model = double[family]
    got = folded(model, [Importance()])
    expected, loss = twin.importance(model, TEXTS, seed=5)
    np.testing.assert_allclose(means(got), expected, rtol=nearness(model), atol=1e-15)
    assert float(got.states["importance"].by_layer(Sums, "loss", "self")[0].mean) == pytest.approx(
        loss, rel=nearness(model)
    )


@every_model
def test_batches_and_shards_change_nothing(double, family: str) -> None:
    model = double[family]
    whole = means(folded(model, [Importance()]))
    np.testing.assert_allclose(means(folded(model, [Importance()], tokens=1)), whole, rtol=nearness(model))
    parts = [folded(model, [Importance()], texts=TEXTS[at:][:1], first=at) for at in range(3)]
    np.testing.assert_allclose(means(parts[2] + parts[0] + parts[1]), whole, rtol=nearness(model))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_gradient_is_that_of_finite_differences(double, family: str) -> None:
    """One weight of one head moved a little, and the model run on from there."""
    model = double[family]
    task = lesson(model, [model.encode(text) for text in TEXTS], torch.arange(3), 5)
    batch = model.batch(task.texts)
    graded = list(graded_layers(model, batch, task.labels))
    seen = 0
    for layer, text, head, query, key in ((0, 0, 1, 9, 4), (1, 1, 3, 6, 0), (1, 0, 2, 8, 8), (2, 2, 0, 2, 1)):
        up, down = (loss_with(model, batch, task.labels, layer, (text, head, query, key), e) for e in (1e-5, -1e-5))
        numeric = float(up - down) / 2e-5
        assert float(graded[layer].memo["gradient"][text, head, query, key]) == pytest.approx(
            numeric, rel=1e-5, abs=1e-9
        )
        seen += abs(numeric) > 1e-6
    assert seen >= 2, "most of these weights matter"


def loss_with(model: hw.Model, batch: Batch, labels: Tensor, layer: int, where: tuple[int, ...], by: float) -> Tensor:
    calls = iter(range(100))

    def watch(call: Call) -> tuple[Tensor, Tensor]:
        out, alpha = call.rows(0, call.length)
        if next(calls) != layer:
            return out, alpha
        moved = alpha.clone()
        moved[where] += by
        value = call.value.repeat_interleave(alpha.shape[1] // call.value.shape[1], dim=1)
        return (moved @ value).transpose(1, 2).contiguous(), moved

    with torch.no_grad(), watching(model.hf, watch):
        return losses(model.hf(**batch.inputs).logits, labels).sum()


@pytest.mark.parametrize("family", ["bart", "t5", "marian"])
def test_an_encoder_decoder_is_asked_about_its_target(family: str) -> None:
    """All three stacks against maps of Hugging Face's own; padding and a frozen model change nothing."""
    model = hw.load(f"tiny:{family}", task="translation", dtype="float64")
    documents = tuple(Document(number, *pair) for number, pair in enumerate(PAIRS))
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=2048)
    got = fold(model, [Importance()], Shard(0, documents), plan).states["importance"]
    expected, loss = twin.of_translation(model, PAIRS)
    for stack, numbers in expected.items():
        found = torch.stack([sums.mean for sums in got.by_layer(Sums, "importance", stack)]).numpy()
        np.testing.assert_allclose(found, numbers, rtol=max(1e-6, nearness(model)), atol=1e-12, err_msg=stack)
        assert float(got.by_layer(Sums, "loss", stack)[0].mean) == pytest.approx(loss, rel=1e-6)
    model.hf.requires_grad_(False)
    frozen = fold(model, [Importance()], Shard(0, documents), plan).states["importance"]
    for stack in expected:
        layers = zip(*(state.by_layer(Sums, "importance", stack) for state in (got, frozen)), strict=True)
        for free, held in layers:
            torch.testing.assert_close(held.mean, free.mean, equal_nan=True)


def test_an_encoder_decoder_has_a_figure_and_a_sentence_a_stack() -> None:
    heads = {"layer": 0, "head": 0, "name": "L0.H0", "to_first": 0.1, "to_separator": float("nan")}
    table = pl.DataFrame([
        {"stack": "encoder", **heads, "to_punctuation": 0.2, "to_other": 0.3},
        {"stack": "cross", **heads, "to_punctuation": 0.05, "to_other": 0.4},
    ])  # fmt: skip
    about = Setting("tiny:bart", {"encoder": (1, 1, 4), "cross": (1, 1, 4)}, False, {"documents": 2, "tokens": 9})
    assert [answer.says for answer in Importance().answers(table, about)] == [
        "In encoder attention the loss hangs least on weights to the first token (mean |∂loss/∂α| 0.1 nats) and most "
        "on those to other tokens (0.3), over 2 texts.",
        "In cross attention the loss hangs least on weights to punctuation (mean |∂loss/∂α| 0.05 nats) and most on "
        "those to other tokens (0.4), over 2 texts.",
    ]


def test_parameters_keep_no_gradient_and_may_be_frozen(double) -> None:
    model = double["llama"]
    before = means(folded(model, [Importance()]))
    assert all(parameter.grad is None for parameter in model.hf.parameters())
    frozen = hw.load("tiny:llama", task="causal-lm", dtype="float64")
    frozen.hf.requires_grad_(False)
    assert np.array_equal(means(folded(frozen, [Importance()])), before)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_other_studies_see_the_texts_as_they_are(double, family: str) -> None:
    """In a masked LM the gradients need masked texts; nobody else may get them."""
    model, surface = double[family], Surface(quantities=("raw",))
    alone = folded(model, [surface])
    together = folded(model, [surface, Importance()])
    assert np.array_equal(means(together), means(folded(model, [Importance()])))
    for key, statistic in alone.states["surface"].items():
        for name, value in statistic.to_state().items():
            same = together.states["surface"][key].to_state()[name]
            np.testing.assert_allclose(same.numpy(), value.numpy(), rtol=1e-6, atol=1e-9)


def test_passes_are_shared_where_they_can_be(double, monkeypatch) -> None:
    runs = []
    run = hw.Model.run
    monkeypatch.setattr(hw.Model, "run", lambda self, *a, **k: runs.append(self.name) or run(self, *a, **k))
    for family in ("bert", "llama"):
        folded(double[family], [Surface(quantities=("raw",)), Importance()])
    assert runs == ["tiny:bert", "tiny:bert", "tiny:llama"]


def test_long_texts_come_whole(load) -> None:
    """Texts of more than 256 tokens otherwise come in blocks, without a graph."""
    model = load("tiny:llama", "causal-lm")
    text = encode(model.tokenizer, "the sea and the sun " * 60, limit=300, truncate=True)
    assert len(text) > ROWS
    batch = model.batch([text])
    task = lesson(model, [text], torch.arange(1), 0)
    layers = list(graded_layers(model, batch, task.labels))
    assert [layer.first_row for layer in layers] == [0, 0, 0]
    assert all(layer.memo["gradient"].shape == layer.alpha.shape == (1, 4, len(text), len(text)) for layer in layers)
    assert not any(layer.alpha.requires_grad or layer.value.requires_grad for layer in layers)


def test_masking_knows_seed_document_and_position_alone(double) -> None:
    model = double["bert"]
    texts = [model.encode(text) for text in TEXTS]
    together = lesson(model, texts, torch.tensor([7, 8, 9]), 1)
    for number, text in enumerate(texts):
        alone = lesson(model, [text], torch.tensor([7 + number]), 1)
        assert alone.texts[0] == together.texts[number]
        chosen = hidden(text, 7 + number, 1)
        plain = sum(not special for special in text.special)
        assert len(chosen) == max(1, round(0.15 * plain))
        assert not any(text.special[at] for at in chosen)
        assert {at for at, token in enumerate(alone.texts[0].tokens) if token == "[MASK]"} == chosen
        assert alone.labels[0].tolist() == [i if at in chosen else -1 for at, i in enumerate(text.ids)]
    long = model.encode(" ".join(TEXTS * 3))
    assert len({frozenset(hidden(long, document, seed)) for document in range(3) for seed in range(3)}) == 9


def test_a_text_without_a_loss_does_not_count(double) -> None:
    """A single token has no next one."""
    model = double["gpt2"]
    logits, labels = torch.zeros(2, 3, 8), torch.tensor([[1, 2, -1], [-1, -1, -1]])
    assert losses(logits, labels).tolist() == pytest.approx([np.log(8), np.nan], nan_ok=True)
    one = model.batch([model.encode("a")])
    nothing = torch.full_like(one.inputs["input_ids"], -1)
    for layer in graded_layers(model, one, nothing):
        assert not layer.memo["gradient"].any()
        assert bool(layer.memo["loss"].isnan().all())


@pytest.mark.parametrize(
    ("source", "task"), [("tiny:bert", None), ("tiny:llama", None), ("tiny:bert", "classification"),
                         ("tiny:bart", None)],
)  # fmt: skip
def test_models_without_a_loss_are_refused(load, source: str, task: str | None) -> None:
    with pytest.raises(ModelError, match=f"{source} .* has none; load a model with task='masked-lm'.*'causal-lm'"):
        Importance().check(load(source, task))


def test_half_precision_is_refused() -> None:
    with pytest.raises(ModelError, match="is in bfloat16; load it with dtype='float32'"):
        Importance().check(hw.load("tiny:llama", task="causal-lm", dtype="bfloat16"))


def test_table_and_figure(double) -> None:
    model, study = double["llama"], STUDIES["importance"]()
    about = Setting("tiny:llama", {"self": (3, 4, 6)}, True, {"documents": 3, "tokens": 40})
    result = folded(model, [study])
    table = study.table(result.states["importance"], about)
    assert table.columns == [
        "stack", "layer", "head", "name", "to_first", "to_separator", "to_punctuation", "to_other",
    ]  # fmt: skip
    assert table.shape == (12, 8)
    np.testing.assert_allclose(table["to_other"].to_numpy().reshape(3, 4), means(result)[:, :, 3])
    figures = study.figures(result.states["importance"], about)
    assert list(figures) == ["fig3"]
    spec = figures["fig3"].to_dict()
    data = [row for rows in spec["datasets"].values() for row in rows]
    shown = {(row["name"], row["what"]): row["value"] for row in data}
    assert shown["L1.H2", "other"] == pytest.approx(float(means(result)[1, 2, 3]))
    assert "nats" in spec["title"]["subtitle"][1]

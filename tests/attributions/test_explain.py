"""Explanations against plain loops, by hand on a linear model, and on a classifier that reads one token only."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.attributions import ORIGINS
from headwise.attributions.explain import EXPLANATIONS, baseline_of, explain
from headwise.attributions.passes import embedded
from headwise.attributions.prediction import Removal, choices, head_of, logits, outputs_without, readout, removable
from headwise.errors import InputError, ModelError, UnknownNameError
from references import explain as twin

TEXTS = ("The old dog and the cat.", "the sea", "It was the end of it, so.")
MODELS = {"bert": "classification", "gpt2": "classification", "gpt2-lm": "causal-lm"}  # float64 throughout
every_model = pytest.mark.parametrize("name", list(MODELS))


@pytest.fixture(scope="module")
def models() -> dict[str, hw.Model]:
    return {n: hw.load(f"tiny:{n.removesuffix('-lm')}", task=task, dtype="float64") for n, task in MODELS.items()}


def batched(model: hw.Model, texts=TEXTS):
    return model.batch([model.encode(text) for text in texts])


def rows(scores: Tensor, batch) -> list[np.ndarray]:
    return [row[: len(text)].numpy() for row, text in zip(scores, batch.texts, strict=True)]


@every_model
def test_gradient_input_is_that_of_finite_differences(models, name: str) -> None:
    model, batch = models[name], batched(models[name])
    got = explain(model, batch, "gradient-input")
    for text, row, target in zip(TEXTS, rows(got.scores, batch), got.target.tolist(), strict=True):
        expected = twin.gradient_input(model, text, target)
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-7)


@every_model
def test_integrated_gradients_are_the_integral_and_add_up(models, name: str) -> None:
    model, texts = models[name], TEXTS[1:2]
    batch = batched(model, texts)
    got = explain(model, batch, "integrated-gradients", steps=48)
    b = baseline_of(model, batch, "pad")
    expected = twin.integrated_gradients(model, texts[0], int(got.target[0]), b[0], 100)
    np.testing.assert_allclose(got.scores[0].numpy(), expected, atol=0.01 * abs(expected).max())
    x, f = twin.function(model, texts[0])
    with torch.no_grad():
        difference = float((f(x) - f(b[0]))[int(got.target[0])])
    assert float(got.error[0]) == pytest.approx(abs(float(got.scores.sum()) - difference), abs=1e-6)
    assert float(got.error[0]) < 0.02 * abs(difference)
    assert float(explain(model, batch, "integrated-gradients", steps=1).error[0]) > 10 * float(got.error[0])


@pytest.mark.parametrize("removal", ["mask", "pad", "delete"])
@every_model
def test_leave_one_out_against_a_loop(models, name: str, removal: str) -> None:
    model, batch = models[name], batched(models[name])
    got = explain(model, batch, "leave-one-out", removal=removal, of="log-probability")
    for text, row, target in zip(TEXTS, rows(got.scores, batch), got.target.tolist(), strict=True):
        expected = twin.leave_one_out(model, text, removal, target)
        np.testing.assert_allclose(row, expected, atol=1e-10)


@every_model
def test_batch_mates_order_and_padding_change_nothing(models, name: str) -> None:
    model, batch = models[name], batched(models[name])
    turned = batched(model, TEXTS[::-1])
    for method in (*EXPLANATIONS, "rollout"):
        options = {"steps": 3} if method == "integrated-gradients" else {}
        together, backwards = explain(model, batch, method, **options), explain(model, turned, method, **options)
        assert not together.scores[~batch.mask].any(), method
        for at, text in enumerate(TEXTS):
            alone = explain(model, batched(model, [text]), method, **options)
            size = 1 + float(alone.scores.abs().max())
            for other in (together.scores[at], backwards.scores[-1 - at]):
                np.testing.assert_allclose(
                    other[: alone.scores.shape[1]], alone.scores[0], atol=1e-10 * size, err_msg=method
                )


def test_gradient_input_of_a_linear_model_by_hand(models) -> None:
    """Blocks that pass x on and no last norm: f = w · x of the last token, so that token has all of the logit."""
    hf = copy.deepcopy(models["gpt2"].hf)
    for block in hf.transformer.h:
        for last in (block.attn.c_proj, block.mlp.c_proj):
            last.weight.data.zero_()
            last.bias.data.zero_()
    hf.transformer.ln_f = torch.nn.Identity()
    model = hw.load((hf, models["gpt2"].tokenizer), dtype="float64")
    batch = batched(model)
    for method in ("gradient-input", "integrated-gradients"):
        got = explain(model, batch, method, **({"baseline": "zero", "steps": 2} if method != "gradient-input" else {}))
        for row, text, target in zip(rows(got.scores, batch), batch.texts, got.target.tolist(), strict=True):
            x = hf.transformer.wte.weight[text.ids[-1]] + hf.transformer.wpe.weight[len(text) - 1]
            by_hand = float((x @ hf.score.weight[target]).detach())
            np.testing.assert_allclose(row, [0.0] * (len(text) - 1) + [by_hand], atol=1e-12)


@pytest.fixture(scope="module")
def reads_sea(models) -> hw.Model:
    """A BERT to which every token but "sea" is the zero vector, special ones and the mask token too."""
    hf = copy.deepcopy(models["bert"].hf)
    embeddings, sea = hf.bert.embeddings, models["bert"].tokenizer.convert_tokens_to_ids("sea")
    kept = embeddings.word_embeddings.weight.data[sea].clone()
    for table in (embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings):
        table.weight.data.zero_()
    embeddings.word_embeddings.weight.data[sea] = kept
    embeddings.LayerNorm.bias.data.zero_()
    return hw.load((hf, models["bert"].tokenizer), dtype="float64")


@pytest.mark.parametrize("method", ["gradient-input", "gradient-input-norm", "integrated-gradients", "leave-one-out"])
def test_a_classifier_that_reads_one_token(reads_sea, method: str) -> None:
    batch = batched(reads_sea, ["it was the sea and the sun", "the sea"])
    scores = explain(reads_sea, batch, method).scores
    sea = batch.inputs["input_ids"] == reads_sea.tokenizer.convert_tokens_to_ids("sea")
    assert (scores[sea].abs() > 1e-4).all()
    assert scores[~sea].abs().max() < 1e-12


@every_model
def test_the_prediction_is_hugging_faces(models, name: str) -> None:
    model, batch = models[name], batched(models[name])
    with torch.no_grad():
        got = logits(model, batch.inputs)
        for at, text in enumerate(batch.texts):
            row = model.hf(input_ids=torch.tensor([text.ids])).logits[0]
            expected = row if row.ndim == 1 else row[-1]
            np.testing.assert_allclose(got[at], expected, atol=1e-10)
    assert got.shape[1] == choices(model)


@pytest.mark.parametrize(("family", "place"), [("bert", 0), ("roberta", 0), ("gpt2", -1), ("llama", -1)])
def test_the_output_position(load, family: str, place: int) -> None:
    model = load(f"tiny:{family}", "classification")
    batch = batched(model)
    read = readout(model, batch, torch.zeros(3, dtype=torch.int64))
    for row, text in zip(read, batch.texts, strict=True):
        expected = torch.zeros(len(row))
        expected[place % len(text)] = 1
        torch.testing.assert_close(row, expected)


def test_attention_and_origins_are_rows_of_their_maps(models) -> None:
    model, batch = models["bert"], batched(models["bert"])
    attention, rollout = explain(model, batch, "raw-attention").scores, explain(model, batch, "rollout").scores
    maps = ORIGINS["rollout"](model, batch).maps
    for at, text in enumerate(TEXTS):
        expected = model.trace(text).attention("raw")[-1].mean(0)[0]
        torch.testing.assert_close(attention[at, : len(expected)], expected)
        torch.testing.assert_close(rollout[at], maps[at, -1, 0])


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_output_weighted_at_the_output_is_the_gradients_length(models, name: str) -> None:
    model, batch = models[name], batched(models[name])
    got = explain(model, batch, "output-weighted").scores
    lengths = explain(model, batch, "gradient-norm").scores
    torch.testing.assert_close(got, lengths / lengths.sum(-1, keepdim=True))


def test_removal_never_touches_special_tokens_or_padding(models) -> None:
    model, batch = models["bert"], batched(models["bert"])
    may = removable(batch)
    for row, text in zip(may, batch.texts, strict=True):
        assert [bool(flag) for flag in row[: len(text)]] == [not special for special in text.special]
        assert not row[len(text) :].any()
    shortened = Removal.of(model, "delete")(batch.inputs, may)
    assert [row.tolist() for row in shortened["input_ids"]] == [[batch.texts[0].ids[0], batch.texts[0].ids[-1]]] * 3
    assert shortened["attention_mask"].all()


def test_nothing_left_to_read_is_undefined(models) -> None:
    model = models["gpt2"]
    text = model.encode("sea")
    batch = model.batch([text])
    everything = torch.ones(1, 1, len(text), dtype=torch.bool)
    for how in ("pad", "delete"):
        got = outputs_without(model, batch, everything, torch.zeros(1, dtype=torch.int64), Removal.of(model, how))
        assert got.isnan().all()


def test_random_depends_on_the_seed_and_the_text(models) -> None:
    model, batch = models["bert"], batched(models["bert"])
    one, same, other = (explain(model, batch, "random", seed=seed).scores for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_parameters_keep_no_gradient_and_may_be_frozen(models) -> None:
    model, batch = models["bert"], batched(models["bert"])
    before = explain(model, batch, "gradient-input").scores
    assert all(parameter.grad is None for parameter in model.hf.parameters())
    frozen = hw.load("tiny:bert", task="classification", dtype="float64")
    frozen.hf.requires_grad_(False)
    assert torch.equal(explain(frozen, batch, "gradient-input").scores, before)
    assert torch.equal(explain(frozen, batch, "raw-attention").scores, explain(model, batch, "raw-attention").scores)


def test_bad_input(models, load) -> None:
    model, batch = models["bert"], batched(models["bert"])
    with pytest.raises(ModelError, match="has no head for it; load a fine-tuned folder with task='classification'"):
        head_of(load("tiny:bert"))
    with pytest.raises(ModelError, match="has no head"):
        explain(load("tiny:bert"), batch, "random")
    with pytest.raises(UnknownNameError, match="There is no explanation 'magic'; there are gradient-norm"):
        explain(model, batch, "magic")
    with pytest.raises(InputError, match="Targets of tiny:bert go from 0 to 1, but"):
        explain(model, batch, "gradient-input", target=2)
    with pytest.raises(InputError, match="one of logit, log-probability"):
        explain(model, batch, "gradient-input", of="loss")
    with pytest.raises(InputError, match="A baseline is one of pad, mask, zero"):
        explain(model, batch, "integrated-gradients", baseline="noise")
    with pytest.raises(InputError, match="at least one step"):
        explain(model, batch, "integrated-gradients", steps=0)
    with pytest.raises(InputError, match="removed by mask, pad, delete"):
        explain(model, batch, "leave-one-out", removal="forget")


def test_half_precision_is_refused() -> None:
    with pytest.raises(ModelError, match="Gradients need float32 or float64"):
        head_of(hw.load("tiny:bert", task="classification", dtype="bfloat16"))


def test_embedded_is_hidden_state_zero(models) -> None:
    model, batch = models["bert"], batched(models["bert"])
    with torch.no_grad():
        expected = model.hf(**batch.inputs, output_hidden_states=True).hidden_states[0]
    assert torch.equal(embedded(model, batch), expected)

"""Hidden token attribution against whole Jacobians, its estimate against its own claims, and bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import headwise as hw
from headwise.attributions import jacobians, passes
from headwise.attributions.hidden_token import estimated, hidden_token
from headwise.attributions.output_weighted import output_weighted
from headwise.attributions.tangents import NotSharedError, dual
from headwise.errors import InputError, ModelError
from references import attributions as twins
from references.compare import assert_close
from references.precision import nearness

TEXT = "the old sea"
FAMILIES = ("bert", "llama", "t5")


def batch_of(model: hw.Model, *texts: str):
    targets = [model.encode_target("it") for _ in texts] if model.is_encoder_decoder else []
    return model.batch([model.encode(text) for text in texts], targets)


@pytest.mark.parametrize("family", FAMILIES)
def test_all_norms_equal_those_of_the_whole_jacobian(family: str) -> None:
    model = twins.double(family)
    batch = batch_of(model, TEXT)
    whole = twins.jacobians(family, model.hf, passes.embedded(model, batch))
    for norm in ("frobenius", "sum", "spectral"):
        got = hidden_token(model, batch, norm=norm, exact=True)
        assert got.error is None
        assert_close(got.maps[0], torch.stack([twins.hidden_token(layer, norm) for layer in whole]))


@pytest.mark.parametrize("family", FAMILIES)
def test_as_many_tangents_as_dimensions_are_exact(family: str) -> None:
    model = twins.double(family)
    batch = batch_of(model, TEXT)
    d = passes.embedded(model, batch).shape[-1]
    exact = hidden_token(model, batch, exact=True).maps
    assert_close(hidden_token(model, batch, k=d).maps, exact, nearness(model))
    near = hidden_token(model, batch, k=d - 1)
    assert (near.maps - exact).abs().max() < 0.02
    assert_close(near.error, torch.zeros_like(near.maps), 0.01)


def test_the_estimate_is_unbiased_and_its_standard_error_true() -> None:
    """Squared norms over many seeds: their mean is the exact one, their spread what is reported."""
    model = twins.double("bert")
    batch = batch_of(model, "sea")
    x = passes.embedded(model, batch)

    def squared(_layer: int, moved: torch.Tensor) -> torch.Tensor:
        return moved.square().sum(-1)

    exact = jacobians.squared_total(model, batch, x, squared, budget=2**30)
    seeds, k, d = 40, 4, x.shape[-1]
    draws = [jacobians.squared_draws(model, batch, x, squared, k=k, seed=s, budget=2**30) for s in range(seeds)]
    found = torch.stack(draws).mean(1)
    off = (found.mean(0) - exact) / (found.std(0) / seeds**0.5)
    assert off.abs().max() < 4.5
    assert off.square().mean() < 1.6
    maps = [estimated(each, batch, d) for each in draws]
    spread = torch.stack([origin.maps for origin in maps]).std(0)
    reported = torch.stack([origin.error for origin in maps]).square().mean(0).sqrt()
    ratio = (reported.square().sum() / spread.square().sum()).sqrt()
    assert 0.8 < ratio < 1.2, f"{k} of {d} tangents: reported {float(ratio):.2f} times the spread"


def test_tangents_are_orthonormal_and_depend_on_seed_and_position_alone() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    frame = jacobians.directions(7, 5, 3, 2, like)
    assert_close(frame @ frame.T, torch.eye(5), 1e-12)
    assert torch.equal(frame, jacobians.directions(7, 5, 3, 2, like))
    assert not torch.equal(frame, jacobians.directions(7, 5, 3, 1, like))
    assert not torch.equal(frame, jacobians.directions(7, 5, 4, 2, like))


def test_without_attention_every_token_is_its_own_origin() -> None:
    model = twins.tiny_model("bert")[0].double()
    for block in model.encoder.layer:
        block.attention.output.dense.weight.data.zero_()
    loaded = hw.load((model, twins.tiny_model("bert")[1]))
    maps = hidden_token(loaded, batch_of(loaded, TEXT), k=3).maps[0]
    assert torch.equal(maps, torch.eye(maps.shape[-1], dtype=maps.dtype).expand_as(maps))


@pytest.mark.parametrize("family", ["mixtral", "gpt2", "gemma2", "modernbert"])
def test_both_ways_of_forward_mode_agree(family: str, load: Callable[..., hw.Model], monkeypatch) -> None:
    """Mixtures of experts go by torch's own forward mode, all others by shared tangents; both give the same."""
    model = load(f"tiny:{family}")
    assert passes.shares_primal(model) == (family != "mixtral")
    batch = batch_of(model, "the old sea", "it")
    shared = hidden_token(model, batch, k=3).maps
    monkeypatch.setattr(passes, "shares_primal", lambda _model: False)
    assert_close(hidden_token(model, batch, k=3).maps, shared, 1e-4)


def test_a_tensor_written_into_is_refused_rather_than_lost() -> None:
    x = dual(torch.ones(2, 3), torch.ones(5, 2, 3))
    with pytest.raises(NotSharedError, match="add_"):
        torch.zeros(2, 3).add_(x)
    with pytest.raises(NotSharedError, match="__setitem__"):
        x[0] = 1.0
    with pytest.raises(NotSharedError, match="add_"):
        x += 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.layer_norm(x, (4,), eps=1e-3),
        lambda x: (x @ x.mT).softmax(-1) @ x,
        lambda x: torch.softmax(x, dim=0),
        lambda x: (x * x[:1] - x.mean(-1, keepdim=True)) / (1 + x.square()),
        lambda x: torch.cat([x, torch.ones(3, 4, dtype=x.dtype)]).reshape(3, -1).T,
        lambda x: torch.where(x > 0, x.exp(), 2.0).masked_fill(x > 1, 0.0),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 4, dtype=x.dtype), torch.ones(2, dtype=x.dtype)),
        lambda x: 3 - x.topk(2).values,
    ],
)
def test_rules_of_single_functions_equal_jvp(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)[0]
    tangents = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    got = function(dual(x, tangents))
    for tangent, moved in zip(tangents, got.tangent, strict=True):
        assert_close(moved, torch.func.jvp(function, (x,), (tangent,))[1], 1e-12)


def test_options_that_cannot_be_served_are_refused(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    batch = batch_of(model, TEXT)
    with pytest.raises(InputError, match="norm is one of frobenius, sum, spectral, but 'l1'"):
        hidden_token(model, batch, norm="l1")
    with pytest.raises(InputError, match="At least 2 tangents"):
        hidden_token(model, batch, k=1)
    with pytest.raises(InputError, match=r"budget must hold .* MiB.*but it is 0.0 MiB"):
        hidden_token(model, batch, budget=1000)
    with pytest.raises(InputError, match="Options of hidden-token are k, seed"):
        model.trace(TEXT).origins("hidden-token", draws=3)


def test_a_small_budget_gives_the_same(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    batch = batch_of(model, TEXT)
    each = jacobians.bytes_each(model, passes.embedded(model, batch))
    few = hidden_token(model, batch, k=3, budget=4 * each)
    assert_close(few.maps, hidden_token(model, batch, k=3).maps, 1e-5)


@pytest.mark.parametrize(("family", "task"), [("bert", "classification"), ("gpt2", "causal-lm"), ("bert", "masked-lm")])
def test_output_weighted_is_the_product_of_two_gradients(family: str, task: str) -> None:
    """g_ij as it is defined: the output's gradient in e_j times ∂e_j/∂x_i, through the loss of the next layers."""
    model = twins.double(family, task)
    batch = batch_of(model, "the [MASK] sea" if task == "masked-lm" else TEXT)
    x = passes.embedded(model, batch).requires_grad_()
    with torch.enable_grad(), passes.entering(model, x):
        model.hf.set_attn_implementation("eager")
        output = model.hf(**batch.inputs, output_hidden_states=True)
    logits = output.logits
    if task == "causal-lm":
        logits = logits[:, -1]
    elif task == "masked-lm":
        logits = logits[batch.inputs["input_ids"] == model.tokenizer.mask_token_id]
    got = output_weighted(model, batch, target="predicted").maps[0]
    for layer, state in enumerate(output.hidden_states[1:]):
        (slope,) = torch.autograd.grad(logits.max(), state, retain_graph=True)
        for token in range(x.shape[1]):
            if slope[0, token].any():
                (g,) = torch.autograd.grad(state[0, token] @ slope[0, token], x, retain_graph=True)
                assert_close(got[layer, token], twins.shares(g[0].norm(dim=-1)))
            else:
                assert got[layer, token].isnan().all()


def test_targets_of_output_weighted(load: Callable[..., hw.Model]) -> None:
    model = twins.double("bert", "classification")
    batch = batch_of(model, TEXT, "it")
    first = output_weighted(model, batch, target=0).maps
    labels = torch.zeros(2, dtype=torch.long)
    assert_close(output_weighted(model, batch, target="gold", labels=labels).maps, first, 1e-12)
    assert not torch.allclose(output_weighted(model, batch, target=1).maps, first, equal_nan=True)
    near = output_weighted(model, batch, target=0, k=20)
    seen = ~first.isnan()
    assert (near.maps - first)[seen].abs().mean() < 3 * near.error[seen].mean()
    with pytest.raises(InputError, match="Classes go from 0 to 1"):
        output_weighted(model, batch, target=2)
    with pytest.raises(InputError, match="needs one label a text"):
        output_weighted(model, batch, target="gold")
    with pytest.raises(InputError, match="sum, predicted, gold or the number"):
        output_weighted(model, batch, target="best")
    with pytest.raises(ModelError, match="no head for texts; load it with task='classification'"):
        output_weighted(load("tiny:bert"), batch_of(load("tiny:bert"), TEXT))
    with pytest.raises(InputError, match=r"predicts where \[MASK\] stands"):
        output_weighted(load("tiny:bert", "masked-lm"), batch)


def test_a_reopened_trace_says_that_it_has_no_model(load: Callable[..., hw.Model], tmp_path) -> None:
    trace = load("tiny:bert").trace(TEXT)
    reopened = hw.open(trace.save(tmp_path / "trace.safetensors"))
    for ask in (lambda: reopened.origins("rollout"), lambda: reopened.mixing("value-zeroing")):
        with pytest.raises(InputError, match="needs passes through the model, but this trace was opened from a file"):
            ask()
    assert_close(reopened.mixing("globenc"), trace.mixing("globenc"), 1e-7)

"""Laws that every origins quantity obeys, rollout and flow worked by hand, value zeroing against its twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.attributions import ORIGINS, PASSES, Origins
from headwise.attributions.flow import largest_flows
from headwise.attributions.globenc_rollout import products
from headwise.attributions.mixing import has_residual, mixing_maps
from headwise.attributions.rollout import rolled_out, transitions
from headwise.errors import InputError, ModelError
from headwise.measures import MIXING
from headwise.types import Batch, Encoding
from references import attributions as twins
from references.compare import assert_close

OPTIONS: dict[str, dict[str, Any]] = {"hidden-token": {"k": 2}}
MODELS = (("tiny:bert", "classification"), ("tiny:gpt2", "causal-lm"))
TEXTS = ("the old sea", "it was so, it")
every_origin = pytest.mark.parametrize("name", list(ORIGINS))
both_kinds = pytest.mark.parametrize("which", MODELS, ids=("encoder", "decoder"))


def origins(model: hw.Model, name: str, batch: Batch) -> Origins:
    return ORIGINS[name](model, batch, **OPTIONS.get(name, {}))


def cut(text: Encoding, length: int) -> Encoding:
    """The first tokens of a text."""
    parts = {f.name: getattr(text, f.name)[:length] for f in fields(text) if f.name not in ("words", "given")}
    return replace(text, **parts)


@every_origin
@both_kinds
def test_laws(name: str, which: tuple[str, str], load: Callable[..., hw.Model]) -> None:
    model = load(*which)
    texts = [model.encode(text) for text in TEXTS]
    batch = model.batch([texts[0], texts[1], cut(texts[0], 1)])
    found = origins(model, name, batch)
    maps = found.maps
    n = batch.mask.shape[1]
    assert maps.shape == (3, model.layers(), n, n)
    assert found.error is None or found.error.shape == maps.shape
    undefined = maps.isnan().any(-1)
    assert name == "output-weighted" or not undefined.any()
    real = batch.mask[:, None].expand_as(undefined) & ~undefined
    assert_close(maps.sum(-1)[real], torch.ones(int(real.sum())), 1e-5)
    assert (maps[~maps.isnan()] >= 0).all()
    assert not maps.transpose(1, 3)[~batch.mask].nan_to_num().any(), "padding is no origin"
    assert not maps.transpose(1, 2)[~batch.mask].any(), "padding has none"
    if model.causal:
        assert not maps.nan_to_num().triu(1).any(), "the future is no origin"
    assert maps[2, 0, 0, 0] == 1, "one token comes from itself"
    for at, text in enumerate(batch.texts):
        alone = origins(model, name, model.batch([text])).maps[0]
        assert_close(maps[at, :, : len(text), : len(text)].nan_to_num(), alone.nan_to_num(), 2e-5)


@every_origin
def test_traces_give_the_layers_they_hold(name: str, load: Callable[..., hw.Model]) -> None:
    model = load("tiny:gpt2", "causal-lm")
    whole = model.trace(TEXTS[0]).origins(name, **OPTIONS.get(name, {}))
    some = model.trace(TEXTS[0], layers=[2, 0]).origins(name, **OPTIONS.get(name, {}))
    assert_close(some.nan_to_num(), whole[[0, 2]].nan_to_num(), 1e-6)


def test_names_are_known_and_taken_once() -> None:
    assert set(ORIGINS) == {"hidden-token", "output-weighted", "rollout", "alti-rollout", "flow",
                            "globenc-rollout", "globenc-share-rollout"}  # fmt: skip
    assert not set(ORIGINS) & ({*MIXING} | {*PASSES})
    assert {name for name in (*MIXING, *PASSES) if not has_residual(name)} == {"raw-mean", "norm-sum"}


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_the_same_quantity_under_another_name_gives_the_same_origins(
    name: str, load: Callable[..., hw.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the residual is inside is a fact of the record, and none of a list of names."""
    monkeypatch.setattr(MIXING, "_entries", {each: MIXING.entry(each) for each in MIXING})
    MIXING.add("my-mean", "The weights, averaged over heads.", residual=False)(MIXING["raw-mean"])
    trace = load("tiny:bert").trace("the sea")
    torch.testing.assert_close(trace.origins(name, mixing="my-mean"), trace.origins(name), rtol=0, atol=0)


def test_rollout_by_hand() -> None:
    """Three tokens, two layers: [1 0 0], [½ ½ 0], [0 ½ ½] after the residual is mixed in."""
    attention = torch.tensor([[[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]]).expand(2, 3, 3)[None]
    steps = transitions(attention, torch.ones(1, 3, dtype=torch.bool), with_residual=False)
    assert_close(steps[0, 0], torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]), 1e-7)
    assert_close(rolled_out(steps)[0, 1], torch.tensor([[1.0, 0, 0], [0.75, 0.25, 0], [0.25, 0.5, 0.25]]), 1e-7)


def test_quantities_with_the_residual_are_only_normalised() -> None:
    lengths = torch.tensor([[[[3.0, 1.0], [1.0, 1.0]]]])
    steps = transitions(lengths, torch.ones(1, 2, dtype=torch.bool), with_residual=True)
    assert_close(steps[0, 0], torch.tensor([[0.75, 0.25], [0.5, 0.5]]), 1e-7)


def test_an_undefined_row_is_undefined_for_those_who_read_it_and_for_nobody_else() -> None:
    """Token 1 has no row in layer 0; in layer 1 only token 2 reads it, whom nobody else reads in layer 2."""
    rows = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    holes = torch.tensor([[1.0, 0, 0], [torch.nan] * 3, [0, 0.5, 0.5]])
    steps = torch.stack([holes, torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 0.5, 0.5]]), rows])[None]
    found = rolled_out(steps)[0]
    assert found.isnan().any(-1).tolist() == [[False, True, False], [False, False, True], [False, False, True]]
    assert_close(found[1, :2], torch.tensor([[1.0, 0, 0], [1, 0, 0]]), 1e-7)


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_a_row_that_alti_leaves_undefined_leaves_earlier_tokens_alone(name: str, load: Callable[..., hw.Model]) -> None:
    trace = load("tiny:llama").trace("The cat sat down on it today.")
    assert trace.mixing("alti")[0, 1].isnan().any(), "the case is there"
    maps = trace.origins(name, mixing="alti")
    assert not maps[:, 0].isnan().any()
    assert maps[0, 1].isnan().all()
    known = ~maps.isnan().any(-1)
    assert_close(maps.sum(-1)[known], torch.ones(int(known.sum())), 1e-5)


def test_flow_by_hand() -> None:
    """The second token of layer 1 holds ½ of each; the first input gets what 0.9 + ½·0.2 … the pipes let through."""
    pipes = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]])
    found = largest_flows(pipes)
    assert_close(found[0], pipes[0], 1e-6)
    assert_close(found[1], np.array([[0.5 + 0.2, 0.1 + 0.5], [0.2, 0.8]]), 1e-6)


def test_flow_refuses_long_texts(load: Callable[..., hw.Model]) -> None:
    model = load("tiny:bert")
    with pytest.raises(InputError, match=r"a text may have 4 tokens, but one has \d+; take rollout"):
        model.trace(TEXTS[0]).origins("flow", limit=4)


def test_value_zeroing_equals_its_twin() -> None:
    model = twins.double("bert")
    trace = model.trace(TEXTS[0])
    expected = twins.value_zeroing(model.hf, model.batch([trace.text]))
    assert_close(trace.mixing("value-zeroing"), expected.detach(), 1e-6)
    batch = model.batch([model.encode(text) for text in TEXTS])
    n = len(trace.text)
    assert_close(mixing_maps(model, batch, "value-zeroing")[0, :, :n, :n], expected.detach(), 1e-6)


@pytest.mark.parametrize("family", ["gpt2", "t5", "albert", "gpt-neox", "gemma2"])
def test_value_zeroing_sees_no_more_than_attention(family: str, load: Callable[..., hw.Model]) -> None:
    trace = load(f"tiny:{family}").trace("the old sea", "it" if family == "t5" else None)
    maps = trace.mixing("value-zeroing")
    assert_close(maps.sum(-1), torch.ones(maps.shape[:2]), 1e-5)
    assert not maps[(trace.attention("raw").sum(1) == 0)].any()


@pytest.mark.parametrize("name", ["globenc", "alti"])
def test_blocks_that_do_not_fit_are_refused_with_the_reason(name: str, load: Callable[..., hw.Model]) -> None:
    with pytest.raises(ModelError, match=f"{name} needs a block that adds .* in parallel; use norm-sum or value-zero"):
        load("tiny:gpt-neox").trace("the sea").mixing(name)
    with pytest.raises(ModelError, match="decoder's block reads another text in between; use norm-sum"):
        load("tiny:t5").trace("the sea", "it").mixing(name, stack="decoder")
    with pytest.raises(InputError, match="rollout is about the encoder stack, but cross was asked for"):
        load("tiny:t5").trace("the sea", "it").origins("rollout", stack="cross")


def test_the_second_norm_is_the_blocks_own_in_post_norm_models(load: Callable[..., hw.Model]) -> None:
    bert, gpt2 = load("tiny:bert"), load("tiny:gpt2")
    for site, block in zip(bert.sites(), bert.hf.encoder.layer, strict=True):
        assert site.circuit.post
        assert_close(site.circuit.last.gain, block.output.LayerNorm.weight.detach(), 1e-4)
    norms = [*(block.ln_1 for block in gpt2.hf.h[1:]), gpt2.hf.ln_f]
    for site, norm in zip(gpt2.sites(), norms, strict=True):
        assert not site.circuit.post
        assert_close(site.circuit.last.gain, norm.weight.detach(), 1e-4)
    with pytest.raises(ModelError, match="norm layer that reads the output of the block"):
        load("tiny:olmo2").trace("the sea").mixing("globenc")


def test_globenc_rollout_multiplies_lengths_as_released() -> None:
    model = twins.double("bert")
    trace = model.trace(TEXTS[0])
    expected = twins.globenc_products(model.hf, model.batch([trace.text])).detach()
    assert_close(trace.origins("globenc-rollout"), expected, 1e-6)
    batch = model.batch([model.encode(text) for text in TEXTS])
    n = len(trace.text)
    assert_close(ORIGINS["globenc-rollout"](model, batch).maps[0, :, :n, :n], expected, 1e-6)


def test_globenc_rollout_of_shares_is_another_one() -> None:
    trace = twins.double("bert").trace(TEXTS[0])
    shares, product = trace.mixing("globenc"), trace.origins("globenc-share-rollout")
    assert_close(product[1], shares[1] @ shares[0], 1e-6)
    assert_close(trace.origins("globenc-rollout")[0], product[0], 1e-6)  # of one block they agree
    assert float((trace.origins("globenc-rollout")[1] - product[1]).abs().max()) > 1e-3


def test_products_by_hand() -> None:
    """Token 1 is long after the first block, so who reads both reads more of it; a factor a layer changes nothing."""
    steps = torch.tensor([[[[1.0, 0.0], [0.0, 3.0]], [[1.0, 1.0], [0.0, 1.0]]]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    found = products(steps, mask)[0]
    assert_close(found[1], torch.tensor([[0.25, 0.75], [0.0, 1.0]]), 1e-7)
    assert_close(products(steps * torch.tensor([1e30, 1e-30])[:, None, None], mask)[0], found, 1e-6)
    many = products(torch.full((1, 60, 2, 2), 1e3), mask)
    assert_close(many, torch.full((1, 60, 2, 2), 0.5), 1e-7)

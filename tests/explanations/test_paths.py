"""Exact paths: they add up in every family, equal the frozen network as matrices, and leave the model as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import InputError, ModelError
from headwise.explanations import frozen as frozen_module
from headwise.explanations import paths as paths_module
from headwise.explanations.asking import Wish, ask
from headwise.explanations.frozen import ATTENTIONS, GATES, Freezing, activations
from headwise.explanations.paths import head_parts, paths
from headwise.models.tiny import FAMILIES, tiny_tokenizer
from references import frozen as twin

TASK = {"encoder": "masked-lm", "decoder": "causal-lm", "encoder-decoder": "translation"}
# Float64 from end to end; the others take a norm or rotations in float32 whatever the dtype (experts have no float64).
THROUGHOUT = ("albert", "bert", "camembert", "distilbert", "electra", "ernie", "mpnet", "roberta", "gpt2", "bart",
              "m2m100", "marian", "mbart", "mt5", "pegasus", "t5", "opt", "phi", "stablelm", "starcoder2")  # fmt: skip


def question(model: hw.Model, **wish):
    if model.is_encoder_decoder:
        return ask(model, "The old dog and the cat.", "the sea", wish=Wish(**wish))
    mask = model.tokenizer.mask_token
    masked = "MaskedLM" in type(model.hf).__name__
    return ask(model, f"The {mask} and the cat." if masked else "The old dog and the cat.", wish=Wish(**wish))


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_add_up_in_every_family(load, name: str) -> None:
    asked = question(load(f"tiny:{name}", TASK[FAMILIES[name].kind]))
    parts = paths(asked)
    total = parts.tokens.sum(-1) + parts.bias + parts.rest
    largest = max(1.0, float(parts.value.abs().max()))
    torch.testing.assert_close(total, parts.value, rtol=0, atol=2e-5 * largest)
    assert float(parts.error.max()) < 1e-5
    heads = head_parts(asked)
    direct = sum(float(x.sum()) for x in heads.direct) + sum(heads.feed_forward) + heads.embedding + heads.bias
    assert direct + heads.rest == pytest.approx(heads.value, abs=2e-5 * largest)
    assert max(float(x.abs().max()) for x in heads.total) > 0


@pytest.mark.parametrize("name", THROUGHOUT)
def test_parts_add_up_to_the_last_digit_in_float64(name: str) -> None:
    parts = paths(question(hw.load(f"tiny:{name}", task=TASK[FAMILIES[name].kind], dtype="float64")))
    assert float(parts.error.max()) < 1e-10


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("name", ["tiny:llama", "tiny:gemma2", "tiny:gpt-oss", "tiny:bert", "tiny:mt5"])
def test_every_choice_adds_up(load, name: str, attention: str, gate: str) -> None:
    asked = question(load(name, TASK[FAMILIES[name.removeprefix("tiny:")].kind]))
    assert float(paths(asked, Freezing(attention, gate)).error.max()) < 1e-5


def test_the_choices_are_different_explanations(load) -> None:
    asked = question(load("tiny:llama", "causal-lm"))
    found = [paths(asked, Freezing(a, g)).tokens for a in ATTENTIONS for g in GATES]
    for i, one in enumerate(found):
        for other in found[:i]:
            assert float((one - other).abs().max()) > 1e-3


@pytest.fixture(scope="module")
def two_layers() -> hw.Model:
    config = transformers.GPT2Config(
        n_embd=12, n_layer=2, n_head=3, n_positions=20, vocab_size=len(tiny_tokenizer("bytes"))
    )
    torch.manual_seed(3)
    hf = transformers.GPT2LMHeadModel(config).double()
    for parameter in hf.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.3)
    return hw.load((hf, tiny_tokenizer("bytes")))


def test_equal_to_the_frozen_network_as_matrices(two_layers) -> None:
    asked = question(two_layers, of="logit")
    own = {name.removeprefix("transformer."): p.detach().numpy() for name, p in two_layers.hf.named_parameters()}
    weights = {**own, "wte": own["wte.weight"], "wpe": own["wpe.weight"], "lm_head": own["wte.weight"]}
    r, c, x = twin.logits_map(weights, list(asked.text.ids), heads=3, layers=2)
    n, size = len(asked.text), len(own["wte.weight"])
    row = asked.rows[0] * size + asked.targets[0].chosen[0]
    parts = paths(asked)
    np.testing.assert_allclose((r[row] * x).reshape(n, -1).sum(-1), parts.tokens[0], rtol=1e-9, atol=1e-10)
    assert float(parts.bias[0]) == pytest.approx(c[row], rel=1e-9)
    assert (r @ x + c)[row] == pytest.approx(float(parts.value[0]), rel=1e-10)


def test_a_linear_model_by_hand() -> None:
    """One layer of even attention that copies words: a word of the target's class has 4 / (n σ), the last one more.

    Words are one of three orthogonal patterns of mean 0 and variance 1, which norms leave as they are; the last hidden
    token is its word plus the mean of all words, and σ its deviation.
    """
    config = transformers.GPT2Config(
        n_embd=4, n_layer=1, n_head=1, n_positions=20, vocab_size=len(tiny_tokenizer("bytes")), layer_norm_epsilon=1e-12
    )
    hf = transformers.GPT2LMHeadModel(config).double()
    patterns = torch.tensor([[1.0, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]).double()
    body = hf.transformer
    with torch.no_grad():
        body.wte.weight.copy_(patterns[torch.arange(len(body.wte.weight)) % 3])
        for weight in (body.wpe.weight, body.h[0].mlp.c_proj.weight, body.h[0].attn.c_attn.weight):
            weight.zero_()
        body.h[0].attn.c_attn.weight[:, 8:] = torch.eye(4)
        body.h[0].attn.c_proj.weight.copy_(torch.eye(4))
    asked = question(hw.load((hf, tiny_tokenizer("bytes"))), target=40, of="logit")  # of the class 40 % 3 = 1
    classes = torch.tensor(asked.text.ids) % 3
    n = len(classes)
    shares = torch.stack([(classes == c).double().mean() for c in range(3)])
    shares[classes[-1]] += 1
    sigma = shares.square().sum().sqrt()  # orthogonal patterns of variance 1
    expected = (classes == 1) * 4 / (n * sigma)
    expected[-1] += (classes[-1] == 1) * 4 / sigma
    parts = paths(asked)
    torch.testing.assert_close(parts.tokens[0], expected, rtol=1e-9, atol=1e-12)
    assert float(parts.bias[0]) == pytest.approx(0.0, abs=1e-12)
    assert expected.sum() > 0


def test_a_vocabulary_is_summed_up_in_parts() -> None:
    """The derivative of the log-odds of one word among 30,000, in float32, against float64."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(30_000, 96, generator=generator) * 0.1
    x = torch.randn(1, 96, generator=generator) * 8
    found = {}
    for name, map_ in (("parts", frozen_module.wide_linear), ("whole", lambda func, *args: func(*args))):
        leaf = x.clone().requires_grad_()
        z = map_(torch.nn.functional.linear, leaf, weight, None)
        torch.testing.assert_close(z, x @ weight.T)
        w = -z.detach().double().softmax(-1).float()
        w[0, 7] += 1
        (gradient,) = torch.autograd.grad((w * z).sum(), leaf)
        found[name] = float((gradient.double() - w.double() @ weight.double()).abs().max())
    assert found["parts"] < found["whole"] / 4
    bias = torch.randn(30_000, generator=generator)
    torch.testing.assert_close(
        frozen_module.wide_linear(torch.nn.functional.linear, x, weight, bias), x @ weight.T + bias
    )


def test_a_contrast_is_the_difference_of_two_targets(two_layers) -> None:
    a, b = 40, 41
    both = [paths(question(two_layers, target=t, of="logit")).tokens for t in (a, b)]
    contrast = paths(question(two_layers, target=a, rather=b, of="logit"))
    torch.testing.assert_close(contrast.tokens, both[0] - both[1])
    assert float(contrast.rest) == 0


def test_the_whole_is_the_sum_of_its_tokens(two_layers) -> None:
    parts = paths(question(two_layers, target="the sea"))
    torch.testing.assert_close(parts.tokens[0], parts.tokens[1:].sum(0))
    torch.testing.assert_close(parts.value[0], parts.value[1:].sum(0))


@pytest.mark.parametrize("name", ["gpt2", "phi", "marian", "mt5", "bert", "gemma2"])
def test_tokens_of_an_answer_have_the_parts_that_each_has_alone(load, name: str) -> None:
    """Through the output layer one pass goes back for all of them; biases stand before and after it."""
    model = load(f"tiny:{name}", TASK[FAMILIES[name].kind])
    asked = question(model, **({} if model.is_encoder_decoder else {"target": "the sea was"}))
    assert len(asked.targets) > 2
    parts = paths(asked)
    for at in range(1, len(asked.targets)):
        alone = paths(replace(asked, targets=(asked.targets[at],)))
        size = max(1.0, float(alone.tokens.abs().max()))
        torch.testing.assert_close(parts.tokens[at], alone.tokens[0], rtol=0, atol=1e-5 * size)
        torch.testing.assert_close(parts.bias[at], alone.bias[0], rtol=0, atol=1e-5 * size)


def test_of_a_token_no_later_token_has_a_part(two_layers) -> None:
    asked = question(two_layers, target="the sea")
    parts = paths(asked)
    later = asked.rows[0] + 1
    assert float(parts.tokens[1, later:].abs().max()) == 0  # the first token was said before they were read
    assert float(parts.tokens[2, later:].abs().max()) > 0


def test_through_one_layer_heads_are_all_there_is(two_layers) -> None:
    """The last layer's heads have no indirect part but by their own block's feed-forward."""
    heads = head_parts(question(two_layers))
    shares = torch.stack(heads.keys).sum(-1)
    torch.testing.assert_close(shares, torch.stack(heads.total))


def test_the_model_is_as_before(load) -> None:
    model = load("tiny:llama", "causal-lm")
    before = [p.requires_grad for p in model.hf.parameters()]
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules())
    head_parts(question(model))
    assert [p.requires_grad for p in model.hf.parameters()] == before
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules()) == hooks


def test_a_model_whose_parts_do_not_add_up_is_refused(load, monkeypatch) -> None:
    model = load("tiny:gpt2", "causal-lm")
    asked = question(model)
    monkeypatch.setitem(frozen_module.RULES, "layer_norm", lambda _m, func, args, kwargs: func(*args, **kwargs))
    with pytest.raises(ModelError, match=r"^Exact paths must add up .* choose another method"):
        paths(asked)
    assert paths_module.TOLERANCE[torch.float32] == 1e-5


def test_activations_are_found_by_what_they_compute(load) -> None:
    found = {type(m).__name__ for m in activations(load("tiny:gpt2", "causal-lm"))}
    assert found == {"NewGELUActivation"}


@pytest.mark.parametrize("choice", [{"attention": "warm"}, {"gate": "none"}])
def test_unknown_choices_are_refused(choice) -> None:
    with pytest.raises(InputError, match="was asked for"):
        Freezing(**choice)

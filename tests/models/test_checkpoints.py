"""Models as people have them: default configurations saved to a folder, classifiers, sparse masks, odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwise as hw
from headwise.errors import ModelError, ProofError
from headwise.models.capture import quiet
from headwise.models.surroundings import same, scale_of
from headwise.models.tiny import FAMILIES, OUTSIDE, randomise, tiny_model, tiny_tokenizer
from references.captures import as_maps
from references.compare import assert_close

Load = Callable[..., hw.Model]
TEXT, SHORT = "The old dog and the young cat sat in the sun, and so it was.", "the sea"
SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
         "max_position_embeddings": 160}  # fmt: skip
TOP_7 = {**SMALL, "num_key_value_heads": 4, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
         "qk_nope_head_dim": 6, "v_head_dim": 6, "index_topk": 7, "index_n_heads": 2, "index_head_dim": 8,
         "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
         "first_k_dense_replace": 1, "pad_token_id": None}  # fmt: skip
UNUSUAL: dict[str, dict[str, Any]] = {
    "deepseek_v32": TOP_7,
    "glm_moe_dsa": TOP_7,
    "doge": {**SMALL, "num_key_value_heads": 2, "keep_window_size": 7, "pad_token_id": None},  # the mask by keyword
    "layoutlm": SMALL,  # a mask with one row for all queries
}


def own(model_type: str, **settings: Any) -> tuple[nn.Module, Any]:
    """A random model of transformers' type with the byte tokenizer."""
    tokenizer = tiny_tokenizer("bytes")
    with torch.random.fork_rng(devices=[]), quiet():
        config = transformers.AutoConfig.for_model(model_type, vocab_size=len(tokenizer), **settings)
        hf = transformers.AutoModel.from_config(config)
    randomise(hf, 0)
    return hf.eval(), tokenizer


@pytest.mark.parametrize("family", [*FAMILIES, "convbert", "led", "longformer", "xlnet"])
def test_a_default_configuration_saved_and_loaded(family: str, tmp_path: Path) -> None:
    """Nothing of the tokenizer's stands in it: a saved T5 has no bos_token_id, a Llama no pad_token_id."""
    described = {**FAMILIES, **OUTSIDE}[family]
    tokenizer = tiny_tokenizer(described.tokenizer)
    config = getattr(transformers, f"{described.prefix}Config")
    settings = {"vocab_size": len(tokenizer), **described.config}
    for role in ("pad_token_id", "decoder_start_token_id"):  # Marian, ModernBERT: beyond a small vocabulary
        if not 0 <= (getattr(config(**described.config), role, None) or 0) < len(tokenizer):
            settings[role] = 0
    with torch.random.fork_rng(devices=[]), quiet():
        hf = transformers.AutoModel.from_config(config(**settings))
        randomise(hf, 0)
        hf.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
    model = hw.load(tmp_path)
    trace = model.trace(TEXT, SHORT if model.is_encoder_decoder else None)
    assert trace.output_error < 1e-5
    for stack in trace.stacks:
        assert trace.attention("effective", stack=stack).isfinite().all()
    direct = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    inputs = model.batch([trace.text], [trace.target] if trace.target else []).inputs
    with torch.no_grad(), quiet():
        expected = direct(**inputs, output_attentions=True)
    weights = expected["encoder_attentions" if model.is_encoder_decoder else "attentions"]
    for layer, alpha in zip(trace.of(), weights, strict=True):
        assert_close(layer.alpha, as_maps(alpha) if family in ("led", "longformer") else alpha, 1e-5)


@pytest.mark.parametrize("name", UNUSUAL)
def test_masks_that_depend_on_the_name_are_given_by_keyword_or_are_one_row(name: str) -> None:
    """DeepSeek-V3.2 and GLM-5 mask by their index only under the names "eager" and "sdpa"."""
    hf, tokenizer = own(name, **UNUSUAL[name])
    model = hw.load((hf, tokenizer))
    trace = model.trace(TEXT)
    assert trace.output_error < 1e-5
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        expected = hf(**model.batch([trace.text]).inputs, output_attentions=True).attentions
    for layer, alpha in zip(trace.layers, expected, strict=True):
        assert_close(layer.alpha, alpha, 1e-6)
        assert layer.visible.shape == (1, len(trace.text), len(trace.text))
        if name != "layoutlm":
            assert int((layer.alpha[0, 0, -1] > 0).sum()) == 7
    blocks: list[hw.types.Layer] = []
    with torch.no_grad():
        model.run(model.batch([trace.text]), blocks.append, rows=4)
    by_block = torch.cat([block.alpha for block in blocks if block.index == 1], dim=2)
    assert_close(by_block, trace.layers[1].alpha, 1e-5)


def test_a_branch_that_depends_on_being_watched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only on texts longer than seven tokens: the short probe alone would not see it."""
    hf, tokenizer = tiny_model("bert")
    forward = type(hf.encoder.layer[0]).forward

    def other(self, hidden_states: Tensor, *args: Any, **kwargs: Any):
        named_eager = self.attention.self.config._attn_implementation == "eager"
        scale = 0.5 if named_eager and hidden_states.shape[1] > 7 else 1.0
        return forward(self, hidden_states * scale, *args, **kwargs)

    monkeypatch.setattr(type(hf.encoder.layer[0]), "forward", other)
    with pytest.raises(ProofError, match="the output by"):
        hw.load((hf, tokenizer))


def test_every_trace_is_compared_with_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hw.load("tiny:bert")
    assert 0 <= model.trace(TEXT).output_error < 1e-5
    pass_by = type(model).forward

    def other(self, batch: Any, **options: Any):
        output = pass_by(self, batch, **options)
        if not options:  # the pass of the comparison
            output.last_hidden_state *= 1.01
        return output

    monkeypatch.setattr(type(model), "forward", other)
    with pytest.raises(ProofError) as error:
        model.trace(TEXT)
    assert "\n" not in str(error.value)
    assert "differs by 9.9e-03" in str(error.value)


def test_dropout_is_off_in_a_trace_whatever_the_mode() -> None:
    model = hw.load("tiny:bert")
    expected = model.trace(TEXT).attention("raw")
    model.hf.train()
    model.hf.encoder.layer[1].eval()
    trace = model.trace(TEXT)
    assert_close(trace.attention("raw"), expected)
    assert_close(trace.attention("raw").sum(-1), torch.ones(3, 4, len(trace.text)))
    assert model.hf.training
    assert model.hf.encoder.layer[0].training
    assert not model.hf.encoder.layer[1].training


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_an_encoder_decoder_as_a_classifier_reads_its_source_twice(load: Load, family: str) -> None:
    model = load(f"tiny:{family}", "classification")
    assert set(model.stacks) == {"encoder", "decoder", "cross"}
    trace = model.trace("the old dog", "it is so") if family == "bart" else model.trace("the old dog")
    assert trace.target is not None
    assert trace.target.ids[1:] == trace.text.ids[:-1]
    texts = [model.encode(TEXT), model.encode(SHORT)]
    with torch.no_grad():
        alone = [model.hf(input_ids=torch.tensor([text.ids])).logits for text in texts]
        found: list[Any] = []
        together = model.run(model.batch(texts), found.append).logits
    assert_close(together, torch.cat(alone), 1e-5)
    assert {layer.stack for layer in found} == set(model.stacks)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_classifier_without_a_padding_id_reads_batches(family: str) -> None:
    hf, tokenizer = tiny_model(family, task="classification")
    hf.config.pad_token_id = None
    model = hw.load((hf, tokenizer))
    tokenizer_pad, texts = tokenizer.pad_token, [model.encode(TEXT), model.encode(SHORT)]
    try:
        tokenizer.pad_token = None
        with torch.no_grad():
            alone = [model.run(model.batch([text]), lambda _: None).logits for text in texts]
            together = model.run(model.batch(texts), lambda _: None).logits
    finally:
        tokenizer.pad_token = tokenizer_pad
    assert_close(together, torch.cat(alone), 1e-5)
    assert hf.config.pad_token_id is None


def test_an_opt_that_changes_its_width_at_the_end() -> None:
    settings = {**FAMILIES["opt"].config, "word_embed_proj_dim": 16, "do_layer_norm_before": False}
    trace = hw.load(own("opt", **settings)).trace(TEXT)
    assert trace.hidden["self"].shape == (3, len(trace.text), 24)  # x, e^1, e^2; e^3 has been narrowed
    assert trace.attention("norm").isfinite().all()


def test_a_parameter_that_is_one_number() -> None:
    hf, tokenizer = tiny_model("bert")
    hf.temperature = nn.Parameter(torch.tensor(1.0))
    assert hw.load((hf, tokenizer)).proof.projection_error < 1e-6
    hf.temperature.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="temperature"):
        hw.load((hf, tokenizer))


@pytest.mark.parametrize("error", [KeyError("no such thing"), AssertionError(), RuntimeError("a\nb")])
def test_any_exception_of_the_proof_is_one_line(error: Exception) -> None:
    hf, tokenizer = tiny_model("bert")

    def fail(*_: Any) -> None:
        raise error

    hf.encoder.layer[1].register_forward_hook(fail)
    with pytest.raises(ModelError) as refusal:
        hw.load((hf, tokenizer))
    message = str(refusal.value)
    assert "\n" not in message
    assert f"bert raised {type(error).__name__}" in message
    assert "while headwise was watching it read a probe" in message


def test_a_residual_with_huge_numbers_is_still_found() -> None:
    """demo-llm: a channel in the thousands, whose float32 steps are larger than a thousandth of what is added."""
    generator = torch.Generator().manual_seed(0)
    residual, branch = torch.randn(2, 1, 5, 24, generator=generator)
    residual[..., 3] = 30_000.0
    assert scale_of(residual + 0.7 * branch, residual, branch, 2**-23) == pytest.approx(0.7, abs=1e-3)
    assert scale_of(residual + 0.7 * branch.roll(1, -1), residual, branch, 2**-23) == 0
    assert scale_of(residual + 0.7 * branch + 0.01 * branch.roll(1, -1), residual, branch, 2**-23) == 0
    assert not same(residual + branch, residual)
    assert same(residual * (1 + 1e-6), residual)

"""Every supported family: the captured numbers are the model's own, in batches, in blocks, and after the norms."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headwise.measures import nullspace
from headwise.models.tiny import FAMILIES as INSIDE
from headwise.models.tiny import OUTSIDE
from headwise.types import Layer
from references import quantities as twins
from references.captures import HF_NAMES, Captured, as_maps, captured, plain_forward, quantities, real_rows
from references.compare import assert_close

FAMILIES = {name: family for name, family in {**INSIDE, **OUTSIDE}.items() if name != "convbert"}  # see test_kinds

# float32 through three random layers: rounding grows; a wrong mask, head or scale is wrong in the first digit.
ROUNDING = 5e-5

BANDS = {"longformer": ("self",), "led": ("encoder",)}  # stacks in which a token sees four to each side
POST_NORM, PRE_NORM = "encoder.layer.{}.attention.output.LayerNorm", "layers.{}.post_attention_layernorm"
LAYERS_POST = {"encoder": "encoder.layers.{}.self_attn_layer_norm", "decoder": "decoder.layers.{}.self_attn_layer_norm",
               "cross": "decoder.layers.{}.encoder_attn_layer_norm"}  # fmt: skip
LAYERS_PRE = {"encoder": "encoder.layers.{}.final_layer_norm", "decoder": "decoder.layers.{}.encoder_attn_layer_norm",
              "cross": "decoder.layers.{}.final_layer_norm"}  # fmt: skip
T5_BLOCKS = {"encoder": "encoder.block.{}.layer.1.layer_norm", "decoder": "decoder.block.{}.layer.1.layer_norm",
             "cross": "decoder.block.{}.layer.2.layer_norm"}  # fmt: skip
READS_THE_SUM = {  # read off transformers' source: the module whose input is residual + attention
    "albert": "encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm",
    "bert": POST_NORM, "camembert": POST_NORM, "electra": POST_NORM, "ernie": POST_NORM, "roberta": POST_NORM,
    "xlm-roberta": POST_NORM, "distilbert": "transformer.layer.{}.sa_layer_norm",
    "modernbert": "layers.{}.mlp_norm", "mpnet": "encoder.layer.{}.attention.LayerNorm",
    "gemma": PRE_NORM, "glm": PRE_NORM, "gpt-oss": PRE_NORM, "granite": PRE_NORM, "llama": PRE_NORM,
    "mistral": PRE_NORM, "mixtral": PRE_NORM, "nemotron": PRE_NORM, "phi3": PRE_NORM, "qwen2": PRE_NORM,
    "qwen3": PRE_NORM, "smollm3": PRE_NORM, "stablelm": PRE_NORM, "starcoder2": PRE_NORM,
    "gemma2": "layers.{}.pre_feedforward_layernorm", "gemma3": "layers.{}.pre_feedforward_layernorm",
    "gpt2": "h.{}.ln_2", "opt": "decoder.layers.{}.final_layer_norm", "olmo2": "layers.{}.mlp",
    "bart": LAYERS_POST, "marian": LAYERS_POST, "m2m100": LAYERS_PRE, "mbart": LAYERS_PRE, "pegasus": LAYERS_PRE,
    "t5": T5_BLOCKS, "mt5": T5_BLOCKS,
    "deberta": POST_NORM, "bloom": "h.{}.post_attention_layernorm", "falcon": "h.{}.post_attention_layernorm",
    "gpt-neo": "h.{}.ln_2", "led": LAYERS_POST, "longformer": POST_NORM, "xlnet": "layer.{}.rel_attn.layer_norm",
    # attention and feed-forward in parallel: nothing reads it
    "cohere": None, "gpt-j": None, "gpt-neox": None, "phi": None,
}  # fmt: skip


@pytest.fixture(params=FAMILIES)
def case(request: pytest.FixtureRequest) -> Captured:
    return captured(request.param)


def test_stacks_layers_and_heads_are_those_of_the_configuration(case: Captured) -> None:
    kind, layers = FAMILIES[case.family].kind, 4 if case.family == "gemma3" else 3
    stacks = ("encoder", "decoder", "cross") if kind == "encoder-decoder" else ("self",)
    assert set(case.model.stacks) == set(stacks)
    assert [(layer.stack, layer.index) for layer in case.layers] == [(s.stack, s.index) for s in case.model.proof.sites]
    for stack in stacks:
        assert [site.index for site in case.model.sites(stack)] == list(range(layers))
        assert case.model.heads(stack) == 4


def test_weights_equal_hugging_face(case: Captured) -> None:
    for layer in case.layers:
        expected = case.hugging_face[HF_NAMES[layer.stack]][layer.index]
        expected = as_maps(expected) if layer.stack in BANDS.get(case.family, ()) else expected
        assert_close(layer.alpha, real_rows(layer, expected), ROUNDING)


def test_hidden_states_equal_hugging_face(case: Captured) -> None:
    hf = plain_forward(case.model.hf, case.model.batch(*_one(case, 0)).inputs)
    names = {"self": "hidden_states", "encoder": "encoder_hidden_states", "decoder": "decoder_hidden_states"}
    trace = case.traces[0]
    assert set(trace.hidden) == set(trace.stacks) - {"cross"}
    for stack, states in trace.hidden.items():
        assert_close(states, torch.cat(hf[names[stack]]), ROUNDING)


def test_padding_is_invisible_and_real_rows_see_something(case: Captured) -> None:
    for layer in case.layers:
        assert not layer.visible[~layer.key_mask[:, None].expand_as(layer.visible)].any()
        assert layer.visible.any(-1)[layer.query_mask].all()
        assert not layer.value.transpose(1, 2)[~layer.key_mask].any(), "values of padding are zero"
        hidden = ~layer.visible & layer.query_mask[..., None]
        assert not layer.alpha.movedim(1, -1)[hidden].any()
        sums = layer.alpha.sum(-1).movedim(1, -1)[layer.query_mask]
        if case.family == "gpt-oss":  # its sinks take part of each row
            assert (sums <= 1).all()
            assert sums.min() < 0.9
        else:
            assert_close(sums, torch.ones_like(sums))


def test_causal_and_window_masks_are_what_the_configuration_says(case: Captured) -> None:
    config, kind = case.model.hf.config, FAMILIES[case.family].kind
    for layer in case.layers:
        n, m = int(layer.query_mask[0].sum()), int(layer.key_mask[0].sum())
        query, key = torch.arange(n)[:, None], torch.arange(m)
        expected = torch.ones(n, m, dtype=torch.bool)
        if layer.stack == "decoder" or kind == "decoder":
            expected &= key <= query
        types = getattr(config, "layer_types", None) or []
        sliding = types[layer.index] == "sliding_attention" if types else case.family == "mistral"
        sliding |= case.family == "gpt-neo" and layer.index == 1
        if sliding and kind == "decoder":
            expected &= key > query - 8
        if sliding and case.family == "modernbert":
            expected &= (key - query).abs() <= 4
        if layer.stack in BANDS.get(case.family, ()):
            expected &= (key - query).abs() <= 4
        assert torch.equal(layer.visible[0, :n, :m], expected)


def test_heads_times_values_times_projection_give_the_modules_output(case: Captured) -> None:
    """Σ_h α_h V_h W_O,h + b_O, with W_O cut by hand from the module's own parameters, on padded texts."""
    if case.family == "xlnet":
        return  # its projection is no module; `test_residual_and_norms…` sees what it adds
    outputs = _module_outputs(case, {site.projection for site in case.model.proof.sites})
    for site, layer in zip(case.model.proof.sites, case.layers, strict=True):
        weight = site.projection.weight.detach()
        matrix = weight if isinstance(site.projection, Conv1D) else weight.T  # input axis first
        heads, size = layer.alpha.shape[1], layer.value.shape[-1]
        total = torch.zeros_like(layer.out)
        for head in range(heads):
            value = layer.value[:, head * layer.value.shape[1] // heads]
            total += layer.alpha[:, head] @ value @ matrix[head * size : (head + 1) * size]
        if getattr(site.projection, "bias", None) is not None:
            total += site.projection.bias.detach()
        given = outputs[site.projection].pop(0).reshape(total.shape)
        rows = layer.query_mask
        assert_close(total[rows], given[rows], ROUNDING)
        assert_close(layer.out[rows], given[rows], ROUNDING)


def test_grouped_heads_share_values(case: Captured) -> None:
    grouped = "num_key_value_heads" in FAMILIES[case.family].config
    assert {layer.value.shape[1] for layer in case.layers} == {2 if grouped else 4}


def test_residual_and_norms_are_what_the_next_module_reads(case: Captured) -> None:
    """residual + scale · inner(out) is the input, and outer of it the output, of the module that reads the sum."""
    paths = READS_THE_SUM[case.family]
    if paths is None:
        assert all(layer.residual is None and layer.circuit.outer is None for layer in case.layers)
        return
    for stack in case.model.stacks:
        path = paths if isinstance(paths, str) else paths[stack]
        layers = [layer for layer in case.layers if layer.stack == stack]
        modules = [case.model.hf.get_submodule(path.format(layer.index)) for layer in layers]
        calls = _module_calls(case, set(modules))
        for layer, module in zip(layers, modules, strict=True):
            pair = (x.transpose(0, 1) if case.family == "xlnet" else x for x in calls[module].pop(0))
            read, gave = (x.reshape(layer.out.shape)[layer.query_mask] for x in pair)
            assert layer.residual is not None
            out = layer.out if layer.circuit.inner is None else layer.circuit.inner(layer.out)
            total = layer.residual + layer.circuit.scale * out
            assert_close(total[layer.query_mask], read, ROUNDING)
            if case.family == "olmo2":
                assert layer.circuit.outer is None
                continue
            assert layer.circuit.outer is not None
            assert_close(layer.circuit.outer(total)[layer.query_mask], gave, ROUNDING)


def test_residual_is_the_hidden_state(case: Captured) -> None:
    """What attention is added to is the layer's own input (of a self-attention block, which comes first)."""
    for trace in case.traces[:1]:
        for layer in trace.layers:
            if layer.residual is not None and layer.stack != "cross":
                assert_close(layer.residual[0], trace.hidden[layer.stack][layer.index], ROUNDING)


def test_blocks_of_rows_equal_the_whole(case: Captured) -> None:
    """Long texts run on SDPA and come in blocks: the same weights and the same quantities."""
    blocks = defaultdict(list)
    for block in case.blocks:
        blocks[block.stack, block.index].append(block)
    assert len(blocks) == len(case.layers)
    for layer in case.layers:
        parts = blocks[layer.stack, layer.index]
        assert [part.first_row for part in parts] == list(range(0, layer.alpha.shape[2], 5))
        expected, got = quantities(layer), [quantities(part) for part in parts]
        for name, map_ in expected.items():
            assert_close(torch.cat([part[name] for part in got], dim=2), real_rows(layer, map_), ROUNDING)


def test_padding_and_batch_mates_change_nothing(case: Captured) -> None:
    for text, trace in enumerate(case.traces):
        for batched, layer in zip(case.layers, trace.layers, strict=True):
            n, m = layer.alpha.shape[2:]
            assert n == batched.query_mask[text].sum()
            assert m == batched.key_mask[text].sum()
            expected = quantities(layer)
            for name, map_ in quantities(batched).items():
                assert_close(map_[text : text + 1, :, :n, :m], expected[name], ROUNDING)
                assert map_[text, :, :n, m:].abs().sum() == 0, f"{name} gives weight to padding"
            assert torch.equal(nullspace.rank(batched)[text, :, :n], nullspace.rank(layer)[0])
            assert torch.equal(nullspace.simplex_rank(batched)[text, :, :n], nullspace.simplex_rank(layer)[0])


def test_quantities_equal_their_twins(case: Captured) -> None:
    for layer in (case.layers[0], case.layers[-1], *case.traces[0].layers[1:2]):
        maps = quantities(layer)
        references = {name: twin(layer) for name, twin in twins.ATTENTION.items()}
        references |= {name: twin(layer)[:, None] for name, twin in twins.MIXING.items() if name in maps}
        for name, map_ in maps.items():
            assert_close(map_, references[name], ROUNDING)
        counted = layer.query_mask[:, None].expand(-1, 4, -1)
        assert torch.equal(nullspace.rank(layer)[counted], torch.tensor(twins.rank(layer))[counted])
        assert torch.equal(nullspace.simplex_rank(layer)[counted], torch.tensor(twins.simplex_rank(layer))[counted])


def test_a_capture_leaves_the_model_as_it_was(case: Captured) -> None:
    hf, inputs = case.model.hf, case.batch.inputs
    before, implementation = _first(hf(**inputs)), hf.config._attn_implementation
    case._run(rows=0)
    with pytest.raises(ZeroDivisionError):  # a visitor that fails half-way
        case.model.run(case.batch, lambda _: 1 / 0)
    assert torch.equal(_first(hf(**inputs)), before)
    assert hf.config._attn_implementation == implementation
    for module in hf.modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]  # transformers leaves its own
        assert not [hook for hook in hooks if hook.__module__.startswith("headwise")]
        assert "forward" not in vars(module)
        if hasattr(module, "config"):
            assert module.config._attn_implementation != "headwise"


def test_a_capture_changes_nothing_of_the_output(case: Captured) -> None:
    with torch.no_grad():
        expected = _first(case.model.hf(**case.batch.inputs))
        for rows in (0, 5):
            got = _first(case.model.run(case.batch, lambda _: None, rows=rows))
            mask = case.batch.target_mask if case.model.is_encoder_decoder else case.batch.mask
            assert_close(got[mask], expected[mask], ROUNDING)


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.kind == "decoder"])
def test_causal_rows_do_not_depend_on_later_tokens(family: str) -> None:
    case, shorter = captured(family), []
    trace = case.traces[0]
    cut = len(trace.text) - 5
    with torch.no_grad():
        case.model.run(case.model.batch([_cut(trace.text, cut)]), shorter.append)
    for whole, part in zip(trace.layers, shorter, strict=True):
        expected = quantities(whole)
        for name, map_ in quantities(part).items():
            assert_close(map_, expected[name][:, :, :cut, :cut], ROUNDING)


def test_only_wanted_layers_are_handed_on(case: Captured) -> None:
    found: list[Layer] = []
    with torch.no_grad():
        case.model.run(case.batch, found.append, wanted=lambda site: site.index == 1)
    assert {layer.index for layer in found} == {1}
    expected = [layer for layer in case.layers if layer.index == 1]
    for got, layer in zip(found, expected, strict=True):
        assert_close(got.alpha, layer.alpha)


def _one(case: Captured, text: int) -> tuple[list, list]:
    return [case.batch.texts[text]], [case.batch.targets[text]] if case.batch.targets else []


def _cut(text, length: int):
    fields = {name: getattr(text, name)[:length] for name in ("tokens", "ids", "special", "segment", "offsets", "unit")}
    return type(text)(**fields, words=text.words)


def _first(output) -> Tensor:
    return next(value for value in output.values() if isinstance(value, Tensor)).detach()


def _module_outputs(case: Captured, modules: set[nn.Module]) -> dict[nn.Module, list[Tensor]]:
    return {module: [gave for _, gave in calls] for module, calls in _module_calls(case, modules).items()}


def _module_calls(case: Captured, modules: set[nn.Module]) -> dict[nn.Module, list[tuple[Tensor, Tensor]]]:
    """What modules read and give in a forward pass of Hugging Face's own, call by call."""
    calls: dict[nn.Module, list[tuple[Tensor, Tensor]]] = defaultdict(list)

    def note(module: nn.Module, args: tuple, kwargs: dict, gave) -> None:
        read = args[0] if args else kwargs["hidden_states"]
        calls[module].append((read.detach().clone(), (gave if isinstance(gave, Tensor) else gave[0]).detach().clone()))

    hooks = [module.register_forward_hook(note, with_kwargs=True) for module in modules]
    try:
        plain_forward(case.model.hf, case.batch.inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return calls

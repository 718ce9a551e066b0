"""Inputs as people have them: ids, chats, answers that the model writes; models wrapped in something."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import headwise as hw
from headwise.errors import InputError, ModelError, TooLongError
from headwise.models.capture import quiet
from headwise.models.tiny import tiny_model, tiny_tokenizer
from headwise.text.tokens import encode, encode_ids
from references.compare import assert_close

Load = Callable[..., hw.Model]
TEXT = "The old dog sat in the sun."
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% if not loop.last %} {% endif %}"
    "{% endfor %}{% if add_generation_prompt %} [assistant] {% endif %}"
)
CHAT = [{"role": "user", "content": "Who sat there?"}, {"role": "assistant", "content": "the old dog"}]


@pytest.fixture
def chatty(load: Load) -> hw.Model:
    model = load("tiny:llama", "causal-lm")
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.chat_template = TEMPLATE
    return hw.load((model.hf, tokenizer))


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_ids_give_the_trace_of_their_text(load: Load, family: str) -> None:
    model = load(f"tiny:{family}")
    pair = "it was" if family == "t5" else None
    by_text = model.trace(TEXT, pair)
    by_ids = model.trace(ids=by_text.text.ids, pair=pair)
    assert by_ids.text.tokens == by_text.text.tokens
    assert by_ids.text.special == by_text.text.special
    assert by_ids.text.unit == by_text.text.unit
    assert_close(by_ids.attention("raw"), by_text.attention("raw"))


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12))
def test_any_ids_are_tokens_with_words(ids: list[int]) -> None:
    for kind in ("wordpiece", "bytes", "pieces"):
        tokenizer = tiny_tokenizer(kind)
        ids = [number % len(tokenizer) for number in ids]
        coded = encode_ids(tokenizer, ids, limit=None, vocabulary=len(tokenizer))
        assert coded.ids == tuple(ids)
        assert len(coded.tokens) == len(coded.unit) == len(coded.offsets) == len(coded.special) == len(ids)
        assert set(coded.unit) == set(range(len(coded.words)))
        assert list(coded.unit) == sorted(coded.unit)


@pytest.mark.parametrize(("ids", "why"), [([], "there is none"), ([3, -1], "-1"), ([3, 10**6], "1000000")])
def test_ids_that_are_none(load: Load, ids: list[int], why: str) -> None:
    with pytest.raises(InputError, match=why):
        load("tiny:bert").trace(ids=ids)


def test_too_many_ids(load: Load) -> None:
    with pytest.raises(TooLongError, match="160"):
        load("tiny:bert").trace(ids=[9] * 161)


def test_one_input_and_no_more(load: Load) -> None:
    for given_ in ({}, {"text": TEXT, "ids": [5]}):
        with pytest.raises(InputError, match="One of text"):
            load("tiny:bert").trace(**given_)


def test_without_special_tokens(load: Load) -> None:
    model = load("tiny:bert")
    assert not any(model.trace(TEXT, add_special_tokens=False).text.special)


def test_a_chat_has_one_opening_token_and_its_answer_is_marked(chatty: hw.Model) -> None:
    trace = chatty.trace(messages=CHAT)
    assert trace.text.tokens.count(chatty.tokenizer.bos_token) == 1
    assert trace.answer is not None
    answer = chatty.tokenizer.decode(trace.text.ids[trace.answer :])
    assert answer.strip() == "the old dog"
    assert chatty.trace(messages=CHAT[:1]).answer is None


@given(
    st.lists(
        st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8), min_size=1, max_size=4
    )
)
def test_any_chat_is_read_as_its_template_writes_it(contents: list[str]) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer("bytes"))
    tokenizer.chat_template = TEMPLATE
    messages = [{"role": "user", "content": content} for content in contents]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    coded = encode(tokenizer, whole, limit=None, add_special_tokens=False)
    assert tokenizer.decode(coded.ids) == whole
    assert coded.tokens.count(tokenizer.bos_token) == 1


def test_a_chat_without_a_template_or_with_a_broken_one(load: Load, chatty: hw.Model) -> None:
    with pytest.raises(InputError, match="chat template"):
        load("tiny:llama").trace(messages=CHAT)
    chatty.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(InputError, match="roles must alternate") as error:
        chatty.trace(messages=CHAT)
    assert "\n" not in str(error.value)


def test_an_answer_that_the_model_writes_is_marked(chatty: hw.Model) -> None:
    trace = chatty.trace("the old", generate=3, add_special_tokens=False)
    assert trace.answer == len(chatty.trace("the old", add_special_tokens=False).text) == len(trace.text) - 3
    with torch.no_grad(), quiet():
        ids = chatty.hf.generate(torch.tensor([trace.text.ids[: trace.answer]]), max_new_tokens=3, do_sample=False)
    assert trace.text.ids == tuple(ids[0].tolist())
    asked = chatty.trace(messages=CHAT[:1], generate=2)
    assert asked.answer == len(asked.text) - 2


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_a_model_that_cannot_write(load: Load, family: str) -> None:
    with pytest.raises(InputError, match="causal-lm"):
        load(f"tiny:{family}").trace(TEXT, generate=3)


def test_a_trace_with_an_answer_and_a_gate_is_saved(chatty: hw.Model, tmp_path: Path) -> None:
    trace = chatty.trace("the old", generate=3)
    again = hw.open(trace.save(tmp_path / "trace"))
    assert (again.answer, again.output_error) == (trace.answer, trace.output_error)


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    return tiny_model("bert")


def test_wrapped_models_are_unwrapped(pair: tuple[Any, Any]) -> None:
    hf, tokenizer = pair
    sentences = type("SentenceTransformer", (list,), {"tokenizer": tokenizer})([SimpleNamespace(auto_model=hf)])
    pipeline = transformers.pipeline("feature-extraction", model=hf, tokenizer=tokenizer)
    for source in ((nn.DataParallel(hf), tokenizer), pipeline, sentences):
        assert hw.load(source).hf is hf


def test_a_bare_model_finds_its_tokenizer_by_its_name(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    hf, tokenizer = pair
    with quiet():
        hf.save_pretrained(tmp_path)
        with pytest.raises(InputError, match="tokenizer"):
            hw.load(tiny_model("bert")[0])
        tokenizer.save_pretrained(tmp_path)
        named = transformers.AutoModel.from_pretrained(tmp_path)
    assert hw.load(named).trace(TEXT).text.tokens[1] == "the"


@pytest.mark.parametrize(
    ("source", "kind", "named"),
    [
        (nn.Linear(2, 2), InputError, "module Linear"),
        (42, InputError, "a int"),
        (("model", "tokenizer"), InputError, "a str"),
        ((1, 2, 3), InputError, "3 things"),
        (type("PeftModelForCausalLM", (), {"tokenizer": None})(), ModelError, "merge_and_unload"),
        (
            type("PeftModelForCausalLM", (), {"active_peft_config": SimpleNamespace(is_prompt_learning=True)})(),
            ModelError,
            "has a learned prefix",
        ),
    ],
)
def test_what_is_no_model_is_named(source: Any, kind: type, named: str) -> None:
    with pytest.raises(kind, match=named) as error:
        hw.load(source)
    assert "\n" not in str(error.value)


def test_an_adapter_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="PEFT adapter"):
        hw.load(tmp_path)


def test_an_adapter_of_a_prefix_cannot_be_merged(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "PREFIX_TUNING"}')
    with pytest.raises(ModelError, match="learned prefix") as error:
        hw.load(tmp_path)
    assert "merge" not in str(error.value)


class Packed(torch.Tensor):
    """As torchao's: a weight that knows the product it is there for, and little else."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("sum", "t", "unflatten"):
            raise NotImplementedError(func.__name__)
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out.as_subclass(torch.Tensor) if func.__name__ == "linear" else out

    def dequantize(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_weights_are_asked_for_their_products_alone(dtype: torch.dtype) -> None:
    hf, tokenizer = tiny_model("llama")
    hf.to(dtype)
    expected = hw.load((hf, tokenizer)).trace("the old dog").attention("norm")
    for block in hf.layers:
        weight = block.self_attn.o_proj.weight.data
        block.self_attn.o_proj.weight = nn.Parameter(weight.as_subclass(Packed), requires_grad=False)
    got = hw.load((hf, tokenizer)).trace("the old dog").attention("norm")
    assert torch.allclose(got, expected, rtol=1e-5 if dtype == torch.float32 else 5e-2)


def test_a_gguf_file_is_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    """A tiny Llama as llama.cpp writes it: sizes, tokens and merges as fields, rotary rows interleaved."""
    gguf = pytest.importorskip("gguf")
    hf, tokenizer = tiny_model("llama")
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    sizes = {"context_length": 160, "embedding_length": 24, "block_count": 3, "feed_forward_length": 37,
             "head_count": 4, "head_count_kv": 2, "layer_norm_rms_eps": 1e-6, "rope_freq_base": 10000.0,
             "rope_dimension_count": 6, "vocab_size": len(vocabulary), "tokenizer_model": "gpt2",
             "tokenizer_pre": "default", "token_list": [token for token, _ in vocabulary],
             "token_merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in merges],
             "token_types": [1] * len(vocabulary), "bos_token_id": 3, "eos_token_id": 1, "pad_token_id": 0,
             "unk_token_id": 2}  # fmt: skip
    for name, value in sizes.items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 3)
    for name, weight in hf.state_dict().items():
        rows = torch.arange(len(weight))
        if "q_proj" in name or "k_proj" in name:  # a head's rows 0 1 2 3 4 5 are stored as 0 3 1 4 2 5
            rows = torch.cat([6 * head + torch.tensor([0, 3, 1, 4, 2, 5]) for head in range(len(rows) // 6)])
        writer.add_tensor(names.get_name(f"model.{name}", try_suffixes=[".weight"]), weight[rows].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ids = tokenizer("the old dog sat")["input_ids"]
    got, expected = (hw.load(source).trace(ids=ids) for source in (tmp_path / "x.gguf", (hf, tokenizer)))
    assert got.tokens == expected.tokens
    assert torch.allclose(got.attention("raw"), expected.attention("raw"), atol=1e-6)


def test_weights_that_are_elsewhere(pair: tuple[Any, Any]) -> None:
    with torch.device("meta"):
        hf = transformers.BertModel(pair[0].config)
    with pytest.raises(ModelError, match="in memory"):
        hw.load((hf, pair[1]))


def test_auto_is_the_checkpoints_own_precision(tmp_path: Path) -> None:
    hf, tokenizer = tiny_model("llama")
    with quiet():
        hf.to(torch.bfloat16).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
    assert hw.load(tmp_path, dtype="auto").hf.dtype == torch.bfloat16
    assert hw.load(tmp_path).hf.dtype == torch.float32


def test_a_gguf_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not one")
    with pytest.raises(ModelError) as error:
        hw.load(tmp_path / "x.gguf")
    assert "\n" not in str(error.value)


def test_a_pass_of_an_encoder_decoder_without_targets_says_how_to_give_them(load) -> None:
    model = load("tiny:marian")
    batch = model.batch([model.encode("the old dog")])
    with pytest.raises(InputError, match=r"batch for tiny:marian has no targets; give them as model\.batch\(\["):
        model.forward(batch)
    whole = model.batch([model.encode("the old dog")], [model.encode_target("the cat")])
    with torch.no_grad():
        assert_close(model.forward(whole)[0], model.hf(**whole.inputs)[0], 1e-6)

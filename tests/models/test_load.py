"""Loading: folders, pairs, tasks, dtypes; what is refused, and that the refusal is one line that says why."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headwise as hw
from headwise.engine.plan import model_facts
from headwise.errors import HeadwiseError, InputError, ModelError, ProofError, UnknownNameError
from headwise.models.capture import quiet
from headwise.models.load import _unreadable, whole
from headwise.models.tiny import FAMILIES, tiny_model, tiny_tokenizer
from references.compare import assert_close

Load = Callable[..., hw.Model]
TEXT = "The old dog sat in the sun."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as save_pretrained writes it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "bert"
    model, tokenizer = tiny_model("bert", task="masked-lm")
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def broken(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(checkpoint, tmp_path / "broken"))


def refused(source: object, kind: type[HeadwiseError] = ModelError, **options: object) -> str:
    with pytest.raises(kind) as error:
        hw.load(source, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value)


def test_folder(checkpoint: Path) -> None:
    for source in (checkpoint, str(checkpoint)):
        model = hw.load(source)
        assert (model.stacks, model.layers(), model.heads(), model.head_size()) == (("self",), 3, 4, 6)
        assert model.proof.projection_error < 1e-6
    direct = transformers.AutoModel.from_pretrained(checkpoint, attn_implementation="eager").eval()
    trace = model.trace(TEXT)
    own = direct(**model.batch([trace.text]).inputs, output_attentions=True)
    assert_close(trace.attention("raw"), torch.cat(own.attentions).detach())


def test_an_unused_pooler_that_the_checkpoint_lacks_is_the_same_at_every_load(checkpoint: Path) -> None:
    """A run is resumed on the same weights: the plan's digest is of all of them."""
    assert not any("pooler" in key for key in load_file(checkpoint / "model.safetensors"))
    first, second = (model_facts(hw.load(checkpoint))["weights"] for _ in range(2))
    assert first == second


def test_pair_of_model_and_tokenizer_is_left_as_it_is() -> None:
    hf, tokenizer = tiny_model("gpt2", task="causal-lm")
    hf.set_attn_implementation("eager")
    hf.train()
    before = {name: p.clone() for name, p in hf.named_parameters()}
    model = hw.load((hf, tokenizer))
    assert model.hf is hf
    assert not hf.training
    assert hf.config._attn_implementation == "eager"
    assert all(torch.equal(p, before[name]) for name, p in hf.named_parameters())


@pytest.mark.parametrize(
    ("family", "task", "ending"),
    [("bert", "masked-lm", "ForMaskedLM"), ("gpt2", "causal-lm", "LMHeadModel"), ("llama", "causal-lm", "ForCausalLM"),
     ("bert", "classification", "ForSequenceClassification"), ("t5", "translation", "ForConditionalGeneration"),
     ("llama", "classification", "ForSequenceClassification"), ("mpnet", "masked-lm", "ForMaskedLM")],
)  # fmt: skip
def test_tasks(family: str, task: str, ending: str) -> None:
    model = hw.load(f"tiny:{family}", task=task)
    assert type(model.hf).__name__.endswith(ending)
    if task != "classification":
        trace = model.trace(TEXT, TEXT if model.is_encoder_decoder else None)
        assert trace.hidden


@pytest.mark.parametrize(("family", "task"), [("llama", "masked-lm"), ("bert", "translation"), ("t5", "causal-lm")])
def test_a_task_that_the_family_does_not_have(family: str, task: str) -> None:
    assert task in refused(f"tiny:{family}", HeadwiseError, task=task)


@pytest.mark.parametrize(
    ("name", "task", "said"),
    [
        ("demo-nmt", "masked-lm", "but demo-nmt has none for masked-lm; load a checkpoint that was saved with one"),
        ("demo-nmt", "transcription", "but demo-nmt has none for transcription; demo-whisper has one"),
    ],
)
def test_a_task_that_a_packaged_model_does_not_have(name: str, task: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        hw.load(name, task=task)


def test_the_demo_encoder_does_not_translate() -> None:
    said = str(_unreadable("demo", "translation", ValueError(UNKNOWN)))
    assert said.startswith("A task needs a head of its own, but demo (all-MiniLM-L6-v2, a sentence encoder: BERT, ")
    assert said.endswith(") has none for translation; demo-nmt has one, or leave the task out.")


UNKNOWN = "Unrecognized configuration class <class 'BertConfig'> for this kind of AutoModel: AutoModelForSeq2SeqLM."


def test_unknown_task_dtype_family_and_name() -> None:
    assert "masked-lm" in refused("tiny:bert", InputError, task="parsing")
    assert "float32" in refused("tiny:bert", InputError, dtype="int8")
    assert "roberta" in refused("tiny:rberta", UnknownNameError)
    assert "hub" in refused("no-such-organisation/no-such-model")
    assert "demo" in refused("no such model")


def test_unknown_device() -> None:
    assert "nowhere" in refused("tiny:bert", HeadwiseError, device="nowhere")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5"])
def test_other_precisions_are_proved_too(load: Load, family: str, dtype: str) -> None:
    model = hw.load(f"tiny:{family}", dtype=dtype)
    assert model.hf.dtype == getattr(torch, dtype)
    trace, reference = (m.trace(TEXT, TEXT if family == "t5" else None) for m in (model, load(f"tiny:{family}")))
    if family == "bert":  # the others take their softmax in float32 whatever the model's precision
        assert trace.layers[0].alpha.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert trace.layers[0].value.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert_close(trace.attention("raw")[0], reference.attention("raw")[0], 1e-4 if dtype == "float64" else 0.1)
    assert trace.attention("effective").isfinite().all()


def test_folder_without_weights(broken: Path) -> None:
    (broken / "model.safetensors").unlink()
    message = refused(broken)
    assert "safetensors" in message
    assert "pickle" not in message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_folder_with_pickled_weights_only(broken: Path, name: str) -> None:
    (broken / "model.safetensors").unlink()
    torch.save({"weight": torch.zeros(3)}, broken / name)
    if name == "model.ckpt":
        refused(broken)
    else:
        assert "pickle" in refused(broken)


def test_folder_without_config(broken: Path) -> None:
    (broken / "config.json").unlink()
    assert "config.json" in refused(broken)


@pytest.mark.parametrize("text", ["{not json", '{"model_type": "no-such-type"}', "[]", "{}"])
def test_folder_with_a_broken_config(broken: Path, text: str) -> None:
    (broken / "config.json").write_text(text)
    refused(broken)


def test_folder_without_tokenizer(broken: Path) -> None:
    """transformers then makes up a tokenizer that knows no word; every token would be unknown."""
    for file in broken.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer" in refused(broken)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_weights(broken: Path, share: float) -> None:
    whole = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(whole[: int(share * len(whole))])
    refused(broken)


def test_weights_of_the_wrong_shape(broken: Path) -> None:
    change(broken, "query.weight", lambda weight: weight[:-1].contiguous())
    refused(broken)


def test_missing_weights_are_not_made_up(broken: Path) -> None:
    """transformers fills what a checkpoint lacks with random numbers; their attention must not be shown."""
    change(broken, "query.weight", lambda _: None)
    assert "query" in refused(broken)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(broken: Path, bad: float) -> None:
    change(broken, "query.weight", lambda weight: torch.where(torch.arange(24) == 3, bad, weight))
    message = refused(broken)
    assert "query.weight" in message
    assert "finite" in message


def change(folder: Path, ending: str, how: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
    """Change the first parameter whose name has this ending."""
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in sorted(weights) if name.endswith(ending))
    changed = how(weights.pop(name))
    if changed is not None:
        weights[name] = changed
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_model_that_does_not_say_where_its_table_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """SAM 3's text part: `get_input_embeddings` is not implemented, and nothing needs it."""
    hf, tokenizer = tiny_model("bert")

    def unknown(_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(type(hf), "get_input_embeddings", unknown)
    assert hw.load((hf, tokenizer)).trace(TEXT).output_error < 1e-5


@pytest.mark.parametrize(
    ("prefix", "config", "reason"),
    [
        ("Mamba", {"hidden_size": 24, "num_hidden_layers": 2, "state_size": 4}, "has no attention"),
        ("FNet", {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 37}, "has no attention"),
        (
            "DiffLlama",
            {
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "intermediate_size": 37,
            },
            "DiffLlamaAttention",
        ),  # one map is taken from another
    ],
)
def test_families_without_softmax_attention_are_refused(prefix: str, config: dict, reason: str) -> None:
    tokenizer = tiny_tokenizer("bytes")
    hf = getattr(transformers, f"{prefix}Model")(
        getattr(transformers, f"{prefix}Config")(vocab_size=len(tokenizer), **config)
    )
    message = refused((hf, tokenizer))
    assert prefix.lower() in message
    assert reason in message


def test_a_projection_that_is_not_linear_fails_the_proof() -> None:
    hf, tokenizer = tiny_model("bert")
    projection = hf.encoder.layer[1].attention.output.dense
    hook = projection.register_forward_hook(lambda _module, _args, out: out + 0.1 * out.sin())
    assert "reproduce" in refused((hf, tokenizer), ProofError)
    hook.remove()
    assert hw.load((hf, tokenizer)).proof.projection_error < 1e-6


def test_an_eager_attention_that_differs_from_the_models_own_fails_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights would add up, but the model as it came computes something else."""
    hf, tokenizer = tiny_model("bert")
    module = sys.modules[type(hf).__module__]
    own = module.eager_attention_forward
    monkeypatch.setattr(module, "eager_attention_forward", lambda m, q, *args, **kwargs: own(m, 2 * q, *args, **kwargs))
    assert "output" in refused((hf, tokenizer), ProofError)


def test_weights_that_do_not_make_the_output_fail_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's output is its own, but the weights handed out are not those that made it."""
    hf, tokenizer = tiny_model("bert")
    module = sys.modules[type(hf).__module__]
    own = module.eager_attention_forward

    def other(*args, **kwargs):
        out, alpha = own(*args, **kwargs)
        return out, alpha.roll(1, dims=1)

    monkeypatch.setattr(module, "eager_attention_forward", other)
    assert "projection" in refused((hf, tokenizer), ProofError)


def test_residual_that_is_scaled() -> None:
    """Granite multiplies attention before it adds it; its default, 1, would hide a mistake."""
    tokenizer = tiny_tokenizer("bytes")
    settings = {**FAMILIES["granite"].config, "residual_multiplier": 0.22, "attention_multiplier": 0.3}
    torch.manual_seed(0)
    hf = transformers.GraniteModel(transformers.GraniteConfig(vocab_size=len(tokenizer), **settings))
    trace = hw.load((hf, tokenizer)).trace(TEXT)
    for layer in trace.layers:
        assert layer.circuit.scale == pytest.approx(0.22, abs=1e-4)
        assert layer.residual is not None
        assert_close(layer.residual[0], trace.hidden["self"][layer.index])


def test_positions_that_start_after_the_padding() -> None:
    """RoBERTa counts positions from padding_idx + 1: of 31 with padding_idx 1 it has 29."""
    tokenizer = copy.deepcopy(tiny_tokenizer("bytes"))
    settings = {**FAMILIES["roberta"].config, "max_position_embeddings": 31, "pad_token_id": 1}
    hf = transformers.RobertaModel(transformers.RobertaConfig(vocab_size=len(tokenizer), **settings))
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(1)
    model = hw.load((hf, tokenizer))
    assert model.limit == 29
    trace = model.trace("the " * 40, truncate=True)
    assert len(trace.text) == 29
    with pytest.raises(InputError, match="29"):
        model.trace("the " * 40)


LIMITS = dict.fromkeys(FAMILIES, 160) | {"camembert": 159, "roberta": 159, "xlm-roberta": 159, "mpnet": 158}
LIMITS |= {"t5": None, "mt5": None}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_of_exactly_the_limit_can_be_read(load: Load, family: str) -> None:
    model = load(f"tiny:{family}")
    assert model.limit == LIMITS[family]
    if model.limit is None:
        return
    text, target = "the " * 200, "the dog" if model.is_encoder_decoder else None
    with pytest.raises(InputError, match=str(model.limit)) as error:
        model.trace(text, target)
    assert "\n" not in str(error.value)
    trace = model.trace(text, target, truncate=True, layers=[0])
    assert len(trace.text) == model.limit
    assert trace.attention("raw").isfinite().all()


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "opt"])
def test_the_limit_is_the_most(load: Load, family: str) -> None:
    """One token more is more than the table of positions has."""
    model = load(f"tiny:{family}")
    ids = torch.full((1, model.limit + 1), 9)
    with pytest.raises((IndexError, RuntimeError)):
        model.hf(input_ids=ids, attention_mask=torch.ones_like(ids))


def test_what_is_no_text_is_refused_in_a_plain_session() -> None:
    """Without the type checker of the tests, as a user has it."""
    script = """
import headwise as hw
from headwise.errors import InputError
model = hw.load("tiny:bert")
for bad in (None, b"bytes", 3, ["a", "b"]):
    try:
        model.trace(bad)
    except InputError as error:
        assert "string" in str(error), error
    else:
        raise SystemExit(f"{bad!r} was read")
blocks, text = [], model.encode("the dog " * 20)
model.run(model.batch([text]), blocks.append, rows=7)
assert len(blocks) == 3 * -(-len(text) // 7), len(blocks)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "a/" + "b" * 300, "a\udcff", ""])
def test_names_that_no_model_can_have(name: str) -> None:
    with pytest.raises(ModelError) as told:
        hw.load(name)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 600


@pytest.mark.parametrize(
    "wrong",
    [{"num_attention_heads": -1}, {"num_attention_heads": 0}, {"hidden_size": -5}, {"num_hidden_layers": -1},
     {"vocab_size": 3}, {"model_type": "nope"}, {"model_type": []}],
)  # fmt: skip
def test_a_configuration_that_cannot_be(saved_bert: Path, wrong: dict) -> None:
    path = saved_bert / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    with pytest.raises(HeadwiseError) as told:
        hw.load(str(saved_bert)).trace("the dog")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("number", [10**6, 600])
def test_a_tokenizer_whose_ids_the_model_does_not_have(saved_bert: Path, number: int) -> None:
    path = saved_bert / "tokenizer.json"
    told = json.loads(path.read_text())
    told["added_tokens"].append(
        {"id": number, "content": "zebra", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": False}
    )  # fmt: skip
    path.write_text(json.dumps(told))
    with pytest.raises(HeadwiseError) as error:
        hw.load(str(saved_bert)).trace("the zebra")
    assert "\n" not in str(error.value)


@pytest.fixture
def saved_bert(load, tmp_path: Path) -> Path:
    model = load("tiny:bert")
    model.hf.save_pretrained(tmp_path / "m")
    model.tokenizer.save_pretrained(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("We could not connect. Check the network at home", "We could not connect."),
        ("a b c d e f g h i j k l m n o p q r s t u v", "a b c d e f g h i j k l m n …"),
        ("not a valid model", "not a valid model."),
        ("What? It ended. Then it went on and on", "What? It ended."),
        ("x" * 60, "x" * 28 + " …"),
    ],
)
def test_what_the_hub_says_ends_with_a_whole_sentence(text: str, said: str) -> None:
    assert whole(text, 28) == said


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("a,b\n")
    assert "dev.csv is a file; give the folder that save_pretrained wrote" in refused(tmp_path / "dev.csv")

"""Which model types of the installed transformers headwise reads: a tiny random model of each, against its own numbers.

    python benchmarks/coverage.py coverage.json              # goes on where it stopped; --again TYPE … for some
    python benchmarks/coverage.py coverage.json --page docs/families.md --facts src/headwise/models/tried.json

The reference is the model itself, unwatched: its own eager `output_attentions` where it gives them, its output, and
what the projection gives in a plain pass (a hook), which Σ_h (g ⊙ α_h V_h) W_O,h + b_O must equal. Each type runs in a
process of its own, forked from this one, with limits of time and memory.

    right       every number agrees
    in part     so does every number that is shown, but the attention of some part is of another kind and not shown
    refused     headwise says in one line why not
    wrong       headwise shows numbers that are not the model's
    traceback   anything that is not an error of headwise
    not built   no tiny model could be made here, so nothing is known
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from coverage_settings import ESPECIALLY, SENSES, SENSES_ESPECIALLY, SMALL
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import headwise as hw
from headwise.errors import HeadwiseError
from headwise.models.capture import eager, quiet
from headwise.models.follow import Product
from headwise.models.probe import without_cache
from headwise.models.senses import probe_of, sense_of
from headwise.models.tasks import TOWERS
from headwise.models.tiny import randomise, tiny_tokenizer

SECONDS, BYTES = 60, 12 * 2**30
TEXT = "The old dog and the young cat sat in the sun, and so it was that they all came to the sea."
TARGET = "It is said that the sea is big and old."
STACKS = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions",
          "cross": "cross_attentions"}  # fmt: skip
TEXT_TASKS = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "TEXT_ENCODING", "SEQUENCE_CLASSIFICATION",
              "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING")  # fmt: skip
NOT_TEXT = {
    "bros",
    "evolla",
    "kyutai_speech_to_text",
    "layoutlmv2",
    "lxmert",
    "speech_to_text",
    "textnet",
    "visual_bert",
    "whisper",
}  # fmt: skip - given a text they need something else, too
OTHER = {
    "vision_config",
    "audio_config",
    "text_config",
    "audio_encoder",
    "perceiver_config",
    "vq_config",
    "encoder_config",
    "patcher_config",
}  # fmt: skip - a type that has one of these reads more than text
SENSE_TASKS = ("IMAGE_CLASSIFICATION", "IMAGE", "AUDIO_CLASSIFICATION", "CTC", "SPEECH_SEQ_2_SEQ",
               "ZERO_SHOT_IMAGE_CLASSIFICATION")  # fmt: skip
SENSE = "sense:"  # before the name of a type of pictures or sound, in the results
ORDER = ("right", "in part", "wrong", "traceback", "refused", "not built")
OTHER_SENSES = {"hiera", "unispeech", "unispeech-sat", "videomae", "vit_mae", "wav2vec2", "wav2vec2-conformer"}
VOCABULARIES = ("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size", "vocab_size_per_layer_input")
KINDS = 6  # of layers, at most, in a model whose layers differ


def text_types() -> list[str]:
    """Every model type with a base model and a text task, or that is the text part of another."""
    tasks = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}) for task in TEXT_TASKS]
    base = set(modeling_auto.MODEL_MAPPING_NAMES)
    named = {name for task in tasks for name in task} & base | {n for n in base if n.endswith(("_text", "_text_model"))}
    return sorted(name for name in named - NOT_TEXT - OTHER_SENSES if not OTHER & set(CONFIG_MAPPING[name].sub_configs))


def sense_types() -> list[str]:
    """Every model type with a base model and a task of pictures or sound."""
    tasks = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}) for task in SENSE_TASKS]
    return sorted({name for task in tasks for name in task} & set(modeling_auto.MODEL_MAPPING_NAMES))


def small_senses(config: Any, model_type: str) -> dict[str, Any]:
    """As `small_settings`, its parts included."""
    default = config.to_dict()
    small = {**SMALL, **SENSES}
    settings = {name: alike(value, default[name]) for name, value in small.items() if default.get(name) is not None}
    ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "bos_token_id": 0, "eos_token_id": 1}
    settings |= {name: value for name, value in ids.items() if name in default}
    for part in config.sub_configs:
        if (inner := getattr(config, part, None)) is not None and hasattr(inner, "to_dict"):
            settings[part] = small_senses(inner, "")
    return {**settings, **SENSES_ESPECIALLY.get(model_type, {})}


def alike(value: Any, default: Any) -> Any:
    """One number for every stage, where the type has stages."""
    return [value] * len(default) if isinstance(default, list | tuple) and not isinstance(value, list) else value


def sense_outcome(model_type: str) -> tuple[str, str]:
    """A tower at a time, where there are towers; the worst of what they give."""
    try:
        cls = type(transformers.AutoConfig.for_model(model_type))
        with quiet():
            whole = transformers.AutoModel.from_config(cls(**small_senses(cls(), model_type))).eval()
        if sum(p.numel() for p in whole.parameters()) > 2e7:
            raise MemoryError("its tiny configuration is not tiny")
        randomise(whole, 0)
    except Exception as error:
        return "not built", line(error)
    towers = [kind for kind in ("image", "audio") if any(hasattr(whole, name) for name in TOWERS[kind])]
    found = [one_sense(whole, task) for task in towers or [None]]
    return max(found, key=lambda one: ORDER.index(one[0]))


def one_sense(whole: Any, task: str | None) -> tuple[str, str]:
    try:
        model = hw.load((whole, tiny_tokenizer("bytes")), task=task)
        given = {sense_of(model.hf): next(iter(probe_of(model.hf).values()))[0]}
        trace = model.trace(**given, pair=TARGET if model.is_encoder_decoder else None)
        return judged(model, trace)
    except HeadwiseError as error:
        return "refused", line(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {line(error)}"


def small_settings(config: Any, size: int, more: dict[str, Any]) -> dict[str, Any]:
    """The default configuration's own names with small numbers."""
    default = config.to_dict()
    settings = {name: value for name, value in SMALL.items() if default.get(name) is not None}
    settings |= {name: size for name in VOCABULARIES if name in default}
    settings |= {name: 0 for name in ("pad_token_id", "decoder_start_token_id", "bos_token_id") if name in default}
    settings |= {"eos_token_id": 1} if isinstance(default.get("eos_token_id"), int) else {}
    if "qk_rope_head_dim" in default:  # latent attention: the rotary part is a head of its own
        settings |= {"head_dim": 4, "num_key_value_heads": 4}
        settings |= {"qk_head_dim": 12} if "qk_head_dim" in default else {}
    if default.get("attention_type") != "block_sparse":
        settings.pop("attention_type", None)
    kinds = list(dict.fromkeys(default.get("layer_types") or []))
    if kinds:
        count = max(2, min(len(kinds), KINDS))
        settings |= {"layer_types": (kinds * 2)[:count], "num_hidden_layers": count}
    return {**settings, **more}


def build(model_type: str, size: int) -> Any:
    """A tiny random model; the first of a few sets of sizes with which it can be made and run."""
    cls = type(transformers.AutoConfig.for_model(model_type))
    more = ESPECIALLY.get(model_type, {})
    base = small_settings(cls(), size, more)
    tries = [
        base,
        {**base, "num_key_value_heads": 4},
        {name: value for name, value in base.items() if name != "head_dim"},
        {**base, "head_dim": 16, "hidden_size": 64},
        {name: value for name, value in base.items() if "mamba" not in name},
    ]
    problem: Exception | None = None
    for settings in tries:
        try:
            with quiet():
                model = transformers.AutoModel.from_config(cls(**settings)).eval()
            if sum(p.numel() for p in model.parameters()) > 2e7:
                raise MemoryError("its tiny configuration is not tiny")
            randomise(model, 0)
            inputs = {"input_ids": torch.arange(3, 12)[None]}
            if getattr(model.config, "is_encoder_decoder", False):
                inputs["decoder_input_ids"] = inputs["input_ids"]
            with torch.no_grad(), quiet():
                model(**inputs)
            return model
        except Exception as error:
            problem = problem or error
    raise RuntimeError(f"{type(problem).__name__}: {problem}") from problem


def outcome(model_type: str) -> tuple[str, str]:
    if model_type.startswith(SENSE):
        return sense_outcome(model_type.removeprefix(SENSE))
    tokenizer = tiny_tokenizer("bytes")
    try:
        hf = build(model_type, len(tokenizer))
    except Exception as error:
        return "not built", line(error)
    try:
        model = hw.load((hf, tokenizer))
        trace = model.trace(TEXT, TARGET if model.is_encoder_decoder else None)
    except HeadwiseError as error:
        return "refused", line(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {line(error)}"
    try:
        return judged(model, trace)
    except Exception as error:
        return "traceback", f"{type(error).__name__} in the comparison: {line(error)}"


class Einsums(TorchFunctionMode):
    """Notes what an einsum with a parameter gives that stands for a projection (XLNet), in a plain pass."""

    def __init__(self, model: hw.Model, given: dict[Any, list[Tensor]]):
        super().__init__()
        projections = {site.projection for site in model.proof.sites if isinstance(site.projection, Product)}
        self.of, self.given = {id(product.held[0]): product for product in projections}, given

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        product = self.of.get(id(args[-1])) if getattr(func, "__name__", "") == "einsum" else None
        if product is not None:
            self.given.setdefault(product, []).append(out)
        return out


def of(site: Any, read: Tensor, out: Tensor) -> Tensor:
    """What a projection gave of its heads: all, or, where it reads other things beside them, without those."""
    if site.part is None:
        return out
    rest = read.clone()
    rest[..., site.part] = 0
    return out - rest @ site.projection.weight.T


def judged(model: hw.Model, trace: hw.Trace) -> tuple[str, str]:
    """The trace against the model's own numbers."""
    batch = model.batch([trace.text], [trace.target] if trace.target else [])
    given: dict[Any, list[Tensor]] = {}
    hooks = [
        site.projection.register_forward_hook(
            lambda m, x, out, s=site: given.setdefault(m, []).append(of(s, x[0], out))
        )
        for site in {s.projection: s for s in model.proof.sites}.values()
    ]
    with torch.no_grad(), quiet(), eager(model.hf), Einsums(model, given):
        try:
            own = model.hf(**batch.inputs, **without_cache(model.hf), output_attentions=True)
        except TypeError:
            own = model.hf(**batch.inputs, **without_cache(model.hf))
    for hook in hooks:
        hook.remove()
    worst = {"weights": 0.0, "projection": 0.0, "output": trace.output_error}
    compared = "projection and output"
    for layer, site in zip(trace.layers, model.proof.sites, strict=True):
        values = layer.head_value if getattr(layer, "gate", None) is None else None
        if values is not None:
            rebuilt = torch.einsum("bhqk,bhkd,hde->bqe", layer.alpha, values, layer.circuit.w_o) + layer.circuit.b_o
        else:
            mixed = torch.einsum("bhqk,bhkd->bhqd", layer.alpha, layer.head_value) * layer.gate
            rebuilt = torch.einsum("bhqd,hde->bqe", mixed, layer.circuit.w_o) + layer.circuit.b_o
        real = given[site.projection].pop(0)
        real = real if real.numel() == rebuilt.numel() else real[:, : rebuilt.shape[1]]  # Longformer pads to windows
        real = real.reshape(rebuilt.shape)
        worst["projection"] = max(worst["projection"], apart(rebuilt, real))
    for stack, name in STACKS.items():
        weights = [w for w in (own.get(name) or []) if isinstance(w, Tensor)] if stack in trace.stacks else []
        layers = [layer.alpha for layer in trace.layers if layer.stack == stack]
        # subtle: what ProphetNet calls its weights are the scores before the softmax
        weights = [w.softmax(-1) if bool((w < 0).any()) else w for w in weights]
        weights = [w[..., : layers[0].shape[-1]] for w in weights if w.ndim == 4] if layers else []
        if len(weights) == len(layers) and all(w.shape == a.shape for w, a in zip(weights, layers, strict=True)):
            compared = "weights, projection and output" if layers else compared
            worst["weights"] = max([worst["weights"], *(apart(a, w) for a, w in zip(layers, weights, strict=True))])
    largest = max(worst.values())
    sizes = ", ".join(f"{stack} {model.layers(stack)} × {model.heads(stack)}" for stack in model.stacks)
    found = f"{sizes}; {compared} to {largest:.0e}{without(trace)}"
    if largest >= 1e-3:
        return "wrong", f"{found}: {worst}"
    return (
        ("in part", f"{found}; not seen: {', '.join(model.proof.unseen)}") if model.proof.unseen else ("right", found)
    )


def without(trace: hw.Trace) -> str:
    """The quantities that are refused on this model, though its weights are right."""
    refused = []
    for name in ("effective", "norm"):
        try:
            trace.attention(name)
        except HeadwiseError:
            refused.append(name)
    return f"; no {' and no '.join(refused)}" if refused else ""


def apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-9))


def line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def in_a_process(model_type: str) -> tuple[str, str]:
    """`outcome` in a fork with limits; what it prints goes nowhere."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10 * SECONDS)  # of the clock, for a busy machine
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1), os.dup2(nowhere.fileno(), 2)
        os.write(write, json.dumps(outcome(model_type)).encode()[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(said)) if said else ("not built", f"stopped after {SECONDS} s or out of memory")


def page(found: dict[str, list[str]], left: int) -> str:
    """The table of docs/families.md: text first, then pictures and sound."""
    text = {name: was for name, was in found.items() if not name.startswith(SENSE)}
    senses = {name.removeprefix(SENSE): was for name, was in found.items() if name.startswith(SENSE)}
    lines = [
        "# Model types that were tried", "",
        f"Made by `benchmarks/coverage.py` with transformers {transformers.__version__}: a tiny random model of every "
        f"type, compared with its own unwatched numbers, {spoken_days(found)}. Text: {counted(text)}. Pictures and "
        f"sound: {counted(senses)}. Not tried: {left}.", "",
        "*in part*: every number that is shown is right, but some part of the model attends in another way and is not "
        "shown. *not built*: no tiny model could be made here, so nothing is known.", "",
    ]  # fmt: skip
    for title, some in (("Text", text), ("Pictures and sound", senses)):
        lines += [f"## {title}", "", "| model type | | what was found |", "|---|---|---|"]
        for kind in ORDER:
            lines += [
                f"| {name} | {k} | {why.replace('|', '/')} |" for name, (k, why, _) in sorted(some.items()) if k == kind
            ]
        lines.append("")
    return "\n".join(lines)


def facts(found: dict[str, list[str]]) -> dict[str, Any]:
    """What `headwise list families` says of this sweep."""
    text = {name: was for name, was in found.items() if not name.startswith(SENSE)}
    senses = {name: was for name, was in found.items() if name.startswith(SENSE)}
    return {"transformers": transformers.__version__, "days": spoken_days(found), "text": counted(text),
            "pictures and sound": counted(senses)}  # fmt: skip


def spoken_days(found: dict[str, list[str]]) -> str:
    """When it was run: types that were run again may be of another day."""
    days = sorted({day for *_, day in found.values()})
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def counted(found: dict[str, list[str]]) -> str:
    counts = Counter(kind for kind, *_ in found.values())
    return ", ".join(f"{counts[kind]} {kind}" for kind in ORDER) + f" of {len(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON file that is read and added to")
    parser.add_argument("--again", nargs="*", default=[], help="model types, or outcomes, to run again")
    parser.add_argument("--only", nargs="*", help="these model types alone")
    parser.add_argument("--page", type=Path, help="write the table there")
    parser.add_argument("--facts", type=Path, help="write there what `headwise list families` says of it")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    hw.load("tiny:bert").trace(TEXT).attention("effective")  # all that is needed is imported before the first fork
    found = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    found = {name: was for name, was in found.items() if name not in asked.again and was[0] not in asked.again}
    every = [*text_types(), *(SENSE + name for name in sense_types())]
    for model_type in asked.only or every:
        if model_type not in found:
            found[model_type] = [*in_a_process(model_type), date.today().isoformat()]
            print(model_type, *found[model_type], flush=True)
            asked.results.write_text(json.dumps(found, indent=1, sort_keys=True))
    print(Counter(kind for kind, *_ in found.values()), file=sys.stderr)
    if asked.page:
        asked.page.write_text(page(found, len(set(every) - set(found))))
    if asked.facts:
        asked.facts.write_text(json.dumps(facts(found), indent=1) + "\n")


if __name__ == "__main__":
    main()

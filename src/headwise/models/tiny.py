"""Tiny random models of every family, made here and offline: `hw.load("tiny:bert")`.

They prove that a family is understood, and stand in for the real thing in tests. Weights, biases and norm gains are
all drawn at random (seeded), since zero biases and unit gains would hide mistakes. Head size 6 keeps the null space in
reach: a text of more than six tokens already has one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from headwise.errors import UnknownNameError
from headwise.models.capture import quiet
from headwise.models.senses import NoTokenizer
from headwise.models.tasks import auto_class

HEADS, KV_HEADS, D_HEAD, LAYERS, D_FF, POSITIONS = 4, 2, 6, 3, 37, 160
D_MODEL = HEADS * D_HEAD

BERT_LIKE = {"hidden_size": D_MODEL, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
             "intermediate_size": D_FF, "max_position_embeddings": POSITIONS}  # fmt: skip
GROUPED = {**BERT_LIKE, "num_key_value_heads": KV_HEADS}
OWN_HEAD_SIZE = {**GROUPED, "head_dim": 10}  # subtle: heads x head size is not the model's width here
EXPERTS = {**GROUPED, "num_local_experts": 3, "num_experts_per_tok": 2, "intermediate_size": 40}
SEQ2SEQ = {"d_model": D_MODEL, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
           "decoder_attention_heads": HEADS, "encoder_ffn_dim": D_FF, "decoder_ffn_dim": D_FF,
           "max_position_embeddings": POSITIONS}  # fmt: skip
PRINTABLE = [chr(code) for code in range(33, 127)]
SENTENCE_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>",
                    "mask_token": "<mask>"}  # fmt: skip
T5_LIKE = {"d_model": D_MODEL, "num_layers": LAYERS, "num_heads": HEADS, "d_kv": D_HEAD, "d_ff": D_FF}
GPT2 = {"n_embd": D_MODEL, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS}


@dataclass(frozen=True)
class Family:
    """How to build a tiny member: the class prefix in transformers, its tokenizer kind, and its configuration."""

    prefix: str
    kind: str  # "encoder", "decoder" or "encoder-decoder"
    tokenizer: str  # "wordpiece", "bytes" or "pieces"
    config: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


FAMILIES: Mapping[str, Family] = {
    "albert": Family("Albert", "encoder", "pieces", {**BERT_LIKE, "embedding_size": 17}, "layers share weights"),
    "bert": Family("Bert", "encoder", "wordpiece", BERT_LIKE),
    "camembert": Family("Camembert", "encoder", "pieces", BERT_LIKE),
    "distilbert": Family("DistilBert", "encoder", "wordpiece", {
        "dim": D_MODEL, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": D_FF,
        "max_position_embeddings": POSITIONS}),
    "electra": Family("Electra", "encoder", "wordpiece", {**BERT_LIKE, "embedding_size": 17}),
    "ernie": Family("Ernie", "encoder", "wordpiece", BERT_LIKE),
    "modernbert": Family("ModernBert", "encoder", "bytes", {**BERT_LIKE, "local_attention": 8,
                         "global_attn_every_n_layers": 2}, "local and global layers"),
    "mpnet": Family("MPNet", "encoder", "wordpiece", BERT_LIKE, "position bias, attention in its own layer"),
    "roberta": Family("Roberta", "encoder", "bytes", BERT_LIKE),
    "xlm-roberta": Family("XLMRoberta", "encoder", "pieces", BERT_LIKE),
    "cohere": Family("Cohere", "decoder", "bytes", GROUPED, "attention and feed-forward in parallel"),
    "gemma": Family("Gemma", "decoder", "pieces", OWN_HEAD_SIZE),
    "gemma2": Family("Gemma2", "decoder", "pieces", {**OWN_HEAD_SIZE, "sliding_window": 8,
                     "query_pre_attn_scalar": 10}, "soft-capped scores, norms around attention"),
    "gemma3": Family("Gemma3Text", "decoder", "pieces", {**OWN_HEAD_SIZE, "sliding_window": 8,
                     "query_pre_attn_scalar": 10, "layer_types": ["sliding_attention", "full_attention"] * 2,
                     "num_hidden_layers": 4}, "norms around attention"),
    "glm": Family("Glm", "decoder", "bytes", OWN_HEAD_SIZE),
    "gpt-neox": Family("GPTNeoX", "decoder", "bytes", BERT_LIKE, "attention and feed-forward in parallel"),
    "gpt-oss": Family("GptOss", "decoder", "bytes", {**EXPERTS, "head_dim": 10, "sliding_window": 8},
                      "learned sinks take part of each row"),
    "gpt2": Family("GPT2", "decoder", "bytes", GPT2),
    "granite": Family("Granite", "decoder", "bytes", {**GROUPED, "residual_multiplier": 0.7}, "attention scaled"),
    "llama": Family("Llama", "decoder", "bytes", GROUPED),
    "mistral": Family("Mistral", "decoder", "pieces", {**GROUPED, "sliding_window": 8}),
    "mixtral": Family("Mixtral", "decoder", "pieces", EXPERTS),
    "nemotron": Family("Nemotron", "decoder", "bytes", {**GROUPED, "head_dim": D_HEAD}),
    "olmo2": Family("Olmo2", "decoder", "bytes", GROUPED, "norms after attention"),
    "opt": Family("OPT", "decoder", "bytes", {"hidden_size": D_MODEL, "num_hidden_layers": LAYERS,
                  "num_attention_heads": HEADS, "ffn_dim": D_FF, "max_position_embeddings": POSITIONS,
                  "word_embed_proj_dim": D_MODEL}),
    "phi": Family("Phi", "decoder", "bytes", {**BERT_LIKE, "partial_rotary_factor": 1.0},
                  "attention and feed-forward in parallel"),
    "phi3": Family("Phi3", "decoder", "bytes", GROUPED, "query, key and value in one projection"),
    "qwen2": Family("Qwen2", "decoder", "bytes", GROUPED),
    "qwen3": Family("Qwen3", "decoder", "bytes", OWN_HEAD_SIZE),
    "smollm3": Family("SmolLM3", "decoder", "bytes", GROUPED),
    "stablelm": Family("StableLm", "decoder", "bytes", {**GROUPED, "partial_rotary_factor": 1.0}),
    "starcoder2": Family("Starcoder2", "decoder", "bytes", GROUPED),
    "bart": Family("Bart", "encoder-decoder", "bytes", SEQ2SEQ),
    "m2m100": Family("M2M100", "encoder-decoder", "pieces", SEQ2SEQ),
    "marian": Family("Marian", "encoder-decoder", "pieces", SEQ2SEQ),
    "mbart": Family("MBart", "encoder-decoder", "pieces", SEQ2SEQ),
    "mt5": Family("MT5", "encoder-decoder", "pieces", T5_LIKE, "gated feed-forward"),
    "pegasus": Family("Pegasus", "encoder-decoder", "pieces", SEQ2SEQ),
    "t5": Family("T5", "encoder-decoder", "pieces", T5_LIKE, "position bias in the scores"),
}  # fmt: skip

OUTSIDE: Mapping[str, Family] = {  # families whose attention does not go through transformers' registry
    "bloom": Family("Bloom", "decoder", "bytes", {"hidden_size": D_MODEL, "n_layer": LAYERS, "n_head": HEADS},
                    "position bias in the scores"),
    "convbert": Family("ConvBert", "encoder", "wordpiece", {
                       **BERT_LIKE, "hidden_size": 2 * D_MODEL, "embedding_size": 17,
                       "num_attention_heads": 2 * HEADS, "head_ratio": 2, "conv_kernel_size": 5},
                       "convolutions beside the heads, which see padding"),
    "deberta": Family("DebertaV2", "encoder", "pieces", {**BERT_LIKE, "relative_attention": True,
                      "position_buckets": 16, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0},
                      "scores of content and position"),
    "falcon": Family("Falcon", "decoder", "bytes", {"hidden_size": D_MODEL, "num_hidden_layers": LAYERS,
                     "num_attention_heads": HEADS, "ffn_hidden_size": D_FF, "max_position_embeddings": POSITIONS,
                     "multi_query": False, "new_decoder_architecture": False, "parallel_attn": False}),
    "gpt-j": Family("GPTJ", "decoder", "bytes", {**GPT2, "rotary_dim": 4}, "attention and feed-forward in parallel"),
    "gpt-neo": Family("GPTNeo", "decoder", "bytes", {"hidden_size": D_MODEL, "num_layers": LAYERS, "num_heads": HEADS,
                      "attention_types": [[["global", "local", "global"], 1]], "window_size": 8,
                      "max_position_embeddings": POSITIONS}),
    "led": Family("LED", "encoder-decoder", "bytes", {
        **{key: value for key, value in SEQ2SEQ.items() if key != "max_position_embeddings"},
        "max_encoder_position_embeddings": POSITIONS, "max_decoder_position_embeddings": POSITIONS,
        "attention_window": [8] * LAYERS}, "bands of keys in the encoder"),
    "longformer": Family("Longformer", "encoder", "bytes", {**BERT_LIKE, "max_position_embeddings": POSITIONS + 2,
                         "attention_window": [8] * LAYERS}, "bands of keys"),
    "xlnet": Family("XLNet", "encoder", "pieces", {"d_model": D_MODEL, "n_layer": LAYERS, "n_head": HEADS,
                    "d_inner": D_FF}, "scores of content and position, W_O without a module"),
}  # fmt: skip

SENSES: Mapping[str, Family] = {  # families that read pictures or sound
    "clip": Family("CLIP", "encoder", "bytes", {
        "text_config": {**BERT_LIKE, "vocab_size": 1200},
        "vision_config": {**BERT_LIKE, "image_size": 24, "patch_size": 8}}, "two towers: task='text' or task='image'"),
    "llava": Family("Llava", "decoder", "bytes", {
        "text_config": {**GROUPED, "model_type": "llama", "vocab_size": 1200},
        "vision_config": {**BERT_LIKE, "model_type": "clip_vision_model", "image_size": 24, "patch_size": 8},
        "image_token_id": 4}, "reads texts with a picture (its mark is <mask>)"),
    "vit": Family("ViT", "encoder", "", {"hidden_size": D_MODEL, "num_hidden_layers": LAYERS,
                  "num_attention_heads": HEADS, "intermediate_size": D_FF, "image_size": 24, "patch_size": 8},
                  "reads pictures"),
    "wav2vec2": Family("Wav2Vec2", "encoder", "", {
        "hidden_size": D_MODEL, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": D_FF,
        "conv_dim": [8, 8, 8], "conv_stride": [5, 8, 8], "conv_kernel": [10, 8, 8], "num_conv_pos_embeddings": 4,
        "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 3}, "reads sound"),
    "whisper": Family("Whisper", "encoder-decoder", "bytes", {
        **{key: value for key, value in SEQ2SEQ.items() if key != "max_position_embeddings"}, "num_mel_bins": 16,
        "max_source_positions": 50, "max_target_positions": POSITIONS}, "reads sound of a second, writes text"),
}  # fmt: skip

_SENSE = {"vit": "image", "wav2vec2": "audio"}

REFUSED: Mapping[str, str] = {
    "mamba": "has no attention",
    "fnet": "has no attention",
    "reformer": "its attention is no softmax over the keys",
}


def tiny_model(name: str, *, task: str | None = None, seed: int = 0) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A random member of family `name` with its tokenizer; `task` picks the class as `hw.load` does."""
    known = {**FAMILIES, **OUTSIDE, **SENSES}
    if name not in known:
        raise UnknownNameError(f"There is no tiny family {name!r}; there are {', '.join(known)}.")
    family = known[name]
    tokenizer: Any = tiny_tokenizer(family.tokenizer) if family.tokenizer else NoTokenizer(f"tiny:{name}", _SENSE[name])
    roles = ("pad", "bos", "eos", "cls", "sep") if family.tokenizer else ()
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in roles}
    special |= {"vocab_size": len(tokenizer)} if family.tokenizer else {}
    if family.kind == "encoder-decoder":
        special["decoder_start_token_id"] = special["pad_token_id"]
    config_class = getattr(transformers, f"{family.prefix}Config")

    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        config = config_class(**{**special, **family.config})
        model = auto_class(task).from_config(config)
    randomise(model, seed)
    return model.eval(), tokenizer


def tiny_extractor(name: str, model: PreTrainedModel) -> Any:
    """What makes of a sound what a tiny model of sound reads."""
    if name == "whisper":
        return transformers.WhisperFeatureExtractor(feature_size=model.config.num_mel_bins, chunk_length=1)
    return transformers.Wav2Vec2FeatureExtractor() if name == "wav2vec2" else None


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draw every parameter anew: matrices N(0, 0.3²), biases N(0, 0.2²), gains 1 + N(0, 0.3²)."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        is_gain = parameter.ndim == 1 and name.endswith("weight")
        scale, centre = (0.3, 1.0) if is_gain else (0.3 if parameter.ndim > 1 else 0.2, 0.0)
        parameter.data.copy_(centre + scale * noise)


@cache
def tiny_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer of one of the three kinds in use, with the sample text's commonest words whole.

    The vocabularies are written down rather than trained, as trainers break ties differently from run to run.
    """
    tokenizer, special = {"wordpiece": _wordpiece, "bytes": _bytes, "pieces": _pieces}[kind]()
    opening, closing = special["bos_token"], special["eos_token"]
    start = f"{opening}:0 " if kind != "pieces" else ""
    ids = [(token, tokenizer.token_to_id(token)) for token in (opening, closing)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start}$A:0 {closing}:0", pair=f"{start}$A:0 {closing}:0 $B:1 {closing}:1", special_tokens=ids
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=POSITIONS, **special)
    fast.model_input_names = ["input_ids", "attention_mask"] + (["token_type_ids"] if kind == "wordpiece" else [])
    return fast


@cache
def _common_words(size: int = 300) -> list[str]:
    text = resources.files("headwise.text").joinpath("sample.txt").read_text("utf-8").lower()
    counts = Counter(re.findall(r"[a-z]+", text))
    return sorted(counts, key=lambda word: (-counts[word], word))[:size]


def _wordpiece() -> tuple[Tokenizer, dict[str, str]]:
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
               "mask_token": "[MASK]"}  # fmt: skip
    pieces = [*PRINTABLE, *(f"##{char}" for char in PRINTABLE), *_common_words()]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*special.values(), *pieces]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, {**special, "eos_token": "[SEP]", "bos_token": "[CLS]"}


def _bytes() -> tuple[Tokenizer, dict[str, str]]:
    merges = list(dict.fromkeys(merge for word in _common_words() for merge in _merges(f"Ġ{word}")))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = dict.fromkeys([*SENTENCE_SPECIAL.values(), *alphabet, *(a + b for a, b in merges)])
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, SENTENCE_SPECIAL


def _merges(word: str) -> list[tuple[str, str]]:
    """The merges that build a word from its left.

    >>> _merges("Ġthe")
    [('Ġ', 't'), ('Ġt', 'h'), ('Ġth', 'e')]
    """
    return [(word[:at], word[at]) for at in range(1, len(word))]


def _pieces() -> tuple[Tokenizer, dict[str, str]]:
    special = list(SENTENCE_SPECIAL.values())
    words = [(f"▁{word}", -2.0 - 0.01 * number) for number, word in enumerate(_common_words())]
    chars = [(char, -9.0) for char in ["▁", *PRINTABLE]]
    tokenizer = Tokenizer(models.Unigram([(t, 0.0) for t in special] + words + chars, special.index("<unk>"), False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, SENTENCE_SPECIAL

"""The model that is trained: its sizes, its vocabulary, and how it is written down for `hw.load`.

A MarianMTModel with the six decoder layers and four heads of the translation model in Kobayashi et al. 2020
(https://arxiv.org/abs/2004.10102, fairseq's transformer_iwslt_de_en), narrower and with a shallower encoder: two cores
and two hours are little.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = SPECIAL = ("<pad>", "</s>", "<unk>")
PAD_ID, EOS_ID = 0, 1  # the special tokens are the first of the vocabulary, in this order
POSITIONS = 256
# subtle: a blank belongs to the piece after it, and punctuation is a piece of its own. "Haus." and "Haus ." then both
# keep "Haus" whole, which pieces cut at blanks alone would not.
PIECES = r" ?[\p{L}\p{M}]+| ?\p{N}| ?[^\s\p{L}\p{M}\p{N}]"
QUOTES = {"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what is learned, but for the data and how long."""

    vocabulary: int = 6000  # shared by both languages, as are the embeddings and the output layer
    d_model: int = 192
    d_ff: int = 768
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 3
    dropout: float = 0.05
    smoothing: float = 0.1  # of the labels
    batch_tokens: int = 1024  # source or target, whichever is longer, padding included
    peak: float = 1e-3  # learning rate after the warm-up; then falls with the inverse root of the step
    warm_up: int = 600  # steps
    clip: float = 1.0  # norm of the gradient
    average: float = 0.999  # decay of the running average of the weights, which is what is kept in the end
    seed: int = 0


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-pair encoding of both languages in one vocabulary; offsets come with it, as the alignment study wants."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    replaced = [normalizers.Replace(old, new) for old, new in QUOTES.items()]
    tokenizer.normalizer = normalizers.Sequence([*replaced, normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), "isolated"),
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[*SPECIAL], limit_alphabet=200, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B:1 {EOS}:1", special_tokens=[(EOS, EOS_ID)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"], clean_up_tokenization_spaces=False,
    )  # fmt: skip


def new_model(recipe: Recipe, vocabulary: int) -> MarianMTModel:
    """An untrained model for `vocabulary` pieces, which may be fewer than were asked for.

    Weights start at N(0, 1/d_model), so that scaled embeddings have variance one.
    """
    torch.manual_seed(recipe.seed)
    config = MarianConfig(
        vocab_size=vocabulary, d_model=recipe.d_model, max_position_embeddings=POSITIONS,
        encoder_layers=recipe.encoder_layers, decoder_layers=recipe.decoder_layers,
        encoder_attention_heads=recipe.heads, decoder_attention_heads=recipe.heads,
        encoder_ffn_dim=recipe.d_ff, decoder_ffn_dim=recipe.d_ff,
        dropout=recipe.dropout, attention_dropout=0.0, activation_dropout=0.0, init_std=recipe.d_model**-0.5,
        scale_embedding=True, pad_token_id=PAD_ID, eos_token_id=EOS_ID, bos_token_id=None,
        decoder_start_token_id=PAD_ID, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=POSITIONS, bad_words_ids=[[PAD_ID]],
        pad_token_id=PAD_ID, eos_token_id=EOS_ID, decoder_start_token_id=PAD_ID,
    )  # fmt: skip
    return model


def export(model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> int:
    """Write model and tokenizer as float16, for `hw.load(folder, task="translation")`; the bytes of the weights."""
    copy.deepcopy(model).half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return (folder / "model.safetensors").stat().st_size

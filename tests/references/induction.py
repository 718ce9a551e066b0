"""A two-layer attention-only model with a perfect induction head, written down weight by weight.

The residual stream has three parts of |V| dimensions and one of positions: the token, the token before it (written by
layer 0), the guess (written by layer 1), and one unit vector a position. Layer 0, head 0 attends from position t to
t − 1 (the query is the position shifted by one) and copies the token into the second part. Layer 1, head 1 attends from
token x to places whose *previous* token is x and copies their token into the guess, which is what the output reads. The
other heads do nothing. A GPT-2 with norms that leave vectors alone as far as a norm can: all vectors have the same
length by design, so that the norm only scales.
"""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import headwise as hw

VOCABULARY, POSITIONS, HEADS = 29, 64, 2
SHARP = 400.0


def induction_model() -> GPT2LMHeadModel:
    size = 3 * VOCABULARY + POSITIONS + 1
    width = size + size % HEADS  # divisible by the heads
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=width, n_layer=2, n_head=HEADS, n_inner=1,
                        tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        parameter.data.zero_()
    token, before, guess = (slice(at * VOCABULARY, (at + 1) * VOCABULARY) for at in range(3))
    place = slice(3 * VOCABULARY, 3 * VOCABULARY + POSITIONS)
    base = model.transformer
    base.wte.weight.data[:, token] = torch.eye(VOCABULARY)
    base.wpe.weight.data[:, place] = torch.eye(POSITIONS)
    d_head = width // HEADS
    assert d_head >= max(POSITIONS, VOCABULARY)
    for block in base.h:
        for norm in (block.ln_1, block.ln_2):
            norm.weight.data.fill_(1.0)
    base.ln_f.weight.data.fill_(1.0)

    def head(number: int) -> list[slice]:
        start = number * d_head
        return [slice(part * width + start, part * width + start + d_head) for part in range(3)]

    first, (q, k, v) = base.h[0].attn, head(0)
    first.c_attn.weight.data[place, q.start : q.start + POSITIONS] = SHARP * torch.eye(POSITIONS).roll(-1, 1)
    first.c_attn.weight.data[place, k.start : k.start + POSITIONS] = torch.eye(POSITIONS)
    first.c_attn.weight.data[token, v.start : v.start + VOCABULARY] = torch.eye(VOCABULARY)
    first.c_proj.weight.data[0:VOCABULARY, before] = torch.eye(VOCABULARY)
    second, (q, k, v) = base.h[1].attn, head(1)
    second.c_attn.weight.data[token, q.start : q.start + VOCABULARY] = SHARP * torch.eye(VOCABULARY)
    second.c_attn.weight.data[before, k.start : k.start + VOCABULARY] = torch.eye(VOCABULARY)
    second.c_attn.weight.data[token, v.start : v.start + VOCABULARY] = torch.eye(VOCABULARY)
    second.c_proj.weight.data[d_head : d_head + VOCABULARY, guess] = torch.eye(VOCABULARY)
    model.lm_head.weight.data[:, guess] = 5 * torch.eye(VOCABULARY)
    return model


def loaded() -> hw.Model:
    """The model with its words: w0 (padding), w1 (the beginning), w2 …"""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0", bos_token="w1", model_max_length=64)
    return hw.load((induction_model(), fast))

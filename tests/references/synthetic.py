"""Layers made of random numbers, every axis of another prime length so that a swapped one cannot pass."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.types import Circuit, Layer, Norm

BATCH, HEADS, TOKENS, D_HEAD, D_MODEL = 2, 3, 13, 5, 17


def random_norm(generator: torch.Generator, *, centred: bool, size: int = D_MODEL) -> Norm:
    gain, bias = torch.randn(2, size, generator=generator)
    return Norm(1 + 0.3 * gain, bias, 1e-5, centred)


def visible_keys(kind: str, key_mask: Tensor, *, window: int = 7) -> Tensor:
    """[batch query key] under a "full", "causal" or "window" mask."""
    query, key = torch.arange(key_mask.shape[1])[:, None], torch.arange(key_mask.shape[1])
    allowed = {"full": key == key, "causal": key <= query, "window": (key <= query) & (key > query - window)}[kind]
    return (allowed & key_mask[:, None]).expand(-1, key_mask.shape[1], -1)


def layer(
    kind: str = "full",
    *,
    seed: int = 0,
    lengths: tuple[int, ...] = (TOKENS, 7),
    kv_heads: int = HEADS,
    heads: int = HEADS,
    d_head: int = D_HEAD,
    inner: bool = False,
    centred: bool = True,
    scale: float = 1.0,
    values: Tensor | None = None,
    w_o: Tensor | None = None,
    window: int = 7,
    gated: bool = False,
) -> Layer:
    """A self-attention layer whose output is what its weights, values and projection give."""
    generator = torch.Generator().manual_seed(seed)
    batch, tokens = len(lengths), max(lengths)
    key_mask = torch.arange(tokens) < torch.tensor(lengths)[:, None]
    visible = visible_keys(kind, key_mask, window=window)
    scores = 2 * torch.randn(batch, heads, tokens, tokens, generator=generator)
    drawn = torch.randn(batch, kv_heads, tokens, d_head, generator=generator)
    drawn_w_o = torch.randn(heads, d_head, D_MODEL, generator=generator)
    w_o = drawn_w_o if w_o is None else w_o
    value = (drawn if values is None else values) * key_mask[:, None, :, None]
    alpha = scores.masked_fill(~visible[:, None], -torch.inf).softmax(-1).nan_to_num() * key_mask[:, None, :, None]
    b_o = torch.randn(D_MODEL, generator=generator)
    mixed = alpha @ value.repeat_interleave(heads // kv_heads, dim=1)
    gate = torch.randn(batch, heads, tokens, d_head, generator=generator) if gated else None
    circuit = Circuit(
        w_o, b_o, scale,
        inner=random_norm(generator, centred=centred) if inner else None,
        outer=random_norm(generator, centred=centred),
        last=random_norm(generator, centred=centred),
        post=not inner,
    )  # fmt: skip
    return Layer(
        stack="self", index=0, first_row=0, alpha=alpha, value=value, visible=visible, query_mask=key_mask,
        key_mask=key_mask, out=torch.einsum("bhqd,hde->bqe", mixed if gate is None else mixed * gate, w_o) + b_o,
        residual=torch.randn(batch, tokens, D_MODEL, generator=generator), circuit=circuit,
        gate=gate,
    )  # fmt: skip


def blocks(whole: Layer, size: int) -> list[Layer]:
    """A layer in blocks of query rows that share what depends on the keys, as the capture hands on a long text."""
    shared: dict = {}
    cuts = [slice(start, start + size) for start in range(0, whole.alpha.shape[2], size)]
    return [
        Layer(
            stack=whole.stack, index=whole.index, first_row=cut.start, alpha=whole.alpha[:, :, cut], value=whole.value,
            visible=whole.visible[:, cut], query_mask=whole.query_mask[:, cut], key_mask=whole.key_mask,
            out=whole.out[:, cut], residual=None if whole.residual is None else whole.residual[:, cut],
            circuit=whole.circuit, gate=None if whole.gate is None else whole.gate[:, :, cut], text_memo=shared,
        )
        for cut in cuts
    ]  # fmt: skip


def alone(whole: Layer, text: int) -> Layer:
    """One text of a batch with its padding cropped: what the text by itself would give."""
    n, m = int(whole.query_mask[text].sum()), int(whole.key_mask[text].sum())
    one = slice(text, text + 1)
    return Layer(
        stack=whole.stack, index=whole.index, first_row=whole.first_row, alpha=whole.alpha[one, :, :n, :m],
        value=whole.value[one, :, :m], visible=whole.visible[one, :n, :m], query_mask=whole.query_mask[one, :n],
        key_mask=whole.key_mask[one, :m], out=whole.out[one, :n],
        residual=None if whole.residual is None else whole.residual[one, :n], circuit=whole.circuit,
    )  # fmt: skip

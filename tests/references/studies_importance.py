"""Importance the slow way: one text at a time, Hugging Face's own maps, sums in loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

import headwise as hw
from headwise.types import Encoding

KINDS = ("first", "separator", "punctuation", "other")
WORD = 2**64


def importance(model: hw.Model, texts: Sequence[str], seed: int) -> tuple[np.ndarray, float]:
    """Mean |∂loss/∂α| [layer head kind] and mean loss over texts that are the documents 0, 1, … of a corpus."""
    means: list[list[np.ndarray]] = [[] for _ in KINDS]
    losses = []
    for document, text in enumerate(texts):
        encoding = model.encode(text)
        gradient, loss, hidden = gradients(model, encoding, document, seed)
        losses.append(loss)
        kinds = [kind(model, encoding, at, at in hidden) for at in range(len(encoding))]
        for number, name in enumerate(KINDS):
            found = [
                gradient[:, :, query, key]
                for query in range(len(encoding))
                for key in range(query + 1 if model.causal else len(encoding))
                if kinds[key] == name
            ]
            if found:
                means[number].append(np.abs(found).mean(0))
    shape = gradient.shape[:2]
    return np.stack([np.mean(m, axis=0) if m else np.full(shape, np.nan) for m in means], -1), float(np.mean(losses))


def gradients(model: hw.Model, text: Encoding, document: int, seed: int) -> tuple[np.ndarray, float, set[int]]:
    """[layer head query key], the loss and the masked positions of one text."""
    inputs = dict(model.batch([text]).inputs)
    hidden = set() if model.causal else masked(text, document, seed)
    mask = model.tokenizer.mask_token_id
    inputs["input_ids"] = torch.tensor([[mask if at in hidden else i for at, i in enumerate(text.ids)]])
    model.hf.set_attn_implementation("eager")
    output = model.hf(**inputs, output_attentions=True)
    logs = output.logits[0].log_softmax(-1)  # subtle: with labels=, Hugging Face would take this in float32
    asked = sorted(hidden) or range(1, len(text))
    loss = -sum(logs[at if hidden else at - 1, text.ids[at]] for at in asked) / len(asked)
    found = torch.autograd.grad(loss, output.attentions)
    return np.stack([g[0].double().numpy() for g in found]), float(loss.detach()), hidden


def of_translation(model: hw.Model, pairs: Sequence[tuple[str, str]]) -> tuple[dict[str, np.ndarray], float]:
    """The same of the target's loss, by stack: one pair at a time, Hugging Face's own maps."""
    means: dict[str, list[list[np.ndarray]]] = {s: [[] for _ in KINDS] for s in ("encoder", "decoder", "cross")}
    losses = []
    for source, target in pairs:
        text, read = model.encode(source), model.encode_target(target)
        model.hf.set_attn_implementation("eager")
        inputs = {"input_ids": torch.tensor([text.ids]), "decoder_input_ids": torch.tensor([read.ids])}
        output = model.hf(**inputs, output_attentions=True)
        logs = output.logits[0].log_softmax(-1)
        loss = -sum(logs[at, read.ids[at + 1]] for at in range(len(read) - 1)) / (len(read) - 1)
        losses.append(float(loss.detach()))
        maps = {"encoder": output.encoder_attentions, "decoder": output.decoder_attentions,
                "cross": output.cross_attentions}  # fmt: skip
        for stack, found in maps.items():
            gradient = np.stack([g[0].double().numpy() for g in torch.autograd.grad(loss, found, retain_graph=True)])
            side, causal = (read, True) if stack == "decoder" else (text, False)
            for number, name in enumerate(KINDS):
                cells = [
                    gradient[:, :, query, key]
                    for query in range(gradient.shape[2])
                    for key in range(query + 1 if causal else gradient.shape[3])
                    if kind_of(side, key, causal) == name
                ]
                if cells:
                    means[stack][number].append(np.abs(cells).mean(0))
    shape = gradient.shape[:2]
    stacked = {
        stack: np.stack([np.mean(m, axis=0) if m else np.full(shape, np.nan) for m in kinds], -1)
        for stack, kinds in means.items()
    }
    return stacked, float(np.mean(losses))


def masked(text: Encoding, document: int, seed: int) -> set[int]:
    plain = [at for at in range(len(text)) if not text.special[at]]
    # subtle: the order is that of signed integers
    plain.sort(key=lambda at: (splitmix(document * 2**24 + at, seed) + 2**63) % WORD)
    return set(plain[: max(1, round(0.15 * len(plain)))])


def splitmix(number: int, seed: int) -> int:
    z = number ^ ((seed + 1) * 0x9E3779B97F4A7C15 % WORD)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def kind(model: hw.Model, text: Encoding, at: int, hidden: bool) -> str:
    return "other" if hidden else kind_of(text, at, model.causal)


def kind_of(text: Encoding, at: int, causal: bool) -> str:
    if at == 0 and (causal or text.special[0]):
        return "first"
    if text.special[at]:
        return "separator"
    return "punctuation" if text.tokens[at] in (".", ",") else "other"

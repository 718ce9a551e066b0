"""Which cross-attention heads of a speech model follow the sound:  python experiments/speech/heads.py table.json

Sentences are spoken by espeak-ng, which marks the second at which each word begins (or, with --apart, word by word).
The decoder reads the true text. For every head, α being the row that predicts a token (the one before it) or the one
that reads it:

    mass    mean over tokens of  Σ_{frames of the token's word} α
    share   the same, of rows that are scaled to 1 within the sound (Whisper reads thirty seconds, mostly silence)
    time    correlation of  Σ_frames time · α  within the sound with the middle of the word, mean over sentences
    timing  minus the mean error, in seconds, of where words begin and end when one head times them by Whisper's own
            recipe (timing.py)

The control gives every token the seconds of another word of its sentence. `KNOWN` are the heads that OpenAI published
for tiny.en, found by its own timings of other sound; they are compared with at the end and used nowhere before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from timing import word_times
from torch import Tensor
from voice import Spoken, in_one, one_by_one

import headwise as hw
from headwise.models.senses import read_sound
from headwise.types import Encoding

KNOWN = ((1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4))
VOICES = ("en-us", "en", "en-us+f3")  # "en" is British; by the name "en-gb" espeak-ng 1.51 loses what is voiced
SENTENCES = (
    "The old dog slept under the kitchen table all morning.",
    "She opened the window and looked at the garden.",
    "We will meet again at seven in front of the station.",
    "My brother works in a small hotel near the river.",
    "The children played football until it became dark.",
    "Please put the yellow book back on the shelf.",
    "Nobody knew where the money had been hidden.",
    "It rained for three days and the road was closed.",
    "The doctor told him to drink more water every day.",
    "They bought a new house with a very large kitchen.",
    "The train from London was forty minutes late today.",
    "I have never seen such a beautiful mountain before.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="demo-whisper")
    parser.add_argument("--first", type=int, default=len(SENTENCES) * len(VOICES))
    parser.add_argument("--heard", type=int, default=4, help="sentences that the model also writes down itself")
    parser.add_argument("--apart", action="store_true", help="speak word by word")
    asked = parser.parse_args()
    model = hw.load(asked.model, task="transcription")
    pairs = [(sentence, voice) for voice in VOICES for sentence in SENTENCES][: asked.first]
    kept: dict[str, list[Tensor]] = {}
    heard = []
    for sentence, voice in pairs:
        sound = one_by_one(sentence, voice) if asked.apart else in_one(sentence, voice)
        if sound is None:
            print("left out, two words have one mark:", sentence, voice, flush=True)
            continue
        for name, scores in scores_of(model, sentence, sound).items():
            kept.setdefault(name, []).append(scores)
        if len(heard) < asked.heard:
            heard.append([sentence, transcribed(model, sound)])
            print(heard[-1], flush=True)
    tables = {name: {**found(torch.cat(scores, 2)), "interval": interval(scores)} for name, scores in kept.items()}
    whole = {"model": asked.model, "sentences": len(kept["mass predicts"]), "heard": heard, "scores": tables}
    asked.out.write_text(json.dumps(whole, indent=1))
    for name, table in tables.items():
        print(name, {key: table[key] for key in ("recall", "interval", "top", "count", "auc")})


def scores_of(model: hw.Model, sentence: str, sound: Spoken) -> dict[str, Tensor]:
    """[layer head token] or, for the correlation, [layer head 1]."""
    source, target = read_sound(model, (sound.samples, sound.rate)), model.encode_target(sentence)
    layers: list[Tensor] = []
    with torch.no_grad():
        model.run(
            model.batch([source], [target]), lambda layer: layers.append(layer.alpha[0]), rows=0,
            wanted=lambda site: site.stack == "cross",
        )  # fmt: skip
    alpha = torch.stack(layers)  # layer head query frame
    inside = torch.tensor([source.words[unit] != "silence" for unit in source.unit]).to(alpha)
    within = alpha * inside / (alpha * inside).sum(-1, keepdim=True)
    rows, spans = zip(*tokens_of(target, sentence, sound), strict=True)
    words = list(dict.fromkeys(spans))
    moved = [words[(words.index(span) + len(words) // 2) % len(words)] for span in spans]
    found = {}
    for name, places in (("predicts", rows), ("reads", [row + 1 for row in rows])):
        found[f"mass {name}"] = mass_in(alpha, source, places, spans)
        found[f"share {name}"] = mass_in(within, source, places, spans)
        found[f"time {name}"] = follows(within, source, places, spans)
    found["timing"] = -errors_of(within[..., inside.bool()], target, sentence, sound, source.places[0][1])
    return {**found, "control share predicts": mass_in(within, source, rows, moved)}


def errors_of(
    within: Float[Tensor, "layer head query frame"], target: Encoding, sentence: str, sound: Spoken, frame: float
) -> Float[Tensor, "layer head word"]:
    """Seconds between where a head has a word begin and end and where it does, mean of both."""
    ends = np.cumsum([len(word) + 1 for word in sentence.split()])
    texts = [at for at, (start, stop) in enumerate(target.offsets) if not target.special[at] and stop > start]
    words = [int(np.searchsorted(ends, target.offsets[at][1] - 1, side="right")) for at in texts]
    rows = within[:, :, [*(at - 1 for at in texts), texts[-1]]].flatten(0, 1).double().numpy()
    true = np.array([sound.words[word][1:] for word in dict.fromkeys(words)])
    errors = np.abs(word_times(rows, words, frame) - true).mean(-1)
    return torch.from_numpy(errors).unflatten(0, within.shape[:2])


def follows(
    within: Float[Tensor, "layer head query frame"],
    source: Encoding,
    rows: Sequence[int],
    spans: Sequence[tuple[float, float]],
) -> Float[Tensor, "layer head 1"]:
    """The correlation, over tokens, of the mean time of a row with the middle of its word."""
    middle = torch.tensor([(start + stop) / 2 for start, stop in source.places]).to(within)
    times = torch.einsum("lhtf,f->lht", within[:, :, list(rows)], middle)
    true = torch.tensor([(start + stop) / 2 for start, stop in spans]).to(within)
    times, true = times - times.mean(-1, keepdim=True), true - true.mean()
    lengths = times.norm(dim=-1, keepdim=True) * true.norm()
    return (times * true).sum(-1, keepdim=True) / lengths.clamp(min=1e-9)


def tokens_of(target: Encoding, sentence: str, sound: Spoken) -> Iterator[tuple[int, tuple[float, float]]]:
    """(the row that predicts it, its word's seconds) of every token of a word."""
    ends = np.cumsum([len(word) + 1 for word in sentence.split()])
    for at, (start, stop) in enumerate(target.offsets):
        if not target.special[at] and stop > start:
            word = int(np.searchsorted(ends, stop - 1, side="right"))
            yield at - 1, sound.words[word][1:]


def mass_in(
    alpha: Float[Tensor, "layer head query frame"],
    source: Encoding,
    rows: Sequence[int],
    spans: Sequence[tuple[float, float]],
) -> Float[Tensor, "layer head token"]:
    """The weight of a row on the frames whose middle lies within a span of seconds."""
    middle = torch.tensor([(start + stop) / 2 for start, stop in source.places])
    inside = torch.stack([(middle >= start) & (middle < stop) for start, stop in spans]).to(alpha)
    return torch.einsum("lhtf,tf->lht", alpha[:, :, list(rows)], inside)


def interval(scores: Sequence[Float[Tensor, "layer head any"]], draws: int = 1000) -> list[float]:
    """Where 95 % of the recalls lie when sentences are drawn again."""
    sums, counts = torch.stack([score.sum(-1) for score in scores]), torch.tensor([float(s.shape[-1]) for s in scores])
    drawn = torch.randint(len(scores), (draws, len(scores)), generator=torch.Generator().manual_seed(0))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)[:, None, None]
    tops = means.flatten(1).topk(len(KNOWN)).indices
    known = torch.tensor([layer * means.shape[-1] + head for layer, head in KNOWN])
    return torch.isin(tops, known).sum(-1).double().quantile(torch.tensor([0.025, 0.975]).double()).tolist()


def transcribed(model: hw.Model, sound: Spoken) -> str:
    trace = model.trace(audio=(sound.samples, sound.rate))
    assert trace.target is not None
    words = [word for word, unit in zip(trace.target.words, range(len(trace.target.words)), strict=True)
             if not word.startswith("<|")]  # fmt: skip
    return " ".join(words)


def found(scores: Float[Tensor, "layer head token"]) -> dict[str, Any]:
    """Heads by their score, how many of the published ones are among the first eight, and the area under the curve."""
    mean, error = scores.mean(-1), scores.std(-1) / scores.shape[-1] ** 0.5
    heads = [(layer, head) for layer in range(len(mean)) for head in range(mean.shape[1])]
    order = sorted(heads, key=lambda head: -float(mean[head]))
    known, others = ([float(mean[h]) for h in heads if (h in KNOWN) is is_known] for is_known in (True, False))
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in known for b in others]
    return {
        "recall": len(set(order[: len(KNOWN)]) & set(KNOWN)), "top": [list(head) for head in order[: len(KNOWN)]],
        "count": scores.shape[-1], "auc": sum(wins) / len(wins),
        "table": [{"layer": layer, "head": head, "score": round(float(mean[layer, head]), 4),
                   "se": round(float(error[layer, head]), 4), "published": (layer, head) in KNOWN}
                  for layer, head in order],
    }  # fmt: skip


if __name__ == "__main__":
    main()

"""A masked-LM head for the demo model: the encoder frozen, word embeddings tied, learned on texts that are not scored.

    python experiments/masked-lm/head.py --data ../shared/data

The encoder reads every training segment in a few passes, with 15 % of its tokens masked as study `importance` masks
them; what it makes of the masked tokens is kept (states-SEED-NNNN.safetensors), and the head is learned from that. A
run that was stopped goes on where it was and ends with the same weights: the order of the tokens depends on the seed
and the epoch alone. `hw.load(folder, task="masked-lm")` opens the result.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import AutoTokenizer, BertForMaskedLM

import headwise as hw
from headwise.models.capture import quiet
from headwise.models.model import Model
from headwise.models.packaged import cache_root, packaged_folder
from headwise.results.files import write_files
from headwise.studies.importance import lesson
from headwise.text.corpus import Document, open_corpus
from headwise.text.segments import cut_at, segments
from headwise.types import Encoding

TRAIN, SCORED = "wikitext2/wiki.valid.raw", "wikitext2/wiki.test.raw"
CHUNK = 64  # segments of a file of states
TOGETHER = 8  # segments of a forward pass
STATE, RECIPE = "head.safetensors", "recipe.json"


@dataclass(frozen=True)
class Recipe:
    """All that the weights depend on, besides the texts and the encoder."""

    passes: int = 3  # over the texts, each with other tokens masked
    epochs: int = 4
    batch: int = 256  # masked tokens
    rate: float = 3e-3  # at the first step; down in a line to 0
    tokens: int = 128  # of a segment: two paragraphs
    segments: int = 2000  # at the most
    scored: int = 200  # segments for the perplexity
    seed: int = 0


def read(model: Model, path: Path, recipe: Recipe, most: int) -> list[Encoding]:
    """Pairs of paragraphs, as the claim's own run reads them."""

    def spans(text: str) -> list[tuple[int, int]]:
        found = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return found["offset_mapping"]  # type: ignore[return-value]

    special = model.tokenizer.num_special_tokens_to_add(pair=True)
    pairs: Iterator[Document] = segments(open_corpus(path).documents(), cut_at(spans), recipe.tokens, special=special)
    return [model.encode(one.text, one.pair) for one in islice(pairs, most)]


# What the frozen encoder makes of masked tokens.


@torch.no_grad()
def states(model: Model, texts: Sequence[Encoding], first: int, seed: int) -> dict[str, Tensor]:
    """Vectors of the masked tokens after the last layer, and the tokens they were; `first` numbers the texts."""
    vectors, tokens = [], []
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        asked = lesson(model, some, first + start + torch.arange(len(some)), seed)
        hidden = model.hf.base_model(**model.batch(asked.texts).inputs).last_hidden_state
        vectors.append(hidden[asked.labels >= 0])
        tokens.append(asked.labels[asked.labels >= 0])
    return {"vectors": torch.cat(vectors), "tokens": torch.cat(tokens)}


def kept_states(model: Model, texts: Sequence[Encoding], work: Path, recipe: Recipe) -> dict[str, Tensor]:
    """The states of all texts in all passes; those of a chunk that is there already are read."""
    chunks = []
    for seed, start in product(range(recipe.seed, recipe.seed + recipe.passes), range(0, len(texts), CHUNK)):
        path = work / f"states-{seed}-{start // CHUNK:04}.safetensors"
        if not path.is_file():
            write_files(work, {path.name: save(states(model, texts[start : start + CHUNK], start, seed))})
            print(f"seed {seed}: {min(start + CHUNK, len(texts))} of {len(texts)} segments read", flush=True)
        chunks.append(load_file(path))
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in ("vectors", "tokens")}


# The head.


def fresh(source: Path, seed: int) -> tuple[BertForMaskedLM, Any]:
    """The encoder of a folder, frozen, under a new head whose output matrix is the word embeddings."""
    torch.manual_seed(seed)
    with quiet():
        net = BertForMaskedLM.from_pretrained(source, tie_word_embeddings=True)
    net.requires_grad_(False)
    net.cls.predictions.transform.requires_grad_(True)
    net.cls.predictions.bias.requires_grad_(True)
    return net.eval(), AutoTokenizer.from_pretrained(source)


def frequencies(tokens: Tensor, vocabulary: int) -> Tensor:
    """log p of every token by its count, one added to each: where the bias begins, and the baseline."""
    counts = torch.bincount(tokens, minlength=vocabulary).double() + 1
    return (counts / counts.sum()).log().float()


def learned(net: BertForMaskedLM) -> dict[str, Tensor]:
    return {name: weight for name, weight in net.named_parameters() if weight.requires_grad}


def learn(net: BertForMaskedLM, seen: dict[str, Tensor], recipe: Recipe, work: Path) -> list[float]:
    """Train the head epoch by epoch; the mean loss of each, in nats."""
    adam = torch.optim.Adam(learned(net).values(), lr=recipe.rate)
    curve = restore(net, adam, work / STATE)
    count = len(seen["tokens"])
    steps = math.ceil(count / recipe.batch)
    for epoch in range(len(curve), recipe.epochs):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(recipe.seed * 1009 + epoch))
        total = 0.0
        for step, chosen in enumerate(order.split(recipe.batch)):
            adam.param_groups[0]["lr"] = recipe.rate * (1 - (epoch * steps + step) / (recipe.epochs * steps))
            loss = surprise(net, seen["vectors"][chosen], seen["tokens"][chosen])
            loss.backward()
            adam.step()
            adam.zero_grad()
            total += loss.item() * len(chosen)
        curve.append(total / count)
        write_files(work, {STATE: save(stored(net, adam), {"curve": json.dumps(curve)})})
        print(f"epoch {epoch + 1} of {recipe.epochs}: {curve[-1]:.3f} nats a masked token", flush=True)
    return curve


def surprise(net: BertForMaskedLM, vectors: Tensor, tokens: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(net.cls(vectors), tokens)


def stored(net: BertForMaskedLM, adam: torch.optim.Adam) -> dict[str, Tensor]:
    tensors = {f"head/{name}": weight.detach() for name, weight in learned(net).items()}
    for number, moments in adam.state_dict()["state"].items():
        tensors |= {f"adam/{number}/{name}": torch.as_tensor(moment) for name, moment in moments.items()}
    return tensors


def restore(net: BertForMaskedLM, adam: torch.optim.Adam, path: Path) -> list[float]:
    """The losses of the epochs that are done, whose weights and moments go into the head and Adam."""
    if not path.is_file():
        return []
    with safe_open(path, "pt") as file:
        curve = json.loads(file.metadata()["curve"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    moments: dict[int, dict[str, Tensor]] = {}
    for name, weight in learned(net).items():
        weight.data.copy_(tensors[f"head/{name}"])
    for name, tensor in tensors.items():
        if name.startswith("adam/"):
            _, number, moment = name.split("/")
            moments.setdefault(int(number), {})[moment] = tensor
    adam.load_state_dict({**adam.state_dict(), "state": moments})
    return curve


@torch.no_grad()
def scored(net: BertForMaskedLM, seen: dict[str, Tensor], log_p: Tensor) -> dict[str, float]:
    """Nats a masked token, perplexity and how often the token is the first guess; the baseline knows no context."""
    logits = torch.cat([net.cls(some) for some in seen["vectors"].split(256)])
    nats = torch.nn.functional.cross_entropy(logits, seen["tokens"]).item()
    alone = -log_p[seen["tokens"]].mean().item()
    right = (logits.argmax(-1) == seen["tokens"]).float().mean().item()
    numbers = {"nats": nats, "perplexity": math.exp(nats), "accuracy": right, "frequencies alone": math.exp(alone)}
    return {name: round(value, 4) for name, value in numbers.items()}


def begin(work: Path, recipe: Recipe) -> None:
    """A folder of work is of one recipe."""
    path = work / RECIPE
    if path.is_file() and (begun := json.loads(path.read_bytes())) != asdict(recipe):
        raise SystemExit(f"{work} was begun with {begun}; choose another --out, or delete it to begin again.")
    write_files(work, {RECIPE: json.dumps(asdict(recipe)).encode()})


def make(recipe: Recipe, source: Path, data: Path, out: Path) -> dict[str, Any]:
    """The head for the encoder in folder `source`, written to folder `out`; what came of it."""
    net, tokenizer = fresh(source, recipe.seed)
    model = hw.load((net, tokenizer))
    work = out.with_name(f".{out.name}-training")
    begin(work, recipe)
    seen = kept_states(model, read(model, data / TRAIN, recipe, recipe.segments), work, recipe)
    log_p = frequencies(seen["tokens"], net.config.vocab_size)
    net.cls.predictions.bias.data.copy_(log_p)
    curve = learn(net, seen, recipe, work)
    texts = read(model, data / SCORED, recipe, recipe.scored)
    found = scored(net, states(model, texts, 0, recipe.seed), log_p)
    with quiet():
        net.save_pretrained(out)
        tokenizer.save_pretrained(out)
    return {"recipe": asdict(recipe), "train": TRAIN, "masked tokens": len(seen["tokens"]), "curve": curve,
            "scored": {"file": SCORED, "segments": len(texts), **found}}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that has wikitext2")
    parser.add_argument("--out", type=Path, default=cache_root() / "masked-lm" / "demo")
    parser.add_argument("--record", type=Path, default=Path(__file__).parent, help="where head.json goes")
    for name, kind in {
        "passes": int,
        "epochs": int,
        "batch": int,
        "rate": float,
        "segments": int,
        "scored": int,
        "seed": int,
    }.items():
        parser.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    data, out, record = (options.pop(name) for name in ("data", "out", "record"))
    found = make(Recipe(**options), packaged_folder("demo"), data, out.expanduser())
    write_files(record, {"head.json": (json.dumps(found, indent=1) + "\n").encode()})
    print(json.dumps(found["scored"]), f"→ {out}")


if __name__ == "__main__":
    main()

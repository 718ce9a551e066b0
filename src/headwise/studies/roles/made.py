"""Texts made for a role: random tokens repeated once, and a needle in a text; and what is to be said there.

`repeat`: r₁ … r_n r₁ … r_n with r drawn from the plain tokens of the vocabulary; the second half can only be foretold
by looking back (Olsson et al. 2022). `retrieve`: a sentence with a made-up fact stands in a text about something else,
and its beginning again at the end (Wu et al. 2024); the fact's tokens are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from headwise.interventions.outcomes import Question, asked_only
from headwise.models.editing import Place, keeping
from headwise.models.model import Model
from headwise.models.values import value_maps
from headwise.studies.roles.scores import shares
from headwise.text.corpus import open_corpus
from headwise.types import Encoding, Layer

LENGTH = 24  # tokens that are repeated
NAMES = ("Anna", "Peter", "Maria", "Tom", "Clara", "Hugo", "Nina", "Paul")
FACTS = ("seven red apples", "the blue north gate", "green river stone", "forty small horses", "a cold black window",
         "two silver birds", "the old winter garden", "nine paper boats")  # fmt: skip
AROUND = 40  # tokens of the text before and after a needle
NEEDLE = 30  # tokens of a needle and its beginning, at most about
SAMPLE = 400  # tokens of the vocabulary that a circuit is tried on


@dataclass(frozen=True)
class Made:
    """A text whose token at place q + 1 stands already at `source[q]`; −1 where it does not."""

    text: Encoding
    source: Int[Tensor, " token"]

    def question(self, model: Model) -> Question:
        ids = torch.tensor([*self.text.ids[1:], -1])
        labels = torch.where(self.source >= 0, ids, -1).to(model.hf.device)
        return Question("next-token", model.batch([self.text]).inputs, labels)


def repeated(model: Model, count: int, seed: int) -> Iterator[Made]:
    """Random tokens, twice, after the token that begins a text."""
    generator = torch.Generator().manual_seed(seed)
    plain = torch.tensor(plain_tokens(model))
    first = opening(model)
    for _ in range(count):
        half = plain[torch.randperm(len(plain), generator=generator)[:LENGTH]].tolist()  # none twice: one place each
        source = torch.full((len(first) + 2 * len(half),), -1)
        start = len(first) + len(half)  # subtle: the first token of the second half is not foretold by anything
        source[start:-1] = torch.arange(len(first) + 1, start)
        yield Made(encoded(model, [*first, *half, *half]), source)


def needles(model: Model, count: int, seed: int) -> Iterator[Made]:
    """`count` texts of the sample, each with a fact in its middle and the fact's beginning at its end."""
    documents = islice(open_corpus("sample").documents(), 2 * count)
    texts = [ids_of(model, document.text) for document in documents]
    around = AROUND if model.limit is None else min(AROUND, (model.limit - NEEDLE) // 2)
    long = [ids for ids in texts if len(ids) >= 2 * around] or [ids * (2 * around) for ids in texts if ids]
    for number in range(count):
        at = (number + seed) % len(NAMES)
        fact = ids_of(model, f" {FACTS[(number * 3 + seed) % len(FACTS)]}")
        lead = ids_of(model, f" The secret of {NAMES[at]} is")
        filler = long[number % len(long)]
        before = [*opening(model), *filler[:around], *lead]
        ids = [*before, *fact, *ids_of(model, "."), *filler[around : 2 * around], *lead, *fact]
        source = torch.full((len(ids),), -1)
        source[len(ids) - len(fact) - 1 : -1] = torch.arange(len(before), len(before) + len(fact))
        yield Made(encoded(model, ids), source)


@dataclass(frozen=True)
class Seen:
    """What one pass a text tells. `scores`: mean share of attention on the source, and how often the source is the most
    attended key (hits). `means` of what W_O reads of each head, over all tokens."""

    scores: dict[Place, Float[Tensor, "kind head"]]
    means: dict[Place, Float64[Tensor, "head d_head"]]


def seen(model: Model, texts: Sequence[Made], quantity: str) -> Seen:
    """Look at every text once; the output layer reads only what is asked."""
    found: dict[Place, list[Tensor]] = {}
    total: dict[Place, Tensor] = {}
    for made in texts:

        def see(layer: Layer, made: Made = made) -> None:
            rows = (made.source >= 0).nonzero()[:, 0]
            keys = made.source[rows]
            maps = shares(layer, quantity)[0][:, rows]
            on = maps[:, torch.arange(len(rows)), keys]
            both = torch.stack([on.mean(-1), (maps.argmax(-1) == keys).float().mean(-1)])
            found.setdefault((layer.stack, layer.index), []).append(both.double().cpu())

        with torch.no_grad(), keeping(model) as read, asked_only(model, made.question(model)):
            model.run(model.batch([made.text]), see, rows=0)
        for place, x in read.items():
            total[place] = total.get(place, 0) + x.flatten(0, -3).double().sum(0)
    tokens = sum(len(made.text) for made in texts)
    scores = {place: torch.stack(each).mean(0) for place, each in found.items()}
    return Seen(scores, {place: each / tokens for place, each in total.items()})


def copying(model: Model, seed: int) -> dict[Place, Float[Tensor, " head"]]:
    """z of a token's own logit in what the head writes of it: (own − mean) / deviation over a sample of tokens, mean.

    x ↦ x W_V W_O W_U with x the token's embedding at length √d, as a norm would give it (without its gain).
    """
    rows = model.hf.get_output_embeddings()
    if rows is None or model.is_encoder_decoder:
        return {}
    plain = torch.tensor(plain_tokens(model))
    chosen = plain[torch.randperm(len(plain), generator=torch.Generator().manual_seed(seed))[:SAMPLE]]
    x = model.hf.get_input_embeddings().weight[chosen].detach().double()  # type: ignore[index]
    u = rows.weight[chosen].detach().double()  # type: ignore[index]
    if x.shape[-1] != model.sites()[0].circuit.w_o.shape[-1]:
        return {}  # embeddings of another width (ALBERT) are not what a head reads
    x = torch.nn.functional.normalize(x, dim=-1) * x.shape[-1] ** 0.5
    values, found = value_maps(model), {}
    for site in model.sites():
        value = values.get((site.stack, site.index))
        if value is None:
            return {}  # a model that does more to its values than a matrix can
        w_v = value.w_v.double().repeat_interleave(len(site.circuit.w_o) // len(value.w_v), dim=0)
        logits = torch.einsum("htf,hfe,ue->htu", torch.einsum("td,hdf->htf", x, w_v), site.circuit.w_o.double(), u)
        own = logits.diagonal(dim1=1, dim2=2)
        found[site.stack, site.index] = ((own - logits.mean(-1)) / logits.std(-1)).mean(-1).cpu()
    return found


def plain_tokens(model: Model) -> list[int]:
    """Tokens of the vocabulary that are not special."""
    special = set(model.tokenizer.all_special_ids)
    size = min(len(model.tokenizer), len(model.hf.get_input_embeddings().weight))  # type: ignore[arg-type]
    return [token for token in range(size) if token not in special]


def opening(model: Model) -> list[int]:
    first = model.tokenizer.bos_token_id
    return [first] if isinstance(first, int) else []


def ids_of(model: Model, text: str) -> list[int]:
    return list(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])  # type: ignore[arg-type]


def encoded(model: Model, ids: list[int]) -> Encoding:
    tokens = tuple(str(token) for token in model.tokenizer.convert_ids_to_tokens(ids))
    places = tuple(range(len(ids)))
    return Encoding(
        tokens, tuple(ids), (False,) * len(ids), (0,) * len(ids), ((0, 0),) * len(ids), unit=places, words=tokens
    )  # fmt: skip

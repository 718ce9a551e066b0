"""`matters(model, text)`: how far what a model says moves without each head, to first order or exactly."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.errors import InputError
from headwise.interventions.effects import Variant, effects, first_order, replaced, slopes
from headwise.interventions.outcomes import ask_far
from headwise.models.model import Model
from headwise.types import Encoding

QUICK = 5 * 10**11  # multiplications for which every head is taken away where it is asked what matters: half a minute


def matters(
    model: Model, text: str, pair: str | None = None, *, stack: str | None = None, exact: bool = False
) -> Float64[Tensor, "layer head"]:
    """How far what the model says (outcomes.py) moves with each head at zero, alone, up or down.

    Of a classifier it is the change of its label's loss, of other heads the divergence of distributions, nats, in the
    mean over the tokens; of a decoder that of its own next token, the answer, if that is more. To first order it costs
    eight backward passes (of a classifier one), exactly a pass for every two heads.
    """
    if not model.is_encoder_decoder:
        return matters_of(model, model.encode(text, pair), stack=stack, exact=exact)
    if pair is None:
        raise InputError(f"{model.name} reads a source and a target, but only one text was given; pass the pair too.")
    return matters_of(model, model.encode(text), model.encode_target(pair), stack=stack, exact=exact)


def quick(model: Model, text: Encoding, target: Encoding | None = None) -> bool:
    """Whether taking every head away takes seconds: half a pass a head, a pass a multiplication a token and weight.

    Embeddings are looked up, not multiplied, but for those that are the output layer too.
    """
    heads = sum(model.layers(stack) * model.heads(stack) for stack in model.stacks)
    output = model.hf.get_output_embeddings()
    tied = None if output is None else output.weight
    named = model.hf.named_parameters()
    weights = sum(math.prod(weight.shape) for name, weight in named if "embed" not in name or weight is tied)
    return heads / 2 * weights * (len(text) + (0 if target is None else len(target))) <= QUICK


def matters_of(
    model: Model, text: Encoding, target: Encoding | None = None, *, stack: str | None = None, exact: bool = False,
    only: tuple[int | None, int | None] = (None, None),
) -> Float64[Tensor, "layer head"]:  # fmt: skip
    """`matters` of a text that is encoded already: `matters_of(trace.model, trace.text, trace.target)`.

    `only`: a layer, a head or both, where the others are not asked exactly, and NaN.
    """
    question = ask_far(model, text, target)
    if question is None:
        raise InputError("A text must have something to foretell, but this one has a single token; take a longer one.")
    x, slope = slopes(model, question)
    places = [(site.stack, site.index) for site in model.sites(stack)]
    if not exact:
        guess = first_order(question, x, slope)
        return torch.stack([guess[place] for place in places]).abs()
    found = torch.full((len(places), x[places[0]].shape[1]), torch.nan, dtype=torch.float64)
    wanted = [at for at in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist()
              if all(one in (None, of) for one, of in zip(only, at, strict=True))]  # fmt: skip
    variants = [
        Variant(reads={places[layer]: replaced([head], torch.zeros_like(x[places[layer]][:1]))})
        for layer, head in wanted
    ]
    found[tuple(torch.tensor(wanted).T)] = effects(model, question, variants, signed=False)[:, 0]
    return found

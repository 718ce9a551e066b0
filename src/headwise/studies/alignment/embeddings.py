"""An aligner that looks at no attention: words are linked where their contextual vectors are each other's nearest.

After SimAlign (Jalili Sabet et al. 2020, https://arxiv.org/abs/2004.08728). With an encoder both sides are read one by
one, which wants one that knows both languages; of an encoder–decoder the source is read by the encoder and the target
by the decoder, given the source.

A word's vector is the mean of its tokens'; the similarity is the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError
from headwise.measures.wordmaps import words
from headwise.models.model import Model
from headwise.studies.alignment.extract import backwards, forwards, mutual, only
from headwise.studies.alignment.sides import owners
from headwise.text.alignments import Link, Pair, Span
from headwise.types import Encoding

WAYS = ("argmax", "both", "mutual")


def nearest(model: Model, pairs: Sequence[Pair], *, layer: int, way: str = "both") -> list[set[Link]]:
    """Links of every pair from the hidden tokens of `layer` (0: the embeddings; −1: the last).

    `way`: argmax from the target's side; from both sides; or grown from these (mutual).
    """
    if way not in WAYS:
        raise InputError(f"Links are taken by {', '.join(WAYS)}, but {way!r} was asked for.")
    return [_links(*_vectors(model, pair, layer), way) for pair in pairs]


def _links(source: Float[Tensor, "word d_model"], target: Float[Tensor, "word d_model"], way: str) -> set[Link]:
    unit = [torch.nn.functional.normalize(side, dim=-1) for side in (target, source)]
    scores = (unit[0] @ unit[1].mT)[None, None]
    rows, columns = ((side != 0).any(-1)[None] for side in (target, source))
    one, other = (find(only(scores, columns), rows, len(source)) for find in (forwards, backwards))
    links = {"argmax": one, "both": one & other, "mutual": mutual(one, other) if way == "mutual" else one}[way]
    return {(int(s), int(t)) for t, s in torch.nonzero(links[0, 0])}


@torch.no_grad()
def _vectors(model: Model, pair: Pair, layer: int) -> tuple[Tensor, Tensor]:
    """Word vectors of both sides; zero for a word without a token."""
    if model.is_encoder_decoder:
        source, target = model.encode(pair.source), model.encode_target(pair.target)
        output = model.run(model.batch([source], [target]), lambda _: None, wanted=lambda _: False,
                           output_hidden_states=True)  # fmt: skip
        states = model.hidden_states(output)
        return (
            _means(states["encoder"][-1, 0], source, pair.source_spans),
            _means(states["decoder"][layer, 0], target, pair.target_spans),
        )
    return tuple(  # type: ignore[return-value]
        _means(_alone(model, text)[layer], model.encode(text), spans)
        for text, spans in ((pair.source, pair.source_spans), (pair.target, pair.target_spans))
    )


def _alone(model: Model, text: str) -> Float[Tensor, "layer token d_model"]:
    batch = model.batch([model.encode(text)])
    output = model.run(batch, lambda _: None, wanted=lambda _: False, output_hidden_states=True)
    return model.hidden_states(output)["self"][:, 0]


def _means(states: Float[Tensor, "token d_model"], text: Encoding, spans: Sequence[Span]) -> Tensor:
    giving = words([owners(text, spans)], [len(spans)], dtype=states.dtype).giving[0]
    return giving @ states

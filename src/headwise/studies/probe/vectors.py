"""Word vectors without context, for probes that may know which words they look at.

    glove   GloVe 6B, 50 dimensions, by the lower-cased word; zero for words it does not have
    spacy   the vectors of an installed spaCy pipeline, named spacy:PIPELINE
    model   the model's own input embeddings, mean over the tokens of a word

All are divided by their root mean square over the training words, so that one learning rate suits each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.errors import InputError
from headwise.models.glove import glove
from headwise.models.model import Model
from headwise.studies.probe.dependency import FRAME
from headwise.studies.probe.frames import frame
from headwise.text.conllu import Sentence
from headwise.types import Encoding

Vectors = Float[Tensor, "word dimension"]
Source = Callable[[Model, Encoding, Sentence], Vectors]


def word_vectors(name: str) -> Source:
    """The source called `name`: glove, model, or spacy:PIPELINE."""
    if name.startswith("spacy:"):
        return lambda _model, _text, sentence: from_spacy(name.removeprefix("spacy:"), sentence.forms)
    if name not in SOURCES:
        raise InputError(f"Word vectors are {', '.join(SOURCES)} or spacy:PIPELINE, but {name!r} was asked for.")
    return SOURCES[name]


def from_glove(forms: Sequence[str]) -> Vectors:
    rows, vectors = _glove()
    numbers = torch.tensor([rows.get(form.lower(), -1) for form in forms])
    return torch.where(numbers[:, None] >= 0, vectors[numbers.clamp(min=0)], 0.0)


def from_spacy(pipeline: str, forms: Sequence[str]) -> Vectors:
    vocabulary = _spacy(pipeline)
    return torch.stack([torch.as_tensor(vocabulary[form].vector, dtype=torch.float32) for form in forms])


def from_model(model: Model, text: Encoding, sentence: Sentence) -> Vectors:
    """The rows of the embedding matrix, mean over the tokens of each word; a word with no token of its own is zero."""
    with torch.no_grad():
        tokens = model.hf.get_input_embeddings()(torch.tensor(text.ids, device=model.hf.device)).float().cpu()
    return frame([text], [sentence]).giving[0, FRAME:] @ tokens


SOURCES: Mapping[str, Source] = {
    "glove": lambda _model, _text, sentence: from_glove(sentence.forms),
    "model": from_model,
}


@cache
def _glove() -> tuple[dict[str, int], Vectors]:
    words, vectors = glove()
    return {word: number for number, word in enumerate(words)}, vectors


@cache
def _spacy(pipeline: str) -> Any:
    try:
        import spacy

        vocabulary = spacy.load(pipeline).vocab
    except (ImportError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"Word vectors of spaCy need an installed pipeline, but {pipeline!r} cannot be had ({reason}); run "
            "pip install 'headwise[linguistics]' and install the pipeline, or use glove."
        ) from None
    if not vocabulary.vectors_length:
        raise InputError(
            f"Word vectors of spaCy need a pipeline that has them, but {pipeline!r} has none; use an md one."
        )
    return vocabulary

"""The words of a parsed sentence as places of a frame: what opens the text, what closes it, then the words.

Place 0 of a frame is the special token that opens the text and place 1 the one that closes it, which is what the root
is scored by; word i has place 2 + i. A place without tokens is zero in every map: that of a special token which the
model does not have, or of a word whose characters lie in its neighbour's token. Other special tokens are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headwise.measures.wordmaps import Words, words
from headwise.studies.probe.dependency import CLOSING, FRAME, OPENING
from headwise.text.conllu import Sentence, words_of
from headwise.types import Encoding


def places(encoding: Encoding, sentence: Sentence) -> list[int]:
    """The place of every token, −1 for none."""
    found = [-1 if word < 0 else FRAME + word for word in words_of(encoding, sentence.spans)]
    last = len(found) - 1
    if encoding.special[0]:
        found[0] = OPENING
    if encoding.special[last] and last > 0:
        found[last] = CLOSING
    return found


def frame(texts: Sequence[Encoding], sentences: Sequence[Sentence], *, dtype: torch.dtype = torch.float32) -> Words:
    """The frames of a batch, for `word_map`."""
    found = [places(text, sentence) for text, sentence in zip(texts, sentences, strict=True)]
    return words(found, [FRAME + len(sentence) for sentence in sentences], dtype=dtype)

"""What a head for questions answers: the part of the text that it points at, and how sure it is.

    p(s, e) = p_start(s) · p_end(e),    s ≤ e < s + LONGEST, both in the text that the question is asked of

The probabilities are softmaxes over the tokens of that text and the first token, which models that learned to say so
point at where the text has no answer (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.3).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES

from headwise.models.capture import at_least_float, quiet
from headwise.models.model import Model
from headwise.types import Encoding

LONGEST = 30  # tokens of an answer
NONE, LEAST = "no answer in the text", 0.005


def answers_questions(model: Model) -> bool:
    """Whether the model's head points at the answer to a question; encoders alone."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    return not model.is_encoder_decoder and bool(names & set(MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES.values()))


def span_of(model: Model, text: Encoding) -> tuple[tuple[str, float], ...]:
    """The likeliest answer, and that there is none where that is likely too; empty without a question and a text."""
    inside = [at for at in range(len(text)) if text.segment[at] == 1 and not text.special[at]]
    if not inside:
        return ()
    with torch.no_grad(), quiet():
        output = model.hf(**model.batch([text]).inputs)
    places = torch.tensor([0, *inside], device=output.start_logits.device)
    starts, ends = (at_least_float(one)[0, places].softmax(-1) for one in (output.start_logits, output.end_logits))
    first, last = divmod(int(_spans(starts[1:], ends[1:]).argmax()), len(inside))
    words = "".join(model.tokenizer.decode([text.ids[at] for at in inside[first : last + 1]]))
    found = [(f"“{words.strip()}”", float(starts[1 + first] * ends[1 + last]))]
    if (none := float(starts[0] * ends[0])) >= LEAST:
        found.append((NONE, none))
    return tuple(sorted(found, key=lambda one: -one[1]))


def _spans(starts: Float[Tensor, " place"], ends: Float[Tensor, " place"]) -> Float[Tensor, "start end"]:
    """The probability of every span that is not too long, 0 of the others."""
    both = starts[:, None] * ends[None, :]
    return both.triu() - both.triu(LONGEST)

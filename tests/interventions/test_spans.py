"""What a head for questions answers, against every span of the text by itself, in float64."""

from __future__ import annotations

import pytest
import torch
from transformers.utils.generic import ModelOutput

from headwise.errors import ModelError
from headwise.explanations.asking import task_of
from headwise.interventions.answered import Answered, answered, short, unanswered
from headwise.interventions.spans import LONGEST, NONE, answers_questions
from headwise.viewer.of_trace import page_of_trace

QUESTION, TEXT = "who saw the dog ?", "the old man saw the dog near the river"


def by_hand(starts: torch.Tensor, ends: torch.Tensor, inside: list[int]) -> tuple[tuple[int, int], float]:
    """Every span of the text, one after the other."""
    places = [0, *inside]
    chances = [scores.detach()[places].double().softmax(-1).tolist() for scores in (starts, ends)]
    first, last = (dict(zip(places, one, strict=True)) for one in chances)
    spans = {(s, e): first[s] * last[e] for s in inside for e in inside if s <= e < s + LONGEST}
    best = max(spans, key=lambda span: spans[span])
    return best, spans[best]


def test_the_span_is_the_likeliest_of_all(load) -> None:
    model = load("tiny:bert", "question-answering")
    assert answers_questions(model)
    text = model.encode(QUESTION, TEXT)
    output = model.hf(**model.batch([text]).inputs)
    inside = [at for at in range(len(text)) if text.segment[at] == 1 and not text.special[at]]
    (start, end), sure = by_hand(output.start_logits[0], output.end_logits[0], inside)
    found = answered(model, text)
    assert found is not None
    assert found.kind == "span"
    wanted = model.tokenizer.decode([text.ids[at] for at in inside if start <= at <= end])
    assert dict(found.choices)[f"“{wanted}”"] == pytest.approx(sure, rel=1e-5)
    page = page_of_trace(model.trace(QUESTION, TEXT), besides=(), alternatives=0)
    assert page.answer == found.says
    assert page.answer.startswith("It answers: “")


def made(load, monkeypatch, at: int, end: int, sharp: float = 9.0) -> Answered | None:
    model = load("tiny:bert", "question-answering")
    text = model.encode(QUESTION, TEXT)
    starts, ends = torch.zeros(1, len(text)), torch.zeros(1, len(text))
    starts[0, at], ends[0, end] = sharp, sharp
    monkeypatch.setattr(model.hf, "forward", lambda **_: ModelOutput(start_logits=starts, end_logits=ends))
    return answered(model, text)


def test_an_answer_lies_in_the_text_and_does_not_end_before_it_begins(load, monkeypatch) -> None:
    text = load("tiny:bert", "question-answering").encode(QUESTION, TEXT)
    inside = [at for at in range(len(text)) if text.segment[at] == 1 and not text.special[at]]
    found = made(load, monkeypatch, inside[2], inside[3])
    assert found is not None
    assert found.choices[0][1] > 0.9
    question = made(load, monkeypatch, 1, 2)
    assert question is not None
    assert question.choices[0][1] < 0.05, "what the head points at in the question does not count"
    backwards = made(load, monkeypatch, inside[3], inside[1])
    assert backwards is not None
    assert backwards.choices[0][1] < 0.05
    nothing = made(load, monkeypatch, 0, 0)
    assert nothing is not None
    assert nothing.choices[0] == (NONE, pytest.approx(1.0, abs=0.01))


def test_without_a_question_it_says_what_it_needs_and_explain_says_where_to_look(load) -> None:
    model = load("tiny:bert", "question-answering")
    assert answered(model, model.encode(TEXT)) is None
    assert unanswered(model).startswith("It answers questions: give it two texts")
    with pytest.raises(ModelError, match=r"the start and the end of an answer.*`headwise view QUESTION TEXT`"):
        task_of(model)


@pytest.mark.parametrize(
    ("words", "said"),
    [("“" + "a" * 158 + "”", "“" + "a" * 158 + "”"), ("“" + "a" * 159 + "”", "“" + "a" * 159 + " …”"),
     ("“" + "dog " * 60 + "”", "“" + " ".join(["dog"] * 39) + " …”")],
)  # fmt: skip
def test_a_headline_cuts_an_answer_at_a_word(words: str, said: str) -> None:
    assert short(words) == said
    assert Answered("next-token", ((words, 0.5),)).says == f"Next comes: {said} (50\u00a0%)"

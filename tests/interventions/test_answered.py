"""What the model answers: its own probabilities, by hand from its output, for every kind of head."""

# ruff: noqa: E501 - sentences are compared whole

from __future__ import annotations

import pytest
import torch
from transformers.utils import ModelOutput

from headwise.errors import InputError, ModelError
from headwise.interventions.answered import Answered, answered, headless, right, unanswered
from headwise.interventions.outcomes import kind_of
from headwise.text.corpus import Document
from headwise.viewer.of_trace import page_of_trace


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Answered("label", (("positive", 0.972), ("negative", 0.028))), "The model says: positive (97\u00a0%), negative (3\u00a0%)"),
        (Answered("next-token", (("“ city”", 0.25),)), "Next comes: “ city” (25\u00a0%)"),
        (Answered("next-token", (("“\n”", 0.25), ("“\r\n\t”", 0.1))), "Next comes: “↵” (25\u00a0%), “↵⇥” (10\u00a0%)"),
        (Answered("sentence", (("“A b.”", 0.5),), size=7), "A sentence vector of 7 numbers, the mean over its tokens; of the sample sentences that headwise brings the nearest is “A b.” (cos 0.50)"),
        (Answered("sentence", (("“A b.”", 0.3),), size=7), "A sentence vector of 7 numbers, the mean over its tokens; of the sample sentences that headwise brings the nearest is “A b.” (cos 0.30)"),
        (Answered("sentence", (("“A b.”", 0.29),), size=7), "A sentence vector of 7 numbers, the mean over its tokens; none of the sample sentences that headwise brings is near, the nearest is “A b.” (cos 0.29)"),
        (Answered("labels", (("urgent", 0.6), ("spam", 0.002))), "Each by itself, the model says: urgent (60\u00a0%), spam (<\u00a01\u00a0%)"),
        (Answered("number", (("LABEL_0", 0.09512),)), "The model gives: LABEL_0 0.09512"),
        (Answered("target", (("“the cat”", 0.0),)), "The target read here: “the cat” (0\u00a0% a token, geometric mean)"),
        (Answered("token-label", (("“Rome” LOC", 0.9),), "the other words O"), "It labels: “Rome” LOC (90\u00a0%), the other words O"),
        (Answered("translation", (("“the dog”", 0.5),)), "It translates this as: “the dog” (50\u00a0% a token, geometric mean)"),
    ],
)  # fmt: skip
def test_in_one_line(found: Answered, says: str) -> None:
    assert found.says == says


def test_a_classifier_names_its_classes_with_their_probabilities(load) -> None:
    model = load("tiny:bert", "classification")
    text = model.encode("the old city")
    found = answered(model, text)
    wanted = model.hf(**model.batch([text]).inputs).logits[0].softmax(-1)
    assert found is not None
    assert dict(found.choices) == pytest.approx(
        {model.hf.config.id2label[at]: p for at, p in enumerate(wanted.tolist())}, rel=1e-5
    )
    assert [p for _, p in found.choices] == sorted((p for _, p in found.choices), reverse=True)


@pytest.mark.parametrize(
    ("names", "labels", "said", "rest"),
    [
        ("ABC", [0, 0, 2, 0], ["“city” C"], "the other words A"),
        ("ABC", [0, 1, 2, 0, 0], ["“old” B", "“city” C"], "the other words A"),
        ("ABC", [1, 1, 1], ["“the” B", "“old” B", "“city” B"], ""),
        ("OBC", [0, 1, 2, 1, 1], ["“old” B", "“city” C", "“was” B", "“old” B"], "the other words O"),  # most are not O
        ("OBC", [0, 0, 0, 0, 0, 0, 0], ["“the” O", "“old” O", "“city” O", "“was” O", "“old” O"], "the other words O"),
        ("OBC", [1, 1, 1, 1, 1, 1, 1], ["“the” B", "“old” B", "“city” B", "“was” B", "“old” B"], "2 more"),
    ],
)
def test_a_token_classifier_names_the_words_that_are_something(load, monkeypatch, names, labels, said, rest) -> None:
    """What the model says is made up, a label a word, the first words surest; and it is said what the others are."""
    model = load("tiny:bert", "token-classification")
    text = model.encode(" ".join(["the", "old", "city", "was", "old", "the", "old"][: len(labels)]))
    rows = torch.zeros(1, len(text), 3)
    for at, unit in enumerate(text.unit):
        if not text.special[at]:
            rows[0, at, labels[unit - 1]] = 9.0 - unit
    monkeypatch.setattr(model.hf.config, "id2label", dict(enumerate(names)))
    monkeypatch.setattr(model.hf, "forward", lambda **_: ModelOutput(logits=rows))
    found = answered(model, text)
    assert found is not None
    assert ([name for name, _ in found.choices], found.rest) == (said, rest)
    first = text.words.index(said[0].split("”")[0].removeprefix("“"))
    assert found.choices[0][1] == pytest.approx(float(rows[0, text.unit.index(first)].softmax(-1).max()), rel=1e-6)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_what_a_head_was_trained_for_is_how_it_is_read(load, monkeypatch, problem: str) -> None:
    """Of several labels each by itself, as transformers' pipeline reads them; of regression the numbers; no softmax."""
    model = load("tiny:bert", "classification")
    text = model.encode("the old city")
    logits = model.hf(**model.batch([text]).inputs).logits[0].detach()
    monkeypatch.setattr(model.hf.config, "problem_type", problem)
    found = answered(model, text)
    assert found is not None
    wanted = (logits.sigmoid() if problem != "regression" else logits).tolist()
    assert sorted(p for _, p in found.choices) == pytest.approx(sorted(wanted), rel=1e-5)
    assert kind_of(model) == "sentence"  # there is no loss of one label
    if problem == "regression":
        with pytest.raises(ModelError, match=r"A classifier must choose .* but tiny:bert gives one number"):
            model.explain("the old city")


def test_a_language_model_tells_what_comes_next(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    text = model.encode("the old city")
    row = model.hf(**model.batch([text]).inputs).logits[0, -1].softmax(-1).detach()
    found = answered(model, text)
    assert found is not None
    assert len(found.choices) == 5
    assert found.choices[0] == (
        f"“{model.tokenizer.decode([int(row.argmax())])}”",
        pytest.approx(float(row.max()), rel=1e-5),
    )


def test_a_masked_model_fills_the_mask_and_is_silent_without_one(load) -> None:
    model = load("tiny:bert", "masked-lm")
    assert answered(model, model.encode("the old city")) is None
    text = model.encode(f"the {model.tokenizer.mask_token} city")
    row = (
        model.hf(**model.batch([text]).inputs)
        .logits[0, text.ids.index(model.tokenizer.mask_token_id)]
        .softmax(-1)
        .detach()
    )
    found = answered(model, text)
    assert found is not None
    assert found.choices[0][1] == pytest.approx(float(row.max()), rel=1e-5)


def test_a_translation_comes_with_its_probability_a_token(load) -> None:
    model = load("tiny:t5", "translation")
    text, target = model.encode("the old city"), model.encode_target("the dog")
    rows = model.hf(**model.batch([text], [target]).inputs).logits[0].log_softmax(-1).detach()
    wanted = torch.stack([rows[at, token] for at, token in enumerate(target.ids[1:])]).mean().exp()
    found = answered(model, text, target)
    assert found is not None
    assert found.choices[0][1] == pytest.approx(float(wanted), rel=1e-5)
    assert answered(model, text) is None
    own = rows[:-1].argmax(-1).tolist() == list(target.ids[1:])
    assert found.kind == ("translation" if own else "target")


@pytest.mark.parametrize(("given", "kind"), [(None, "translation"), ("the cat of the north", "target")])
def test_a_target_that_the_model_would_not_write_is_not_called_its_translation(load, given, kind: str) -> None:
    model = load("tiny:marian", "translation")
    trace = model.trace("the old city", given)
    found = answered(model, trace.text, trace.target)
    assert found is not None
    assert found.kind == kind


def test_an_encoder_names_the_nearest_sentence_and_a_bare_decoder_nothing(load) -> None:
    model = load("tiny:bert")
    found = answered(model, model.encode("the old city"))
    assert found is not None
    assert found.kind == "sentence"
    assert found.size == model.hf.config.hidden_size
    ((sentence, cosine),) = found.choices
    assert len(sentence) <= 72
    assert -1 <= cosine <= 1
    gpt = load("tiny:gpt2")
    assert answered(gpt, gpt.encode("the old city")) is None


def test_accuracy_counts_texts_with_a_label_and_refuses_one_that_is_no_class(load) -> None:
    model = load("tiny:bert", "classification")
    said = int(model.hf(**model.batch([model.encode("the old city")]).inputs).logits[0].argmax())
    name = model.hf.config.id2label[said]
    labels = [str(said), name, str(1 - said), "-1", None]
    documents = [Document(at, "the old city", notes=label) for at, label in enumerate(labels)]
    assert right(model, documents) == [True, True, False]
    long = Document(9, "the old city " * 100, notes=name)  # which a run leaves out, unless it cuts texts
    assert right(model, [long, Document(10, "", notes=name)]) == []
    assert len(right(model, [long], truncate=True)) == 1
    assert right(model, documents[:1], limit=3) == []
    with pytest.raises(InputError, match="but the corpus has 'unheard-of'"):
        right(model, [Document(0, "the old city", notes="unheard-of")])


def test_a_masked_model_without_a_mask_says_how_to_ask_it(load) -> None:
    model = load("tiny:bert", "masked-lm")
    said = f"It fills in blanks: put {model.tokenizer.mask_token} in place of a word to see what it says."
    assert unanswered(model) == said
    assert page_of_trace(model.trace("the old city"), quantities=["raw"]).answer == said
    assert [unanswered(load(*name)) for name in (("tiny:bert", None), ("tiny:gpt2", "causal-lm"))] == ["", ""]


def test_a_model_is_asked_by_a_method_too(load) -> None:
    classifier = load("tiny:bert", "classification")
    assert classifier.says("the old city") == answered(classifier, classifier.encode("the old city"))
    assert classifier.says("the old", "city") == answered(classifier, classifier.encode("the old", "city"))
    translator = load("tiny:marian", "translation")
    source, target = translator.encode("the old city"), translator.encode_target("the dog")
    assert translator.says("the old city", "the dog") == answered(translator, source, target)
    assert translator.says("the old city") is None


@pytest.mark.parametrize(
    ("name", "task", "texts"),
    [("demo-llm", "causal-lm", ("Dogs bark",)), ("demo-nmt", "translation", ("der Hund bellt .", "the dog barks ."))],
)
def test_a_model_loaded_without_the_head_of_its_checkpoint_says_so_and_how_to_have_it(load, name, task, texts) -> None:
    bare = load(name)
    said = f"Loaded without its head: hw.load('{name}', task='{task}') shows what it answers."
    assert headless(bare) == said
    assert page_of_trace(bare.trace(*texts), quantities=["raw"]).answer == said
    whole = load(name, task)
    assert headless(whole) == ""
    assert said not in page_of_trace(whole.trace(*texts), quantities=["raw"]).answer


def test_a_sentence_vector_of_a_model_without_its_head_comes_with_the_way_to_its_answer(load, monkeypatch) -> None:
    model = load("tiny:bert")
    assert headless(model) == "", "it has none"
    monkeypatch.setattr("headwise.interventions.answered.own_task", lambda name: f"the task of {name}")
    page = page_of_trace(model.trace("the old city"), quantities=["raw"])
    assert page.answer == model.says("the old city").says
    said = "Loaded without its head: hw.load('tiny:bert', task='the task of tiny:bert') shows what it answers."
    assert said in page.notes
    assert headless(load("tiny:bert", "masked-lm")) == "", "it was asked for"

"""Targets of every kind: their numbers are the model's own, and what cannot be asked is one line."""

from __future__ import annotations

import logging
import math

import pytest
import torch

from headwise.errors import InputError, ModelError, TooLongError
from headwise.explanations.asking import Wish, ask
from headwise.explanations.targets import Target

LOGITS = torch.tensor([[[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]], dtype=torch.float64)


def test_values_by_hand() -> None:
    z = LOGITS[0].tolist()
    logit = Target("next-token", "logit", "b", (0,), (1,))
    assert float(logit.value(LOGITS)) == z[0][1]
    contrast = Target("next-token", "log-probability", "b", (0,), (1,), (2,), "c")
    assert float(contrast.value(LOGITS)) == z[0][1] - z[0][2]
    both = Target("continuation", "log-probability", "bc", (0, 1), (1, 2))
    logs = LOGITS[0].log_softmax(-1)
    assert float(both.value(LOGITS)) == pytest.approx(float(logs[0, 1] + logs[1, 2]))
    assert float(both.log_probability(LOGITS)) == pytest.approx(float(logs[0, 1] + logs[1, 2]) / 2)


def test_log_odds_by_hand() -> None:
    p = float(LOGITS[0, 0].softmax(-1)[1])
    odds = Target("next-token", "log-odds", "b", (0,), (1,)).value(LOGITS)
    assert float(odds) == pytest.approx(torch.tensor(p / (1 - p)).log().item())


@pytest.mark.parametrize("of", ["logit", "log-probability", "log-odds"])
@pytest.mark.parametrize("rather", [(), (0, 1)])
def test_the_linear_form_gives_the_value(of: str, rather: tuple[int, ...]) -> None:
    target = Target("continuation", of, "x", (0, 1), (1, 2), rather, "y")
    weights, rest = target.weights(LOGITS[0])
    assert float((weights * LOGITS[0]).sum()) + rest == pytest.approx(float(target.value(LOGITS)))


def test_the_words_of_a_target() -> None:
    assert str(Target("label", "logit", "yes", (0,), (1,), (0,), "no")) == "label 'yes' rather than 'no' (logit)"
    assert str(Target("answer", "log-probability", "a b", (0, 1), (1, 2))) == "answer 'a b' (log-probability)"


def test_a_label_is_the_one_that_the_model_says(load) -> None:
    model = load("tiny:bert", "classification")
    asked = ask(model, "the old dog", "the cat", wish=Wish(of="logit"))
    with torch.no_grad():
        z = model.hf(**model.batch([model.encode("the old dog", "the cat")]).inputs).logits[0]
    assert asked.targets[0].chosen == (int(z.argmax()),)
    assert float(asked.answers[0, 0]) == pytest.approx(float(z.max()), rel=1e-5)
    assert float(asked.answers[0, 1]) == pytest.approx(float(z.log_softmax(-1).max()), abs=1e-5)
    assert asked.given == tuple(not s for s in asked.text.special)


def test_a_label_by_name_or_number_and_a_contrast(load) -> None:
    model = load("tiny:bert", "classification")
    named = ask(model, "the dog", wish=Wish(target="label_1", rather=0)).targets[0]
    assert (named.chosen, named.rather, named.rather_name) == ((1,), (0,), "LABEL_0")
    with pytest.raises(InputError, match=r"^Labels of .* are LABEL_0, LABEL_1, but 'maybe' was asked for.$"):
        ask(model, "the dog", wish=Wish(target="maybe"))


def test_a_token_label_is_asked_at_a_word(load) -> None:
    model = load("tiny:bert", "token-classification")
    by_word, by_number = (ask(model, "the old dog", wish=Wish(at=at)) for at in ("dog", 2))
    assert by_word.rows == by_number.rows == (by_word.text.unit.index(by_word.text.words.index("dog")),)
    with pytest.raises(InputError, match=r"say which one is meant with at=WORD"):
        ask(model, "the old dog")
    with pytest.raises(InputError, match=r"'cow' is not; give its number"):
        ask(model, "the old dog", wish=Wish(at="cow"))
    with pytest.raises(InputError, match=r"go from 0 to 2, but at=3"):
        ask(model, "the old dog", wish=Wish(at=3))


def test_a_masked_token(load) -> None:
    model = load("tiny:bert", "masked-lm")
    asked = ask(model, "the [MASK] dog", wish=Wish(target="old"))
    assert len(asked.targets) == 1
    assert asked.targets[0].chosen == tuple(model.tokenizer.convert_tokens_to_ids(["old"]))
    assert asked.text.ids[asked.rows[0]] == model.tokenizer.mask_token_id
    assert not asked.given[asked.rows[0]]
    with pytest.raises(InputError, match=r"^A masked model fills a gap, but the text has no \[MASK\]"):
        ask(model, "the old dog")


def test_a_masked_word_of_several_tokens_is_a_joint_log_probability_and_says_so(load) -> None:
    asked = ask(load("tiny:bert", "masked-lm"), "the [MASK] dog", wish=Wish(target="xq"))
    assert [t.rows for t in asked.targets] == [(0, 1), (0,), (1,)]
    assert asked.targets[0].of == "log-probability"
    assert asked.note == "'xq' becomes 2 tokens: their joint log-probability is explained."


def test_a_word_that_is_not_in_the_vocabulary(load) -> None:
    with pytest.raises(InputError, match=r"^A target must be in the model's vocabulary, but 'λόγος' is not"):
        ask(load("tiny:bert", "masked-lm"), "the [MASK] dog", wish=Wish(target="λόγος"))


def test_next_token_continuation_and_answer(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    text = "the old dog"
    ids = model.encode(text).ids
    following = ask(model, text)
    with torch.no_grad():
        z = model.hf(torch.tensor([ids])).logits[0, -1]
    assert following.targets[0].chosen == (int(z.argmax()),)
    given = ask(model, text, wish=Wish(target="and the sea"))
    assert given.text.ids[: len(ids)] == ids
    assert given.rows[0] == len(ids) - 1
    assert len(given.rows) == len(given.targets) - 1
    with torch.no_grad():
        rows = model.hf(torch.tensor([given.text.ids])).logits[0].log_softmax(-1)
    expected = sum(float(rows[row, t.chosen[0]]) for row, t in zip(given.rows, given.targets[1:], strict=True))
    assert float(given.answers[0, 0]) == pytest.approx(expected, rel=1e-5)
    answer = ask(model, text, wish=Wish(generate=4))
    with torch.no_grad():
        out = model.hf.generate(torch.tensor([ids]), max_new_tokens=4, do_sample=False, pad_token_id=0)
    written = [int(i) for i in out[0, len(ids) :] if int(i) not in model.tokenizer.all_special_ids]
    assert [t.chosen[0] for t in answer.targets][-len(written) :] == written
    assert not any(answer.given[len(ids) :])


def test_a_translation_that_the_model_writes_is_written_in_silence(load, monkeypatch, caplog) -> None:
    """Its own longest length and ours would be told of on every command."""
    model = load("tiny:marian", "translation")
    monkeypatch.setattr(model.hf.generation_config, "max_length", 32)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    assert ask(model, "the old dog").prefix is not None
    assert not caplog.records


def test_a_translation_is_explained_word_by_word(load) -> None:
    model = load("tiny:marian", "translation")
    asked = ask(model, "the old dog", "the sea")
    batch = model.batch([model.encode("the old dog")], [model.encode_target("the sea")])
    with torch.no_grad():
        rows = model.hf(**batch.inputs).logits[0].log_softmax(-1)
    expected = [float(rows[row, t.chosen[0]]) for row, t in zip(asked.rows, asked.targets[1:], strict=True)]
    assert asked.answers[1:, 0].tolist() == pytest.approx(expected, rel=1e-4)
    assert len(asked) == len(asked.text) + len(asked.prefix or ())


@pytest.mark.parametrize("removal", ["mask", "delete", "block"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "marian"])
def test_without_tokens_against_one_text_at_a_time(load, name: str, removal: str) -> None:
    task = {"bert": "classification", "gpt2": "causal-lm", "marian": "translation"}[name]
    model = load(f"tiny:{name}", task)
    asked = ask(model, "the old dog and it", "the sea" if name == "marian" else None, wish=Wish())
    own = [at for at, given in enumerate(asked.given) if given]
    sets = torch.zeros(3, len(asked.text), dtype=torch.bool)
    sets[1, own[:1]], sets[2, own[1:3]] = True, True
    got = asked.without(sets, removal=removal)
    for variant in range(3):
        gone = set(torch.nonzero(sets[variant]).flatten().tolist())
        ids, mask = list(asked.text.ids), [1] * len(asked.text)
        if removal == "mask":
            ids = [model.tokenizer.mask_token_id if at in gone else i for at, i in enumerate(ids)]
        elif removal == "delete":
            ids = [i for at, i in enumerate(ids) if at not in gone]
            mask = [1] * len(ids)
        else:
            mask = [0 if at in gone else 1 for at in range(len(ids))]
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([mask])}
        if name == "marian":
            inputs["decoder_input_ids"] = asked.inputs["decoder_input_ids"]
        with torch.no_grad():
            z = model.hf(**inputs).logits
        rows = z[:, None] if z.ndim == 2 else (z if name == "marian" else z[:, -1:])
        rows = rows[:, list(asked.rows)] if name == "marian" else rows
        assert float(got[0, variant, 0]) == pytest.approx(float(asked.targets[0].value(rows)), rel=1e-4, abs=1e-5)


def test_little_of_a_pass_is_padding_and_only_what_is_read_becomes_logits(load) -> None:
    model = load("tiny:llama", "causal-lm")
    asked = ask(model, "the old dog and it was late by the sea and the cat sat", wish=Wish(target="the dog"))
    count = len(asked.text)
    sets = torch.arange(count)[None] < torch.arange(sum(asked.given))[:, None]
    sets &= torch.tensor(asked.given)
    seen, read = [], []
    handles = [
        model.hf.register_forward_pre_hook(
            lambda _m, _a, given: seen.append(given["attention_mask"]), with_kwargs=True
        ),
        model.hf.get_output_embeddings().register_forward_hook(lambda _m, _a, out: read.append(out.shape[:2])),
    ]
    asked.without(sets, removal="delete")
    for handle in handles:
        handle.remove()
    assert sum(len(mask) for mask in seen) == len(sets.unique(dim=0))
    assert max(len(mask) for mask in seen) > 1
    assert all(float(mask.sum(-1).max()) <= 1.25 * float(mask.sum(-1).min()) for mask in seen)
    assert [tuple(shape) for shape in read] == [(len(mask), len(asked.rows)) for mask in seen]


def test_errors_are_one_line(load) -> None:
    with pytest.raises(ModelError, match=r"^An explanation needs a model that predicts, but tiny:bert"):
        ask(load("tiny:bert"), "the dog")
    gpt2 = load("tiny:gpt2", "causal-lm")
    with pytest.raises(TooLongError, match=r"^A text and its answer may have at most 160 tokens"):
        ask(gpt2, "the dog", wish=Wish(generate=159))
    with pytest.raises(TooLongError, match=r"^A text and its answer may have at most 160 tokens"):
        ask(gpt2, "the dog", wish=Wish(target="the " * 170))
    with pytest.raises(InputError, match=r"special tokens only"):
        ask(load("tiny:bert", "classification"), "[SEP] [SEP]")
    with pytest.raises(InputError, match=r"^A contrast is between two single tokens"):
        ask(gpt2, "the dog", wish=Wish(target="the sea", rather="it"))
    with pytest.raises(InputError, match=r"not both"):
        Wish(target="a", generate=3)
    with pytest.raises(InputError, match=r"at least one token"):
        Wish(generate=0)
    with pytest.raises(InputError, match=r"Only a model that writes"):
        ask(load("tiny:bert", "classification"), "the dog", wish=Wish(generate=3))


def test_a_contrast_is_tested_by_its_probability_among_the_two() -> None:
    """By hand: e² of e² + e⁻¹, whatever the third logit is; so the value and the probability say the same."""
    two = Target("label", "log-odds", "b", (0,), (1,), (2,), "c")
    p = math.e**2 / (math.e**2 + math.e**-1)
    assert float(two.log_probability(LOGITS).exp()) == pytest.approx(p)
    assert float(two.value(LOGITS).sigmoid()) == pytest.approx(p)
    assert (two.among, Target("label", "log-odds", "b", (0,), (1,)).among) == (" of the two", "")


def test_a_label_by_itself_is_explained_by_its_own_logit_and_sigmoid(load, monkeypatch) -> None:
    """Of a model of several labels at once: no softmax, no other label; its parts add up to that logit."""
    model = load("tiny:bert", "classification")
    monkeypatch.setattr(model.hf.config, "problem_type", "multi_label_classification")
    logits = model.hf(**model.batch([model.encode("the old city")]).inputs).logits[0].detach().double()
    for label, z in enumerate(logits):
        found = model.explain("the old city", target=label, method="paths")
        assert found.value[0] == pytest.approx(float(z), rel=1e-4)
        assert float(found.log_probability[0].exp()) == pytest.approx(float(z.sigmoid()), rel=1e-4)
        assert found.trial is not None
        assert found.trial.deletion[0] == pytest.approx(float(z.sigmoid()), rel=1e-4)
    with pytest.raises(InputError, match="the logit is explained, which is its log-odds, but not log-probability"):
        model.explain("the old city", of="log-probability")
    with pytest.raises(InputError, match="are no choice; explain one without `rather`"):
        model.explain("the old city", target=0, rather=1)

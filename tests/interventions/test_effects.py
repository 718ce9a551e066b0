"""Effects of many changes at once equal those of one change after another; slopes are those of small steps."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor
from transformers import BertForQuestionAnswering

import headwise as hw
from headwise.changes import cut, without, zero
from headwise.errors import InputError
from headwise.interventions import effects as effects_module
from headwise.interventions.answered import answered
from headwise.interventions.effects import Cut, Variant, effects, first_order, replaced, slopes
from headwise.interventions.outcomes import Question, ask, kind_of
from headwise.interventions.resuming import clean_pass, shares
from headwise.models.editing import head_outputs
from headwise.models.tiny import FAMILIES
from headwise.studies.roles.made import repeated
from references.captures import TARGETS, TEXTS, captured
from references.compare import assert_close

CASES = [
    ("tiny:bert", None, "sentence"), ("tiny:bert", "masked-lm", "masked-token"), ("tiny:albert", None, "sentence"),
    ("tiny:bert", "classification", "label"), ("tiny:llama", None, "tokens"), ("tiny:llama", "causal-lm", "next-token"),
    ("tiny:opt", "causal-lm", "next-token"), ("tiny:gpt-neox", "causal-lm", "next-token"),
    ("tiny:gemma2", "causal-lm", "next-token"), ("tiny:marian", None, "tokens"),
    ("tiny:marian", "translation", "translation"),
    ("tiny:t5", "translation", "translation"), ("tiny:mpnet", None, "sentence"),
    ("tiny:bert", "token-classification", "token-label"),
]  # fmt: skip


def question_of(model: hw.Model, text: int = 0, label: str | None = None) -> Question:
    target = model.encode_target(TARGETS[text]) if model.is_encoder_decoder else None
    question = ask(model, model.encode(TEXTS[text]), target, number=text, label=label)
    assert question is not None
    return question


def answer(model: hw.Model, question: Question, *changes) -> Tensor:
    with torch.no_grad(), model.changed(*changes):
        return question.read(model.hf(**question.inputs))


def zeros(model: hw.Model, stack: str, layer: int, *heads: int) -> Variant:
    shape = model.sites(stack)[layer].circuit.w_o.shape[:2]
    return Variant(reads={(stack, layer): replaced(heads, torch.zeros(1, *shape))})


@pytest.mark.parametrize("family", FAMILIES)
def test_passes_of_every_family_can_be_resumed(family: str) -> None:
    assert shares(captured(family).model) == (family != "albert")  # whose layers are one module


@pytest.mark.parametrize(("name", "task", "kind"), CASES)
def test_all_changes_in_shared_passes_equal_one_after_another(load, name: str, task: str | None, kind: str) -> None:
    model = load(name, task)
    assert kind_of(model) == kind
    question = question_of(model)
    variants, changes = [], []
    for stack in model.stacks:
        for layer in range(model.layers(stack)):
            variants += [zeros(model, stack, layer, 1), zeros(model, stack, layer, 0, 3)]
            changes += [[zero(f"L{layer}.H1", stack=stack)], [zero(f"L{layer}.H0", f"L{layer}.H3", stack=stack)]]
            variants.append(Variant(cuts=(Cut((stack, layer), 4, 2, 1), Cut((stack, layer), 3, 1))))
            changes.append(
                [cut((4, 2), heads=f"L{layer}.H1", stack=stack), cut((3, 1), heads=f"L{layer}", stack=stack)]
            )
    first = model.stacks[0]
    variants.append(Variant({**zeros(model, first, 0, 2).reads, **zeros(model, first, 2, 1).reads}))
    changes.append([zero("L0.H2", "L2.H1", stack=first)])
    variants.append(Variant(gives={(first, 1): torch.zeros_like}))
    changes.append([without("feed-forward", 1, stack=first)])
    found = effects(model, question, variants, tokens=90)
    clean = answer(model, question)
    one_by_one = torch.cat([question.effects(clean, answer(model, question, *some)) for some in changes])
    assert_close(found, one_by_one, 1e-5)
    assert (found[:, 0].abs() > 1e-9).double().mean() > 0.8, "nearly every change changes something"
    unsigned = effects(model, question, variants, signed=False)
    assert_close(unsigned, torch.cat([question.moved(clean, answer(model, question, *some)) for some in changes]), 1e-5)
    assert (unsigned[:, 0] >= found[:, 0].abs() - 1e-5).all()


def test_blocks_below_a_change_are_not_computed(load) -> None:
    """The first block of a pass that begins at the last one is never entered."""
    model = load("tiny:llama", "causal-lm")
    question, entered = question_of(model), []
    shares(model)
    effects_module.feed_forwards(model)  # both try the probe at their first use
    handle = model.sites()[0].module.register_forward_pre_hook(lambda *_: entered.append(1))
    effects(model, question, [zeros(model, "self", 2, h) for h in range(4)])
    handle.remove()
    assert len(entered) == 1  # the clean pass
    assert "forward" not in model.hf.model.layers[0].__dict__


def test_the_output_layer_reads_only_what_is_asked(load) -> None:
    model = load("tiny:llama", "causal-lm")
    (made,) = repeated(model, 1, 0)
    question, read = made.question(model), []
    layer = model.hf.get_output_embeddings()
    hook = layer.register_forward_hook(lambda _module, args, _out: read.append(args[0].shape[1]))
    try:
        found = effects(model, question, [zeros(model, "self", 1, 2)])
    finally:
        hook.remove()
    asked = int((question.labels >= 0).sum())
    assert read[-2:] == [asked, asked]
    assert asked < question.length
    with torch.no_grad():
        own = question.read(model.hf(**question.inputs)).mean()
        with model.changed(zero("L1.H2")):
            assert_close(found[0, 0], question.read(model.hf(**question.inputs)).mean() - own)


def test_the_same_values_in_place_change_nothing(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    question = question_of(model)
    own = head_outputs(model, model.batch([model.encode(TEXTS[0])]))
    variants = [Variant(reads={place: replaced(range(4), x[0])}) for place, x in own.items()]
    assert effects(model, question, variants).abs().max() < 1e-5


@pytest.mark.parametrize(("name", "task"), [case[:2] for case in CASES if case[2] not in ("sentence", "tokens")])
def test_the_first_order_is_the_slope_of_a_small_step(load, name: str, task: str | None) -> None:
    model = load(name, task)
    question, step = question_of(model), 3e-3
    x, slope = slopes(model, question)
    generator = torch.Generator().manual_seed(1)
    new = {place: own + step * torch.randn(own.shape, generator=generator) for place, own in x.items()}
    guess = first_order(question, x, slope, new)
    places = list(x)
    variants = [Variant(reads={place: replaced([head], new[place])}) for place in places for head in range(4)]
    exact = effects(model, question, variants)[:, 0]
    estimate = torch.cat([guess[place] for place in places])
    assert torch.corrcoef(torch.stack([exact, estimate]))[0, 1] > 0.99
    assert (exact - estimate).abs().max() < 0.2 * exact.abs().max()


def test_the_first_order_of_a_distance_is_its_curvature(load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects_module, "PROBES", 300)
    for name in ("tiny:bert", "tiny:llama"):
        model = load(name)
        question, step = question_of(model), 1e-2
        x, slope = slopes(model, question)
        new = {place: (1 - step) * own for place, own in x.items()}
        guess = torch.cat(list(first_order(question, x, slope, new).values()))
        variants = [Variant(reads={place: replaced([head], new[place])}) for place in x for head in range(4)]
        exact = effects(model, question, variants)[:, 0]
        assert ((guess / exact) - 1).abs().median() < 0.15


def test_zero_is_what_the_first_order_puts_in_place_by_default(load) -> None:
    model = load("tiny:llama", "causal-lm")
    question = question_of(model)
    x, slope = slopes(model, question)
    given = first_order(question, x, slope, {place: torch.zeros(1, *own.shape[1:]) for place, own in x.items()})
    for place, heads in first_order(question, x, slope).items():
        assert_close(heads, given[place], 1e-9)


def test_the_label_is_the_corpus_s_or_what_the_model_says(load) -> None:
    model = load("tiny:bert", "classification")
    said = int(model.hf(**question_of(model).inputs).logits.argmax())
    assert question_of(model).labels.tolist() == [said]
    assert question_of(model, label="0").labels.tolist() == [0]
    assert question_of(model, label="LABEL_1").labels.tolist() == [1]
    with pytest.raises(InputError, match=r"A label must be a class of tiny:bert .* but the corpus has 'good'"):
        question_of(model, label="good")
    loss, probability, right = answer(model, question_of(model))[0].tolist()
    assert probability == pytest.approx(float(torch.tensor(-loss).exp()))
    assert right == 1


def test_losses_are_hugging_face_s_own(load) -> None:
    model = load("tiny:llama", "causal-lm")
    question = question_of(model)
    with torch.no_grad():
        expected = model.hf(**question.inputs, labels=question.inputs["input_ids"]).loss
    assert float(answer(model, question).mean()) == pytest.approx(float(expected), rel=1e-5)


def test_a_text_of_one_token_asks_nothing(load) -> None:
    model = load("tiny:llama", "causal-lm")
    alone = model.encode("the")
    short = replace(alone, **{f.name: getattr(alone, f.name)[:1] for f in fields(alone) if f.name != "given"})
    assert ask(model, short) is None


def test_slopes_leave_nothing_behind(load) -> None:
    model = load("tiny:llama", "causal-lm")
    before = [p.grad for p in model.hf.parameters()]
    slopes(model, question_of(model))
    assert [p.grad for p in model.hf.parameters()] == before
    assert clean_pass(model, question_of(model).inputs).block["self", 2] == 2


def test_the_loss_of_labels_is_that_of_what_a_token_classifier_says(load) -> None:
    model = load("tiny:bert", "token-classification")
    text = model.encode(TEXTS[0])
    question = question_of(model)
    rows = model.hf(**question.inputs).logits[0].detach().double().log_softmax(-1)
    wanted = [-float(row.max()) for row, special in zip(rows, text.special, strict=True) if not special]
    assert question.read(model.hf(**question.inputs))[0].tolist() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("head", [True, False])
def test_below_a_head_of_another_kind_the_encoder_is_looked_at(load, head: bool) -> None:
    """A model that answers questions: what a change does to its sentence vector is what it does without that head."""
    bare = load("tiny:bert")
    body = BertForQuestionAnswering(bare.hf.config).eval()
    body.bert.load_state_dict(bare.hf.state_dict(), strict=False)
    model = hw.load((body, bare.tokenizer)) if head else bare
    assert kind_of(model) == "sentence"
    found = effects(model, question_of(model), [zeros(model, "self", 1, 0), zeros(model, "self", 0, 2)])
    wanted = effects(bare, question_of(bare), [zeros(bare, "self", 1, 0), zeros(bare, "self", 0, 2)])
    assert_close(found, wanted, 1e-5)
    assert (found > 0).all()
    assert answered(model, model.encode(TEXTS[0])) == (None if head else answered(bare, bare.encode(TEXTS[0])))
    reads, probes = slopes(model, question_of(model))
    assert set(reads) == set(probes)

"""The study of reasons: against texts tried one by one, in any batches and shards; its words on either side of each
threshold."""

from __future__ import annotations

import math

import polars as pl
import pytest
import torch

import headwise as hw
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.explanations.asking import ask, ask_read
from headwise.explanations.methods import METHODS
from headwise.explanations.trial import Trial, try_out
from headwise.explanations.units import gathered, units_of
from headwise.explanations.verdict import verdict
from headwise.stats import Moments
from headwise.studies.reasons import BELIEFS, NUMBERS, Reasons, half_of, headline, numbers
from headwise.studies.study import State
from references.studies_folding import TEXTS, assert_drawable, assert_same, folded, setting

STUDY = Reasons(methods=("leave-one-out", "gradient-input", "random"), texts=0)
NB = "\u00a0"


@pytest.fixture(scope="module")
def writer() -> hw.Model:
    return hw.load("tiny:gpt2", task="causal-lm", dtype="float64")


@pytest.fixture(scope="module")
def state(writer):
    """Texts without pairs, which a language model does not read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("references.studies_folding.TEXTS", tuple((text, None) for text, _ in TEXTS))
        yield folded(writer, STUDY)


def test_equal_to_texts_tried_one_by_one(writer, state) -> None:
    rows = {row["method"]: row for row in STUDY.table(state, setting(writer)).iter_rows(named=True)}
    for name in STUDY.methods:
        found = []
        for text, _ in TEXTS:
            question = ask(writer, text)
            units = units_of(question, "words")
            if sum(unit.given for unit in units) < 3:
                continue
            scores = gathered(METHODS[name](question).tokens, units)[0]
            if name == "leave-one-out":  # of whole words, as the default explanation has it
                scores = writer.explain(text, tests=False, beside=()).scores[0]
            trial = try_out(question, units, scores, removal="delete")
            chance = sum(trial.random_aopc) / len(trial.random_aopc)
            alone = trial.levels("insertion")
            kept = trial.level("insertion") - sum(alone) / len(alone)
            found.append((trial.aopc - chance, kept, verdict(trial).belief))
        n = len(found)
        assert rows[name]["texts"] == n == 4
        assert rows[name]["deletion"] == pytest.approx(sum(f[0] for f in found) / n, abs=1e-9)
        assert rows[name]["insertion"] == pytest.approx(sum(f[1] for f in found) / n, abs=1e-9)
        for belief in BELIEFS:
            assert rows[name][belief] == pytest.approx(sum(f[2] == belief for f in found) / n)
    assert rows["leave-one-out"]["kendall"] == pytest.approx(1.0)


def test_batches_and_order_change_nothing(writer, state) -> None:
    assert_same(folded(writer, STUDY, batch_tokens=1, order=[3, 0, 4, 2, 1]), state, near=1e-9)


def test_figures(writer, state) -> None:
    assert_drawable(STUDY.figures(state, setting(writer)), ["trials", "beliefs"])


@pytest.mark.parametrize(
    ("family", "task", "kind"),
    [
        ("bert", "classification", "label"),
        ("bert", "masked-lm", "masked-token"),
        ("llama", "causal-lm", "next-token"),
        ("marian", "translation", "translation"),
    ],
)
def test_what_a_model_says_by_itself(load, family: str, task: str, kind: str) -> None:
    model = load(f"tiny:{family}", task)
    text = model.encode(TEXTS[1][0])
    target = model.encode_target(TEXTS[1][1]) if model.is_encoder_decoder else None
    question = ask_read(model, text, target)
    assert question.targets[0].kind == kind
    if kind == "masked-token":
        (gap,) = question.rows
        assert question.text.ids[gap] == model.tokenizer.mask_token_id
        assert question.targets[0].chosen == (text.ids[gap],)
        assert not question.given[gap], "the gap itself always stays"
    else:
        other = ask(model, *(part for part in TEXTS[1] if target is not None or part == TEXTS[1][0]))
        assert question.targets[0].chosen == other.targets[0].chosen
        assert question.rows == other.rows


def test_numbers_of_a_trial_by_hand() -> None:
    trial = Trial(
        steps=(0, 1, 2, 3), deletion=(0.8, 0.2, 0.2, 0.2), insertion=(0.2, 0.8, 0.8, 0.8),
        random_deletion=((0.8, 0.6, 0.4, 0.2), (0.8, 0.4, 0.4, 0.2)), random_insertion=((0.2, 0.2, 0.4, 0.8),) * 2,
        named=1, count=3, removal="mask", seed=0, passes=1, best=0.6, worst=0.2, agreement={"leave-one-out": 0.5},
    )  # fmt: skip
    found = dict(
        zip((*NUMBERS, *BELIEFS), numbers(trial, torch.tensor([1.0, 1.0, -3.0]).double()).tolist(), strict=True)
    )
    assert found["deletion"] == pytest.approx(0.6 - (1.2 / 3 + 1.4 / 3) / 2)
    assert found["insertion"] == pytest.approx(1.8 / 3 - 0.8 / 3)  # of none, one and two words kept alone
    assert found["naopc"] == pytest.approx(1.0)
    assert found["kendall"] == 0.5
    assert found["half"] == pytest.approx(1 / 3)
    assert [found[name] for name in BELIEFS] == [1.0, 0.0, 0.0, 0.0]


def test_half_of_what_speaks_for_an_answer() -> None:
    assert half_of(torch.tensor([4.0, 3.0, 1.0, 0.0]).double()) == 0.25  # 4 of 8 is half
    assert half_of(torch.tensor([3.9, 3.0, 1.1, 0.0]).double()) == 0.5
    assert math.isnan(half_of(torch.tensor([-1.0, 0.0]).double()))


def table(**beliefs: float) -> pl.DataFrame:
    rows = []
    for name, deletion in (("leave-one-out", 0.1), ("paths", 0.2), ("random", 0.9)):
        row = {"method": name, "texts": 8, "deletion": deletion, "deletion_low": deletion - 0.05,
               "deletion_high": deletion + 0.05, "half": 0.25}  # fmt: skip
        rows.append(row | {"yes": 0.0, "partly": 0.0, "no": 0.0, "nothing": 0.0} | beliefs)
    return pl.DataFrame(rows)


def test_the_answer_in_words(writer) -> None:
    (answer,) = STUDY.answers(table(yes=0.375, partly=0.125, no=0.375, nothing=0.125), setting(writer))
    assert answer.question == "What do its answers rest on?"
    assert answer.says == (
        "Of 8 answers the words that leave-one-out names hold up on 3, in part on 1, not on 3; 1 cannot tell, "
        "as no removal that was tried moves the answer, all move it alike, or the words are too few. "
        "Half of what speaks for an answer is in 25\u00a0% of the words. "
        "As words go one after another in its order, until none is left, the fall of the probability, less that in "
        "random orders, is +0.100 "
        f"(95{NB}% interval +0.050 to +0.150) in the mean of the steps; most in that of paths, "
        f"+0.200 (95{NB}% interval +0.150 to +0.250). (faithfulness takes tokens away, half of them at most, so its "
        "numbers are others.)"
    )
    assert answer.headline == (
        "On words that can be named, by paths, leave-one-out: removing these moves the answers more than removing "
        "others."
    )
    empty = table(no=1.0).with_columns(texts=pl.lit(0))
    (nothing,) = STUDY.answers(empty, setting(writer))
    assert nothing.says == "No text had 3 words or more to remove, so that no explanation could be tried."


def ranged(**ends: tuple[float, float]) -> pl.DataFrame:
    rows = [(name.replace("_", "-"), sum(both) / 2, *both) for name, both in ends.items()]
    return pl.DataFrame(rows, schema=["method", "deletion", "deletion_low", "deletion_high"], orient="row")


def test_the_headline_on_either_side_of_its_thresholds() -> None:
    sure = ranged(paths=(0.1, 0.2))
    assert headline(sure, 0.5, 4).startswith("On words that can be named")
    assert headline(sure, 0.51, 4) == (
        "On most texts this cannot be told: no removal that was tried moves the answer, all move it alike, or the "
        "words are too few."
    )


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"leave_one_out": (-0.090, 0.261), "paths": (0.299, 0.434)},
         "On words that can be named, by paths: removing these moves the answers more than removing others. Of others "
         f"this is undecided: the 95{NB}% interval of leave-one-out holds 0."),
        ({"leave_one_out": (1e-9, 0.1), "paths": (0.2, 0.3), "rollout": (-0.2, -1e-9)},
         "On words that can be named, by paths, leave-one-out: removing these moves the answers more than removing "
         "others."),
        ({"leave_one_out": (0.0, 0.1), "paths": (-0.3, 0.0)},
         f"Undecided whether on words that can be named: the 95{NB}% intervals of leave-one-out, paths hold 0, so that "
         "random words may do as well."),
        ({"leave_one_out": (-0.3, -1e-9)},
         "Not on the words that explanations name: removing random ones moves the answers more."),
    ],
)  # fmt: skip
def test_the_headline_follows_each_methods_interval(ends, said: str) -> None:
    """It said that words can be named where the interval of the method it spoke of was -0.090 to +0.261."""
    assert headline(ranged(**ends), 0.0, 6) == said


def test_the_range_from_worst_to_best_tells_its_own_number_of_texts(writer) -> None:
    """Two texts of up to ten words among three stood beside texts 3; shares end at 0 and 1."""
    rows = torch.tensor([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.6, 0.8, math.nan], [0.1, 0.2, 0.3], [0.0, 0.1, 0.9],
                         *[[0.0, 0.0, 1.0]] * 4]).double()  # fmt: skip
    study = Reasons(methods=("paths", "random"))
    alone = rows.clone()
    alone[2, 1], alone[4] = math.nan, torch.tensor([0.1, 1.0, 1.0])
    state = State({f"of@{name}": Moments.of(x, torch.ones(3)) for name, x in (("paths", rows), ("random", alone))})
    both, one = study.table(state, setting(writer)).iter_rows(named=True)
    assert (both["texts"], both["naopc_texts"], one["naopc_texts"]) == (3, 2, 1)
    assert both["naopc"] == pytest.approx(0.7)
    assert both["naopc_low"] == pytest.approx(0.7 - 1.959964 * 0.1, abs=1e-4)
    assert math.isnan(one["naopc_low"])
    assert math.isnan(one["naopc_high"])
    assert (both["half_low"], one["half_high"]) == (0.0, 1.0)


def test_one_text_that_nothing_moved_says_nothing_of_what_answers_rest_on(writer) -> None:
    """The page said "Mostly not on the words of the text" of one text, beside a curve that fell by .56 on it."""
    none = {f"deletion_{end}": pl.lit(float("nan")) for end in ("low", "high")}
    (alone,) = STUDY.answers(table(nothing=1.0).with_columns(texts=pl.lit(1), **none), setting(writer))
    assert alone.headline == "Undecided: n = 1, and it takes 4 texts."
    assert alone.says == (
        "Of 1 answer the words that leave-one-out names hold up on 0, in part on 0, not on 0; 1 cannot tell, as no "
        "removal that was tried moves the answer, all move it alike, or the words are too few. "
        "Half of what speaks for an answer is in 25\u00a0% of the words. "
        "As words go one after another in its order, until none is left, the fall of the probability, less that in "
        "random orders, is +0.100 (no "
        "interval) in the mean of the steps; most in that of paths, +0.200 (no interval). "
        "(faithfulness takes tokens away, half of them at most, so its numbers are others.)"
    )
    (three,) = STUDY.answers(table(yes=1.0).with_columns(texts=pl.lit(3)), setting(writer))
    assert three.headline == "Undecided: n = 3, and it takes 4 texts."


def test_bad_input(load) -> None:
    with pytest.raises(ModelError, match="has no head that is known; load it with its task"):
        Reasons().check(load("tiny:bert"))
    with pytest.raises(UnknownNameError, match="magic"):
        Reasons(methods=("magic",))
    with pytest.raises(InputError, match="at least one method, each once"):
        Reasons(methods=("random", "random"))
    with pytest.raises(InputError, match="must be one of auto, mask, delete, block"):
        Reasons(removal="forget")

"""The tests of an explanation: curves against one text at a time, an oracle that nothing beats, ranks by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from headwise.explanations.asking import Wish, ask
from headwise.explanations.trial import (
    EVERY,
    EVERY_STEP,
    NAMED,
    ORDERS,
    SHORT,
    Trial,
    fall,
    level,
    named_of,
    steps_of,
    try_out,
)
from headwise.explanations.units import removed, units_of

TEXT = "the old dog and it was"


@pytest.fixture(scope="module")
def asked(load):
    return ask(load("tiny:bert", "classification"), TEXT, wish=Wish(of="logit"))


def test_curves_are_the_model_asked_again(asked) -> None:
    units = units_of(asked, "words")
    scores = torch.linspace(-1, 1, len(units), dtype=torch.float64)
    trial = try_out(asked, units, scores, removal="mask")
    given = [at for at, unit in enumerate(units) if unit.given]
    order = sorted(given, key=lambda at: -float(scores[at]))
    for k in range(len(given) + 1):
        for curve, gone in ((trial.deletion, order[:k]), (trial.insertion, order[k:])):
            sets = torch.zeros(1, len(units), dtype=torch.bool)
            sets[0, gone] = True
            p = asked.without(removed(units, sets, asked), removal="mask")[0, 0, 1].exp()
            assert curve[k] == pytest.approx(float(p), rel=1e-5)
    assert len(trial.random_deletion) == len(trial.random_insertion) == math.factorial(EVERY)
    assert all(row[0] == pytest.approx(trial.deletion[0]) for row in trial.random_deletion)
    assert all(row[-1] == pytest.approx(trial.deletion[0]) for row in trial.random_insertion)


def test_no_order_beats_the_best_that_is_found_on_a_text_of_three(load) -> None:
    """Of three words greedy search is checked against all six orders."""
    asked = ask(load("tiny:bert", "classification"), "old dog was", wish=Wish(of="logit"))
    units = units_of(asked, "words")
    given = [at for at, unit in enumerate(units) if unit.given]
    falls = []
    for order in itertools.permutations(given):
        scores = torch.zeros(len(units), dtype=torch.float64)
        for place, at in enumerate(order):
            scores[at] = -place
        trial = try_out(asked, units, scores, removal="mask")
        falls.append(trial.aopc)
        assert trial.naopc is not None
    assert trial.best is not None
    assert trial.worst is not None
    assert trial.worst <= min(falls) + 1e-9 or trial.worst < sorted(falls)[1]
    assert trial.best >= max(falls) - 1e-9 or trial.best > sorted(falls)[-2]


@pytest.mark.parametrize(("words", "orders"), [(3, 6), (EVERY, 720), (EVERY + 1, ORDERS)])
def test_a_few_words_are_tried_in_every_order_there_is(load, words: int, orders: int) -> None:
    """Of 19 by lot of the 24 orders of four words some were the best one itself, which nothing beats."""
    asked = ask(load("tiny:bert", "classification"), " ".join((TEXT + " the sea").split()[:words]))
    units = units_of(asked, "words")
    scores = torch.linspace(-1, 1, len(units), dtype=torch.float64)
    trial = try_out(asked, units, scores, removal="mask")
    assert len(trial.random_deletion) == len(trial.random_insertion) == orders
    assert trial.all_orders == (words <= EVERY)
    assert (trial.deletion in trial.random_deletion) == (trial.insertion in trial.random_insertion) == trial.all_orders
    assert all(trial.rank(side) <= orders - trial.orders_beaten(side) + 1 for side in ("deletion", "insertion"))
    if trial.all_orders:
        assert len(set(trial.random_deletion)) > orders / 2


def test_the_trial_depends_on_its_seed_alone(load) -> None:
    asked = ask(load("tiny:bert", "classification"), f"{TEXT} the sea")
    units = units_of(asked, "words")
    scores = torch.arange(len(units)).double()
    one, same, other = (try_out(asked, units, scores, removal="mask", seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.random_deletion != other.random_deletion
    assert one.deletion == other.deletion


def test_agreement_is_kendalls_tau_over_what_may_be_removed(asked) -> None:
    units = units_of(asked, "words")
    scores = torch.arange(len(units)).double()
    trial = try_out(asked, units, scores, removal="mask", others={"same": scores * 2, "reversed": -scores})
    assert trial.agreement == {"same": 1.0, "reversed": -1.0}


@pytest.mark.parametrize("count", [1, 3, SHORT, SHORT + 1, EVERY_STEP, EVERY_STEP + 1, 47, 400])
def test_steps_are_their_own_mirror_image(count: int) -> None:
    steps = steps_of(count)
    assert steps[0] == 0
    assert steps[-1] == count
    assert tuple(count - k for k in reversed(steps)) == steps
    assert named_of(count) in steps
    assert 1 <= named_of(count) <= NAMED
    assert (len(steps) == count + 1) == (count <= EVERY_STEP)


def test_means_leave_out_what_cannot_be_read() -> None:
    assert fall((0.9, 0.5, math.nan)) == pytest.approx(0.4)
    assert level((0.9, 0.5, 0.3, math.nan)) == pytest.approx(0.4)
    assert math.isnan(fall((0.9,)))
    assert math.isnan(level((0.9, math.nan)))


def along(curve: tuple[float, ...], steps: tuple[int, ...]) -> float:
    """The mean over how many are gone, one number after another, each on the line between those that were asked."""
    every, asked = [], dict(zip(steps, curve, strict=True))
    for k in range(1, steps[-1] + 1):
        before, after = max(s for s in steps if s < k), min(s for s in steps if s >= k)
        share = np.float64(k - before) / (after - before)
        if not math.isnan(asked[after]):
            every.append((1 - share) * asked[before] + share * asked[after])
    return float(np.mean(every))


@pytest.mark.parametrize("count", [2, 5, EVERY_STEP + 1, 40])
@pytest.mark.parametrize("bare", [0.9, math.nan])
def test_means_are_over_every_number_of_words_gone_from_one_on(count: int, bare: float) -> None:
    """The plain mean of eight uneven steps, the whole text among them, was told as that along the whole order."""
    generator, steps = np.random.default_rng(count), steps_of(count)
    gone, kept, other = (tuple(generator.random(len(steps)).tolist()) for _ in range(3))
    gone, kept, other = (*gone[:-1], bare), (bare, *kept[1:]), (bare, *other[1:])
    trial = Trial(steps, gone, kept, (gone,), (other,), 1, count, "mask", 0, 9)
    assert level(gone, steps) == trial.level("deletion") == pytest.approx(along(gone, steps), abs=1e-12)
    assert trial.level("insertion") == pytest.approx(along(kept[::-1], steps), abs=1e-12)
    assert trial.levels("insertion") == [pytest.approx(along(other[::-1], steps), abs=1e-12)]
    assert trial.aopc == fall(gone, steps) == pytest.approx(gone[0] - along(gone, steps), abs=1e-12)


def test_normalised_aopc_by_hand() -> None:
    trial = Trial(
        (0, 1, 2), (1.0, 0.5, 0.1), (0.1, 0.9, 1.0), ((1.0, 0.9, 0.1),), ((0.1, 0.3, 1.0),), 1, 2, "mask", 0, 9
    )
    assert trial.aopc == pytest.approx(0.7)
    assert trial.naopc is None
    bounded = Trial(*list(vars(trial).values())[:10], best=0.8, worst=0.3)
    assert bounded.naopc == pytest.approx((0.7 - 0.3) / 0.5)
    assert bounded.beaten("deletion") == bounded.beaten("insertion") == 1.0


def test_units_of_every_kind(load) -> None:
    model = load("tiny:gpt2", "causal-lm")
    asked = ask(model, "The dog sleeps. It was late!\n\nThe sea.", wish=Wish(target="the sea"))
    names = {how: [u.name for u in units_of(asked, how) if u.given] for how in ("words", "sentences", "passages")}
    assert names["sentences"] == ["The dog sleeps.", "It was late!", "The sea."]
    assert names["passages"] == ["The dog sleeps. It was late!", "The sea."]
    assert names["words"][:3] == ["The", "dog", "sleeps"]
    for how in ("tokens", *names):
        units = units_of(asked, how)
        assert sorted(t for u in units for t in u.tokens) == list(range(len(asked)))
        assert all(asked.given[t] == u.given for u in units for t in u.tokens)


def test_sentences_of_a_pair_do_not_run_into_each_other(load) -> None:
    asked = ask(load("tiny:bert", "classification"), "the dog", "the cat")
    assert [u.name for u in units_of(asked, "sentences") if u.given] == ["the dog", "the cat"]


@pytest.mark.parametrize("removal", ["mask", "delete"])
def test_each_text_of_a_pair_is_removed_as_a_whole(load, removal: str) -> None:
    model = load("tiny:bert", "classification")
    asked = ask(model, "the old dog", "a city was", wish=Wish(of="logit"))
    units = units_of(asked, "words")
    tried = try_out(asked, units, torch.zeros(len(units), dtype=torch.float64), removal=removal)
    assert tried.sides is not None
    for side, p in enumerate(tried.sides):
        gone = torch.tensor([own == side and user for own, user in zip(asked.text.segment, asked.given, strict=True)])
        assert p == pytest.approx(float(asked.without(gone[None], removal=removal)[0, 0, 1].exp()), rel=1e-6)
    alone = ask(model, "the old dog", wish=Wish(of="logit"))
    assert try_out(alone, units_of(alone, "words"), torch.zeros(5, dtype=torch.float64), removal=removal).sides is None

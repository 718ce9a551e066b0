"""Adversaries of small taggers: the loss by hand, λ = 0, heads that change places, controls, knee, frozen probes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from headwise.errors import InputError
from headwise.measures.rivals import Search
from headwise.studies.adversary.taggers import (
    attention_ranks,
    gradient_input,
    leave_one_out,
    tagger_exact,
    tagger_rivals,
)
from headwise.studies.adversary.tagging.adversary import (
    Objective,
    adversary_loss,
    adversary_score,
    check_lambdas,
    chunk_counts,
    compared,
    f1_score,
    gold_loss,
    members_of,
    permuted,
    random_attention,
    uniform,
    with_attention,
)
from headwise.studies.adversary.tagging.chunks import Scheme
from headwise.studies.adversary.tagging.ensemble import Training, train
from headwise.studies.adversary.tagging.features import Vocabulary
from headwise.studies.adversary.tagging.frozen import FORMS, Stored, guided, probe, probe_loss
from headwise.studies.adversary.tagging.knee import knee, knee_of_seeds, straightened
from headwise.studies.adversary.tagging.tagger import Shape, initial, tagged
from references.tagger import made_up

DATA = made_up(90, seed=2)
WORDS = Vocabulary.of(DATA, seldom=1)
SHAPE = Shape(len(WORDS.rows), 0, len(WORDS.tags), heads=2, d_model=12, d_hidden=10, d_feature=6, near=3, dropout=0.0)
SCHEME = Scheme.of(WORDS.tags)
LEARN, HELD = WORDS.batches(DATA[:70], size=7, longest=12), WORDS.batches(DATA[70:], size=20, longest=12)
BATCH = HELD[0]
TRAINING = Training(epochs=15, patience=15, rate=2e-2, warmup=5)


@pytest.fixture(scope="module")
def base() -> dict[str, torch.Tensor]:
    """Two members that have learned the task."""
    score = f1_score(lambda p, batch: tagged(p, batch, SHAPE), HELD, SCHEME)
    found = train(initial(SHAPE, [0, 1]), LEARN, gold_loss(SHAPE), score, TRAINING)
    assert (found.scores.max(0).values > 0.95).all()
    return found.best


def tags(members, shape=SHAPE):
    return lambda batch: tagged(members, batch, shape)


@pytest.mark.parametrize("grid", [(0.1, -0.2), (), (math.nan,), (math.inf,), (1.0, 1.0)])
def test_grids_of_lambda_that_cannot_be(grid) -> None:
    with pytest.raises(InputError, match="A λ grid must have") as caught:
        check_lambdas(grid)
    assert "\n" not in str(caught.value)


def test_a_grid_rises() -> None:
    assert check_lambdas((3.0, 0.0, 0.2)) == (0.0, 0.2, 3.0)


@pytest.mark.parametrize("change", [{"distance": "kl"}, {"divergence": "tvd"}])
def test_objectives_that_cannot_be(change) -> None:
    with pytest.raises(InputError, match="is one of"):
        Objective(**change)


@pytest.mark.parametrize(("distance", "divergence"), [("nll", "kl"), ("tvd", "js")])
def test_the_loss_row_by_row(base, distance: str, divergence: str) -> None:
    """Member (λ, base 1) by loops over sentences, words and heads, padding left out."""
    mine, which, weights = initial(SHAPE, [8]), torch.tensor([1]), torch.tensor([0.3])
    loss = adversary_loss(SHAPE, base, which, weights, Objective(distance, divergence))
    found = float(loss(mine, BATCH, torch.Generator())[0])
    one, two = (tagged(p, BATCH, SHAPE) for p in (mine, {name: value[1:] for name, value in base.items()}))
    distances, apart = [], []
    for text, length in enumerate(BATCH.mask.sum(-1).tolist()):
        for word in range(length):
            p, q = (x.logits[0, text, word].double().softmax(-1).numpy() for x in (one, two))
            distances.append(-np.log(p[q.argmax()]) if distance == "nll" else np.abs(p - q).sum() / 2)
            for head in range(2):
                a, b = (x.alpha[0, text, 0, head, word, :length].double().numpy() for x in (one, two))
                m = (a + b) / 2
                kl = lambda x, y: (x * np.log(x / y)).sum()  # noqa: E731
                apart.append(kl(a, b) if divergence == "kl" else (kl(a, m) + kl(b, m)) / 2)
    assert found == pytest.approx(np.mean(distances) - 0.3 * np.mean(apart), abs=1e-4)


def test_lambda_zero_reproduces_the_base_and_a_large_one_leaves_its_attention(base) -> None:
    """Both as one ensemble, against both bases."""
    which, weights = torch.tensor([0, 1, 0, 1]), torch.tensor([0.0, 0.0, 5.0, 5.0])
    objective = Objective("nll", "js")
    score = adversary_score(SHAPE, base, which, weights, objective, HELD)
    loss = adversary_loss(SHAPE, base, which, weights, objective)
    found = train(initial(SHAPE, [7, 8, 7, 8]), LEARN, loss, score, TRAINING).best
    result = compared(tags(found), lambda batch: members_of(tagged(base, batch, SHAPE), which), HELD, SCHEME)
    own = chunk_counts(tags(base), HELD, SCHEME)
    assert (result.chunks.accuracy[:2] >= own.accuracy - 0.02).all()
    assert (result.number("changed")[:2] <= 0.02).all()
    assert (result.number("js")[2:] > result.number("js")[:2]).all()
    assert (result.number("js")[2:] > 0.5).all()
    assert (result.number("js") <= math.log(2)).all()


def test_the_base_is_at_no_distance_from_itself_and_heads_may_change_places(base) -> None:
    same = compared(tags(base), tags(base), HELD, SCHEME)
    for name in ("tvd", "kl", "js", "changed"):
        assert same.number(name).abs().max() < 1e-9
    swapped = dict(base)
    for name in ("0.v", "0.v_b", "0.o", "0.near"):
        axis = {"0.o": 1, "0.near": 1}.get(name, -1)
        parts = base[name].chunk(2, dim=axis)
        swapped[name] = torch.cat([parts[1], parts[0]], dim=axis)
    query, key = base["0.qk"].chunk(2, dim=-1)
    flip = lambda x: torch.cat([*reversed(x.chunk(2, dim=-1))], dim=-1)  # noqa: E731
    swapped["0.qk"] = torch.cat([flip(query), flip(key)], dim=-1)
    other = compared(tags(swapped), tags(base), HELD, SCHEME)
    assert other.number("tvd").max() < 1e-5
    assert other.number("js").min() > 0.05  # head by head they look far apart
    assert other.matched.max() < 1e-6  # and are the same


def test_attention_by_rule_is_attention(base) -> None:
    own = tagged(base, BATCH, SHAPE).alpha
    generator = torch.Generator().manual_seed(0)
    rules = {
        "uniform": uniform(BATCH.mask, SHAPE, 2),
        "random": random_attention(BATCH.mask, SHAPE, 2, generator),
        "permuted": permuted(own, BATCH.mask, generator),
    }
    hidden = ~BATCH.mask[None, :, None, None, None, :]
    for alpha in rules.values():
        assert alpha.shape == own.shape
        torch.testing.assert_close(alpha.sum(-1), torch.ones(alpha.shape[:-1]))
        assert (alpha.masked_select(hidden) == 0).all()
    torch.testing.assert_close(rules["permuted"].sort(-1).values, own.sort(-1).values)
    assert not torch.equal(rules["permuted"], own)
    put_in = compared(with_attention(base, SHAPE, lambda _: own), tags(base), [BATCH], SCHEME)
    assert put_in.number("tvd").max() < 1e-6


def test_ranks_of_attention(base) -> None:
    own = tagged(base, BATCH, SHAPE).alpha
    tau = attention_ranks(own, own, BATCH.mask)
    assert tau[~tau.isnan()].min() == 1.0
    assert torch.equal(tau[0, :, 0, 0].isnan(), ~BATCH.mask)
    turned = attention_ranks(own, -own, BATCH.mask)
    assert turned[~turned.isnan()].max() == -1.0


# --- the knee ---


def test_the_knee_by_hand() -> None:
    x, y = np.array([0.0, 0.5, 0.9, 1.0]), np.array([0.0, 0.02, 0.1, 1.0])
    assert knee(x, y) == 2
    assert knee(x[::-1], y[::-1]) == 1  # the number of the point, whatever the order
    assert knee(x, x) is None  # straight
    assert knee(x, np.sqrt(x)) is None  # above the line
    assert knee(x[:2], y[:2]) is None
    assert knee(3 * x + 1, 7 * y + 2) == 2


def test_the_knee_of_seeds_has_an_interval() -> None:
    x = np.array([[0.0, 0.1], [0.5, 0.5], [0.8, 0.9], [1.0, 1.1]])
    y = np.array([[0.0, 0.0], [0.02, 0.03], [0.1, 0.1], [1.0, 1.0]])
    found = knee_of_seeds(x, y)
    assert found is not None
    assert found.at == 2
    assert found.divergence == pytest.approx(0.85)
    assert (found.low, found.high, found.found) == (pytest.approx(0.8), pytest.approx(0.9), 1.0)
    assert knee_of_seeds(x, x) is None


def test_a_knee_has_a_depth_and_a_straight_line_with_spread_has_one_too() -> None:
    """By loops: the share of the divergence less that of the loss, over every draw of two seeds of two."""
    x, y = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]), np.array([[0.0, 0.0], [0.1, 0.3], [1.0, 1.0]])
    found = knee_of_seeds(x, y)
    assert found is not None
    assert found.depth == pytest.approx(0.5 - 0.2)
    assert (found.shallow, found.deep) == (pytest.approx(0.5 - 0.3), pytest.approx(0.5 - 0.1))
    np.testing.assert_allclose(straightened(x, y), [[0.0, 0.0], [0.4, 0.6], [1.0, 1.0]])
    assert found.straight == pytest.approx(0.5 - 0.4)  # both draws the first seed, one time in four
    alike = knee_of_seeds(x, y.mean(1, keepdims=True).repeat(2, axis=1))
    assert alike is not None
    assert alike.straight == 0.0


# --- frozen probes ---


@pytest.mark.parametrize("form", FORMS)
def test_frozen_attention_is_byte_identical_after_training(base, form: str, monkeypatch) -> None:
    """And is used as it is: nothing recomputes it, and no gradient comes to it."""
    stored = Stored.of(lambda batch: tagged(base, batch, SHAPE).alpha, LEARN)
    held = Stored.of(lambda batch: tagged(base, batch, SHAPE).alpha, HELD)
    sealed = stored.digest()

    def never(*_):
        raise AssertionError("attention was computed again")

    monkeypatch.setattr("headwise.studies.adversary.tagging.tagger._log_attention", never)
    fresh = probe(SHAPE, [5, 6], form)
    assert not [name for name in fresh if name.endswith(("qk", "near"))]
    score = f1_score(lambda p, batch: guided(p, batch, SHAPE, held(batch), form), HELD, SCHEME)
    found = train(fresh, LEARN, probe_loss(SHAPE, stored, form), score, TRAINING)
    assert stored.digest() == sealed
    assert not any(alpha.requires_grad for alpha in stored.maps.values())
    assert all(alpha.grad is None for alpha in stored.maps.values())
    assert (found.scores.max(0).values > 0.9).all()  # the base's attention tells the word before
    other = guided(found.best, LEARN[0], SHAPE, stored(LEARN[0]).roll(1, -1), form).logits
    assert not torch.allclose(other, guided(found.best, LEARN[0], SHAPE, stored(LEARN[0]), form).logits)


def test_the_mlp_by_hand() -> None:
    """One word at a time: its own vector and, for each head, the weighted mean of all."""
    fresh = probe(SHAPE, [3], "mlp")
    alpha = random_attention(BATCH.mask, SHAPE, 1, torch.Generator().manual_seed(1))
    found = guided(fresh, BATCH, SHAPE, alpha, "mlp").logits[0, 0, 1]
    p = {name: value[0] for name, value in fresh.items()}
    x = torch.stack([p["rows"][rows[rows > 0]].sum(0) @ p["in"] + p["in_b"] for rows in BATCH.rows[0]])
    parts = [x[1], *(sum(alpha[0, 0, 0, head, 1, j] * x[j] for j in range(len(x))) for head in range(2))]
    inner = (torch.cat(parts) @ p["1"] + p["1_b"]).relu()
    torch.testing.assert_close(found, inner @ p["tag"] + p["tag_b"], atol=1e-5, rtol=0)


def test_forms_that_there_are_not() -> None:
    with pytest.raises(InputError, match="is one of values, mlp"):
        probe(SHAPE, [0], "query")


# --- without training ---


def test_the_exact_form_keeps_every_prediction() -> None:
    """Sentences of nine words, a head size of 2: there is much freedom, and nothing changes."""
    narrow = replace(SHAPE, heads=6)
    member = initial(narrow, [4])
    long = WORDS.padded(DATA, [number for number, sentence in enumerate(DATA) if len(sentence) == 9][:3])
    found = tagger_exact(member, long, narrow)
    assert found.js.min() > 0
    assert found.tvd.max() < 1e-5
    assert not found.flipped.any()
    torch.testing.assert_close(found.alpha.sum(-1), torch.ones(3, 6, 9), atol=1e-5, rtol=0)
    assert found.alpha.min() >= 0
    short = [number for number, sentence in enumerate(DATA) if len(sentence) == len(set(sentence.words)) == 3]
    assert tagger_exact(member, WORDS.padded(DATA, short[:1]), narrow).js.isnan().all()  # [V, 1] of rank 3
    again = [number for number, sentence in enumerate(DATA) if len(sentence) == 3 > len(set(sentence.words))]
    assert tagger_exact(member, WORDS.padded(DATA, again[:1]), narrow).js.max() > 0  # a word twice: two equal values


def test_per_instance_adversaries_keep_to_epsilon(base) -> None:
    member = {name: value[:1] for name, value in base.items()}
    found = tagger_rivals(member, BATCH, SHAPE, Search(epsilon=0.1, steps=30))
    assert found.tvd.max() <= 0.1 + 1e-5
    assert found.js[0].mean() > 0.05
    with pytest.raises(InputError, match="one layer"):
        tagger_rivals(member, BATCH, replace(SHAPE, layers=2), Search())


def test_importance_by_hand(base) -> None:
    member = {name: value[:1] for name, value in base.items()}
    scores = leave_one_out(member, BATCH, SHAPE)
    vectors, rows = BATCH.vectors.clone(), BATCH.rows.clone()
    rows[2, 1] = 0
    with torch.no_grad():
        before, after = (
            tagged(member, batch, SHAPE).logits[0, 2].softmax(-1)
            for batch in (BATCH, BATCH._replace(vectors=vectors, rows=rows))
        )
    torch.testing.assert_close(scores[2, :, 1], (before - after).abs().sum(-1) / 2, atol=1e-5, rtol=0)
    exact = {name: value.double() for name, value in member.items()}
    torch.set_default_dtype(torch.float64)
    try:
        batch = BATCH._replace(vectors=BATCH.vectors.double())
        found = gradient_input(exact, batch, SHAPE)[2, 0, 1]
        step = 1e-6
        moved = []
        for sign in (1, -1):
            scale = torch.ones(*BATCH.mask.shape, 1)
            scale[2, 1] = 1 + sign * step
            x = exact["rows"][0][batch.rows].sum(-2) @ exact["in"][0] * scale + exact["in_b"][0]
            moved.append(tagged(exact, batch, SHAPE, words=x[None]).logits[0, 2, 0].detach())
        target = int((moved[0] + moved[1]).argmax())
        assert float(found) == pytest.approx(abs(float(moved[0][target] - moved[1][target])) / (2 * step), abs=1e-5)
    finally:
        torch.set_default_dtype(torch.float32)

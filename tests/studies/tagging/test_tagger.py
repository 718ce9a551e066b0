"""The tagger against its word-by-word twin; padding, batch-mates and given attention; members trained together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.errors import InputError
from headwise.studies.adversary.tagging import ensemble
from headwise.studies.adversary.tagging.adversary import f1_score, gold_loss
from headwise.studies.adversary.tagging.chunks import Scheme
from headwise.studies.adversary.tagging.ensemble import Progress, Training, train
from headwise.studies.adversary.tagging.features import Padded, Vocabulary
from headwise.studies.adversary.tagging.tagger import Shape, initial, tagged
from references import tagger as twin

DATA = twin.made_up(60, seed=1)
VECTORS = (["cat", "the"], torch.arange(6.0).view(2, 3) / 5)
WORDS = Vocabulary.of(DATA, VECTORS, seldom=1)
SHAPE = Shape(len(WORDS.rows), 3, len(WORDS.tags), layers=2, heads=2, d_model=14, d_hidden=11, d_feature=5, near=3)
BATCHES = WORDS.batches(DATA, size=7, longest=20)


@pytest.fixture(scope="module")
def members() -> dict[str, torch.Tensor]:
    return {name: value.double() for name, value in initial(SHAPE, [3, 4, 5]).items()}


@pytest.fixture(autouse=True)
def double():
    """Float64, as the twins have it."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def in_double(batch: Padded) -> Padded:
    return batch._replace(vectors=batch.vectors.double())


def test_equal_to_going_word_by_word(members) -> None:
    batch = in_double(WORDS.padded(DATA, [0, 1, 2]))
    found = tagged(members, batch, SHAPE)
    for member in range(3):
        own = {name: value[member] for name, value in members.items()}
        for at, sentence in enumerate(DATA[:3]):
            n = len(sentence)
            logits, alpha = twin.tagged(own, batch.vectors[at, :n], batch.rows[at, :n].tolist(), 2, 2, 3)
            np.testing.assert_allclose(found.logits[member, at, :n], logits, atol=1e-9)
            np.testing.assert_allclose(found.alpha[member, at, :, :, :n, :n], alpha, atol=1e-9)


def test_padding_gets_no_attention_and_no_loss(members) -> None:
    batch = in_double(WORDS.padded(DATA, [0, 1, 2, 3]))
    assert not batch.mask.all()
    hidden = ~batch.mask[:, None, None, None, :].expand_as(tagged(members, batch, SHAPE).alpha[0])
    assert (tagged(members, batch, SHAPE).alpha[:, hidden] == 0).all()
    vectors = batch.vectors.clone().requires_grad_()
    loss = gold_loss(replace(SHAPE, dropout=0.0))
    before = loss(members, batch._replace(vectors=vectors), torch.Generator())
    (gradient,) = torch.autograd.grad(before.sum(), vectors)
    assert (gradient[~batch.mask] == 0).all()
    assert (gradient[batch.mask] != 0).any()
    other = torch.where(batch.mask, batch.tags, 2)
    assert torch.equal(before, loss(members, batch._replace(tags=other), torch.Generator()))


def test_batch_mates_and_company_change_nothing(members) -> None:
    together = tagged(members, in_double(WORDS.padded(DATA, [0, 1, 2])), SHAPE).logits
    alone = in_double(WORDS.padded(DATA, [1]))
    single = tagged({name: value[2:] for name, value in members.items()}, alone, SHAPE).logits
    torch.testing.assert_close(together[2:, 1:2, : len(DATA[1])], single, atol=1e-12, rtol=0)


def test_its_own_attention_given_back_changes_nothing(members) -> None:
    batch = in_double(BATCHES[0])
    own = tagged(members, batch, SHAPE)
    given = tagged(members, batch, SHAPE, attention=own.alpha)
    torch.testing.assert_close(given.logits, own.logits, atol=1e-12, rtol=0)
    assert given.log_alpha is None


@pytest.mark.parametrize("change", [{"heads": 3}, {"layers": 0}, {"dropout": 1.0}])
def test_shapes_that_cannot_be(change) -> None:
    with pytest.raises(InputError, match="but"):
        replace(SHAPE, **change)


# --- training ---


def start(seeds=(3, 4, 5)) -> dict[str, torch.Tensor]:
    return {name: value.double() for name, value in initial(SHAPE, seeds).items()}


def trained(parameters, **options) -> Progress:
    batches, scheme = [in_double(batch) for batch in BATCHES], Scheme.of(WORDS.tags)
    score = f1_score(lambda p, batch: tagged(p, batch, SHAPE), batches[:2], scheme)
    training = options.pop("training", Training(epochs=3, warmup=5, rate=5e-3))
    return train(parameters, batches, gold_loss(SHAPE), score, training, **options)


def test_members_trained_together_are_those_trained_one_by_one() -> None:
    """Dropout and the order of the batches included."""
    together = trained(start())
    for at, seed in enumerate((3, 4, 5)):
        alone = trained(start([seed]))
        for name, value in alone.best.items():
            torch.testing.assert_close(together.best[name][at : at + 1], value, atol=1e-5, rtol=0)
        assert alone.scores[:, 0].tolist() == together.scores[:, at].tolist()


def test_it_learns_and_knows_its_best_epoch() -> None:
    found = trained(start(), training=Training(epochs=8, patience=8, warmup=5, rate=1e-2))
    assert (found.scores.max(0).values > 0.9).all()
    assert (found.scores[0] < 0.9).all()
    assert torch.equal(found.best_epoch, found.scores.argmax(0))


def test_a_resumed_training_comes_to_the_same_weights(tmp_path: Path, monkeypatch) -> None:
    whole = trained(start())
    epoch = ensemble._epoch

    def broken(progress, *rest):
        if progress.epochs == 2:
            raise KeyboardInterrupt
        epoch(progress, *rest)

    monkeypatch.setattr(ensemble, "_epoch", broken)
    with pytest.raises(KeyboardInterrupt):
        trained(start(), folder=tmp_path)
    monkeypatch.setattr(ensemble, "_epoch", epoch)
    resumed = trained(start(), folder=tmp_path)
    assert torch.equal(resumed.scores, whole.scores)
    assert all(torch.equal(resumed.best[name], value) for name, value in whole.best.items())
    with pytest.raises(InputError, match="settings it was begun with"):
        trained(start(), folder=tmp_path, facts={"other": 1})


def test_a_member_is_done_once_patience_is_over() -> None:
    """Scores by hand: the first member gains at epoch 0 and 3, with a patience of 2 only the first counts."""
    script = iter(torch.tensor([[0.5, 0.1], [0.4, 0.2], [0.4, 0.3], [0.9, 0.4]]))
    parameters = start([3, 4])
    found = train(
        parameters, [in_double(BATCHES[0])], gold_loss(SHAPE), lambda _: next(script), Training(epochs=4, patience=2)
    )
    assert found.best_epoch.tolist() == [0, 3]
    assert len(found.scores) == 4
    assert not torch.equal(found.best["tag"][0], found.parameters["tag"][0])
    assert torch.equal(found.best["tag"][1], found.parameters["tag"][1])


def test_the_rate_by_hand() -> None:
    training = Training(epochs=1, rate=1.0, warmup=3)
    assert [training.rate_at(step, 10) for step in (0, 3, 9)] == [0.25, 1.0, pytest.approx(1 / 7)]


@pytest.mark.parametrize("change", [{"epochs": 0}, {"rate": 0.0}, {"patience": 0}])
def test_trainings_that_cannot_be(change) -> None:
    with pytest.raises(InputError, match="Training needs"):
        Training(**change)

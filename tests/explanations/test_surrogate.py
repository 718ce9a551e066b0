"""The surrogate of citations: against its definition on all sets of sources, and what pairs of sets are for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.explanations import surrogate as module
from headwise.explanations.citations import paired
from headwise.explanations.surrogate import surrogate
from references import surrogate as twin

R = np.array([0.3, 0.05, 0.2, 0.1, 0.6])


@pytest.fixture(scope="module")
def seen() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    there = (generator.random((14, 5)) < 0.5).astype(float)
    return there, there @ np.array([3.0, 0, -1, 0, 0.5]) + 2 * there[:, 1] * there[:, 3] + generator.normal(size=14)


@pytest.fixture
def fixed(seen, monkeypatch):
    """The surrogate at weights and a noise that are given."""
    monkeypatch.setattr(module, "_weights", lambda *_: iter([R]))
    monkeypatch.setattr(module, "NOISES", (0.1,))
    return surrogate(*seen)


def test_predictions_and_effects_are_those_of_the_definition(seen, fixed) -> None:
    there, y = seen
    mean, covariance = twin.posterior(2 * there - 1, y, R, noise=0.1, level=module.LEVEL)
    np.testing.assert_allclose(fixed((twin.cube(5) + 1) / 2), mean)
    effect, low, high = fixed.effects()
    a = twin.differences(5)
    np.testing.assert_allclose(effect, a @ mean, atol=1e-12)
    np.testing.assert_allclose(high - effect, 1.96 * np.sqrt(fixed.scale * np.diag(a @ covariance @ a.T)))
    np.testing.assert_allclose(high - effect, effect - low)
    inside = twin.kernel(2 * there - 1, 2 * there - 1, R) + module.LEVEL + 0.1 * np.eye(14)
    assert fixed.scale == pytest.approx((y - y.mean()) @ np.linalg.inv(inside) @ (y - y.mean()) / 14)


def test_the_fit_is_of_passes_that_are_left_out(seen, fixed) -> None:
    there, y = seen
    missed = []
    for out in range(14):
        rest = np.delete(np.arange(14), out)
        signs = 2 * there[rest] - 1
        inside = twin.kernel(signs, signs, R) + module.LEVEL + 0.1 * np.eye(13)
        across = twin.kernel(2 * there[[out]] - 1, signs, R) + module.LEVEL
        missed.append(y[out] - y.mean() - (across @ np.linalg.solve(inside, y[rest] - y.mean()))[0])
    assert fixed.fit() == pytest.approx(1 - np.square(missed).sum() / np.square(y - y.mean()).sum())


def test_the_likeliest_is_chosen(seen) -> None:
    there, y = seen

    def likelihood(r: np.ndarray, noise: float) -> float:
        inside = twin.kernel(2 * there - 1, 2 * there - 1, r) + module.LEVEL + noise * np.eye(14)
        rest = y - y.mean()
        scale = rest @ np.linalg.inv(inside) @ rest / 14
        return float(-7 * np.log(scale) - np.log(np.linalg.det(inside)) / 2)

    guess = np.array([1.0, 0, 0.5, 0, 0.1])
    found, tried = surrogate(there, y, guess), []
    for trust in module.TRUSTS:
        for order in module.ORDERS:
            r = np.minimum(order / 5 * (1 - trust + trust * np.sqrt(guess)), module.MOST)
            tried += [(likelihood(r, noise), r) for noise in module.NOISES]
    np.testing.assert_allclose(found.r, max(tried, key=lambda pair: pair[0])[1])


def test_what_two_sources_do_only_together_is_no_effect_of_one_in_pairs_of_sets() -> None:
    lots = torch.rand(12, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    more = torch.rand(12, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    sizes = {}
    for name, gone in (("pairs", paired(lots)), ("lots", torch.cat([lots, more]))):
        there = (~gone).double().numpy()
        y = (2 * there[:, 0] - 1) * (2 * there[:, 1] - 1)
        sizes[name] = np.abs(surrogate(there, y).effects()[0]).max()
    assert sizes["pairs"] < 1e-12
    assert sizes["lots"] > 0.01


def test_a_wrong_guess_hides_no_source_and_intervals_hold() -> None:
    generator = np.random.default_rng(2)
    there = np.concatenate([x := (generator.random((16, 8)) < 0.5).astype(float), 1 - x])
    truth = np.array([2.0, 0, 0, -1.5, 0, 0, 0, 0])
    found = surrogate(there, there @ truth + 0.2 * generator.normal(size=32), np.arange(8.0))
    effect, low, high = found.effects()
    np.testing.assert_allclose(effect, truth, atol=0.4)
    assert ((low <= truth) & (truth <= high)).mean() >= 7 / 8

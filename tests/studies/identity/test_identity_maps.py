"""Learned maps: against numpy, against a plain loop, and the promises of early stopping and grouping."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.studies.identity import maps
from headwise.studies.identity.maps import Grams, Maps, Problem, Recipe, glorot, learn, newton, ridge, token_losses
from references import identity as twin

D_IN, D_OUT, TOKENS = 7, 5, 101


def data(seed: int = 0, tokens: int = TOKENS, noise: float = 0.3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, D_IN, generator=generator, dtype=torch.float64)
    w = torch.randn(D_IN, D_OUT, generator=generator, dtype=torch.float64)
    return x, x @ w + noise * torch.randn(tokens, D_OUT, generator=generator, dtype=torch.float64)


def stacked(*parts: tuple[torch.Tensor, torch.Tensor]) -> Grams:
    return Grams.stack([Grams.of(*part) for part in parts])


def test_closed_form_is_least_squares() -> None:
    parts = [data(0), data(1)]
    weights, _ = ridge(stacked(*parts), strengths=(0.0,))
    for weight, (x, y) in zip(weights, parts, strict=True):
        expected = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0]
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-9, atol=1e-11)


def test_closed_form_with_too_few_tokens_is_of_least_norm() -> None:
    x, y = data(tokens=4)
    weights, _ = ridge(stacked((x, y)), strengths=(0.0,))
    np.testing.assert_allclose(weights[0].numpy(), np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0], atol=1e-7)


@given(st.integers(0, 1000), st.integers(9, 40))
def test_validation_chooses_the_strength(seed: int, tokens: int) -> None:
    strengths = (1e-4, 1e-2, 1e-1, 1.0, 10.0)
    (x, y), (x_val, y_val) = data(seed, tokens, noise=3.0), data(seed, 31)
    weights, strength = ridge(stacked((x, y)), stacked((x_val, y_val)), strengths)
    expected, chosen = twin.ridge(*(part.numpy() for part in (x, y, x_val, y_val)), strengths)
    assert float(strength[0]) == chosen
    np.testing.assert_allclose(weights[0].numpy(), expected, rtol=1e-7, atol=1e-9)


def test_grams_add_up() -> None:
    x, y = data()
    whole, parts = Grams.of(x, y), Grams.of(x[:40], y[:40]) + Grams.of(x[40:], y[40:])
    for name in ("xx", "xy", "yy", "count"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))


def problem(name: str, train: int = 70, offset: int = 0, seed: int = 0) -> Problem:
    x, y = data(seed)
    return Problem(name, x, y.roll(offset, 0), torch.arange(3, train), torch.arange(80, TOKENS - 3), offset)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("loss", ["l2", "cosine"])
def test_training_is_that_of_a_plain_loop(kind: str, loss: str) -> None:
    recipe = Recipe(kind=kind, loss=loss, rate=0.02, batch=16, patience=4, hidden=11, epochs=60, together=2)
    problems = [problem("a", 70), problem("b", 55, offset=1), problem("c", 66, offset=-2)]
    learned = learn(problems, recipe, seed=3)
    for number, one in enumerate(problems):
        generator = torch.Generator().manual_seed(zlib.crc32(f"3 {one.name}".encode()))
        sizes = [(D_IN, D_OUT)] if kind == "linear" else [(D_IN, 11), (11, D_OUT)]
        weights = [glorot(*size, generator).double() for size in sizes]
        if kind == "mlp":
            weights = [weights[0], torch.zeros(11).double(), weights[1], torch.zeros(D_OUT).double()]
        expected, epoch, losses = twin.adam(
            one.x, one.y.roll(-one.offset, 0), one.train, one.validation, weights=weights, loss=loss,
            generator=generator, rate=0.02, batch=16, patience=4, epochs=60,
        )  # fmt: skip
        assert int(learned.epochs[number]) == epoch
        assert float(learned.losses[number]) == pytest.approx(min(losses), rel=1e-9)
        for got, want in zip(learned.maps.weights, expected, strict=True):
            torch.testing.assert_close(got[number], want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_company_and_order_change_nothing(kind: str) -> None:
    recipe = Recipe(kind=kind, rate=0.05, batch=16, patience=3, hidden=11, epochs=40)
    problems = [
        problem(name, train, seed=seed)
        for seed, (name, train) in enumerate({"a": 70, "b": 30, "c": 55, "d": 20, "e": 66}.items())
    ]
    together = learn(problems, recipe, seed=0).maps
    for number, one in enumerate(problems):
        alone = learn([one], recipe, seed=0).maps
        for got, want in zip(together.weights, alone.weights, strict=True):
            torch.testing.assert_close(got[number], want[0], rtol=1e-7, atol=1e-9)
    backwards = learn(problems[::-1], recipe, seed=0).maps
    for got, want in zip(backwards.weights, together.weights, strict=True):
        torch.testing.assert_close(got.flip(0), want, rtol=1e-7, atol=1e-9)


def test_early_stopping_keeps_the_best_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate that overshoots the loss goes up and down; what comes back is what was best."""
    seen: list[float] = []
    judge = maps._Learner.judge

    def watched(self, epoch: int) -> bool:
        going_on = judge(self, epoch)
        with torch.no_grad():
            losses = token_losses(self.problem.x[self.problem.validation] @ self.weights[0],
                                  self.problem.y[self.problem.validation], "l2")  # fmt: skip
        seen.append(float(losses.mean()))
        return going_on

    monkeypatch.setattr(maps._Learner, "judge", watched)
    one = problem("a")
    learned = learn([one], Recipe(rate=0.5, batch=8, patience=6), seed=0)
    best = int(np.argmin(seen))
    assert int(learned.epochs[0]) == best + 1
    assert len(seen) == best + 1 + 6, "twenty, here six, epochs without gain end it"
    assert seen[-1] > seen[best]
    loss = token_losses(one.x[one.validation] @ learned.maps.weights[0][0], one.y[one.validation], "l2").mean()
    assert float(loss) == pytest.approx(seen[best], rel=1e-9)


def test_same_seed_same_weights() -> None:
    recipe = Recipe(rate=0.05, batch=16, patience=2, epochs=5)
    first, again, other = (learn([problem("a")], recipe, seed=seed).maps.weights[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_glorot_is_within_its_bound_and_fills_it() -> None:
    drawn = glorot(300, 200, torch.Generator().manual_seed(0))
    assert 0.99 * (6 / 500) ** 0.5 < float(drawn.abs().max()) <= (6 / 500) ** 0.5


def test_newton_ends_where_the_cosine_loss_is_flat_and_no_other_way_is_lower() -> None:
    """Against L-BFGS of the loss itself, from the same start."""
    x, y = data(noise=2.0)
    start, _ = ridge(stacked((x, y)), strengths=(0.0,))
    found, steps = newton(x, y, start[0], steps=200, gain=1e-12)
    assert steps > 1
    w = start[0].clone().requires_grad_()
    solver = torch.optim.LBFGS([w], max_iter=500, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = twin.apart(x @ w, y, "cosine")
        loss.backward()
        return loss

    solver.step(closure)
    losses = [float(twin.apart(x @ weight, y, "cosine")) for weight in (start[0], w.detach(), found)]
    assert losses[2] == pytest.approx(losses[1], rel=1e-6)
    assert losses[2] < losses[0]


def test_newton_gives_the_best_map_it_has_seen() -> None:
    """A start from which nothing is gained comes back as it was."""
    x, _ = data()
    w = torch.randn(D_IN, D_OUT, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found, steps = newton(x, x @ w, w)
    assert steps == 0
    assert torch.equal(found, w)


def test_no_map_gives_back_what_it_gets() -> None:
    x = torch.randn(2, 3, 4)
    assert Maps(())(x) is x

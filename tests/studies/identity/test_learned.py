"""Folds, shared Gram matrices and rates: what must hold for any corpus."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.studies.identity.learned import INPUT, TEST, TRAIN, UNUSED, VALIDATION, Material, Question, answer, roles
from headwise.studies.identity.maps import Recipe
from headwise.studies.identity.recovery import DISTANCES, Sentences
from references import identity as twin

D, SENTENCES = 6, 30
numbers = st.lists(st.integers(0, 10**9), min_size=20, max_size=60, unique=True)


@given(numbers, st.integers(1, 20), st.integers(0, 5), st.sampled_from([1.0, 0.5, 0.01]))
def test_every_sentence_has_one_role_and_every_role_a_sentence(
    documents: list[int], folds: int, seed: int, fraction: float
) -> None:
    found = roles(torch.tensor(documents), folds=folds, fraction=fraction, seed=seed)
    assert found.shape == (folds, len(documents))
    for fold in found:
        count = fold.bincount(minlength=4).tolist()
        assert min(count[:3]) > 0
        assert count[TEST] == count[VALIDATION] == round(0.15 * len(documents))
        assert (count[UNUSED] == 0) == (fraction == 1.0)


@given(numbers, st.randoms(use_true_random=False))
def test_roles_know_the_document_alone(documents: list[int], random) -> None:
    shuffled = random.sample(documents, len(documents))
    first, second = (roles(torch.tensor(order), folds=5) for order in (documents, shuffled))
    where = [shuffled.index(document) for document in documents]
    assert torch.equal(first, second[:, where])


def test_every_sentence_is_tested_once_or_twice_in_ten_folds() -> None:
    times = (roles(torch.arange(408), folds=10) == TEST).sum(0)
    assert set(times.tolist()) == {1, 2}


def test_a_smaller_fraction_is_part_of_a_larger_one() -> None:
    small, large = (roles(torch.arange(100), folds=4, fraction=share) == TRAIN for share in (0.5, 0.8))
    assert bool((large | ~small).all())
    assert small.sum(1).tolist() == [35] * 4


@pytest.mark.parametrize(("count", "folds", "told"), [(5, 10, "folds=5"), (2, 2, "more text")])
def test_too_few_sentences_are_refused(count: int, folds: int, told: str) -> None:
    with pytest.raises(InputError, match=told):
        roles(torch.arange(count), folds=folds)


def test_a_split_of_two_parts_is_refused() -> None:
    with pytest.raises(InputError, match="70,15,15"):
        roles(torch.arange(30), folds=2, split=(80, 20))


def material(hidden: dict[int, torch.Tensor], lengths: torch.Tensor, folds: int = 4, order=None) -> Material:
    """`hidden` by layer for the sentences 0, 1, …; `order` lines them up differently."""
    count = len(lengths)
    order = torch.arange(count) if order is None else order
    sentences = Sentences(lengths, torch.arange(int(lengths.sum())) % 23)
    tokens = sentences.tokens(order)
    return Material(
        {layer: rows[tokens] for layer, rows in hidden.items()},
        Sentences(lengths[order], sentences.ids[tokens]),
        roles(order, folds=folds),
    )


def random_lengths(seed: int = 0) -> torch.Tensor:
    return torch.randint(2, 12, (SENTENCES,), generator=torch.Generator().manual_seed(seed))


def noisy(scale: float, seed: int = 0) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
    """x, and two layers that are x under two maps, with noise."""
    generator = torch.Generator().manual_seed(seed)
    lengths = random_lengths(seed)
    x = torch.randn(int(lengths.sum()), D, generator=generator)
    rows = {INPUT: x}
    for layer in range(2):
        w = torch.linalg.qr(torch.randn(D, D, generator=generator))[0]
        rows[layer] = x @ w + scale * (layer + 1) * torch.randn(x.shape, generator=generator)
    return rows, lengths


def question(map_: str = "linear", **options) -> Question:
    given = {"distances": DISTANCES, "layers": (0, 1), "tested": (0, 1), "target": lambda _: INPUT, **options}
    return Question(map=map_, **given)


@pytest.mark.parametrize("solver", ["closed-form", "newton", "adam"])
def test_a_rotation_is_undone_by_a_linear_map(solver: str) -> None:
    rows, lengths = noisy(0.0)
    recipe = Recipe(rate=0.05, batch=64, patience=10, epochs=25)
    for rates in answer(question(solver=solver, recipe=recipe, cross=False), material(rows, lengths)).values():
        diagonal = (rates.credit / rates.count)[:, 0].diagonal(dim1=1, dim2=2)
        assert float(diagonal.min()) == 1.0
    without = answer(question("none"), material(rows, lengths))["l2"]
    assert float(without.token_credit.nanmean()) < 0.6


def test_noise_is_recovered_as_often_as_by_guessing() -> None:
    lengths = torch.full((1500,), 7)
    generator = torch.Generator().manual_seed(0)
    rows = {layer: torch.randn(7 * 1500, D, generator=generator) for layer in (INPUT, 0, 1)}
    for map_ in ("none", "linear"):
        for rates in answer(question(map_, cross=False), material(rows, lengths, folds=10)).values():
            credit = rates.token_credit
            # 21,000 lookups of a chance of 1/7: four standard errors are 0.01
            assert float(credit.mean()) == pytest.approx(1 / 7, abs=0.01)


@pytest.mark.parametrize("offset", [0, 1, -2])
def test_closed_form_equals_loops_over_folds_and_sentences(offset: int) -> None:
    rows, lengths = noisy(0.7)
    here = material(rows, lengths)
    strengths = (1e-3, 1e-1, 10.0)
    found = answer(question(offset=offset, strengths=strengths, sets=("test", "train")), here)
    x, ids = rows[INPUT].double().numpy(), here.sentences.ids.tolist()
    for row, layer in enumerate((0, 1)):
        e = rows[layer].double().numpy()
        for fold in range(here.folds):
            train, validation = (here.tokens(fold, role, offset).numpy() for role in (TRAIN, VALIDATION))
            w, _ = twin.ridge(e[train], x[train + offset], e[validation], x[validation + offset], strengths)
            for number, role in enumerate((TEST, TRAIN)):
                tokens = here.sentences.tokens(here.chosen(fold, role)).numpy()
                sizes = here.sentences.lengths[here.chosen(fold, role)].tolist()
                for column, tested in enumerate((0, 1)):
                    mapped = rows[tested].double().numpy()[tokens] @ w
                    for distance in DISTANCES:
                        position, word, _ = twin.rates(
                            mapped, x[tokens], [ids[t] for t in tokens], sizes, distance, offset
                        )
                        where = (slice(None), number, row, column, fold)
                        got = found[distance].credit[where].tolist()
                        assert got == pytest.approx([sum(position), sum(word), len(position)]), "no two x are equal"
                        assert found[distance].count[where].tolist() == [len(position)] * 3


def test_order_of_documents_changes_nothing() -> None:
    """Hidden tokens come in the order of batches; a fold is what it is."""
    rows, lengths = noisy(0.5)
    order = torch.randperm(SENTENCES, generator=torch.Generator().manual_seed(1))
    for options in ({"solver": "closed-form"}, {"map_": "none"}):
        first = answer(question(**options), material(rows, lengths))["cosine"]
        second = answer(question(**options), material(rows, lengths, order=order))["cosine"]
        np.testing.assert_allclose(first.credit.numpy(), second.credit.numpy())
        np.testing.assert_allclose(first.count.numpy(), second.count.numpy())


@pytest.mark.parametrize("map_", ["linear", "mlp"])
def test_rates_do_not_depend_on_the_grouping_of_folds(map_: str) -> None:
    rows, lengths = noisy(0.5)
    rows = {layer: x.double() for layer, x in rows.items()}
    found = []
    for together in (1, 3, 100):
        recipe = Recipe(rate=0.02, batch=64, patience=3, epochs=5, hidden=13, together=together)
        found.append(answer(question(map_, solver="adam", recipe=recipe), material(rows, lengths)))
    for other in found[1:]:
        for distance in DISTANCES:
            assert torch.equal(other[distance].credit, found[0][distance].credit)
            assert torch.equal(other[distance].epochs, found[0][distance].epochs)


def test_newton_learns_one_map_a_distance() -> None:
    """By l2 the map is that of least squares; by cosine it never loses on the tokens it was learned from."""
    rows, lengths = noisy(0.7)
    squares, angles = (
        answer(question(solver=solver, sets=("test", "train")), material(rows, lengths))
        for solver in ("closed-form", "newton")
    )
    assert torch.equal(squares["l2"].credit, angles["l2"].credit)
    assert not torch.equal(squares["cosine"].credit, angles["cosine"].credit)
    assert angles["cosine"].epochs is not None

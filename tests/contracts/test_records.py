"""What a record says of its quantity is true of its numbers, and a record is all that a new quantity needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.attributions import Origins
from headwise.errors import UnknownNameError
from headwise.measures import ATTENTION, MIXING
from headwise.quantities import (
    EXPLANATIONS,
    LENGTH,
    MAPS,
    ORIGINS,
    ROWS_OF_LENGTHS,
    ROWS_OF_SHARES,
    ROWS_UNKNOWN,
    Quantity,
    Size,
    every,
    find,
)
from headwise.registry import Registry
from headwise.server.answer import Ask, quantity_labels
from headwise.viewer.of_trace import page_of_trace, shown
from headwise.viewer.payload import header_of
from references import synthetic

OF_LAYERS = [*ATTENTION.entries(), *MIXING.entries()]
every_measure = pytest.mark.parametrize("quantity", OF_LAYERS, ids=lambda quantity: quantity.name)


@pytest.fixture(autouse=True)
def _registries_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in MAPS:
        monkeypatch.setattr(registry, "_entries", {name: registry.entry(name) for name in registry})


def maps_of(quantity: Quantity) -> Iterator[torch.Tensor]:
    """The rows of real queries, of several random layers."""
    for seed, kind in enumerate(("full", "causal", "window")):
        layer = synthetic.layer(kind, seed=seed)
        rows = quantity.value(layer).movedim(-2, 1)[layer.query_mask]
        yield rows[~rows.isnan().any(-1)] if rows.ndim == 2 else rows


@every_measure
def test_signed_is_what_is_signed(quantity: Quantity) -> None:
    assert any(bool((maps < 0).any()) for maps in maps_of(quantity)) == quantity.signed


@every_measure
def test_a_distribution_is_one(quantity: Quantity) -> None:
    whole = all(bool(((maps.sum(-1) - 1).abs() < 1e-5).all() and (maps >= 0).all()) for maps in maps_of(quantity))
    assert whole == quantity.distribution


@pytest.mark.parametrize("quantity", MIXING.entries(), ids=lambda quantity: quantity.name)
def test_the_residual_is_inside_where_the_record_says_so(quantity: Quantity) -> None:
    """Another residual gives other numbers if, and only if, it is part of them."""
    layer = synthetic.layer("causal")
    assert layer.residual is not None
    other = replace(layer, residual=layer.residual.flip(-1), memo={}, text_memo={})
    assert torch.equal(quantity.value(layer), quantity.value(other)) != quantity.residual


def test_a_mixing_quantity_must_say_whether_the_residual_is_inside() -> None:
    with pytest.raises(TypeError, match=r"'mine' does not; pass residual=True or residual=False"):
        MIXING.add("mine", "Mine.")


def test_rows_are_captioned_by_what_they_are() -> None:
    assert Quantity("a", None, "A.", distribution=True).rows == ROWS_OF_SHARES == "Each row adds up to 1."
    assert Quantity("a", None, "A.", unit=LENGTH).rows == ROWS_OF_LENGTHS
    assert Quantity("a", None, "A.").rows == ROWS_UNKNOWN
    assert Quantity("a", None, "A.", distribution=True, rows="Odd.").rows == "Odd."
    assert (Quantity("a", None, "A.").label, Quantity("a", None, "A.", label="An a").label) == ("a", "An a")
    with pytest.raises(ValueError, match="signed and a distribution"):
        Quantity("a", None, "A.", signed=True, distribution=True)


def test_every_record_is_whole() -> None:
    for quantity in every():
        assert quantity.about[0].isupper() or quantity.about[0] == "‖", quantity.name
        assert quantity.about.endswith("."), quantity.name
        assert quantity.label != quantity.name, "people read the label"
        assert quantity.unit != "value", quantity.name
        assert quantity.rows != ROWS_UNKNOWN, quantity.name
        assert quantity.paper.startswith("https://arxiv.org/abs/") or quantity.name in ("raw", "raw-mean")
    assert len({quantity.name for quantity in every()}) == len(every()), "one name, one quantity"
    assert len({quantity.label for quantity in shown()}) == len(shown())


def test_costs_grow_as_the_passes_do() -> None:
    """12 d² + 2 n d multiplications a token and layer; flow is a guess of its own."""
    size = Size(tokens=10, layers=3, width=7)
    assert size.a_pass == 10 * 3 * (12 * 49 + 2 * 10 * 7)
    found = {each.name: each.work(size) / size.a_pass for each in every() if each.work is not None}
    assert found.pop("flow") == 200_000 * 9 * 10**4 / size.a_pass
    assert found == {"value-zeroing": 10, "hidden-token": 160, "output-weighted": 60}


def test_lists_are_in_order_of_kind_place_and_name() -> None:
    names = [quantity.name for quantity in shown()]
    assert names[:6] == ["raw", "effective", "null", "norm", "alternative", "raw-mean"]
    assert names[-1] == "flow"
    ATTENTION.add("zeta", "Zeta.")(lambda layer: layer.alpha)
    ATTENTION.add("eta", "Eta.")(lambda layer: layer.alpha)
    assert list(ATTENTION) == ["raw", "effective", "null", "norm", "eta", "zeta"]


def test_any_map_is_found_by_name() -> None:
    assert [find(name).kind for name in ("null", "alti", "value-zeroing", "flow")] == [
        "attention", "mixing", "mixing", "origins",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match=r"no quantity 'rolout'; .*raw.*flow.* Did you mean 'rollout'\?"):
        find("rolout")


def test_explanations_are_records_too() -> None:
    signed = {entry.name for entry in EXPLANATIONS.entries() if entry.signed}
    assert signed == {"gradient-input", "integrated-gradients", "leave-one-out"}
    assert {entry.kind for entry in EXPLANATIONS.entries()} == {"explanation"}


@pytest.mark.parametrize("kind", ["attention", "mixing", "origins"])
def test_a_new_quantity_is_in_the_viewer_and_the_server_without_another_edit(
    kind: str, load: Callable[..., hw.Model]
) -> None:
    facts: dict[str, Any] = {"label": "My map", "unit": "thing", "rows": "As they are.", "signed": True, "quick": True}
    if kind == "attention":
        ATTENTION.add("mine", "My own.", **facts)(lambda layer: -layer.alpha)
    elif kind == "mixing":
        MIXING.add("mine", "My own.", residual=False, **facts)(lambda layer: -layer.alpha.mean(1))
    else:
        ORIGINS.add("mine", "My own.", **facts)(_mine)
    trace = load("tiny:bert").trace("the sea")
    (mine,) = [found for found in page_of_trace(trace).stacks[0].quantities if found.name == "mine"]
    np.testing.assert_array_equal(mine.values, trace.quantity("mine").numpy())
    header = _headers(page_of_trace(trace, quantities=["mine"]))["mine"]
    facts.pop("quick")
    assert {name: header[name] for name in ("kind", "about", *facts)} == {"kind": kind, "about": "My own.", **facts}
    assert quantity_labels()["mine"] == "My map"
    assert "mine" in (Ask("the sea", "m", quantity="quick").quantities or ())


def _mine(model: hw.Model, batch: Any) -> Origins:
    n = batch.mask.shape[1]
    return Origins(-torch.ones(len(batch.texts), model.layers(), n, n) / n)


def _headers(page: Any) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in header_of(page, 3)["stacks"][0]["quantities"]}


def test_values_below_zero_are_shown_so_where_the_record_forgot() -> None:
    from headwise.viewer.payload import Maps, quantity_header

    record = Quantity("mine", None, "Mine.")
    values = np.full((1, 1, 2, 2), 0.5, np.float32)
    assert not quantity_header(Maps(record, values, (0,), (0,)), 3)["signed"]
    values[0, 0, 0, 0] = -4e-7  # rounding
    assert not quantity_header(Maps(record, values, (0,), (0,)), 3)["signed"]
    values[0, 0, 0, 0] = -1e-6
    assert quantity_header(Maps(record, values, (0,), (0,)), 3)["signed"]


def test_a_registry_finds_the_modules_of_its_package(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shelf_of_things"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from headwise.registry import Registry\nTHINGS = Registry('thing', package=__name__)"
    )
    for name, order in (("one", 20), ("two", 10)):
        text = f"from shelf_of_things import THINGS\nTHINGS.add('{name}', 'About {name}.', order={order})({order})\n"
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import shelf_of_things  # pyright: ignore[reportMissingImports]

    things: Registry[int] = shelf_of_things.THINGS
    assert (list(things), things["one"], len(things), "two" in things) == (["two", "one"], 20, 2, True)
    things.remove("one")
    assert list(things) == ["two"]

"""What every registered quantity must obey; a new one is found here through the registry."""

from __future__ import annotations

import pytest
import torch

from headwise.errors import UnknownNameError
from headwise.measures import ATTENTION, MIXING
from headwise.registry import Registry
from headwise.types import Layer
from references import quantities as twins
from references import synthetic
from references.compare import assert_close

MEASURES = {name: registry[name] for registry in (ATTENTION, MIXING) for name in registry}
TWINS = {**twins.ATTENTION, **twins.MIXING}
MASKS = ("full", "causal", "window")
every_quantity = pytest.mark.parametrize("name", list(MEASURES))
every_mask = pytest.mark.parametrize("kind", MASKS)


def test_quantities_are_found() -> None:
    assert {"raw", "effective", "null", "norm"} <= set(ATTENTION)
    assert {"raw-mean", "norm-sum", "norm-residual", "norm-residual-ln"} <= set(MIXING)
    assert not set(ATTENTION) & set(MIXING), "one name, one quantity"


@every_quantity
@every_mask
def test_equal_to_its_twin(name: str, kind: str) -> None:
    assert name in TWINS, f"write the naive twin of {name} in tests/references/quantities.py"
    for kv_heads in (1, 3):
        layer = synthetic.layer(kind, kv_heads=kv_heads, inner=kv_heads == 1)
        assert_close(MEASURES[name](layer), TWINS[name](layer))


@every_quantity
@every_mask
def test_padding_and_batch_mates_change_nothing(name: str, kind: str) -> None:
    """Lengths on both sides of the head size, so that both ways to project are met."""
    batch = synthetic.layer(kind, lengths=(13, 3, 7, 5))
    together = MEASURES[name](batch)
    for text, length in enumerate((13, 3, 7, 5)):
        single = MEASURES[name](synthetic.alone(batch, text))
        cropped = together[text : text + 1, ..., :length, :length]
        assert_close(cropped, single)
        assert not together[text, ..., :length, length:].any(), "padding gets nothing"


@every_quantity
def test_order_of_texts_does_not_matter(name: str) -> None:
    layer = synthetic.layer("causal")
    order = torch.tensor([1, 0])
    turned = Layer(
        stack="self", index=0, first_row=0, alpha=layer.alpha[order], value=layer.value[order],
        visible=layer.visible[order], query_mask=layer.query_mask[order], key_mask=layer.key_mask[order],
        out=layer.out[order], residual=layer.residual[order], circuit=layer.circuit,
    )  # fmt: skip
    assert_close(MEASURES[name](turned), MEASURES[name](layer)[order], 1e-6)


@every_quantity
@every_mask
@pytest.mark.parametrize("size", [1, 5])
def test_blocks_of_rows_make_the_whole(name: str, kind: str, size: int) -> None:
    whole = synthetic.layer(kind)
    got = [MEASURES[name](block) for block in synthetic.blocks(whole, size)]
    assert_close(torch.cat(got, dim=-2), MEASURES[name](whole))


@every_quantity
def test_asking_twice_and_in_any_order_gives_the_same(name: str) -> None:
    layer = synthetic.layer("causal")
    first = MEASURES[name](layer).clone()
    for other in (ATTENTION, MIXING):
        for another in other:
            other[another](layer)
    torch.testing.assert_close(MEASURES[name](layer), first, rtol=0, atol=0, equal_nan=True)


@every_quantity
def test_keeps_the_precision_of_the_weights(name: str) -> None:
    assert MEASURES[name](synthetic.layer()).dtype == torch.float32


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match=r"effective.*Did you mean 'norm'"):
        ATTENTION["norn"]
    assert "norn" not in ATTENTION


def test_a_name_is_taken_once() -> None:
    registry: Registry[int] = Registry("thing", [])
    registry.add("one", "first")(1)
    assert (registry["one"], list(registry), registry.entry("one").about) == (1, ["one"], "first")
    with pytest.raises(ValueError, match="twice"):
        registry.add("one", "again")(2)

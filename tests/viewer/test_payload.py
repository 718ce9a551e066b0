"""A page packed and read back: same numbers, within its budget, and it says what was given up."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import InputError
from headwise.viewer.codes import decode, nice_ceiling, unpack
from headwise.viewer.payload import LADDER, Page, Stack, estimated, numbered, numbers, ordinal, packed
from viewer.samples import HEADS, LAYERS, TOKENS, facts, full_page, quantity, side, softmax


def read_back(page: Page, budget: int = 10**9) -> list[np.ndarray]:
    """Every quantity of the first stack as the browser would decode it."""
    data = packed(page, budget=budget)
    out = []
    for q, head in enumerate(data.header["stacks"][0]["quantities"]):
        stack = page.stacks[0]
        shape = (len(head["heads"]), len(stack.queries), len(stack.keys))
        floors = np.array(head["floor"])[:, :, None, None]
        layers = [decode(unpack(data.blocks[0, q, at], shape), floor) for at, floor in enumerate(floors)]
        out.append(np.stack(layers))
    return out


def test_every_quantity_comes_back_to_three_digits() -> None:
    page = full_page()
    for shown, original in zip(read_back(page), page.stacks[0].quantities, strict=True):
        np.testing.assert_allclose(shown, original.values, rtol=0.00501)
        assert np.array_equal(np.isnan(shown), np.isnan(original.values))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.sampled_from([10**9, 2_500, 1_500]), st.floats(0.1, 6.0))
def test_any_budget_keeps_colours_right(seed: int, budget: int, sharpness: float) -> None:
    values = softmax((1, 2, 11, 13), seed, sharpness)
    rows, columns = side(tuple("abcdefghijk")), side(tuple("abcdefghijklm"))
    page = Page("", "", (Stack("cross", rows, columns, (quantity("raw", "attention", values),)),))
    (shown,) = read_back(page, budget)
    assert np.abs(shown - values).max() <= nice_ceiling(float(values.max())) / 255


def test_a_small_budget_gives_up_digits_then_layers_and_says_so() -> None:
    values = softmax((6, 2, 31, 31), sharpness=1.0)
    tokens = side(tuple(f"t{n}" for n in range(31)))
    page = Page("", "", (Stack("self", tokens, tokens, (quantity("raw", "attention", values),)),))
    sizes = {}
    for budget in (10**6, 24_000, 9_000):
        data = packed(page, budget=budget)
        sizes[budget] = sum(map(len, data.blocks.values()))
        assert sizes[budget] <= budget
        layers = data.header["stacks"][0]["quantities"][0]["layers"]
        assert data.header["exact"] is (budget == 10**6)
        assert (len(layers) < 6) is (budget == 9_000)
        assert bool(data.header["notes"]) is (budget == 9_000)
    assert sizes[10**6] > sizes[24_000] > sizes[9_000]


def test_a_page_that_is_too_large_loses_the_null_space_first_and_its_facts_follow_its_layers() -> None:
    tokens = side(tuple(f"t{n}" for n in range(31)))
    named = enumerate(("raw", "effective", "null"))
    maps = [quantity(name, "attention", softmax((6, 2, 31, 31), seed)) for seed, name in named]
    page = Page("", "", (Stack("self", tokens, tokens, tuple(maps), facts(6, 2)),))
    coarsest = estimated(page, LADDER[-1])
    budget = {"fits": 10**6, "no null": coarsest * 4 // 5, "few layers": coarsest * 2 // 5}
    heads = {name: packed(page, budget=size).header for name, size in budget.items()}
    names = {name: [each["name"] for each in head["stacks"][0]["quantities"]] for name, head in heads.items()}
    assert names["fits"] == ["raw", "effective", "null"]
    assert names["no null"] == names["few layers"] == ["raw", "effective"]
    assert [pair[0] for pair in heads["no null"]["missing"]] == ["null"]
    assert heads["no null"]["stacks"][0]["quantities"][0]["layers"] == list(range(6))
    (stack,) = heads["few layers"]["stacks"]
    layers = stack["quantities"][0]["layers"]
    assert 1 <= len(layers) < 6
    assert stack["facts"]["null_share"] == [[2 * layer / 20, (2 * layer + 1) / 20] for layer in layers]


def test_the_header_is_json_and_tells_undefined_from_not_computed() -> None:
    page = full_page()
    page.stacks[0].quantities[0].values[0, 0, 0, 0] = np.nan
    header = json.loads(json.dumps(packed(page).header, allow_nan=False))
    (stack,) = header["stacks"]
    assert stack["keys"] is None  # the same tokens on both sides are stored once
    assert [each["undefined"] for each in stack["quantities"]] == [1, 0, 0, 0, 0, 0]
    assert [each["signed"] for each in stack["quantities"]] == [False, True, False, False, False, False]
    assert np.array(stack["quantities"][0]["peak"]).shape == (LAYERS, HEADS)
    assert stack["facts"]["other_js"][0] == [0.25, None, None]


def test_arrays_must_fit_their_tokens() -> None:
    page = full_page()
    wrong = Stack("self", side(), side(("a", "b")), page.stacks[0].quantities)
    with pytest.raises(InputError, match=rf"key = \({LAYERS}, {HEADS}, {TOKENS}, 2\)"):
        packed(Page("", "", (wrong,)))


@pytest.mark.parametrize("chosen", [[-1], [3], [0, 7]])
def test_numbers_must_exist(chosen: list[int]) -> None:
    with pytest.raises(InputError, match="Layer numbers must lie in 0 … 2"):
        numbers(3, chosen, axis="Layer")


def test_a_token_that_is_there_twice_is_named_with_its_number() -> None:
    assert numbered(["the", "cat", "the", "The", "the"]) == ["the (1st)", "cat", "the (2nd)", "The", "the (3rd)"]
    assert [ordinal(n) for n in (1, 2, 3, 4, 10)] == ["1st", "2nd", "3rd", "4th", "10th"]
    assert [ordinal(n) for n in (11, 12, 13, 21, 22)] == ["11th", "12th", "13th", "21st", "22nd"]
    assert [ordinal(n) for n in (101, 111, 112)] == ["101st", "111th", "112th"]

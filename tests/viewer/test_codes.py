"""Three significant digits in sixteen bits: hand-worked codes, then the laws that hold for any number."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from headwise.viewer.codes import FINEST, UNDEFINED, decades, decode, encode, nice_ceiling, pack, peaks, unpack

magnitudes = st.floats(1e-30, 1e4, allow_subnormal=False)
numbers = st.one_of(st.just(0.0), magnitudes, magnitudes.map(lambda value: -value))
arrays = nps.arrays(np.float64, st.integers(1, 23), elements=numbers)


def floor_for(values: np.ndarray, below: int) -> int:
    return int(decades(np.abs(values).max(keepdims=True))[0]) - below


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0.0, 0, 0.0),
        (0.0999, 999, 0.0999),
        (0.09996, 1000, 0.1),  # carries into the next decade
        (0.12345, 1023, 0.123),
        (-2.0, -2000, -2.0),  # 100 of the decade of units: 1000 + 900 + 100
        (0.00004, 0, 0.0),  # below half of the floor
        (0.00006, 1, 0.0001),
        (math.nan, UNDEFINED, math.nan),
        (-math.inf, UNDEFINED, math.nan),
    ],
)
def test_codes_worked_by_hand(value: float, code: int, shown: float) -> None:
    codes = encode(np.array([value]), -4)
    assert codes.tolist() == [code]
    np.testing.assert_allclose(decode(codes, -4), [shown], rtol=1e-12)


@given(arrays)
def test_a_shown_value_is_the_value_to_three_significant_digits(values: np.ndarray) -> None:
    """Within 34 decades of the largest value nothing is lost but the fourth digit."""
    floor = floor_for(values, FINEST)
    kept = np.where(np.abs(values) >= 10.0 ** (floor + 2), values, 0.0)
    shown = decode(encode(kept, floor), floor)
    for value, seen in zip(kept, shown, strict=True):
        half = 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - 2) if value else 0.0
        assert abs(seen - value) <= half * (1 + 1e-9)
        assert float(f"{seen:.2e}") == pytest.approx(seen, rel=1e-12)  # it has no fourth digit


@given(arrays, st.sampled_from([FINEST, 6, 5, 4, 3, 2]))
def test_colours_are_right_to_one_part_in_255(values: np.ndarray, below: int) -> None:
    floor = floor_for(values, below)
    error = np.abs(decode(encode(values, floor), floor) - values)
    assert error.max() <= nice_ceiling(float(np.abs(values).max())) / 255


@given(arrays, st.integers(-8, 0))
def test_coding_twice_changes_nothing(values: np.ndarray, floor: int) -> None:
    codes = encode(values, floor)
    np.testing.assert_array_equal(encode(decode(codes, floor), floor), codes)


@given(arrays, st.integers(-8, 0))
def test_codes_keep_the_order_of_values(values: np.ndarray, floor: int) -> None:
    assert (np.diff(encode(np.sort(values), floor).astype(int)) >= 0).all()


@given(nps.arrays(np.int16, nps.array_shapes(min_dims=3, max_dims=3, max_side=7)))
def test_packed_codes_come_back(codes: np.ndarray) -> None:
    block = pack(codes)
    assert json.dumps(block) == f'"{block}"'
    np.testing.assert_array_equal(unpack(block, codes.shape), codes)


@given(magnitudes)
def test_a_scale_reaches_its_values_and_not_much_further(peak: float) -> None:
    assert peak <= nice_ceiling(peak) <= 1.51 * peak


def test_peaks_leave_out_what_is_not_a_number() -> None:
    maps = np.array([[[0.5, np.nan], [-0.75, 0.1]], [[np.nan, np.inf], [np.nan, np.nan]]])
    assert peaks(maps).tolist() == [0.75, 0.0]
    assert nice_ceiling(0.0) == 1.0

"""The one comparison of the tests: the largest difference, over the largest number but at least 1."""

from __future__ import annotations

import numpy as np
import torch


def assert_close(got: torch.Tensor | np.ndarray, expected: torch.Tensor | np.ndarray, tolerance: float = 1e-5) -> None:
    """Equal where `expected` is not NaN; there `got` may hold anything (rows of padding)."""
    got, expected = (np.asarray(x, dtype=np.float64) for x in (got, expected))
    assert got.shape == expected.shape, f"{got.shape} is not {expected.shape}"
    counted = ~np.isnan(expected)
    assert counted.any(), "nothing to compare"
    difference = np.abs(got - expected)[counted].max()
    size = max(1.0, np.abs(expected[counted]).max())
    assert difference <= tolerance * size, f"differs by {difference:.2e} where numbers go up to {size:.2e}"

"""Where a hidden token's content comes from: origins, one file a method; users reach them by name through ORIGINS.

A mixing quantity tells what one block does; origins tell what the blocks up to a layer have done together: the share of
every input token in every hidden token. Layer 0 is the output of the first block.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwise.quantities import ORIGINS, PASSES, check_options


@dataclass(frozen=True)
class Origins:
    """The share of every input token in every hidden token, for a padded batch.

    The row of a real token sums to 1 over the real tokens it can come from; rows and columns of padding are zero. A row
    of NaN means that no input reaches the token (or, weighted by the output, that the output does not read it).
    `error` is the standard error of an estimate, None where the maps are exact.
    """

    maps: Float[Tensor, "batch layer token input"]
    error: Float[Tensor, "batch layer token input"] | None = None


__all__ = ["ORIGINS", "PASSES", "Origins", "check_options"]

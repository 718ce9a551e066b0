"""The interval of a share: Wilson's, which stays between 0 and 1 and has a width where all, or none, are counted."""

from __future__ import annotations

import math


def of_share(part: int, whole: int) -> tuple[float, float]:
    """Wilson's interval of a share.

    >>> [round(end, 3) for end in of_share(5, 10)]
    [0.237, 0.763]
    """
    if not whole:
        return math.nan, math.nan
    z, share = 1.959964, part / whole
    centre = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return centre - reach, centre + reach

"""Charts that a notebook shows without a network: drawn here, as SVG, and not by scripts from an address."""

from __future__ import annotations

from typing import Any


def inline(chart: Any) -> Any:
    """The chart, which shows itself as SVG; everything else about it is as it was.

    subtle: altair's own way loads Vega from a CDN, and to change altair's renderer would change every chart of the
    user's. A chart keeps its fields in a dictionary of its own, so that this one is not a field of it.
    """
    object.__setattr__(chart, "_repr_mimebundle_", lambda **_: {"image/svg+xml": drawn(chart)})
    return chart


def drawn(chart: Any) -> str:
    import vl_convert

    return vl_convert.vegalite_to_svg(chart.to_dict())

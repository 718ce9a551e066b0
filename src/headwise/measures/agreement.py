"""How far two attention maps agree, over the pairs a query may see."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Map = Float[Tensor, "batch head query key"]
Pairs = Bool[Tensor, "batch query key"]


def pearson(a: Map, b: Map, pairs: Pairs) -> Float[Tensor, "batch head"]:
    """Pearson correlation of the entries of two maps; NaN where either is constant."""
    weight = pairs[:, None].double()
    count = weight.sum((-2, -1))
    centred = [
        (x.double() - (x * weight).sum((-2, -1), keepdim=True) / count[..., None, None]) * weight for x in (a, b)
    ]
    covariance = (centred[0] * centred[1]).sum((-2, -1))
    variances = [x.square().sum((-2, -1)) for x in centred]
    return covariance / (variances[0] * variances[1]).sqrt()


def squared_share(part: Map, whole: Map, pairs: Pairs) -> Float[Tensor, "batch head"]:
    """‖part‖² / ‖whole‖² (Frobenius): with the null-space part, the share of the map that changes nothing."""
    weight = pairs[:, None]
    return ((part.double() ** 2) * weight).sum((-2, -1)) / ((whole.double() ** 2) * weight).sum((-2, -1))


def js_divergence(p: Float[Tensor, "*rows key"], q: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Jensen-Shannon divergence of rows in nats, at most ln 2: H((p+q)/2) − (H(p) + H(q))/2."""
    entropy = lambda x: torch.special.entr(x.double()).sum(-1)  # noqa: E731 - one formula, used three times
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).clamp(min=0)

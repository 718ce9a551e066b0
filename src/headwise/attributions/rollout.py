r"""Rollout: what each block mixes, multiplied through the layers (Abnar and Zuidema 2020, https://arxiv.org/abs/2005.00928).

    Ã_l = ½ Â_l + ½ I      where A_l is attention alone (its record says residual=False)
    Ã_l = Â_l              where the residual is part of A_l
    R_l = Ã_l R_{l−1},   R_0 = Ã_0;   Â has the rows of A divided by their sums

`alti-rollout` (Ferrando et al. 2022, https://arxiv.org/abs/2203.04212) is the rollout of that quantity; GlobEnc has its
own (globenc_rollout.py). Cost: the mixing quantity's own, and n³ a layer.

subtle: shares are multiplied as if what two paths carry could only add up. Vectors that cancel are not seen;
hidden-token does see them.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.attributions import ORIGINS, Origins
from headwise.attributions.mixing import has_residual, mixing_maps
from headwise.measures.block import check
from headwise.models.model import Model
from headwise.quantities import SHARE
from headwise.types import Batch


@ORIGINS.add(
    "rollout",
    "Raw attention and the residual multiplied through the layers.",
    label="Attention rollout",
    unit=SHARE,
    distribution=True,
    quick=True,
    cost="a forward pass and n³ a layer",
    paper="https://arxiv.org/abs/2005.00928",
    order=30,
)
def rollout(model: Model, batch: Batch, *, mixing: str = "raw-mean") -> Origins:
    """R_l of any mixing quantity."""
    steps = transitions(mixing_maps(model, batch, mixing), batch.mask, with_residual=has_residual(mixing))
    return Origins(rolled_out(steps))


@ORIGINS.add(
    "alti-rollout",
    "ALTI of every block, multiplied through the layers.",
    label="ALTI rollout",
    unit=SHARE,
    distribution=True,
    cost="that of alti and n³ a layer",
    needs=lambda _, layer: check(layer, "alti"),
    paper="https://arxiv.org/abs/2203.04212",
    order=50,
)
def alti_rollout(model: Model, batch: Batch) -> Origins:
    return rollout(model, batch, mixing="alti")


def transitions(
    maps: Float[Tensor, "batch layer query key"], mask: Bool[Tensor, "batch token"], *, with_residual: bool
) -> Float[Tensor, "batch layer query key"]:
    """Ã_l: rows that sum to 1, with the residual; padding rows are zero."""
    rows = _normalised(maps)
    if not with_residual:
        rows = _normalised((rows + torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)) / 2)
    return torch.where(mask[:, None, :, None], rows, 0.0)


def rolled_out(steps: Float[Tensor, "batch layer query key"]) -> Float[Tensor, "batch layer token input"]:
    """R_l = Ã_l R_{l−1} of every layer; NaN in the rows of tokens that are undefined, and in theirs alone."""
    known = steps.where(~steps.isnan(), 0.0)
    rolled = [known[:, 0]]
    for layer in range(1, steps.shape[1]):
        rolled.append(known[:, layer] @ rolled[-1])
    return torch.stack(rolled, dim=1).masked_fill(undefined(steps)[..., None], torch.nan)


def undefined(steps: Float[Tensor, "batch layer query key"]) -> Bool[Tensor, "batch layer token"]:
    """True where a token's own row is NaN (alti has such), or where it reads a token of which this is true.

    subtle: 0 · NaN is NaN, so in a plain product one such row would spread to tokens that do not read it.
    """
    found = [steps[:, 0].isnan().any(-1)]
    for layer in range(1, steps.shape[1]):
        step = steps[:, layer]
        found.append(step.isnan().any(-1) | ((step > 0) & found[-1][:, None, :]).any(-1))
    return torch.stack(found, dim=1)


def _normalised(maps: Tensor) -> Tensor:
    """Rows as shares; a row that has nothing is NaN: undefined."""
    return maps / maps.sum(-1, keepdim=True)

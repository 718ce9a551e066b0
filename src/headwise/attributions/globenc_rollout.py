r"""GlobEnc through the layers, as its authors' code does it (Modarressi et al. 2022, https://arxiv.org/abs/2205.03286).

    N_l,ij = ‖ N₂ N₁ u_ij ‖ / (σ¹_i σ²_i)       lengths, not shares: σ¹ and σ² are those of the two norms of block l
    P_l = N_l P_{l−1},  P_0 = N_0;   R_l has the rows of P_l divided by their sums

`globenc-share-rollout` is what the formula of the paper reads like to many: every N_l turned into shares first
(`rollout` of `globenc`). The two differ much: with lengths a token whose vectors are long counts for more to those who
read it. In pre-norm blocks only N₂ stands there, with its σ². Cost: that of globenc, and n³ a layer.

subtle: P grows with the depth like a power, so it is divided by its largest number in every layer, which no share sees.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.attributions import ORIGINS, Origins
from headwise.attributions.rollout import rollout
from headwise.measures.globenc import last_norm, scaled
from headwise.models.capture import Site, at_least_float, first_tensor
from headwise.models.model import Model
from headwise.quantities import SHARE
from headwise.types import Batch, Layer


@ORIGINS.add(
    "globenc-rollout",
    "GlobEnc's lengths of every block multiplied through the layers, shares at the end.",
    label="GlobEnc rollout",
    unit=SHARE,
    distribution=True,
    cost="that of globenc and n³ a layer",
    needs=lambda _, layer: last_norm(layer),
    paper="https://arxiv.org/abs/2205.03286",
    order=40,
)
def globenc_rollout(model: Model, batch: Batch) -> Origins:
    return Origins(products(lengths(model, batch), batch.mask))


@ORIGINS.add(
    "globenc-share-rollout",
    "GlobEnc's shares of every block, multiplied through the layers.",
    label="GlobEnc rollout of shares",
    unit=SHARE,
    distribution=True,
    cost="that of globenc and n³ a layer",
    needs=lambda _, layer: last_norm(layer),
    paper="https://arxiv.org/abs/2205.03286",
    order=45,
)
def globenc_share_rollout(model: Model, batch: Batch) -> Origins:
    return rollout(model, batch, mixing="globenc")


def lengths(model: Model, batch: Batch) -> Float[Tensor, "batch layer query key"]:
    """N_l of every block of the first stack, from one pass; padding rows and columns are zero."""
    sites = {site.index: site for site in model.proof.sites if site.stack == model.stacks[0]}
    blocks: dict[int, list[Tensor]] = {}
    sigmas: dict[int, Tensor] = {}
    awaited: dict[nn.Module, Site] = {}

    def keep(layer: Layer) -> None:
        blocks.setdefault(layer.index, []).append(scaled(layer))
        last_of = sites[layer.index].last_of
        assert last_of is not None, "globenc refuses blocks without it"
        awaited[last_of] = sites[layer.index]

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The first thing that the last norm reads after a block's attention is that block's output."""
        read = first_tensor(args, kwargs)
        if read is not None and (site := awaited.pop(module, None)) is not None and site.circuit.last is not None:
            sigmas[site.index] = site.circuit.last.sigma(at_least_float(read))

    with ExitStack() as hooks, torch.no_grad():
        for module in {site.last_of for site in sites.values() if site.last_of is not None}:
            hooks.callback(module.register_forward_pre_hook(note, with_kwargs=True).remove)
        model.run(batch, keep, wanted=lambda site: site.stack == model.stacks[0])
    maps = torch.stack(
        [torch.cat(blocks[at], dim=1) / sigmas[at].reshape(*batch.mask.shape, 1) for at in sorted(blocks)], dim=1
    )
    return torch.where(batch.mask[:, None, :, None] & batch.mask[:, None, None, :], maps, 0.0)


def products(
    steps: Float[Tensor, "batch layer query key"], mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch layer token input"]:
    """R_l: the rows of N_l … N_0 as shares; padding rows are zero."""
    product, rolled = steps[:, 0], []
    for layer in range(steps.shape[1]):
        product = steps[:, layer] @ product if layer else product
        product = product / product.amax((-1, -2), keepdim=True)
        rolled.append(product / product.sum(-1, keepdim=True))
    return torch.where(mask[:, None, :, None], torch.stack(rolled, dim=1), 0.0)

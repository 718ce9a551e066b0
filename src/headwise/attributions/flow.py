r"""Attention flow (Abnar and Zuidema 2020, https://arxiv.org/abs/2005.00928): the layers as pipes.

The rows Ã_l of rollout are the capacities of pipes from hidden token j of layer l to the tokens of layer l − 1. The
share of input i in e_j^l is the largest flow from the one to the other, as a share of all inputs' flows: the narrowest
place of a way counts, where rollout multiplies. Each of n²·L pairs is a maximum-flow problem with up to L·n² pipes, so
this is for short texts only.

subtle: flows are found for whole numbers; capacities are rounded to 2⁻²⁴.
"""

from __future__ import annotations

import numpy as np
import scipy
import torch
from jaxtyping import Float

from headwise.attributions import ORIGINS, Origins
from headwise.attributions.mixing import has_residual, mixing_maps
from headwise.attributions.passes import shares
from headwise.attributions.rollout import transitions, undefined
from headwise.errors import InputError
from headwise.models.model import Model
from headwise.quantities import SHARE
from headwise.types import Batch

LIMIT = 24  # tokens of a text, unless told: the time grows with the fourth power of them
UNIT = 2**24


@ORIGINS.add(
    "flow",
    "The largest flow from an input token to a hidden one.",
    label="Attention flow",
    unit=SHARE,
    distribution=True,
    cost="n²·L maximum-flow problems: for short texts",
    work=lambda size: 200_000 * size.layers**2 * size.tokens**4,  # a guess, in the time of multiplications
    paper="https://arxiv.org/abs/2005.00928",
    order=60,
)
def flow(model: Model, batch: Batch, *, mixing: str = "raw-mean", limit: int = LIMIT) -> Origins:
    """The maximum flow of every pair, as shares."""
    longest = max(len(text) for text in batch.texts)
    if longest > limit:
        raise InputError(
            f"Flow solves a maximum-flow problem for each layer and pair of tokens, so a text may have {limit} tokens, "
            f"but one has {longest}; take rollout, or pass limit={longest} and wait."
        )
    maps = mixing_maps(model, batch, mixing)
    steps = transitions(maps, batch.mask, with_residual=has_residual(mixing))
    found, known = torch.zeros_like(steps), steps.where(~steps.isnan(), 0.0)
    for text, length in enumerate(len(encoding) for encoding in batch.texts):
        pipes = known[text, :, :length, :length].double().cpu().numpy()
        found[text, :, :length, :length] = torch.from_numpy(largest_flows(pipes)).to(found)
    return Origins(shares(found, batch.mask).masked_fill(undefined(steps)[..., None], torch.nan))


def largest_flows(pipes: Float[np.ndarray, "layer token input"]) -> Float[np.ndarray, "layer token input"]:
    """The largest flow from every hidden token to every input token, 1 being all that a token can hold."""
    layers, n, _ = pipes.shape
    found = np.zeros(pipes.shape)
    for layer in range(layers):
        graph = _graph(pipes[: layer + 1])
        for token, source in enumerate(range((layer + 1) * n, (layer + 2) * n)):
            for sink in range(n):
                found[layer, token, sink] = scipy.sparse.csgraph.maximum_flow(graph, source, sink).flow_value / UNIT
    return found


def _graph(pipes: Float[np.ndarray, "layer token input"]) -> scipy.sparse.csr_array:
    """Token t of layer l (0: the inputs) is node l · n + t; pipes lead to the layer below."""
    layer, token, below = np.nonzero(pipes)
    n, nodes = pipes.shape[1], (pipes.shape[0] + 1) * pipes.shape[1]
    capacity = np.round(pipes[layer, token, below] * UNIT).astype(np.int32)
    ends = ((layer + 1) * n + token, layer * n + below)
    return scipy.sparse.csr_array((capacity, ends), shape=(nodes, nodes))

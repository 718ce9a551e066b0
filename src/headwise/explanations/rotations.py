"""Which dimensions of a key are turned in pairs by its position (RoPE), found by what the model does.

One token, repeated, is the same hidden token at every position of a model that knows positions by rotation alone, for
attention only averages equal values. Its keys then differ by the rotation and nothing else: squares k_i² change along
the text, k_i² + k_j² of a pair does not. The first dimension that moves is turned fastest; its partner stands beside it
(interleaved) or half a rotation away, and that layout must then hold for every dimension that moves. Where it does not
(positions are added, or keys normed after the rotation) there are no pairs. A pair that turns too slowly to be seen is
told by the layout, where this is by halves. A sink of attention makes the repeated tokens differ above the first layer;
there the layout of the first layer of the stack is taken.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attributions.passes import plain_experts
from headwise.attributions.prediction import attend_all
from headwise.errors import ModelError
from headwise.explanations.frozen import Freezing, freezing
from headwise.explanations.query_key import factors
from headwise.models.capture import Call, Site, watching
from headwise.models.model import Model
from headwise.types import Encoding

REPEATED = 8  # tokens
MOVES, KEPT = 1e-3, 1e-4  # of a key's mean square: more than rounding, and no more than it
Pairs = tuple[tuple[int, int], ...]

_known: weakref.WeakKeyDictionary[nn.Module, dict[tuple[str, int], Pairs]] = weakref.WeakKeyDictionary()


def pairs_of(model: Model, text: Encoding, target: Encoding | None, place: tuple[str, int]) -> Pairs:
    """The pairs of one attention layer (stack, number); asked once a model."""
    if model.hf not in _known:
        _known[model.hf] = _asked(model, text, target)
    return _known[model.hf].get(place, ())


def partners(key: Float[Tensor, "head token d"]) -> Pairs | None:
    """Pairs of dimensions whose keys of one repeated token are turned along the text; None where they change else."""
    squares = key.double().square()
    size = squares.mean((-1, -2), keepdim=True)
    moving = (_spread(squares, size) > MOVES).nonzero().flatten().tolist()
    if not moving:
        return ()
    first = moving[0]
    together = _spread(squares[..., first : first + 1] + squares, size)
    together[first] = torch.inf
    step = int(together.argmin()) - first
    firsts = range(first, moving[-1], 2) if step == 1 else range(first, first + step)
    pairs = tuple((one, one + step) for one in firsts)
    turned = {d for pair in pairs for d in pair}
    if step < 1 or max(turned) >= key.shape[-1] or not turned.issuperset(moving):
        return None
    one, other = map(list, zip(*pairs, strict=True))
    return pairs if float(_spread(squares[..., one] + squares[..., other], size).max()) <= KEPT else None


def _spread(squares: Tensor, size: Tensor) -> Float[Tensor, " d"]:
    """How far each column moves along the tokens, in the head where it moves most."""
    return ((squares.amax(1, keepdim=True) - squares.amin(1, keepdim=True)) / size).amax((0, 1))


def _asked(model: Model, text: Encoding, target: Encoding | None) -> dict[tuple[str, int], Pairs]:
    inputs = _repeated(model, text, target)
    sites: list[Site] = list(model.proof.sites)
    found: dict[tuple[str, int], Pairs | None] = {}
    if inputs is None:
        return {}
    options = {"use_cache": False} if model.causal or model.is_encoder_decoder else {}
    with freezing(model, Freezing(), side="left") as mode:

        def watch(call: Call) -> tuple[Tensor, Tensor]:
            out, alpha = attend_all(call)
            site = sites[len(found)]
            try:
                found[site.stack, site.index] = partners(factors(mode.last(), model.name)[1])
            except ModelError:
                found[site.stack, site.index] = ()
            return out.detach().requires_grad_(), alpha

        with watching(model.hf, watch), plain_experts(model), mode:
            model.hf(**inputs, **options)
    first = {stack: pairs for (stack, _), pairs in reversed(found.items())}
    return {place: (first[place[0]] if pairs is None else pairs) or () for place, pairs in found.items()}


def _repeated(model: Model, text: Encoding, target: Encoding | None) -> dict[str, Any] | None:
    """One word of the text, again and again; None where the model does not read tokens."""
    inputs = model.batch([text], [] if target is None else [target]).inputs
    if "input_ids" not in inputs:
        return None
    whole = {name: tensor for name, tensor in inputs.items() if tensor.ndim == 2 and name != "position_ids"}
    return {name: tensor[:, [_word(tensor, text)]].expand(-1, REPEATED) for name, tensor in whole.items()}


def _word(tensor: Tensor, text: Encoding) -> int:
    plain = [at for at, special in enumerate(text.special) if not special and at < tensor.shape[1]]
    return plain[0] if plain else 0


__all__ = ["pairs_of", "partners"]

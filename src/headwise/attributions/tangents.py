r"""Forward mode with one shared primal: what a model does to many small changes of its input at once.

A `Dual` is a tensor with a bundle of tangents, [tangent *shape]. Every function of torch that a model calls on it is
computed once on the tensor itself and once, batched, on its tangents:

    linear functions (views, sums, a weight matrix)   the function itself on the tangents
    elementwise ones (GELU, SiLU, tanh …)             the derivative, taken once, times the tangents
    products, softmax, LayerNorm                      their textbook rules
    all others                                        torch's own: vmap over jvp of that one function

so no family of models is known here. torch.func.vmap(jvp) of the whole model shares the primal too, but evaluates
derivatives anew for each tangent and takes LayerNorm apart.

subtle: only what reaches a function of torch through a Dual is seen. A model that writes a Dual into a plain tensor
would lose it, so this is refused (`NotSharedError`), and every model is proved on a probe against torch's own forward
mode (attributions/passes.py), which then serves those that fail.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


@cache
def forward_rules() -> None:
    """torch compiles the rules of its forward mode at their first use, by a function that it warns of itself.

    That takes a third of a second, so it is done where forward mode is used, and not by whoever imports this file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


class NotSharedError(Exception):
    """The model does something to its tensors that tangents cannot follow here."""


class Dual(Tensor):
    """A tensor with tangents [tangent *shape]; made by `dual`."""

    tangent: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return _apply(func, args, kwargs or {})


def dual(primal: Tensor, tangent: Tensor) -> Dual:
    """`primal` with its tangents, [tangent *shape of primal]."""
    forward_rules()
    made = primal.detach().as_subclass(Dual)
    made.tangent = tangent
    return made


def tangent_of(x: Tensor, count: int) -> Tensor:
    """The tangents of a model's output; zero where it does not depend on the input."""
    return x.tangent if isinstance(x, Dual) else x.new_zeros(()).expand(count, *x.shape)


def _apply(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = getattr(func, "__name__", "")
    if (name.endswith("_") and not name.endswith("__")) or name == "__setitem__":
        raise NotSharedError(f"{name} writes into a tensor with tangents, or writes one into another")
    plain_args, plain_kwargs = pytree.tree_map_only(Dual, _primal, (args, kwargs))
    out = func(*plain_args, **plain_kwargs)
    if name in CONSTANT or not any(_is_float(leaf) for leaf in pytree.tree_leaves(out)):
        return out
    made = RULES.get(name, _by_jvp)(func, out, args, kwargs)
    return _by_jvp(func, out, args, kwargs) if made is NotImplemented else made


def _primal(x: Dual) -> Tensor:
    return x.as_subclass(Tensor)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _with(out: Tensor, tangent: Tensor) -> Dual:
    made = out.as_subclass(Dual)
    made.tangent = tangent
    return made


def _by_jvp(func: Callable[..., Any], out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any differentiable function of torch: vmap over its jvp."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Dual)]

    def floats(*primals: Tensor) -> list[Tensor]:
        whole = list(leaves)
        for at, primal in zip(places, primals, strict=True):
            whole[at] = primal
        inner_args, inner_kwargs = pytree.tree_unflatten(whole, spec)
        return [leaf for leaf in pytree.tree_leaves(func(*inner_args, **inner_kwargs)) if _is_float(leaf)]

    primals = tuple(_primal(leaves[at]) for at in places)

    def moved(*tangents: Tensor) -> list[Tensor]:
        return torch.func.jvp(floats, primals, tangents)[1]

    found = iter(torch.func.vmap(moved)(*(leaves[at].tangent for at in places)))
    return pytree.tree_map(lambda leaf: _with(leaf, next(found)) if _is_float(leaf) else leaf, out)


def _linear(func: Callable[..., Any], out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function linear in all its tensors of numbers: itself on the tangents, plain tensors being constants."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Dual)]

    def on_tangents(*tangents: Tensor) -> Any:
        whole = [torch.zeros_like(leaf) if _is_float(leaf) else leaf for leaf in leaves]
        for at, tangent in zip(places, tangents, strict=True):
            whole[at] = tangent
        inner_args, inner_kwargs = pytree.tree_unflatten(whole, spec)
        return func(*inner_args, **inner_kwargs)

    moved = torch.func.vmap(on_tangents)(*(leaves[at].tangent for at in places))
    return pytree.tree_map(_with, out, moved)


def _elementwise(func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """f(x) of each number alone: f′(x), once, times the tangents."""
    x, rest = args[0], args[1:]
    if any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((rest, kwargs))) or not isinstance(x, Dual):
        return NotImplemented
    primal = _primal(x)
    slope = torch.func.jvp(lambda p: func(p, *rest, **kwargs), (primal,), (torch.ones_like(primal),))[1]
    return _with(out, x.tangent * slope)


def _sum_of(out: Tensor, terms: list[Tensor]) -> Dual:
    """The tangents of a sum, each brought to the shape of `out`."""
    count, wide = terms[0].shape[0], [_aligned(term, out.ndim) for term in terms]
    total = wide[0] if len(wide) == 1 else wide[0] + wide[1]
    return _with(out, total.expand(count, *out.shape))


def _aligned(tangent: Tensor, ndim: int) -> Tensor:
    """Tangents of a tensor that is broadcast to `ndim` axes: the new axes stand after the first."""
    missing = ndim - (tangent.ndim - 1)
    return tangent if missing == 0 else tangent.reshape(tangent.shape[0], *[1] * missing, *tangent.shape[1:])


def _add(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return NotImplemented
    return _sum_of(out, [x.tangent for x in args if isinstance(x, Dual)])


def _sub(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return NotImplemented
    a, b = args
    return _sum_of(out, [x.tangent * sign for x, sign in ((a, 1), (b, -1)) if isinstance(x, Dual)])


def _mul(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return NotImplemented
    a, b = args
    terms = []
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Dual):
            terms.append(_aligned(x.tangent, out.ndim) * (_primal(other) if isinstance(other, Dual) else other))
    return _sum_of(out, terms)


def _matmul(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    a, b = args
    if kwargs or a.ndim != b.ndim or a.ndim < 3 or a.shape[:-2] != b.shape[:-2]:
        return NotImplemented
    terms = []
    if isinstance(a, Dual):
        other = _primal(b) if isinstance(b, Dual) else b
        terms.append(torch.einsum("t...mk,...kp->t...mp", a.tangent, other))
    if isinstance(b, Dual):
        other = _primal(a) if isinstance(a, Dual) else a
        terms.append(torch.einsum("...mk,t...kp->t...mp", other, b.tangent))
    return _sum_of(out, terms)


def _weights(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x W + b with constant W and b."""
    if kwargs or any(isinstance(part, Dual) for part in args[1:]) or not isinstance(args[0], Dual):
        return NotImplemented
    return _with(out, torch.nn.functional.linear(args[0].tangent, args[1]))


def _addmm(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or isinstance(args[0], Dual) or isinstance(args[2], Dual):
        return NotImplemented
    return _with(out, args[1].tangent @ args[2])


def _softmax(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """dp = p (ds − Σ p ds)."""
    x, dim, *_ = (*args, kwargs.get("dim"))
    if dim is None:
        return NotImplemented
    weighted = x.tangent.to(out.dtype) * out
    dim = dim if dim < 0 else dim + 1
    return _with(out, torch.addcmul(weighted, weighted.sum(dim, keepdim=True), out, value=-1))


def _layer_norm(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """With x̂ = (x − mean)/σ: d(γ x̂ + β) = γ/σ (dx − mean(dx) − x̂ mean(x̂ dx))."""
    x, shape, weight, _, eps = [*args, *(kwargs.get(n, d) for n, d in LAYER_NORM[len(args) :])]
    if len(shape) != 1 or not isinstance(x, Dual) or isinstance(weight, Dual):
        return NotImplemented
    primal, tangent = _primal(x), x.tangent
    centred = primal - primal.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    unit, gain = centred * scale, scale if weight is None else scale * weight
    # Both means in one reading of the tangents: [tangent d] × [d 2] for each token.
    means = torch.einsum("t...d,...dc->t...c", tangent, torch.stack([torch.ones_like(unit), unit], -1) / shape[0])
    moved = (tangent * gain).addcmul_(means[..., :1], gain, value=-1).addcmul_(means[..., 1:], unit * gain, value=-1)
    return _with(out, moved)


def _dropout(_func: Callable[..., Any], out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Nothing is dropped outside training, nor with probability 0."""
    x, p, training = [*args, *(kwargs.get(n, d) for n, d in DROPOUT[len(args) :])][:3]
    return _with(out, x.tangent) if p == 0 or not training else NotImplemented


DROPOUT = (("input", None), ("p", 0.5), ("training", True))
LAYER_NORM = (("input", None), ("normalized_shape", None), ("weight", None), ("bias", None), ("eps", 1e-5))
CONSTANT = {"detach", "zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty",
            "new_full", "rand_like", "randn_like"}  # fmt: skip
RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("view", "reshape", "transpose", "permute", "contiguous", "expand", "__getitem__", "chunk", "split", "unbind",
         "squeeze", "unsqueeze", "flatten", "unflatten", "to", "float", "double", "type", "type_as", "clone", "movedim",
         "repeat_interleave", "narrow", "neg", "__neg__", "sum", "mean", "cat", "stack", "swapaxes"),
        _linear,
    ),
    **dict.fromkeys(
        ("gelu", "silu", "relu", "tanh", "sigmoid", "exp", "rsqrt", "sqrt", "pow", "__pow__", "square", "erf",
         "softplus", "log", "log1p", "abs", "relu6", "hardtanh", "mish", "sin", "cos"),
        _elementwise,
    ),
    **dict.fromkeys(("add", "__add__", "__radd__"), _add),
    **dict.fromkeys(("sub", "__sub__"), _sub),
    **dict.fromkeys(("mul", "__mul__", "__rmul__"), _mul),
    **dict.fromkeys(("matmul", "__matmul__", "bmm"), _matmul),
    "linear": _weights,
    "addmm": _addmm,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "dropout": _dropout,
}  # fmt: skip

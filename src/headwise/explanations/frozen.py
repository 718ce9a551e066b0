"""The frozen network: a transformer with all that is not linear held at the values it had on one text.

Every function of torch that a model calls is seen (a `TorchFunctionMode`), and treated by what it computes:

    softmax                      its weights are constants            (attention="frozen", the default)
                                 or differentiated, p = J s + rest    (attention="differentiated")
    LayerNorm, RMSNorm           σ is a constant, centring and gain stay
    f(z), f(0) = 0               z · [f(z)/z], the ratio a constant: GELU, SiLU, ReLU, tanh, powers, clamps
    f(z), f(0) ≠ 0               a constant: sigmoid, exp, rsqrt
    a · b, a @ b of activations  one factor is a constant (`gate`), or each is for one half of the product
    a / b                        b is a constant
    + constant, bias             noted as a leaf, so that its own part of the result is known

What is left is linear in the embeddings and the biases, with the same output, so that by one backward pass

    output  =  Σ_i x_i · ∂output/∂x_i  +  Σ_b b · ∂output/∂b            exactly.

Relatives: DecompX (https://arxiv.org/abs/2306.02873), ALTI-Logit (https://arxiv.org/abs/2305.12535), information flow
routes (https://arxiv.org/abs/2403.00824), AttnLRP (https://arxiv.org/abs/2402.05602, the differentiated variant).

No module is known by its name. A function that has no rule keeps its own derivative, which is right where it is linear;
where it is not the parts do not add up, and whoever asked compares (explanations/paths.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.errors import InputError
from headwise.models.model import Model

ATTENTIONS = ("frozen", "differentiated")
GATES = ("activation", "linear", "half")
VOCABULARY = 8192  # outputs above which a map is one to words, whose sums are taken in parts
WIDE = 512  # words that one sum of the backward pass runs over


@dataclass(frozen=True)
class Freezing:
    """Which of the choices that are left is taken. `gate`: the factor that is a constant in act(z) · up."""

    attention: str = "frozen"
    gate: str = "activation"

    def __post_init__(self):
        if self.attention not in ATTENTIONS:
            raise InputError(f"Attention is {' or '.join(ATTENTIONS)}, but {self.attention!r} was asked for.")
        if self.gate not in GATES:
            raise InputError(f"The frozen factor of a gate is {', '.join(GATES)}, but {self.gate!r} was asked for.")


@dataclass
class Leaves:
    """Where the frozen network begins, in the order of the pass: [(stack, tensor)] of embedded ids, and constants."""

    embedded: list[tuple[str, Tensor]] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)

    def constant(self, value: Tensor) -> Tensor:
        leaf = value.detach().clone().requires_grad_()
        self.constants.append(leaf)
        return leaf


class Scored(NamedTuple):
    """What the last softmax read, and the products (a, b, a @ b) of activations before it."""

    scores: Tensor | None
    products: Sequence[tuple[Tensor, Tensor, Tensor]]


class Frozen(TorchFunctionMode):
    """While it is active, what a model computes is the frozen network; `leaves` fills up.

    `side`: of a product a @ b of activations, "left" or "right", the factor that is not held; by default each is for
    one half. `scores`: what the last softmax read. `scored`: the products (a, b, a @ b) of activations before it.
    """

    def __init__(self, freezing: Freezing, *, cut: Callable[[Tensor], Tensor] | None = None, side: str | None = None):
        super().__init__()
        self.freezing, self.cut, self.side, self.leaves, self.stack = freezing, cut, side, Leaves(), ""
        self.scores: Tensor | None = None
        self.scored: list[tuple[Tensor, Tensor, Tensor]] = []
        self.products: list[tuple[Tensor, Tensor, Tensor]] = []  # since that softmax

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "embedding":
            return self._embedding(func(*args, **kwargs))
        rule = RULES.get(name)
        if rule is None or not any(map(depends, _tensors(args, kwargs))):
            return func(*args, **kwargs)
        return rule(self, func, args, kwargs)

    def last(self) -> Scored:
        return Scored(self.scores, self.scored)

    def _embedding(self, out: Tensor) -> Tensor:
        leaf = out.detach().requires_grad_()
        self.leaves.embedded.append((self.stack, leaf))
        return leaf

    def activation(self, z: Tensor, out: Tensor) -> Tensor:
        """f(z) as z · [f(z)/z]; a unit at exactly zero sends nothing on."""
        ratio = torch.where(z == 0, 0.0, out / z).detach()
        return self.node(z * ratio)

    def node(self, out: Tensor) -> Tensor:
        """An activation, or the product of one and a gate, remembered as such."""
        out = out if self.cut is None else self.cut(out)
        out.activated = True  # type: ignore[attr-defined]
        return out


def depends(x: object) -> bool:
    """Whether x depends on the embeddings or on a bias."""
    return isinstance(x, Tensor) and x.requires_grad


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    for x in (*args, *kwargs.values()):
        yield from x if isinstance(x, list | tuple) else (x,)


# Rules: (frozen, func, args, kwargs) → what stands in place of func(*args, **kwargs).


def _sum(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a + b, a − b with a constant: the constant becomes a leaf."""
    like = next(x for x in args if depends(x))
    return func(*(x if depends(x) else _constant(frozen, x, like) for x in args), **kwargs)


def _constant(frozen: Frozen, x: Any, like: Tensor) -> Any:
    if isinstance(x, Tensor):
        return frozen.leaves.constant(x) if x.is_floating_point() else x
    return x if x == 0 else frozen.leaves.constant(torch.as_tensor(float(x), dtype=like.dtype, device=like.device))


def _linear(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, weight, *others = args
    bias = others[0] if others else kwargs.get("bias")
    bias = None if bias is None else frozen.leaves.constant(bias)
    return wide_linear(func, x, weight, bias) if len(weight) > VOCABULARY else func(x, weight, bias)


def wide_linear(func: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A map to a whole vocabulary, some words at a time.

    subtle: its derivative is a sum over all words. In float32 one sum over 49,152 of them, each rounded, missed the
    log-odds of a next word by 4e-4; partial sums miss it by a hundredth of that.
    """
    biases = [None] * len(weight) if bias is None else bias.split(WIDE)
    return torch.cat([func(x, some, b) for some, b in zip(weight.split(WIDE), biases, strict=False)], dim=-1)


def _addmm(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    bias, *rest = args
    return func(bias if depends(bias) else frozen.leaves.constant(bias), *rest, **kwargs)


def _layer_norm(frozen: Frozen, _func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, shape, weight, bias, eps = (*args, *(kwargs.get(n, d) for n, d in LAYER_NORM[len(args) :]))
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdim=True)
    out = centred * (centred.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
    out = out if weight is None else out * weight
    return out if bias is None else out + frozen.leaves.constant(bias)


def _rms_norm(_frozen: Frozen, _func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given: list[Any] = [*args, *(kwargs.get(n, d) for n, d in RMS_NORM[len(args) :])]
    x, shape, weight, eps = given
    axes = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    out = x * (x.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
    return out if weight is None else out * weight


def _softmax(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    frozen.scores = args[0] if args else kwargs["input"]
    frozen.scored, frozen.products = frozen.products, []
    if frozen.freezing.attention == "frozen":
        return out.detach()
    given: list[Any] = [*args, kwargs.get("dim", -1)]
    dim = given[1]
    p, s = out.detach(), given[0].detach().to(out.dtype)
    weighted = torch.where(p > 0, p * s, 0.0)
    rest = p - (weighted - p * weighted.sum(dim, keepdim=True))  # p − J s, as ∂p/∂s is diag(p) − p pᵀ
    return out - rest + frozen.leaves.constant(rest)


def _elementwise(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    z, *rest = args
    if not depends(z) or any(depends(x) for x in (*rest, *kwargs.values())):
        return func(*args, **kwargs).detach()
    out = func(z.detach(), *rest, **kwargs)
    at_zero = func(torch.zeros((), dtype=z.dtype, device=z.device), *rest, **kwargs)
    if float(at_zero) == 0:
        return frozen.activation(z, out)
    out.factor = True  # type: ignore[attr-defined] - a gate of the form z · sigmoid(z) is an activation in two steps
    return out


def _product(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a · b or a @ b: linear where one is a constant."""
    a, b = args[:2]
    if not (depends(a) and depends(b)):
        out = func(*args, **kwargs)
        return frozen.node(out) if any(getattr(x, "factor", False) for x in (a, b)) else out
    activated = [bool(getattr(x, "activated", False)) for x in (a, b)]
    if frozen.freezing.gate == "half" or activated[0] == activated[1]:
        # subtle: each factor is a constant for half of the product; the halves are equal numbers.
        return frozen.node(func(a / 2, b.detach(), *args[2:], **kwargs) + func(a.detach(), b / 2, *args[2:], **kwargs))
    if activated[0] == (frozen.freezing.gate == "activation"):
        return frozen.node(func(a.detach(), b, *args[2:], **kwargs))
    return frozen.node(func(a, b.detach(), *args[2:], **kwargs))


def _matrix_product(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    a, b = args[:2]
    if not (depends(a) and depends(b)):
        return func(*args, **kwargs)
    if frozen.side is not None:
        out = func(a, b.detach(), **kwargs) if frozen.side == "left" else func(a.detach(), b, **kwargs)
        frozen.products.append((a, b, out))
        return out.clone()  # subtle: Falcon divides it in place, and then it would be no product any more
    return func(a / 2, b.detach(), **kwargs) + func(a.detach(), b / 2, **kwargs)


def _sum_of_product(frozen: Frozen, _func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """baddbmm, β c + α a @ b: the product and the sum, one after the other."""
    given = {"beta": 1, "alpha": 1, **dict(zip(("input", "batch1", "batch2"), args, strict=False)), **kwargs}
    product = _matrix_product(frozen, torch.bmm, (given["batch1"], given["batch2"]), {}) * given["alpha"]
    more = given["input"] * given["beta"]
    return product + (more if depends(more) else frozen.leaves.constant(more))


def _joined(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """cat and stack: a constant among the parts (an attention sink) becomes a leaf."""
    parts, *rest = args
    return func([x if depends(x) else frozen.leaves.constant(x) for x in parts], *rest, **kwargs)


def _quotient(_frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    a, b, *rest = args
    return func(a, b.detach() if isinstance(b, Tensor) else b, *rest, **kwargs)


def _held(_frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Variances and the like: constants."""
    with torch.no_grad():
        return func(*args, **kwargs)


def _largest(frozen: Frozen, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The largest of a row, taken from all of it before a softmax (gpt-oss): a constant where one score is asked."""
    return func(*args, **kwargs) if frozen.side is None else _held(frozen, func, args, kwargs)


LAYER_NORM = (("input", None), ("normalized_shape", None), ("weight", None), ("bias", None), ("eps", 1e-5))
RMS_NORM = (("input", None), ("normalized_shape", None), ("weight", None), ("eps", None))
RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("add", "__add__", "__radd__", "add_", "__iadd__", "sub", "__sub__", "sub_", "__isub__", "__rsub__", "rsub",
         "subtract"),
        _sum,
    ),
    **dict.fromkeys(
        ("gelu", "silu", "relu", "tanh", "sigmoid", "exp", "rsqrt", "sqrt", "pow", "__pow__", "square", "erf", "sin",
         "softplus", "log", "log1p", "abs", "relu6", "hardtanh", "mish", "cos", "clamp", "clip", "leaky_relu", "elu",
         "hardswish", "hardsigmoid", "logsigmoid", "reciprocal", "clamp_min", "clamp_max"),
        _elementwise,
    ),
    **dict.fromkeys(("mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"), _product),
    **dict.fromkeys(("matmul", "__matmul__", "bmm"), _matrix_product),
    **dict.fromkeys(("div", "__truediv__", "true_divide", "div_", "__itruediv__"), _quotient),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean", "norm", "vector_norm", "linalg_vector_norm"), _held),
    **dict.fromkeys(("cat", "concat", "stack"), _joined),
    **dict.fromkeys(("max", "amax"), _largest),
    "linear": _linear,
    "addmm": _addmm,
    "baddbmm": _sum_of_product,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
}  # fmt: skip


# A model as its frozen network.


@contextmanager
def freezing(
    model: Model, how: Freezing, *, cut: Callable[[Tensor], Tensor] | None = None, side: str | None = None
) -> Iterator[Frozen]:
    """Run `model` inside as its frozen network; parameters ask for no gradient meanwhile, and are as before after."""
    mode, asked = Frozen(how, cut=cut, side=side), [p for p in model.hf.parameters() if p.requires_grad]
    with ExitStack() as stack:
        for module in activations(model):
            stack.callback(module.register_forward_hook(_as_activation(mode)).remove)
        for side, module in _sides(model).items():
            stack.callback(module.register_forward_pre_hook(_entering(mode, side)).remove)
        for parameter in asked:
            parameter.requires_grad_(False)
            stack.callback(parameter.requires_grad_, True)
        stack.enter_context(torch.enable_grad())
        yield mode


def _as_activation(mode: Frozen) -> Callable[..., Tensor | None]:
    def hook(_module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor | None:
        return mode.activation(args[0], out.detach()) if depends(args[0]) else None

    return hook


def _entering(mode: Frozen, side: str) -> Callable[..., None]:
    def hook(_module: nn.Module, _args: tuple[Any, ...]) -> None:
        mode.stack = side

    return hook


def _sides(model: Model) -> dict[str, nn.Module]:
    base: Any = model.hf.base_model
    if not model.is_encoder_decoder:
        return {"source": base}
    return {"source": base.get_encoder(), "target": base.get_decoder()}


_activations: weakref.WeakKeyDictionary[nn.Module, tuple[nn.Module, ...]] = weakref.WeakKeyDictionary()


def activations(model: Model) -> tuple[nn.Module, ...]:
    """Modules that compute one function of each number alone, f(0) = 0: found once a model, by what they compute."""
    if model.hf not in _activations:
        alone = (m for m in model.hf.modules() if not any(True for _ in m.parameters()) and not list(m.children()))
        _activations[model.hf] = tuple(module for module in alone if _is_elementwise(module))
    return _activations[model.hf]


def _is_elementwise(module: nn.Module) -> bool:
    """f of a shuffled row is the shuffled f, of half a row its half, f(0) is 0, and f is not the identity."""
    z = torch.linspace(-3, 3, 16)  # no zero among them
    order = torch.arange(16).roll(5)
    try:
        with torch.no_grad():
            out, mixed, half, zero = (module(x) for x in (z, z[order], z[:8], torch.zeros(1)))
    except Exception:  # whatever a module makes of a row of numbers, it is no activation then
        return False
    if not all(isinstance(x, Tensor) for x in (out, mixed, half, zero)) or out.shape != z.shape:
        return False
    same = torch.allclose(mixed, out[order]) and torch.allclose(half, out[:8]) and float(zero) == 0
    return same and not torch.equal(out, z)

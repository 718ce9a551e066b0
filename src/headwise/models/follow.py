"""Attention outside transformers' registry, seen by what torch is asked to do: softmax → … → product with the values.

A `TorchFunctionMode` sees every torch function of a pass. The result of a softmax is followed through dropout, casts,
masks and views; the matrix product that takes it on the left is an attention call, with the left side as α, exactly as
it is multiplied, and the right side as the values. `scaled_dot_product_attention` is a call, too. On the probe what
attention gives is followed as well, through views and products with a gate g, up to the projection that reads it. A
projection that is no module (XLNet: an einsum with a parameter) is made one, `Product`, which runs in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

FAR = 1000.0  # a score this far below the largest of its row has weight 0 in any precision: it was masked
PRODUCTS = frozenset({"matmul", "bmm", "__matmul__", "einsum"})
VIEWS = frozenset({"view", "reshape", "transpose", "permute", "contiguous", "clone", "flatten", "unflatten", "squeeze",
                   "unsqueeze", "to", "type", "type_as", "float", "half", "bfloat16", "double", "dropout", "swapaxes",
                   "movedim", "view_as", "reshape_as", "detach"})  # fmt: skip
GATES = frozenset({"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply", "div", "__truediv__", "div_"})
ON_WEIGHTS = VIEWS | GATES | {"masked_fill", "masked_fill_", "where", "nan_to_num", "__getitem__"}


class Product(nn.Module):
    """einsum("…nd,hnd->…h", out, parameter) as a module of its own, which reads n and d as one axis."""

    def __init__(self, shared: str, equation: str, weight: nn.Parameter):
        super().__init__()
        self.equation, self.held = equation, (weight,)  # subtle: in a tuple, so that the weight stays the model's alone
        theirs = equation.partition("->")[0].split(",")[1]
        self.sizes = tuple(weight.shape[theirs.index(letter)] for letter in shared)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum(self.equation, x.unflatten(-1, self.sizes), *self.held)


def as_product(equation: str, weight: nn.Parameter) -> Product | None:
    """The module of an einsum that sums over the last axes of what it reads; None where it does another thing."""
    inputs, _, result = equation.replace(" ", "").partition("->")
    ours, theirs = inputs.split(",")
    shared = "".join(letter for letter in ours if letter in theirs and letter not in result)
    batch, new = ours.removesuffix(shared), "".join(letter for letter in theirs if letter not in shared)
    if not shared or not ours.endswith(shared) or len(new) != 1 or result != batch + new:
        return None
    return Product(shared, f"...{shared},{theirs}->...{new}", weight)


Seen = Callable[[nn.Module, Tensor, Tensor, Tensor | None], Tensor]
"""(module, α [batch head query key], values [batch kv_head key d_head], mask) → output [batch query head d_head]."""


class Following(TorchFunctionMode):
    """Calls `seen` for every attention of the pass and puts what it gives in the place of the product."""

    def __init__(
        self,
        seen: Seen,
        *,
        probing: bool = False,
        products: dict[int, Product] | None = None,
        made: Callable[[nn.Module], None] = lambda _: None,
    ):
        super().__init__()
        self.seen, self.probing, self.paused = seen, probing, 0
        self.products, self.made = {} if products is None else products, made  # by the id of their parameter
        self.modules: list[nn.Module] = []  # those that are running, the innermost last
        self.texts = 0  # how many texts the whole model was given
        self.weights: dict[int, tuple[Tensor, Tensor]] = {}  # by id: what came of a softmax (kept alive), its scores
        self.outputs: dict[int, tuple[Tensor, int]] = {}  # by id: what came of an attention output, number of its call
        self.calls = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if self.paused:
            return func(*args, **kwargs)
        if name == "scaled_dot_product_attention":
            return self._sdpa(*args, **kwargs)
        if name in PRODUCTS and (product := self._product(name, args)) is not None:
            return product
        if name == "einsum" and (projected := self._projected(args)) is not None:
            return projected
        out = func(*args, **kwargs)
        self._follow(name, args, kwargs, out)
        return out

    def _as_output(self, out: Tensor, other: Tensor) -> Tensor:
        """`other`, which is followed as the output that it was made of."""
        if self.probing:
            self.outputs[id(other)] = (other, self.outputs[id(out)][1])
        return other

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """What is asked of torch in here is not the model's own doing."""
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1

    def note_output(self, out: Tensor) -> None:
        """The output of an attention call, wherever it was seen: what reads it is found on the probe."""
        if self.probing:
            self.outputs[id(out)] = (out, self.calls)
        self.calls += 1

    def call_of(self, tensor: Tensor) -> int | None:
        """The number of the call whose output `tensor` is, seen through views and gates; None where it is none."""
        found = self.outputs.get(id(tensor))
        return None if found is None else found[1]

    def _follow(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        if not isinstance(out, Tensor) or not args:
            return
        first = args[0]
        if name == "softmax" and isinstance(first, Tensor) and out.ndim >= 3:
            last = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if last in (-1, out.ndim - 1):
                self.weights[id(out)] = (out, first)
        parents = [arg for arg in args[:3] if isinstance(arg, Tensor)]
        if name in ON_WEIGHTS:
            for parent in parents:
                if id(parent) in self.weights and out.numel() == parent.numel():
                    self.weights[id(out)] = (out, self.weights[id(parent)][1])
        if self.probing and name in VIEWS | GATES:
            for parent in parents:
                if id(parent) in self.outputs and out.numel() == parent.numel():
                    self.outputs[id(out)] = (out, self.outputs[id(parent)][1])

    def _product(self, name: str, args: tuple[Any, ...]) -> Tensor | None:
        equation = args[0] if name == "einsum" else None
        operands: Any = args[1:] if name == "einsum" else args
        operands = operands[0] if operands and isinstance(operands[0], list | tuple) else operands
        if len(operands) != 2 or not isinstance(operands[0], Tensor) or id(operands[0]) not in self.weights:
            return None
        left, right = operands
        scores = self.weights[id(left)][1]
        self.weights = {key: kept for key, kept in self.weights.items() if kept[1] is not scores}
        if isinstance(equation, str):
            return self._by_letters(equation.replace(" ", ""), left, right, scores)
        if left.ndim == 3 and self.texts and len(left) % self.texts == 0:
            alpha, value = (x.unflatten(0, (self.texts, -1)) for x in (left, right))
        elif left.ndim == 4 and right.ndim == 4:
            alpha, value = left, right
        else:
            return None
        out = self._attend(alpha, value, scores.reshape(alpha.shape))
        return self._as_output(out, out.reshape(*left.shape[:-1], out.shape[-1]))

    def _projected(self, args: tuple[Any, ...]) -> Tensor | None:
        """einsum(equation, what attention gave, a parameter): a projection that is no module."""
        if len(args) != 3 or not isinstance(args[2], nn.Parameter):
            return None
        equation, left, weight = args
        if id(weight) not in self.products and self.probing and id(left) in self.outputs:
            product = as_product(equation, weight)
            if product is not None:
                self.products[id(weight)] = product
                self.made(product)
        product = self.products.get(id(weight))
        return None if product is None else product(left.flatten(-len(product.sizes)))

    def _by_letters(self, equation: str, left: Tensor, right: Tensor, scores: Tensor) -> Tensor | None:
        """einsum("bhqk,bkhd->bqhd") and its like: the letters of the weights are batch, head, query, key."""
        inputs, _, result = equation.partition("->")
        ours, theirs = inputs.split(",")
        rest = [letter for letter in theirs if letter not in ours]
        if len(ours) != 4 or len(theirs) != 4 or len(rest) != 1 or left.shape != scores.shape:
            return None
        b, h, q, k = ours
        value = torch.einsum(f"{theirs}->{b}{h}{k}{rest[0]}", right)
        out = self._attend(left, value, scores)
        return self._as_output(out, torch.einsum(f"{b}{h}{q}{rest[0]}->{result}", out))

    def _sdpa(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        del dropout_p  # off in eval mode
        if enable_gqa:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        scores = query @ key.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
        if is_causal:
            past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~past, -torch.inf)
        if attn_mask is not None:
            is_bool = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
        return self._attend(scores.softmax(-1).to(value.dtype), value, scores)

    def _attend(self, alpha: Tensor, value: Tensor, scores: Tensor) -> Tensor:
        """The output [batch head query d_head] for weights and values in their canonical axes."""
        top = scores.amax(-1, keepdim=True)
        hidden = ~(scores > top - FAR).any(1, keepdim=True)
        mask = torch.zeros_like(hidden, dtype=torch.float32).masked_fill(hidden, torch.finfo(torch.float32).min)
        with self.pausing():
            out = self.seen(self.modules[-1], alpha, value, mask).transpose(1, 2)
        self.note_output(out)
        return out


def weighted(_module: nn.Module, alpha: Tensor, _key: Tensor, value: Tensor, _mask: Tensor | None, **_: Any):
    """Σ_k α V as [batch query head d_head], and α: the eager attention of a call whose weights are known already."""
    groups = alpha.shape[1] // value.shape[1]
    out = alpha.to(value.dtype) @ value.repeat_interleave(groups, dim=1)
    return out.transpose(1, 2), alpha


@contextmanager
def following(model: nn.Module, mode: Following) -> Iterator[None]:
    """Run `model` under `mode`, which is told what module is running."""

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not mode.modules:  # subtle: inside the model the first axis may be the tokens (FSMT)
            given = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.ndim), None)
            mode.texts = 0 if given is None else len(given)
        mode.modules.append(module)

    def leave(_module: nn.Module, _args: Any, _out: Any) -> None:
        mode.modules.pop()

    with ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(enter, prepend=True, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(leave).remove)
        stack.enter_context(mode)
        yield

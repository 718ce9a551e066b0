"""A device that is not the CPU, for machines that have no other: the core runs on it, or on a GPU it would not run.

`cpu:0` stands for it. Under the mode every tensor that was made there (`device="cpu:0"`, `.to("cpu:0")`), or out of
tensors that are there, is marked, says `cpu:0` when it is asked for its device, and may not meet an unmarked one:

    torch.arange(3) + there     RuntimeError, as with a tensor on a GPU
    there.numpy()               TypeError, the same

As on a GPU, a number (a tensor without axes) may be anywhere, and so may the index of what is there. It sees what is
called from Python; it says nothing about kernels, numbers or memory of a real device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

THERE = torch.device("cpu:0")
DEVICE, SET_DATA = Tensor.device.__get__, Tensor.data.__set__  # type: ignore[attr-defined]
COPIES = {Tensor.copy_, Tensor.to, Tensor.type_as, Tensor.cpu, torch._has_compatible_shallow_copy_type}
READ = {Tensor.numpy, Tensor.__array__}


class Elsewhere(TorchFunctionMode):
    """While it is entered, `cpu:0` is another device than `cpu`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == DEVICE:
            return THERE if is_there(args[0]) else func(*args)
        given = list(tensors((args, kwargs)))
        if not given and "device" not in kwargs:
            return func(*args, **kwargs)
        if func == SET_DATA:
            _mark(args[0], is_there(args[1]))
            return func(*args)
        _check(func, args, given)
        return _marked(func(*args, **kwargs), _goes_there(func, args, kwargs, given))


def is_there(tensor: Tensor) -> bool:
    return "_there" in tensor.__dict__


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)


def _check(func: Callable[..., Any], args: Any, given: list[Tensor]) -> None:
    there = [tensor for tensor in given if is_there(tensor)]
    name = getattr(func, "__name__", str(func))
    if there and func in READ:
        raise TypeError(f"{name}: can't convert a tensor of another device to numpy; use .cpu() first.")
    if func in COPIES or (func is Tensor.__getitem__ and is_there(args[0])):
        return
    if func is Tensor.__setitem__ and not list(tensors(args[1])):
        return  # a copy
    apart = [tensor for tensor in given if not is_there(tensor) and len(tensor.shape)]
    if there and apart:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in apart)
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, but {shapes} is on the CPU.")


def _goes_there(func: Callable[..., Any], args: Any, kwargs: Any, given: list[Tensor]) -> bool:
    if func is Tensor.cpu:
        return False
    if func in (Tensor.to, Tensor.type_as) and len(given) > 1:
        return is_there(given[1])
    named = [kwargs["device"]] if kwargs.get("device") is not None else []
    if func is Tensor.to:
        named += [a for a in args[1:] if isinstance(a, str | torch.device)]
    if named:
        return torch.device(named[0]) == THERE
    return any(is_there(tensor) for tensor in given)


def _marked(result: Any, there: bool) -> Any:
    """The result, marked or not; what goes over, and what comes back, becomes a tensor of its own."""
    if isinstance(result, Tensor):
        return result if is_there(result) == there else _mark(_another(result), there)
    if isinstance(result, list):
        return [_marked(part, there) for part in result]
    if isinstance(result, tuple) and type(result).__module__ == "torch.return_types":
        return type(result)([_marked(part, there) for part in result])
    return tuple(_marked(part, there) for part in result) if type(result) is tuple else result


def _another(tensor: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return tensor.view_as(tensor)


def _mark(tensor: Tensor, there: bool) -> Tensor:
    tensor.__dict__.pop("_there", None)
    if there:
        tensor.__dict__["_there"] = True
    return tensor

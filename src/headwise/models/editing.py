"""Carry out a change (headwise.changes): hooks on modules that the proof has found, and gone again afterwards.

A head's output is a slice of what W_O reads, so that no family needs a name: changes of it act on the input of the
projection, changes of a block on the output of the projection or of the feed-forward module (models/blocks.py), and
changes of attention on what the model's own attention function gives, with  out = α V  as the proof at load has it.

A change that is in force is known by its model, so that what is read under it can say so and be asked about later under
the same changes and no others (`in_force`, `exactly`): one that is paused stays hooked and does nothing.

subtle: ALBERT calls one module in every layer; `Turns` tells the layers apart by counting the calls of a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.changes import Attention, Block, Change, Edges, Output, named
from headwise.errors import InputError, ModelError
from headwise.models.blocks import feed_forwards
from headwise.models.capture import Edit, Site, at_least_float, editing, watching
from headwise.models.weighing import edit_of
from headwise.text.corpus import open_corpus
from headwise.types import Batch, Layer

if TYPE_CHECKING:
    from headwise.models.model import Model

Place = tuple[str, int]  # stack and layer
Heads = Mapping[Place, list[int]]
Outputs = Mapping[Place, Float[Tensor, "batch token head d_head"]]
Edited = Callable[[Tensor], Tensor]  # what a module reads or gives → what stands in its place


class Turns:
    """Which place a call of a module belongs to, where several places share the module."""

    def __init__(self, places: Iterable[tuple[nn.Module, Place]]):
        self.places: dict[nn.Module, list[Place]] = {}
        self.calls: Counter[nn.Module] = Counter()
        for module, place in places:
            self.places.setdefault(module, []).append(place)

    def next(self, module: nn.Module) -> Place:
        self.calls[module] += 1
        return self.places[module][(self.calls[module] - 1) % len(self.places[module])]

    def restart(self, *_: object) -> None:
        self.calls.clear()


@dataclass(eq=False)
class Held:
    """A change that is carried out."""

    change: Change
    paused: bool = False


_HELD: WeakKeyDictionary[nn.Module, list[Held]] = WeakKeyDictionary()  # by the model's own module, in order


@contextmanager
def changed(model: Model, changes: Sequence[Change]) -> Iterator[None]:
    """The model under all `changes` and those in force; as it was afterwards, also after an error."""
    check(changes)
    held = [Held(change) for change in changes]
    with paused(model):  # what a change needs to know is of the model as it is, also within another block
        entered = [_carried_out(model, each) for each in held]  # all are looked up before any acts
    with ExitStack() as stack:
        for enter in entered:
            stack.enter_context(enter)
        around = _HELD.get(model.hf, [])
        _HELD[model.hf] = [*around, *held]
        stack.callback(_HELD.__setitem__, model.hf, around)
        yield


def check(changes: Sequence[Any]) -> None:
    """Refuse what is no change, such as a head's name."""
    if not (wrong := [change for change in changes if not isinstance(change, Change)]):
        return
    letters = all(isinstance(one, str) and len(one) == 1 for one in changes)  # of a name that was taken for a list
    got = "".join(changes) if letters else wrong[0]
    raise InputError(
        f"A change says what is done to a head, but got {got!r}; pass "
        f'zero("{got if isinstance(got, str) else "L5.H3"}") or another of headwise.changes.'
    )


def in_force(model: Model) -> tuple[Change, ...]:
    """What the model is changed by at this moment, in order."""
    return tuple(each.change for each in _HELD.get(model.hf, ()) if not each.paused)


@contextmanager
def exactly(model: Model, changes: Sequence[Change]) -> Iterator[None]:
    """The model under these changes and no others, whatever is in force around it."""
    if in_force(model) == tuple(changes):
        yield
        return
    with paused(model), changed(model, changes):
        yield


@contextmanager
def paused(model: Model) -> Iterator[None]:
    """The model as it is by itself: what is in force does nothing."""
    held = [each for each in _HELD.get(model.hf, ()) if not each.paused]
    for each in held:
        each.paused = True
    try:
        yield
    finally:
        for each in held:
            each.paused = False


def _carried_out(model: Model, held: Held) -> Any:
    change = held.change
    if isinstance(change, Output):
        return reading(model, _while_on(held, _output_edits(model, change)))
    if isinstance(change, Block):
        modules, edits = _block_edits(model, change)
        return giving(model, modules, _while_on(held, edits))
    heads = chosen(model, change.heads, change.stack)
    edits = {place: _attention_edit(model, change, place, some) for place, some in heads.items()}
    return attending(model, {place: _attended_while_on(held, edit) for place, edit in edits.items()})


def _while_on(held: Held, edits: Mapping[Place, Edited]) -> dict[Place, Edited]:
    return {place: lambda x, edit=edit: x if held.paused else edit(x) for place, edit in edits.items()}


def _attended_while_on(held: Held, edit: Edit) -> Edit:
    return lambda call, start, out, alpha: (out, alpha) if held.paused else edit(call, start, out, alpha)


# Where a change acts.


@contextmanager
def reading(model: Model, edits: Mapping[Place, Edited]) -> Iterator[None]:
    """What W_O reads, as [… head d_head], goes through the edit of its place."""
    sites = [(site.projection, (site.stack, site.index)) for site in model.proof.sites]
    sizes = {(site.stack, site.index): site.circuit.stored.shape[:2] for site in model.proof.sites}
    turns = Turns(sites)

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        edit = edits.get(place := turns.next(module))
        if edit is None:
            return None
        return (edit(args[0].unflatten(-1, sizes[place])).flatten(-2), *args[1:])

    touched = {module for module, place in sites if place in edits}
    with _hooked(model, turns, [module.register_forward_pre_hook(before) for module in touched]):
        yield


@contextmanager
def giving(model: Model, modules: Mapping[Place, nn.Module], edits: Mapping[Place, Edited]) -> Iterator[None]:
    """What the module of each place gives goes through its edit."""
    turns = Turns((module, place) for place, module in modules.items())

    def after(module: nn.Module, _args: tuple[Any, ...], out: Tensor) -> Tensor | None:
        edit = edits.get(turns.next(module))
        return None if edit is None else edit(out)

    touched = {modules[place] for place in edits}
    with _hooked(model, turns, [module.register_forward_hook(after) for module in touched]):
        yield


@contextmanager
def attending(model: Model, edits: Mapping[Place, Edit]) -> Iterator[None]:
    """What attention gives goes through the edit of its place."""
    turns = Turns((site.module, (site.stack, site.index)) for site in model.proof.sites)
    whole = watching(model.hf, lambda call: call.rows(0, call.length))
    with _hooked(model, turns, []), editing(lambda module: edits.get(turns.next(module))), whole:
        yield


@contextmanager
def _hooked(model: Model, turns: Turns, handles: Iterable[Any]) -> Iterator[None]:
    """The hooks, and the count of calls begun anew with every pass."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        for root in {model.hf, model.hf.base_model}:
            stack.callback(root.register_forward_pre_hook(turns.restart).remove)
        yield


# What a change does there.


def _output_edits(model: Model, change: Output) -> dict[Place, Edited]:
    heads = chosen(model, change.heads, change.stack)
    if change.to in ("zero", "scale"):
        factor = 0.0 if change.to == "zero" else change.factor
        return {place: _scaled(some, factor) for place, some in heads.items()}
    if change.to == "mean":
        means = head_means(model, _texts(model, str(change.corpus), change.first))
        return {place: _put(some, means[place][None]) for place, some in heads.items()}
    batch = _read(model, str(change.text), change.pair)
    found = head_outputs(model, batch)
    return {place: _put(some, found[place][0]) for place, some in heads.items()}


def _scaled(heads: list[int], factor: float) -> Edited:
    def edit(x: Float[Tensor, "... head d_head"]) -> Tensor:
        scale = x.new_ones(x.shape[-2], 1)
        scale[heads] = factor
        return torch.where(scale == 0, 0.0, x * scale)

    return edit


def _put(heads: list[int], new: Float[Tensor, "row head d_head"]) -> Edited:
    """`new` in the place of the heads' outputs; its rows are the positions, and begin again where they end."""

    def edit(x: Float[Tensor, "batch token head d_head"]) -> Tensor:
        rows = torch.arange(x.shape[-3], device=x.device) % len(new)
        x = x.clone()
        x[..., heads, :] = new[rows][..., heads, :].to(x)
        return x

    return edit


def _block_edits(model: Model, change: Block) -> tuple[dict[Place, nn.Module], dict[Place, Edited]]:
    places = [_layer(model, layer, change.stack) for layer in change.layers]
    if change.part == "attention":
        modules = {(site.stack, site.index): site.projection for site in model.proof.sites}
    else:
        modules = dict(feed_forwards(model))
    for place in places:
        if place not in modules:
            raise ModelError(
                f"A {change.part} block must be found as something that is added to the residual, but in "
                f"{place[0]} layer {place[1]} of {model.name} none was; change its heads instead."
            )
    if change.to == "zero":
        return modules, dict.fromkeys(places, torch.zeros_like)
    means = _block_means(model, modules, _texts(model, str(change.corpus), change.first))
    return modules, {place: lambda x, mean=means[place]: mean.to(x).expand_as(x) for place in places}


def _attention_edit(model: Model, change: Edges | Attention, place: Place, heads: list[int]) -> Edit:
    site = next(site for site in model.proof.sites if (site.stack, site.index) == place)
    return edit_of(change, site, heads)


# What there is.


def chosen(model: Model, names: Iterable[str], stack: str | None) -> dict[Place, list[int]]:
    """The heads that are named, by place; raises where one does not exist."""
    sites, heads = model.sites(stack), model.heads(stack)
    found: dict[Place, set[int]] = {}
    for name in names:
        layer, head = named(name)
        places = [(s.stack, s.index) for s in sites] if layer is None else [_layer(model, layer, stack)]
        if head is not None and not 0 <= head < heads:
            raise InputError(f"Heads of {model.name} go from 0 to {heads - 1}, but {name} was asked for.")
        for place in places:
            found.setdefault(place, set()).update(range(heads) if head is None else [head])
    return {place: sorted(some) for place, some in found.items()}


def _layer(model: Model, layer: int, stack: str | None) -> Place:
    sites = model.sites(stack)
    if not 0 <= layer < len(sites):
        raise InputError(f"Layers of {model.name} go from 0 to {len(sites) - 1}, but {layer} was asked for.")
    return sites[layer].stack, layer


def sending(model: Model, layers: Iterable[Layer], changes: Sequence[Change]) -> tuple[Layer, ...]:
    """The layers with W_O as the heads that are left reach it.

    subtle: a gate, g = what W_O reads over Σ α V, is taken after the change and has it inside.
    """
    left = left_of(model, changes)
    return tuple(_sent_by(layer, left.get((layer.stack, layer.index))) for layer in layers)


def _sent_by(layer: Layer, share: Float[Tensor, " head"] | None) -> Layer:
    if share is None or layer.gate is not None:
        return layer
    w_o = layer.circuit.w_o
    circuit = replace(layer.circuit, stored=w_o * share.to(w_o)[:, None, None])
    return replace(layer, circuit=circuit, memo={}, text_memo={})


def left_of(model: Model, changes: Iterable[Change]) -> dict[Place, Float[Tensor, " head"]]:
    """Of each place whose heads' outputs are changed, the share of α V W_O that each head still sends.

    A head that gives its mean, or what it gives for another text, sends nothing of the keys that it looks at.
    """
    left: dict[Place, Tensor] = {}
    for change in changes:
        for place, heads, factor in _sending(model, change):
            share = left.setdefault(place, torch.ones(model.heads(place[0])))
            share[heads] = share[heads] * factor
    return left


def _sending(model: Model, change: Change) -> Iterator[tuple[Place, list[int], float]]:
    if isinstance(change, Output):
        factor = change.factor if change.to == "scale" else 0.0
        yield from ((place, heads, factor) for place, heads in chosen(model, change.heads, change.stack).items())
    elif isinstance(change, Block) and change.part == "attention":
        for layer in change.layers:
            place = _layer(model, layer, change.stack)
            yield place, list(range(model.heads(place[0]))), 0.0


# What heads give.


def head_outputs(model: Model, batch: Batch) -> dict[Place, Float[Tensor, "batch token head d_head"]]:
    """What W_O reads in every layer; rows of padding mean nothing."""
    with torch.no_grad(), keeping(model) as found:
        model.hf(**batch.inputs)
    return found


@contextmanager
def keeping(model: Model) -> Iterator[dict[Place, Float[Tensor, "batch token head d_head"]]]:
    """What W_O reads in every layer of a pass that is made within it."""
    found: dict[Place, Tensor] = {}
    with reading(model, {place: _kept(found, place) for place in _places(model)}):
        yield found


def _kept(found: dict[Place, Tensor], place: Place) -> Edited:
    def edit(x: Tensor) -> Tensor:
        found[place] = x
        return x

    return edit


def head_means(model: Model, batches: Iterable[Batch]) -> dict[Place, Float[Tensor, "head d_head"]]:
    """The mean of what every head gives, over all tokens of all texts."""
    total: dict[Place, Tensor] = {}
    count: Counter[Place] = Counter()
    for batch in batches:
        for place, x in head_outputs(model, batch).items():
            rows = at_least_float(x)[token_mask(batch, place[0])].double()
            total[place] = total.get(place, torch.zeros_like(rows[0])) + rows.sum(0)
            count[place] += len(rows)
    return {place: total[place] / count[place] for place in total}


def _block_means(
    model: Model, modules: Mapping[Place, nn.Module], batches: Iterable[Batch]
) -> dict[Place, Float[Tensor, " d_model"]]:
    total: dict[Place, Tensor] = {}
    count: Counter[Place] = Counter()
    for batch in batches:
        found: dict[Place, Tensor] = {}
        with torch.no_grad(), giving(model, modules, {place: _kept(found, place) for place in modules}):
            model.hf(**batch.inputs)
        for place, x in found.items():
            mask = token_mask(batch, place[0])
            rows = at_least_float(x).reshape(*mask.shape, -1)[mask].double()
            total[place] = total.get(place, torch.zeros_like(rows[0])) + rows.sum(0)
            count[place] += len(rows)
    return {place: total[place] / count[place] for place in total}


def token_mask(batch: Batch, stack: str) -> Tensor:
    """The real tokens among the queries of a stack."""
    return batch.mask if stack in ("self", "encoder") else batch.target_mask


def _places(model: Model) -> list[Place]:
    return [(site.stack, site.index) for site in model.proof.sites]


def _texts(model: Model, corpus: str, first: int) -> Iterator[Batch]:
    """The first texts of a corpus, cut to what the model reads, one by one."""
    documents = islice(open_corpus(corpus).documents(), first)
    for document in documents:
        try:
            yield _read(model, document.text, document.pair, truncate=True)
        except InputError:
            continue


def _read(model: Model, text: str, pair: str | None, *, truncate: bool = False) -> Batch:
    if not model.is_encoder_decoder:
        return model.batch([model.encode(text, pair, truncate=truncate)])
    if pair is None:
        raise InputError(f"{model.name} reads a source and a target, but only one text was given; pass the pair too.")
    return model.batch([model.encode(text, truncate=truncate)], [model.encode_target(pair, truncate=truncate)])


__all__ = [
    "Place",
    "Site",
    "attending",
    "changed",
    "chosen",
    "exactly",
    "giving",
    "head_means",
    "head_outputs",
    "in_force",
    "keeping",
    "left_of",
    "paused",
    "reading",
    "sending",
]

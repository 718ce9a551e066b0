"""Watch a model attend: every call that goes through transformers' attention registry is seen.

For the time of a pass the model is set to "eager" and the registry hands out our function in place of the model's own
`eager_attention_forward`, to which it delegates: soft-caps, sinks, position biases and windows stay exact. subtle: the
name matters. DeepSeek-V3.2 and its like apply the mask of their index only where the implementation is named "eager"
or "sdpa", so under a name of our own every key would be seen.

A short text runs eager once and its weights are kept. A long one runs its forward pass on SDPA (or, where the model
has none, eager in blocks), and the weights are made again in blocks of query rows while they are being read, so the
peak is one block and never the n × n map.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.utils import logging as hf_logging

from headwise.models.bands import banded
from headwise.models.follow import Following, Product, following, weighted
from headwise.types import Circuit, Layer

ROWS = 256  # query rows a block; texts up to this length are captured whole


@dataclass(frozen=True)
class Call:
    """The arguments of one attention call, with which any block of its rows can be computed again."""

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    eager: Callable[..., tuple[Tensor, Tensor]]
    options: Mapping[str, Any]
    mask_name: str | None = None  # the keyword that the mask was given by, if any
    edit: Edit | None = None  # a change of what attention gives (models/editing.py)

    @property
    def length(self) -> int:
        return self.query.shape[2]

    def rows(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The model's own eager attention for queries start … stop: (output [batch query head d_head], weights)."""
        options = {name: self._cut(option, start, stop) for name, option in self.options.items()}
        mask = self._cut(self.mask, start, stop)
        by_place = () if self.mask_name else (mask,)
        by_name = {self.mask_name: mask} if self.mask_name else {}
        query = self.query[:, :, start:stop]
        out, alpha = self.eager(self.module, query, self.key, self.value, *by_place, **by_name, **options)
        return (out, alpha) if self.edit is None else self.edit(self, start, out, alpha)

    def mixed(self, alpha: Tensor) -> Tensor:
        """Σ_k α V as [batch query head d_head]."""
        value = at_least_float(self.value).repeat_interleave(alpha.shape[1] // self.value.shape[1], dim=1)
        return torch.einsum("bhqk,bhkd->bqhd", at_least_float(alpha), value)

    def unscaled(self, alpha: Tensor | None, rows: int) -> Tensor:
        """`mixed` of the whole map, or of its blocks of rows where it was not kept."""
        if alpha is not None:
            return self.mixed(alpha)
        blocks = range(0, self.length, rows)
        return torch.cat([self.mixed(self.rows(start, start + rows)[1]) for start in blocks], dim=1)

    def _cut(self, option: Any, start: int, stop: int) -> Any:
        """Masks and position biases have a query axis of their own; everything else is left alone."""
        has_rows = isinstance(option, Tensor) and option.ndim == 4 and option.shape[2] == self.length > 1
        return option[:, :, start:stop] if has_rows else option

    def output(self, *, sdpa: bool) -> Tensor:
        """The attention output of a text too long for its map to be kept."""
        if sdpa and self.edit is None:
            # Our masks are explicit (never skipped for causal attention), so no mask means every key is seen.
            options = {"is_causal": False, **self.options}
            return sdpa_attention_forward(self.module, self.query, self.key, self.value, self.mask, **options)[0]
        blocks = [self.rows(start, start + ROWS)[0] for start in range(0, self.length, ROWS)]
        return torch.cat(blocks, dim=1)

    def visible(self, key_mask: Tensor) -> Tensor:
        """Which keys each query may see: [batch query key]."""
        every = key_mask[:, None, :].expand(-1, self.length, -1)
        if self.mask is None:
            return every
        mask = self.mask[..., : every.shape[-1]]
        seen = mask > torch.finfo(mask.dtype).min / 2 if mask.is_floating_point() else mask.bool()
        return every & seen.reshape((1,) * (4 - seen.ndim) + seen.shape).any(1)  # by any head


class Weighted(Call):
    """A call outside the registry: `query` holds the weights themselves, which are there and need no second pass."""

    def output(self, *, sdpa: bool) -> Tensor:
        del sdpa
        return self.rows(0, self.length)[0]


Edit = Callable[[Call, int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(call, first row, output [batch query head d_head], weights) → output and weights in their place."""


@dataclass(frozen=True)
class Site:
    """One attention call of a forward pass: where it stands and what surrounds it, as models/proof.py found it."""

    stack: str
    index: int
    module: nn.Module
    projection: nn.Module
    residual_of: nn.Module | None  # the module whose input is the residual that attention is added to
    circuit: Circuit
    causal: bool  # the first query does not see the last key
    gated: bool = False  # the projection reads g ⊙ out: a gate, norm or scale stands between
    scaled: bool = False  # out = s ⊙ Σ α V, a number a row and head: the weights do not count the row's sink
    part: slice | None = None  # the columns of what the projection reads that are the heads'; None: all of them
    tokens_first: bool = False  # inside the model the first axis is the tokens and the second the texts (FSMT)
    block: int | None = None  # the number of the block that it stands in, where blocks without attention count too
    last_of: nn.Module | None = None  # the module of `circuit.last`: what it reads is the block's output


Visitor = Callable[[Layer], None]


@dataclass
class Recorder:
    """Follows one forward pass: pairs every call with its site and hands on the layer once its output is known."""

    sites: Sequence[Site]
    masks: Mapping[str, Tensor]  # "source" and "target": [batch token]
    visit: Visitor
    wanted: Callable[[Site], bool]
    sdpa: bool
    rows: int = ROWS
    done: int = 0
    pending: tuple[Call, Tensor | None, Tensor] | None = None  # the call, its weights, its output
    residuals: dict[nn.Module, Tensor] = field(default_factory=dict)

    def attend(self, call: Call) -> tuple[Tensor, Tensor | None]:
        if not any(site.module is call.module for site in self.sites):
            return call.rows(0, call.length)  # the picture part of a language model, which is no stack of it
        if call.length <= self.rows or self.rows == 0:
            out, alpha = call.rows(0, call.length)
        else:
            out, alpha = call.output(sdpa=self.sdpa), None
        self.pending = (call, alpha, out)
        return out, alpha

    def finish(self, module: nn.Module, read: Tensor, out: Tensor) -> None:
        """The projection has run: hand on the layer, whole or in blocks."""
        if self.pending is None or self.sites[self.done].projection is not module:
            return
        site, (call, alpha, attended) = self.sites[self.done], self.pending
        self.done, self.pending = self.done + 1, None
        if self.wanted(site):
            attended = call.unscaled(alpha, self.rows) if site.scaled else attended
            gate = gate_of(by_text(site, read), attended) if site.gated else None
            out = out if site.part is None else of_heads(site, read)
            out = by_text(site, at_least_float(out)).reshape(len(call.query), call.length, -1)
            for layer in self._layers(site, call, alpha, out, gate):
                self.visit(layer)
        self._forget(site)

    def _forget(self, site: Site) -> None:
        """Drop the residual that no later site reads: those of a long text together are as large as all it keeps."""
        module, later = site.residual_of, {each.residual_of for each in self.sites[self.done :]}
        if module is not None and module not in later:
            self.residuals.pop(module, None)

    def _layers(
        self, site: Site, call: Call, alpha: Tensor | None, out: Tensor, gate: Tensor | None
    ) -> Iterator[Layer]:
        query_mask = self.masks["source" if site.stack in ("self", "encoder") else "target"]
        key_mask = self.masks["target" if site.stack == "decoder" else "source"]
        value, visible, text_memo = at_least_float(call.value), call.visible(key_mask), {}
        if not bool(key_mask.all()):
            value = torch.where(key_mask[:, None, :, None], value, 0.0)
        residual = self.residuals.get(site.residual_of) if site.residual_of is not None else None
        residual = None if residual is None else by_text(site, at_least_float(residual))
        step = call.length if alpha is not None else self.rows
        for start in range(0, call.length, step):
            rows = slice(start, start + step)
            weights = call.rows(start, start + step)[1] if alpha is None else alpha
            if not (bool(query_mask.all()) or weights.requires_grad):
                # subtle: a padding row that sees no key is NaN in some models, and NaN × 0 is NaN in every sum. Weights
                # that a gradient is to be taken of must stay the tensor that the model used.
                weights = torch.where(query_mask[:, None, rows, None], weights, 0.0)
            yield Layer(
                stack=site.stack, index=site.index, first_row=start, circuit=site.circuit, text_memo=text_memo,
                alpha=at_least_float(weights), value=value, visible=visible[:, rows], key_mask=key_mask,
                query_mask=query_mask[:, rows], out=out[:, rows],
                residual=None if residual is None else residual[:, rows],
                gate=None if gate is None else gate[:, :, rows],
            )  # fmt: skip


def by_text(site: Site, inside: Tensor) -> Tensor:
    """What a module inside the model is given, texts first."""
    return inside.transpose(0, 1) if site.tokens_first else inside


def of_heads(site: Site, read: Tensor) -> Tensor:
    """What the heads alone give, b_O included, where the projection reads other things beside them (ConvBERT)."""
    assert site.part is not None
    return at_least_float(read)[..., site.part] @ site.circuit.w_o.flatten(0, 1) + site.circuit.b_o


def gate_of(read: Tensor, out: Tensor) -> Tensor:
    """g [batch head query d_head] of what a projection reads, g ⊙ out, given out [batch query head d_head].

    A product is rounded relative to itself, so the quotient is g to the last digit however small `out` is.
    """
    out = at_least_float(out)
    read = at_least_float(read).reshape(out.shape)
    return torch.where(out == 0, 1.0, read / torch.where(out == 0, 1.0, out)).transpose(1, 2)


def at_least_float(x: Tensor) -> Tensor:
    """Half precision is widened; float32 and float64 stay as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


_watching: ContextVar[Callable[[Call], tuple[Tensor, Tensor | None]] | None] = ContextVar("watching", default=None)
followed: ContextVar[Following | None] = ContextVar("following", default=None)
_editing: ContextVar[Callable[[nn.Module], Edit | None] | None] = ContextVar("editing", default=None)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    eager: Callable[..., Any],
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """What the model calls in place of its own eager attention: that attention, watched."""
    name = "attention_mask" if "attention_mask" in options else None
    mask = options.pop(name) if name else mask
    edit_of = _editing.get()
    call = Call(module, query, key, value, mask, eager, options, name, edit_of(module) if edit_of else None)
    watch, mode = _watching.get(), followed.get()
    assert watch is not None
    if mode is None:
        return watch(call)
    with mode.pausing():
        out, alpha = watch(call)
    mode.note_output(out)
    return out, alpha


def attention_outside(module: nn.Module, alpha: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """What stands in the place of a product of weights and values that does not go through the registry."""
    edit_of, watch = _editing.get(), _watching.get()
    edit = edit_of(module) if edit_of else None
    call = Weighted(module, alpha, value, value, mask, weighted, {}, None, edit)
    return (call.rows(0, call.length) if watch is None else watch(call))[0]


_interface_of = AttentionInterface.get_interface


def _watched_interface(self: AttentionInterface, attn_implementation: str, default: Callable[..., Any]) -> Any:
    """transformers' own look-up; our function where a model asks for "eager" while it is being watched."""
    if _watching.get() is None or attn_implementation != "eager":
        return _interface_of(self, attn_implementation, default)
    return partial(attention, eager=default)


AttentionInterface.get_interface = _watched_interface  # inert but for the time of `watching`


@contextmanager
def watching(
    model: PreTrainedModel,
    watch: Callable[[Call], tuple[Tensor, Tensor | None]],
    *,
    probing: bool = False,
    made: Callable[[nn.Module], None] = lambda _: None,
) -> Iterator[None]:
    """Route every attention call of `model` through `watch`; the model is as before afterwards.

    `probing` looks outside the registry, too, and follows what attention gives to what reads it; `made` is told each
    module that is made of a projection which is none.
    """
    around = followed.get()  # where captures are nested one mode serves them all
    needed = probing or (model in OUTSIDE and around is None)
    products = PROJECTIONS.setdefault(model, {})
    mode = Following(attention_outside, probing=probing, products=products, made=made) if needed else around
    tokens = _watching.set(watch), followed.set(mode)
    try:
        with (
            eager(model),
            banded(model, attention),
            around.pausing() if around is not None and needed else nullcontext(),
            following(model, mode) if mode is not None and needed else nullcontext(),
        ):
            yield
    finally:
        _watching.reset(tokens[0])
        followed.reset(tokens[1])


PROJECTIONS: WeakKeyDictionary[nn.Module, dict[int, Product]] = WeakKeyDictionary()  # those that are no modules
OUTSIDE: WeakSet[nn.Module] = WeakSet()  # models of which the proof found that they attend outside the registry


@contextmanager
def eager(model: PreTrainedModel) -> Iterator[None]:
    """The model's own eager attention, whatever it was loaded with."""
    configs = list(_configs(model))
    before = [config._attn_implementation_internal for config in configs]
    try:
        for config in configs:
            config._attn_implementation_internal = "eager"
        yield
    finally:
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation_internal = name


def _configs(model: PreTrainedModel) -> Iterator[Any]:
    """Every configuration that some part of the model reads, once."""
    queue = [module.config for module in model.modules() if hasattr(module, "config")]
    seen: set[int] = set()
    while queue:
        config: Any = queue.pop()
        if config is not None and id(config) not in seen and hasattr(config, "_attn_implementation_internal"):
            seen.add(id(config))
            queue += [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
            yield config


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Dropout off, as `model.eval()` has it; every part is in its own mode again afterwards."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def editing(edit_of: Callable[[nn.Module], Edit | None]) -> Iterator[None]:
    """Every attention call asks `edit_of` its module what to make of its output; an edit around this one acts first."""
    around = _editing.get()

    def both(module: nn.Module) -> Edit | None:
        edits = [edit for of in (around, edit_of) if of is not None and (edit := of(module)) is not None]
        if len(edits) < 2:
            return edits[0] if edits else None
        first, second = edits
        return lambda call, start, out, alpha: second(call, start, *first(call, start, out, alpha))

    token = _editing.set(both)
    try:
        yield
    finally:
        _editing.reset(token)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' log and bars: what it would say about attention is checked and said by the proof."""
    logger = logging.getLogger("transformers")
    level, bars = logger.level, hf_logging.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            hf_logging.enable_progress_bar()


@contextmanager
def recording(model: PreTrainedModel, recorder: Recorder) -> Iterator[None]:
    """`watching`, with the hooks that tell the recorder each residual and each projection's output."""

    def note_residual(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        residual = first_tensor(args, kwargs)
        if residual is not None:
            recorder.residuals[module] = residual

    def note_output(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        mode = followed.get()
        with nullcontext() if mode is None else mode.pausing():
            recorder.finish(module, args[0], out)

    with ExitStack() as stack:
        for module in {site.residual_of for site in recorder.sites if site.residual_of is not None}:
            stack.callback(module.register_forward_pre_hook(note_residual, with_kwargs=True).remove)
        for module in {site.projection for site in recorder.sites}:
            stack.callback(module.register_forward_hook(note_output).remove)
        stack.enter_context(watching(model, recorder.attend))
        yield


def first_tensor(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The tensor a module is mainly called with."""
    main = args[0] if args else kwargs.get("hidden_states")
    return main if isinstance(main, Tensor) else None

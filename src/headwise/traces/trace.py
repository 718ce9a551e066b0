"""Everything about one text: its tokens, its attention layers, and each quantity by name."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.changes import Change, called
from headwise.errors import InputError, ModelError
from headwise.measures import agreement, nullspace, simplex, whitening
from headwise.quantities import ATTENTION, MIXING, ORIGINS, PASSES, check_options, find, unknown_map
from headwise.text.terminal import visible
from headwise.text.written import in_a_line
from headwise.traces.ways import WAYS, Shown
from headwise.types import Encoding, Layer

MOVED, ROUNDED = 3, 1e-9  # weights that a sentence names, and by how much one may miss itself


@dataclass(frozen=True)
class NullSpace:
    """What the null space does to each head's map; every tensor is [layer head].

    `rank`, `null_dim` and `simplex_dim` are those of the query that sees most keys (under a causal mask the last one).
    """

    n: int  # keys that this query sees
    d_head: int
    tolerance: float  # a singular value counts above this share of the largest one
    rank: Int[Tensor, "layer head"]  # rank(T)
    null_dim: Int[Tensor, "layer head"]  # dim LN(T): free directions of the weights
    simplex_dim: Int[Tensor, "layer head"]  # dim LN([T, 1]): free directions of distributions
    pearson: Float[Tensor, "layer head"]  # correlation of raw and effective attention
    null_share: Float[Tensor, "layer head"]  # ‖null‖² / ‖raw‖²
    identifiable: Bool[Tensor, "layer head"]  # no other distribution gives any row's output
    identifiable_rows: Float[Tensor, "layer head"]  # share of rows of which this is true
    smallest_kept: Float[Tensor, "layer head"]  # the last singular value that counts, over the largest
    largest_dropped: Float[Tensor, "layer head"]  # the first that does not; 0 where all count


@dataclass(frozen=True)
class Alternative:
    """Another attention with the same head output."""

    alpha: Float[Tensor, "query key"]
    js: Float[Tensor, " query"]  # Jensen-Shannon divergence from the original, nats
    change: float  # ‖new output − output‖ / ‖output‖ of the head, largest over rows


@dataclass(frozen=True)
class Rivals:
    """All that one weight can be while the head's output stays: the rows at both ends of its interval, and between.

    `tokens` are those of the keys, and `where` and `query` say whose weight it is.
    """

    key: int
    own: Float[Tensor, " key"]
    low: Float[Tensor, " key"]  # with the least weight on `key`
    high: Float[Tensor, " key"]  # with the largest
    change: float  # ‖new output − output‖ / ‖output‖ of the head, the larger of both ends; no more between them
    tokens: tuple[str, ...] = ()
    where: str = ""  # L3.H5
    query: str = ""  # its token

    def __str__(self) -> str:
        least, own, most = (float(row[self.key]) for row in (self.low, self.own, self.high))
        cell = f"{self.where}, the weight from {self.query!r} to {self._named(self.key)} is {own:.3f}"
        if most - least < ROUNDED:
            return f"{cell}; no other gives this output of the head."
        ends = (("least", self.low), ("largest", self.high))
        moves = "; ".join(
            f"at its {end} {self._moved(row)}" for end, row in ends if abs(row - self.own).max() >= ROUNDED
        )
        return (
            f"{cell} and could be {least:.3f} to {most:.3f}: the head's output changes by {self.change:.0e} of its "
            f"length.\nThe others move with it: {moves}."
        )

    __repr__ = __str__  # the end of a notebook's cell says what print says

    def _named(self, key: int) -> str:
        return f"{in_a_line(self.tokens[key : key + 1])!r} ({key})"

    def _moved(self, row: Float[Tensor, " key"]) -> str:
        """The other weights that move most to that end."""
        by = row - self.own
        most = [key for key in by.abs().argsort(descending=True).tolist() if key != self.key and by[key]][:MOVED]
        return ", ".join(f"{self._named(key)} {float(by[key]):+.2g}" for key in most)

    def at(self, weight: float) -> Float[Tensor, " key"]:
        """The row that gives `key` this weight: from the model's own row straight to that end of the interval."""
        least, own, most = (float(row[self.key]) for row in (self.low, self.own, self.high))
        if not least <= weight <= most:
            raise InputError(f"This weight goes from {least:.4g} to {most:.4g}, but {weight:g} was asked for.")
        end, far = (self.low, least) if weight < own else (self.high, most)
        return self.own if weight == own else self.own + (end - self.own) * ((weight - own) / (far - own))


@dataclass(frozen=True)
class Trace(Shown):
    """One text through one model. `layers` are whole, unpadded and of batch size 1.

    `model` serves the quantities that need passes of their own; a trace that was opened from a file has none.
    `answer` is a place in the text; what the model says to one, `trace.model.says(text)` tells: of a model that was
    loaded without its head nothing (hw.load("demo-llm", task="causal-lm") has it).
    """

    model_name: str
    text: Encoding
    target: Encoding | None
    layers: tuple[Layer, ...]
    hidden: Mapping[str, Float[Tensor, "layer token d_model"]]
    revision: str | None = None
    proof_error: float = float("nan")
    output_error: float = float("nan")  # this text's output, watched against not watched, relative
    answer: int | None = None  # the first token of an answer, where a chat has one or the model wrote one
    change: tuple[Change, ...] = ()  # what was changed in the model
    model: Any = field(default=None, repr=False, compare=False)  # headwise.models.model.Model, which imports this file

    def __repr__(self) -> str:
        begins = visible(in_a_line(self.tokens[:8])) + (" …" if len(self.tokens) > 8 else "")
        return f"<headwise.Trace of {len(self.text)} tokens through {self.model_name}{self.changed_by}: {begins}>"

    @property
    def changed_by(self) -> str:
        """What was changed in the model, to stand after its name; empty where nothing was."""
        calls = [visible(called(change)) for change in self.change]
        return f" changed by {' and '.join(calls)}" if calls else ""

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.text.tokens

    @property
    def stacks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(layer.stack for layer in self.layers))

    def queries(self, stack: str | None = None) -> Encoding:
        """The tokens that attend."""
        return self.text if self._stack(stack) in ("self", "encoder") else self._target()

    def keys(self, stack: str | None = None) -> Encoding:
        """The tokens that are attended to."""
        return self._target() if self._stack(stack) == "decoder" else self.text

    def attention(self, name: str = "raw", *, stack: str | None = None) -> Float[Tensor, "layer head query key"]:
        """An attention quantity: raw, effective, null or norm."""
        if name not in ATTENTION:
            raise unknown_map("attention", name)
        return torch.cat([ATTENTION[name](layer) for layer in self.of(stack)])

    def mixing(self, name: str, *, stack: str | None = None) -> Float[Tensor, "layer query key"]:
        """A mixing quantity, heads merged: norm-residual, globenc, alti, value-zeroing …"""
        if name in PASSES:
            return self._by_passes(name, PASSES[name], {}, stack)
        if name not in MIXING:
            raise unknown_map("mixing", name)
        return torch.cat([MIXING[name](layer) for layer in self.of(stack)])

    def origins(self, name: str, *, stack: str | None = None, **options: Any) -> Float[Tensor, "layer token input"]:
        """Where hidden tokens come from, of the first stack: hidden-token, output-weighted, rollout, flow …

        Row l is the output of block l. `options` are the method's own, e.g. k=64, exact=True or mixing="globenc".
        """
        if name not in ORIGINS:
            raise unknown_map("origins", name)
        method = ORIGINS[name]
        return self._by_passes(name, lambda *given, **more: method(*given, **more).maps, options, stack, method)

    def quantity(self, name: str, *, stack: str | None = None) -> Float[Tensor, "layer head query key"]:
        """Any quantity by name; mixing quantities and origins come with a head axis of length 1."""
        if (kind := find(name).kind) == "attention":
            return self.attention(name, stack=stack)
        return (self.mixing if kind == "mixing" else self.origins)(name, stack=stack)[:, None]

    def words(
        self, quantity: str = "raw", *, to: str = "sum", from_: str = "mean", stack: str | None = None
    ) -> Float[Tensor, "layer head query_word key_word"]:
        """A quantity between words: what a word's tokens get is summed, what they give is averaged.

        `to`: "sum" or "mean"; `from_`: "mean", "sum" or "first" (the word's first token speaks for it). The words are
        `trace.queries().words` and `trace.keys().words`; special tokens are words of their own.
        """
        rows = membership(self.queries(stack), from_, ("mean", "sum", "first"))
        columns = membership(self.keys(stack), to, ("sum", "mean"))
        tokens = self.quantity(quantity, stack=stack)
        return torch.einsum("wq,lhqk,vk->lhwv", rows.to(tokens), tokens, columns.to(tokens))

    def heads(self, quantity: str = "raw", *, stack: str | None = None) -> Any:
        """A polars table with one row a head: entropy, where its attention goes, null-space facts."""
        from headwise.traces.heads import head_table  # which imports this file

        return head_table(self, quantity, stack=stack)

    def nullspace(self, *, stack: str | None = None) -> NullSpace:
        """Per layer and head, what of the attention is pinned down by the head's output and what is not."""
        layers = self.of(stack)
        seen = torch.stack([nullspace.keys_seen(layer)[0] for layer in layers])  # layer query
        widest = seen.argmax(-1)
        at_widest = lambda ranks: torch.stack([r[:, w] for r, w in zip(ranks, widest, strict=True)])  # noqa: E731
        ranks = [nullspace.rank(layer)[0] for layer in layers]
        simplex_ranks = [nullspace.simplex_rank(layer)[0] for layer in layers]
        count = seen.gather(1, widest[:, None])
        unique = torch.stack([s == r for s, r in zip(seen[:, None], simplex_ranks, strict=True)]).double().mean(-1)
        facts = [_agreement(layer) for layer in layers]
        edges = [nullspace.edge(layer, int(w)) for layer, w in zip(layers, widest, strict=True)]
        d_head = layers[0].value.shape[-1]
        return NullSpace(
            n=int(count.max()),
            d_head=d_head,
            tolerance=max(int(count.max()), d_head) * whitening.precision(layers[0].value.dtype),
            rank=at_widest(ranks),
            null_dim=count - at_widest(ranks),
            simplex_dim=count - at_widest(simplex_ranks),
            pearson=torch.cat([fact[0] for fact in facts]),
            null_share=torch.cat([fact[1] for fact in facts]),
            identifiable=unique == 1,
            identifiable_rows=unique,
            smallest_kept=torch.stack([at_edge[0] for at_edge in edges]),
            largest_dropped=torch.stack([at_edge[1] for at_edge in edges]),
        )

    def alternative_attention(
        self, layer: int, head: int, *, kind: str = "far", seed: int = 0, stack: str | None = None
    ) -> Alternative:
        """Another distribution for every query with the same head output.

        "far": the one with the least inner product with the original. "random": along a random null-space direction.
        """
        generator = np.random.default_rng(seed)
        ways: Mapping[str, Callable[..., Any]] = {
            "far": simplex.far_alternative,
            "random": lambda row, values: simplex.random_alternative(row, values, generator=generator),
        }
        if kind not in ways:
            raise InputError(f"An alternative is one of {', '.join(ways)}, but {kind!r} was asked for.")
        whole = self._layer(layer, head, stack)
        changed = whole.alpha[0, head].double().clone()
        for query in range(len(changed)):
            row, values, seen = self._row(whole, head, query)
            changed[query, seen] = torch.from_numpy(np.ascontiguousarray(ways[kind](row, values))).to(changed)
        given = changed.to(whole.alpha.dtype)
        return Alternative(
            alpha=given,
            js=agreement.js_divergence(whole.alpha[0, head], changed),
            change=_output_change(whole, head, given),  # of the weights as they are handed out, rounding included
        )

    def attention_interval(
        self, layer: int, head: int, query: int, *, stack: str | None = None
    ) -> tuple[Float[Tensor, " key"], Float[Tensor, " key"]]:
        """For every key the smallest and the largest weight among all distributions with the same head output."""
        whole = self._layer(layer, head, stack)
        _check_number("Queries", query, whole.alpha.shape[2])
        row, values, seen = self._row(whole, head, query)
        ends = torch.zeros(2, whole.alpha.shape[3], device=whole.alpha.device)
        ends[:, seen] = torch.tensor(np.stack(simplex.interval(row, values))).to(ends)
        return ends[0], ends[1]

    def rival_weights(self, layer: int, head: int, query: int, key: int, *, stack: str | None = None) -> Rivals:
        """One weight within its interval, and how the other weights of the query move with it: same head output."""
        whole = self._cell(layer, head, query, key, stack)
        row, values, seen = self._row(whole, head, query)
        place = int(seen[: key + 1].sum()) - 1
        rows = torch.zeros(3, len(seen), dtype=torch.float64, device=seen.device)
        rows[:, seen] = torch.tensor(np.stack([row, *simplex.ends(row, values, place)])).to(rows)
        changed = whole.alpha[0, head].double().repeat(2, 1, 1)
        changed[:, query] = rows[1:]
        change = max(_output_change(whole, head, each) for each in changed)
        tokens, name = self.keys(stack).tokens, f"L{layer}.H{head}"
        own, low, high = rows
        return Rivals(key, own, low, high, change, tokens, name, in_a_line([self.queries(stack).tokens[query]]))

    def of(self, stack: str | None = None) -> list[Layer]:
        """The layers of one stack."""
        stack = self._stack(stack)
        return [layer for layer in self.layers if layer.stack == stack]

    def figure(
        self,
        layer: int | None = None,
        head: int | None = None,
        *,
        query: int | None = None,
        words: bool = False,
        stack: str | None = None,
        **unknown: Any,
    ) -> Any:
        """An Altair chart of one head: its four maps, and for one query the interval of every weight."""
        if layer is None or head is None or unknown:
            got = next(iter(unknown), None) or f"no {'layer' if layer is None else 'head'}"
            raise InputError(
                f"A figure is of one head and takes query=, words= and stack= besides, but got {got}; write "
                "trace.figure(layer, head), as in trace.figure(5, 3)."
            )
        self._layer(layer, head, stack)
        return WAYS["figure"](self, layer, head, query=query, words=words, stack=stack)

    def save(self, path: str | Path) -> Path:
        """Write the trace to one safetensors file; `hw.open(path)` gives it back."""
        from headwise.traces.saved import save_trace  # which imports this file

        return save_trace(self, Path(path))

    def why(self, layer: int, head: int, query: int, key: int, *, stack: str | None = None) -> Any:
        """Why a head looks there: its score before the softmax as a sum over what query and key are made of.

        See `headwise.explanations.why`; the model is run again, up to this layer.
        """
        return self._of_cell("why", layer, head, query, key, stack)

    def query_key(self, layer: int, head: int, query: int, key: int, *, stack: str | None = None) -> Any:
        """One query times one key, dimension by dimension of the head, and what else is in their score.

        See `headwise.explanations.query_key`; the model is run again, up to this layer.
        """
        return self._of_cell("query_key", layer, head, query, key, stack)

    def _of_cell(self, way: str, layer: int, head: int, query: int, key: int, stack: str | None) -> Any:
        self._cell(layer, head, query, key, stack)
        self.check_model(way)
        with self.as_read():
            return WAYS[way](self, self._stack(stack), layer, head, query, key)

    def _cell(self, layer: int, head: int, query: int, key: int, stack: str | None) -> Layer:
        """The layer of a cell, once the query sees the key."""
        whole = self._layer(layer, head, stack)
        visible = whole.visible[0]
        for name, place, size in zip(("Queries", "Keys"), (query, key), visible.shape, strict=True):
            _check_number(name, place, size)
        if not visible[query, key]:
            raise InputError(f"A query must see the key, but {query} does not see {key}; there is no score.")
        return whole

    def brought(self, **options: Any) -> Any:
        """Which head brought what to the model's own answer to this text: an explanation in units of heads.

        Direct parts, which add up, and what passes through a head in all; `options` are those of paths (attention,
        gate). See `headwise.explanations.explain`; the model is run again and needs a head of its own.
        """
        self.check_model("brought")
        with self.as_read():
            return WAYS["brought"](self.model, self.text, self.target, **options)

    def as_read(self) -> AbstractContextManager[None]:
        """The model as it was when it read the text: under `change` and nothing else. Every pass of a trace is so."""
        return nullcontext() if self.model is None else self.model.exactly(*self.change)

    def check_model(self, name: str) -> None:
        """Refuse what runs the model where a trace has none."""
        if self.model is None:
            raise InputError(
                f"{name} needs passes through the model, but this trace was opened from a file; load {self.model_name} "
                "and trace the text again."
            )

    def _by_passes(
        self,
        name: str,
        method: Callable[..., Tensor],
        options: dict[str, Any],
        stack: str | None,
        signature: Callable[..., Any] | None = None,
    ) -> Float[Tensor, "layer query key"]:
        """What a method that runs the model itself gives for this text, for the layers that the trace holds."""
        if self._stack(stack) != self.stacks[0]:
            raise InputError(f"{name} is about the {self.stacks[0]} stack, but {stack} was asked for.")
        self.check_model(name)
        check_options(name, signature or method, options)
        batch = self.model.batch([self.text], [] if self.target is None else [self.target])
        with self.as_read():
            try:
                maps = method(self.model, batch, **options)
            except RuntimeError as error:  # a function without a derivative, a block that knows one text only
                reason = next(iter(str(error).splitlines()), "")[:120]
                raise ModelError(
                    f"{name} runs the model again in parts, but {self.model_name} does not let it ({reason}); use "
                    "raw-mean, norm-sum or rollout."
                ) from error
        return maps[0, [layer.index for layer in self.of(stack)]]

    def _stack(self, stack: str | None) -> str:
        stack = stack or self.stacks[0]
        if stack not in self.stacks:
            raise InputError(f"There is no stack {stack!r} in this trace; there are {', '.join(self.stacks)}.")
        return stack

    def _target(self) -> Encoding:
        assert self.target is not None
        return self.target

    def _layer(self, layer: int, head: int, stack: str | None) -> Layer:
        found = {candidate.index: candidate for candidate in self.of(stack)}
        if layer not in found:
            raise InputError(f"Layers of this trace are {', '.join(map(str, found))}, but {layer} was asked for.")
        _check_number("Heads", head, found[layer].alpha.shape[1])
        return found[layer]

    @staticmethod
    def _row(layer: Layer, head: int, query: int) -> tuple[np.ndarray, np.ndarray, Tensor]:
        """The weights and values of the keys that a query sees, in float64, and which keys these are."""
        seen = layer.visible[0, query]
        values = nullspace.seen_values(layer)
        group = layer.alpha.shape[1] // values.shape[1]
        weights, own = layer.alpha[0, head, query, seen], values[0, head // group, seen]
        return weights.double().cpu().numpy(), own.double().cpu().numpy(), seen


def _check_number(name: str, number: Any, size: int) -> None:
    if not isinstance(number, int | np.integer):
        where = "" if name == "Heads" else "; trace.tokens has the tokens in order"
        raise InputError(f"{name} are numbers from 0 to {size - 1}, but {number!r} was asked for{where}.")
    if not 0 <= number < size:
        raise InputError(f"{name} go from 0 to {size - 1}, but {number} was asked for.")


def membership(text: Encoding, how: str, allowed: tuple[str, ...]) -> Float[Tensor, "word token"]:
    """The matrix that turns token scores into word scores."""
    if how not in allowed:
        raise InputError(f"Tokens are put together by {' or '.join(allowed)}, but {how!r} was asked for.")
    unit = torch.tensor(text.unit)
    belongs = (unit == torch.arange(len(text.words))[:, None]).double()
    if how == "mean":
        return belongs / belongs.sum(-1, keepdim=True)
    return belongs * (belongs.cumsum(-1) == 1) if how == "first" else belongs


def _agreement(layer: Layer) -> tuple[Tensor, Tensor]:
    whole, reached = layer.alpha, nullspace.effective(layer)
    pearson = agreement.pearson(whole, reached, layer.visible)
    return pearson, agreement.squared_share(whole - reached, whole, layer.visible)


def _output_change(layer: Layer, head: int, changed: Float[Tensor, "query key"]) -> float:
    vectors = layer.head_value[0, head].double() @ layer.circuit.w_o[head].double()
    before = layer.alpha[0, head].double() @ vectors
    moved, size = (changed.double() @ vectors - before).norm(dim=-1), before.norm(dim=-1)
    return float(torch.where(moved == 0, 0.0, moved / size).max())  # a head whose W_O is zero sends nothing either way


__all__ = ["Alternative", "NullSpace", "Rivals", "Trace"]

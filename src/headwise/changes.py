"""A change of a model, as data: what to take away or put in its place, to see whether it matters.

    zero("L3.H4", "L5")                  these heads give nothing (all those of layer 5); (3, 4) is L3.H4, too
    zero("cross L3.H4")                  the same of one stack: zero("L3.H4", stack="cross")
    mean("L3.H4", corpus="wiki.txt")     they give their mean output over a corpus, whatever they read
    resample("L3.H4", text="…")          they give what they give for another text, position by position
    scale("L3.H4", by=0.5)               they give half of it
    cut((5, 2), heads="L3.H4")           query 5 no longer attends to key 2
    attend("uniform", "L3")              these heads attend otherwise: raw, effective, far (the same output), uniform
    without("feed-forward", 3)           a block of a layer adds nothing; or "attention"

    with model.changed(zero("L3.H4"), cut((None, 0))): …
    model.trace("The cat sat.", change=[zero("L3.H4")])

A change is a frozen value that goes into manifests as JSON (`to_json`, `from_json`). Changes compose: those of
attention act first, then those of what W_O reads, in the order given; a block within a block is both in one. A head
whose output is changed keeps its own weights (`attention("raw")`); what it sends (`"norm"`, `"norm-residual"`, …) is
what is left of it: nothing, or its share under `scale`. models/editing.py carries changes out.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwise.errors import InputError

WAYS = ("zero", "mean", "resample", "scale")
PARTS = ("attention", "feed-forward")
MAPS = ("raw", "effective", "uniform", "far")
ALL = "all"
STACKS = ("self", "encoder", "decoder", "cross")  # what may stand before a head's name
SAID, LETTERS = 6, 60  # heads or edges of a call that are named, letters of a text
Edge = tuple[int | None, int | None]  # query, key; None: every one
HeadName = str | tuple[int, int]  # "L3.H4", "L3", "all", or (layer, head)


@dataclass(frozen=True)
class Output:
    """What some heads give to W_O: `to` one of WAYS. `factor` is for scale, `text` and `pair` for resample.

    `corpus` is for mean: a file or "sample", of which the `first` texts are read; their tokens all weigh the same.
    """

    heads: tuple[str, ...]
    to: str
    factor: float = 0.0
    corpus: str | None = None
    first: int = 64
    text: str | None = None
    pair: str | None = None
    stack: str | None = None


@dataclass(frozen=True)
class Edges:
    """Attention from queries to keys set to zero; `renormalise`: the rest of the row takes its share."""

    edges: tuple[Edge, ...]
    heads: tuple[str, ...] = (ALL,)
    renormalise: bool = True
    stack: str | None = None


@dataclass(frozen=True)
class Attention:
    """Other weights in the place of a head's own: one of MAPS. All but uniform must leave the output as it is."""

    like: str
    heads: tuple[str, ...]
    stack: str | None = None


@dataclass(frozen=True)
class Block:
    """What the attention or feed-forward block of some layers adds, biases included: nothing, or its mean."""

    part: str
    layers: tuple[int, ...]
    to: str = "zero"
    corpus: str | None = None
    first: int = 64
    stack: str | None = None


Change = Output | Edges | Attention | Block
KINDS: Mapping[str, type[Output] | type[Edges] | type[Attention] | type[Block]] = {
    "output": Output, "edges": Edges, "attention": Attention, "block": Block,
}  # fmt: skip


def zero(*heads: HeadName, stack: str | None = None) -> Output:
    names, stack = _heads(heads, stack)
    return Output(names, "zero", stack=stack)


def mean(*heads: HeadName, corpus: str | None = None, first: int = 64, stack: str | None = None) -> Output:
    names, stack = _heads(heads, stack)
    return Output(names, "mean", corpus=_corpus(corpus), first=first, stack=stack)


def resample(*heads: HeadName, text: str, pair: str | None = None, stack: str | None = None) -> Output:
    names, stack = _heads(heads, stack)
    return Output(names, "resample", text=text, pair=pair, stack=stack)


def scale(*heads: HeadName, by: float | int, stack: str | None = None) -> Output:
    try:
        factor = float(by)
    except (TypeError, ValueError):
        raise InputError(f"A head is scaled by a number, but got by={by!r}; write by=0.5.") from None
    names, stack = _heads(heads, stack)
    return Output(names, "scale", factor=factor, stack=stack)


def cut(
    *edges: Any, heads: HeadName | Sequence[HeadName] = ALL, renormalise: bool = True, stack: str | None = None
) -> Edges:
    """`edges` are (query, key) pairs of positions; None stands for every query or every key."""
    if not edges:
        raise InputError("At least one edge must be cut, but none was given; pass (query, key) positions.")
    pairs = tuple(_edge(edge) for edge in edges)
    several = not isinstance(heads, str) and not _is_place(heads)
    names, stack = _heads(heads if several else [heads], stack)
    return Edges(pairs, names, renormalise, stack)


def attend(like: str, *heads: HeadName, stack: str | None = None) -> Attention:
    if like not in MAPS:
        raise InputError(f"Attention can be replaced by {', '.join(MAPS)}, but {like!r} was asked for.")
    names, stack = _heads(heads, stack)
    return Attention(like, names, stack)


def without(
    part: str, *layers: int, to: str = "zero", corpus: str | None = None, first: int = 64, stack: str | None = None
) -> Block:
    if part not in PARTS:
        raise InputError(f"A block of a layer is {' or '.join(PARTS)}, but {part!r} was asked for.")
    if to not in ("zero", "mean"):
        raise InputError(f"A block is replaced by zero or its mean, but {to!r} was asked for.")
    if not layers:
        raise InputError("At least one layer must be named, but none was; pass its zero-based number.")
    if wrong := [layer for layer in layers if type(layer) is not int]:
        raise InputError(f"A layer is a zero-based number, but got {wrong[0]!r}; write without({part!r}, 3).")
    return Block(part, layers, to, _corpus(corpus) if to == "mean" else None, first, stack)


def named(name: Any) -> tuple[int | None, int | None]:
    """Layer and head of a name; None for every one.

    >>> named("L3.H4"), named("L5"), named("all")
    ((3, 4), (5, None), (None, None))
    """
    if name == ALL:
        return None, None
    found = re.fullmatch(r"L(\d+)(?:\.H(\d+))?", name) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"A head is named L3.H4, all heads of a layer L3, and all of them 'all', but got {name!r}.")
    return int(found[1]), None if found[2] is None else int(found[2])


def to_json(changes: Iterable[Change]) -> list[dict[str, Any]]:
    kinds = {kind: name for name, kind in KINDS.items()}
    return [{"kind": kinds[type(change)], **asdict(change)} for change in changes]


def from_json(fields: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """The changes that `to_json` wrote; lists become tuples again."""
    return tuple(KINDS[each["kind"]](**{k: _tuples(v) for k, v in each.items() if k != "kind"}) for each in fields)


def called(change: Change) -> str:
    """The call that makes a change, as one writes it.

    >>> print(called(zero("L3.H4")), called(scale((1, 0), by=0.5)), called(cut((5, None), heads="L3")), sep="; ")
    zero("L3.H4"); scale("L1.H0", by=0.5); cut((5, None), heads="L3")
    """
    if isinstance(change, Output):
        by = change.factor if change.to == "scale" else None
        of = change.first if change.to == "mean" and change.first != 64 else None
        options = {"by": by, "corpus": change.corpus, "first": of, "text": change.text, "pair": change.pair}
        return _call(change.to, change.heads, {**options, "stack": change.stack})
    if isinstance(change, Block):
        to = {"to": change.to, "corpus": change.corpus} if change.to != "zero" else {}
        return _call("without", (change.part, *change.layers), {**to, "stack": change.stack})
    if isinstance(change, Attention):
        return _call("attend", (change.like, *change.heads), {"stack": change.stack})
    heads = None if change.heads == (ALL,) else change.heads[0] if len(change.heads) == 1 else [*change.heads]
    renormalise = None if change.renormalise else False
    return _call("cut", change.edges, {"heads": heads, "renormalise": renormalise, "stack": change.stack})


def _call(name: str, positions: Iterable[Any], options: Mapping[str, Any]) -> str:
    given = [_literal(value) for value in positions]
    few = given if len(given) <= SAID else [*given[:SAID], f"… {len(given) - SAID} more"]
    return f"{name}({', '.join([*few, *(f'{k}={_literal(v)}' for k, v in options.items() if v is not None)])})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value if len(value) <= LETTERS else f"{value[: LETTERS - 1]}…", ensure_ascii=False)
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, list) else repr(value)


def _heads(heads: Iterable[Any], stack: str | None) -> tuple[tuple[str, ...], str | None]:
    """Names of heads and their one stack, which may stand before them: "cross L1.H1" is "L1.H1" of stack="cross"."""
    names = tuple(f"L{head[0]}.H{head[1]}" if _is_place(head) else head for head in heads)
    if not names:
        raise InputError("At least one head must be named, but none was; write L3.H4, L3 for a layer, or 'all'.")
    parts = [name.rpartition(" ") if isinstance(name, str) else ("", "", name) for name in names]
    for name, (before, _, last) in zip(names, parts, strict=True):
        named(last if before in ("", *STACKS) else name)
    stacks = {before or stack for before, _, _ in parts} | {stack} - {None}
    if len(stacks) > 1:
        told = " and ".join(sorted(str(each or "no stack") for each in stacks))
        raise InputError(f"A change is of one stack, but got {told}; pass a change for each: change=[…, …].")
    return tuple(last for _, _, last in parts), stacks.pop()


def _is_place(head: Any) -> bool:
    """Layer and head as numbers."""
    return isinstance(head, tuple) and len(head) == 2 and all(type(part) is int for part in head)


def _edge(edge: Any) -> Edge:
    if isinstance(edge, tuple) and len(edge) == 2 and all(part is None or type(part) is int for part in edge):
        return edge
    raise InputError(f"An edge is a pair (query, key) of positions, but got {edge!r}.")


def _corpus(corpus: str | None) -> str:
    if corpus is None:
        raise InputError("A mean is taken over a corpus, but none was given; pass corpus='sample' or a file's name.")
    return str(corpus)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value

"""The page of a long text: a map of blocks for every head, and for some heads the tokens inside a block.

As the page of a picture (senses.py): one ASCII file, script and style named by their hashes, data as JSON. Blocks
travel as a byte each, a share of the largest of their map; an entry of a row as its key (two bytes) and its number to
three digits (two bytes, codes.py).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor

from headwise.errors import InputError
from headwise.lamps import SINK
from headwise.models.packaged import called
from headwise.quantities import find
from headwise.text.written import pretty
from headwise.traces import LongTrace
from headwise.traces.long import BLOCK
from headwise.viewer.build import small_page
from headwise.viewer.codes import decades, encode
from headwise.viewer.of_trace import answer_of, side_of
from headwise.viewer.payload import Side
from headwise.viewer.telling import REACH, parking, writes

SIDE = 64  # blocks along a side of the overview, at most
BUDGET = 9_000_000  # bytes of entries before they are written as text
ENTRY = 4  # bytes of an entry
OTHERS = 5  # heads that are named beside the one that the page opens with
DECADES = 9  # from the largest entry of a head down to what counts as zero


def page(trace: LongTrace, *, quantities: Sequence[str] | None = None, heads: Sequence[str] | None = None) -> str:
    """The whole page, in ASCII."""
    data = payload(trace, quantities, heads)
    return small_page("long", f"{called(trace.model_name)} - headwise", data, does="draws its maps")


def payload(
    trace: LongTrace, quantities: Sequence[str] | None = None, heads: Sequence[str] | None = None
) -> dict[str, Any]:
    """What the page shows, as plain numbers and text."""
    names = tuple(quantities or trace.quantities)
    return {
        "model": called(trace.model_name),
        "answer": answer_of(trace),
        "error": f"{max(trace.proof_error, trace.output_error):.0e}",
        "stacks": [dict(_stack(trace, stack, names, heads)) for stack in trace.stacks],
    }


def _stack(
    trace: LongTrace, stack: str, names: Sequence[str], heads: Sequence[str] | None
) -> Iterator[tuple[str, Any]]:
    level = _level(max(len(trace.queries(stack)), len(trace.keys(stack))))
    yield "name", stack
    yield "queries", [pretty(token) for token in trace.queries(stack).tokens]
    yield "keys", [pretty(token) for token in trace.keys(stack).tokens]
    yield "tokens", BLOCK * 2**level  # of a cell
    chosen = _chosen(trace, stack, heads, len(names))
    yield "heads", [f"L{layer}.H{head}" for layer, head in chosen]
    yield "start", _start(trace, stack, names, chosen, asked=heads is not None)
    yield "maps", {name: _maps(trace, name, stack, level, chosen) for name in names}


def _level(tokens: int) -> int:
    """How often blocks are put together until SIDE of them do."""
    return max(0, (-(-tokens // (BLOCK * SIDE)) - 1).bit_length())


def _chosen(trace: LongTrace, stack: str, heads: Sequence[str] | None, names: int) -> list[tuple[int, int]]:
    """The heads whose tokens the page has: those asked for, or the telling ones that fit."""
    facts = trace.facts[stack]
    every = [(layer, head) for layer in range(len(facts["entropy"])) for head in range(facts["entropy"].shape[1])]
    by_name = {f"L{layer}.H{head}": (layer, head) for layer, head in every}
    if heads is not None:
        unknown = [name for name in heads if name not in by_name]
        if unknown:
            raise InputError(f"Heads go from L0.H0 to {next(reversed(by_name))}, but {unknown[0]!r} was asked for.")
        return [by_name[name] for name in heads]
    size = ENTRY * next(iter(trace.maps[stack].values())).key[0, 0].numel() * names * len(trace.stacks)
    order = telling(facts, len(trace.keys(stack))).flatten().argsort(descending=True)
    return sorted(every[number] for number in order[: max(1, BUDGET // max(1, size))].tolist())


def telling(facts: Any, keys: int) -> Float[Tensor, "layer head"]:
    """High for a head that is sharp and does not park on the first token: (1 − first) (1 − entropy / log n)."""
    return (1 - facts["first"]) * (1 - facts["entropy"] / np.log(max(2, keys)))


def _start(
    trace: LongTrace, stack: str, names: Sequence[str], chosen: Sequence[tuple[int, int]], *, asked: bool
) -> dict[str, Any]:
    """The head, query and key that the page opens with, other sharp heads, and why: by the entries that are kept."""
    name = "raw" if "raw" in trace.maps[stack] else names[0]
    top, queries, keys = trace.top(name, stack=stack), side_of(trace.queries(stack)), side_of(trace.keys(stack))
    far, parked = _where(top.key, queries, keys, square=queries == keys)
    weight = torch.where(far, top.value, 0.0)
    score = weight.amax(-1).mean(-1)
    if find(name).distribution:
        score[torch.where(parked, top.value, 0.0).sum(-1).mean(-1) >= SINK] = -1.0
    order = chosen if asked else sorted(chosen, key=lambda place: -float(score[place]))
    place = order[0]
    query = int(weight[place].amax(-1).argmax())
    key = int(top.key[place][query][int(weight[place][query].argmax())])
    others = [f"L{layer}.H{head}" for layer, head in order[1 : 1 + OTHERS] if score[layer, head] > 0]
    here = f"L{place[0]}.H{place[1]}"
    telling = f"of all heads that are no sinks, it looks most sharply at words more than {REACH} tokens away"
    why = "it was asked for" if asked else f"{telling}; it was chosen for that and is not a typical head"
    return {"head": [*place], "query": query, "key": key, "others": others, "why": f"The page opens at {here}: {why}."}


def _where(
    key: Int32[Tensor, "layer head query top"], queries: Side, keys: Side, *, square: bool
) -> tuple[Bool[Tensor, "layer head query top"], Bool[Tensor, "layer head query top"]]:
    """Of every kept entry, whether it goes from a word to a word far away, and whether its key is a parking place."""
    rows = torch.arange(len(queries))[None, None, :, None]
    causal = square and not bool((key > rows).any())
    places = torch.from_numpy(parking(keys, causal=causal))[key.long()]
    asks = ~torch.tensor(queries.special) if square else torch.from_numpy(writes(queries))
    near = ((key - rows).abs() <= REACH) & square
    return asks[None, None, :, None] & ~places & ~near, places


def _maps(trace: LongTrace, name: str, stack: str, level: int, chosen: list[tuple[int, int]]) -> dict[str, Any]:
    kept, blocks = trace.top(name, stack=stack), trace.blocks(name, level=level, stack=stack)
    return {
        "label": find(name).label, "about": find(name).about, "shape": list(blocks.shape), "k": kept.key.shape[-1],
        "signed": find(name).signed, "unit": find(name).unit, "shares": find(name).distribution,
        "blocks": _packed(blocks.flatten(2)), "shown": _shares(kept.value, kept.rest),
        "heads": {f"L{layer}.H{head}": _entries(kept.key[layer, head], kept.value[layer, head])
                  for layer, head in chosen},
    }  # fmt: skip


def _packed(rows: Float[Tensor, "layer head cell"]) -> dict[str, Any]:
    """Signed bytes of each number over the largest |number| of its head, and that largest."""
    tops = rows.abs().amax(-1)
    shares = (127 * rows / tops.clamp(min=1e-30)[..., None]).round().to(torch.int8)
    return {"tops": [[float(f"{x:.4g}") for x in row] for row in tops.tolist()], "bytes": _text(shares.numpy())}


def _entries(key: Tensor, value: Tensor) -> dict[str, Any]:
    """Keys as 16-bit numbers, values to three digits, and the largest |value| of the head."""
    top = float(value.abs().max())
    floor = int(decades(np.array([top]))[0]) - DECADES
    wide = np.uint16 if int(key.max()) < 2**16 else np.uint32
    return {"top": float(f"{top:.4g}"), "keys": _text(key.numpy().astype(wide)), "width": np.dtype(wide).itemsize,
            "codes": _text(encode(value.numpy(), floor)), "floor": floor}  # fmt: skip


def _shares(value: Tensor, rest: Tensor) -> list[list[float | None]]:
    """Of every head the share of its mass that is kept; signed maps have none."""
    kept, whole = value.sum((-2, -1)), value.sum((-2, -1)) + rest.sum(-1)
    fit = (value.amin((-2, -1)) >= 0) & (whole > 0)
    share = torch.where(fit, kept / whole, torch.nan)
    return [[None if x != x else round(x, 4) for x in row] for row in share.tolist()]


def _text(numbers: np.ndarray) -> str:
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")

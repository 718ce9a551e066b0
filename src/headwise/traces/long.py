r"""A text too long for its maps: of every row the k strongest entries, and sums over blocks of tokens.

    top      the k entries of a row that are largest in size, with their keys
    rest     Σ_j map_ij − Σ top: what a row gives to keys that are not kept
    blocks   Σ map_ij over the rows of one block of tokens and the keys of another

A map of n² numbers becomes n (2k + 1) + (n / 64)², and no mass is lost: top + rest is a row's sum, and blocks add up to
the whole. Blocks of 2, 4 … as many tokens are sums of these (`blocks(level=1)`), down to a single number. The maps come
from the model in blocks of rows (models/capture.py) and are never whole.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor
from torch.nn.functional import pad

from headwise.errors import InputError, WholeMapsError
from headwise.measures.reductions import diagonal, row_entropy, squared_norms
from headwise.quantities import ATTENTION
from headwise.text.terminal import visible
from headwise.text.written import in_a_line
from headwise.traces.ways import Shown
from headwise.types import Encoding, Layer

BLOCK = 64  # tokens a block
BLOCK_BYTES = 32 * 2**20  # of the map of one layer that is held at once
OFFSETS = {"previous": -1, "current": 0, "next": 1}
WHOLE = (
    *("attention", "mixing", "origins", "quantity", "nullspace", "lamps", "figure", "why", "query_key", "brought"),
    *("alternative_attention", "attention_interval", "rival_weights", "of", "layers", "hidden"),
)  # what only a trace of whole maps has
FACTS = ("entropy", "first", *OFFSETS, "null_share")


@dataclass(frozen=True)
class Top:
    """What to keep of a long text: the `k` strongest entries of every row of these quantities."""

    k: int = 16
    quantities: tuple[str, ...] = ("raw", "effective", "norm")

    def __post_init__(self) -> None:
        if type(self.k) is not int or self.k < 1:
            raise InputError(
                f"Of a row a whole number of entries must be kept, at least 1, but k={self.k!r} was given."
            )
        if isinstance(self.quantities, str):
            raise InputError(f"Quantities are names, but {self.quantities!r} is one; pass ({self.quantities!r},).")
        if not self.quantities:
            raise InputError("At least one quantity must be kept, but none was named; raw is always quick.")
        for name in self.quantities:
            ATTENTION[name]  # refuses what is not there


def top_of(keep: str | Top, layers: Any, changes: Any) -> Top:
    """What `keep` of `model.trace` asks for."""
    if layers is not None or changes:
        raise InputError('keep="top" is about all layers of the model as it is; leave out layers and change.')
    if isinstance(keep, Top):
        return keep
    if keep != "top":
        raise InputError(f'keep must be "all", "top" or hw.Top(k=…), but {keep!r} was asked for.')
    return Top()


@dataclass(frozen=True)
class TopMaps:
    """One quantity of one stack."""

    key: Int32[Tensor, "layer head query top"]  # strongest first; where a row has fewer keys, value 0
    value: Float[Tensor, "layer head query top"]
    rest: Float[Tensor, "layer head query"]
    blocks: Float[Tensor, "layer head query_block key_block"]

    @classmethod
    def empty(cls, layers: int, heads: int, queries: int, keys: int, k: int) -> TopMaps:
        shape, kept = (layers, heads, queries), min(k, keys)
        return cls(
            torch.zeros(*shape, kept, dtype=torch.int32), torch.zeros(*shape, kept), torch.zeros(shape),
            torch.zeros(layers, heads, -(-queries // BLOCK), -(-keys // BLOCK)),
        )  # fmt: skip

    def take(self, number: int, first_row: int, map_: Float[Tensor, "head query key"]) -> None:
        """Fill in a block of rows, which begins at a multiple of BLOCK; keys that are not given get nothing."""
        where, kept = slice(first_row, first_row + map_.shape[1]), min(self.key.shape[-1], map_.shape[-1])
        value, key = strongest(map_, kept)
        self.key[number, :, where, :kept], self.value[number, :, where, :kept] = key.to(torch.int32), value
        sums, block = block_sums(map_), first_row // BLOCK
        self.rest[number, :, where] = map_.sum(-1) - value.sum(-1)
        self.blocks[number, :, block : block + sums.shape[1], : sums.shape[2]] = sums


@dataclass(frozen=True)
class LongTrace(Shown):
    """One long text through one model: `model.trace(text, keep="top")`."""

    model_name: str
    text: Encoding
    target: Encoding | None
    maps: Mapping[str, Mapping[str, TopMaps]]  # stack → quantity
    facts: Mapping[str, Mapping[str, Float[Tensor, "layer head"]]]  # stack → FACTS, means over all rows of the raw map
    revision: str | None = None
    proof_error: float = float("nan")
    output_error: float = float("nan")
    answer: int | None = None
    model: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        begins = visible(in_a_line(self.tokens[:8])) + (" …" if len(self.tokens) > 8 else "")
        kept = next(iter(next(iter(self.maps.values())).values())).key.shape[-1]
        return (
            f"<headwise.LongTrace of {len(self.text)} tokens through {self.model_name}, the {kept} strongest entries a "
            f"row: {begins}>"
        )

    if not TYPE_CHECKING:  # for type checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            if name not in WHOLE:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise WholeMapsError(
                f"{name} needs whole maps, which a trace of the strongest entries does not keep; use .top, .row or "
                '.blocks, or trace again with keep="all".'
            )

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.text.tokens

    @property
    def stacks(self) -> tuple[str, ...]:
        return tuple(self.maps)

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(next(iter(self.maps.values())))

    def queries(self, stack: str | None = None) -> Encoding:
        """The tokens that attend."""
        return self.text if self._stack(stack) in ("self", "encoder") or self.target is None else self.target

    def keys(self, stack: str | None = None) -> Encoding:
        """The tokens that are attended to."""
        return self.target if self._stack(stack) == "decoder" and self.target is not None else self.text

    def top(self, quantity: str = "raw", *, stack: str | None = None) -> TopMaps:
        """The strongest entries of every row, what is left of it, and the sums over blocks."""
        kept = self.maps[self._stack(stack)]
        if quantity not in kept:
            raise InputError(
                f"This trace keeps {', '.join(kept)}, but {quantity!r} was asked for; "
                f"trace again with keep=hw.Top(quantities=({quantity!r},))."
            )
        return kept[quantity]

    def row(
        self, layer: int, head: int, query: int, *, quantity: str = "raw", stack: str | None = None
    ) -> Float[Tensor, " key"]:
        """What one query gives to every key: 0 where it is not among the strongest (`top().rest` is their sum)."""
        maps = self.top(quantity, stack=stack)
        self._check(maps, layer, head, query)
        whole = maps.value.new_zeros(len(self.keys(stack)))
        return whole.index_add(0, maps.key[layer, head, query].long(), maps.value[layer, head, query])

    def blocks(
        self, quantity: str = "raw", *, level: int = 0, stack: str | None = None
    ) -> Float[Tensor, "layer head query_block key_block"]:
        """Sums over blocks of 64 · 2^level tokens."""
        if level < 0:
            raise InputError(f"Levels go up from 0, blocks of {BLOCK} tokens, but {level} was asked for.")
        sums = self.top(quantity, stack=stack).blocks
        for _ in range(level):
            sums = paired(sums)
        return sums

    def words(
        self, quantity: str = "raw", *, layer: int, head: int, stack: str | None = None
    ) -> Float[Tensor, "query_word key_word"]:
        """One head between words, as a sparse tensor: what a word's tokens get is summed, what they give is averaged.

        As `Trace.words`, of the entries that are kept.
        """
        maps = self.top(quantity, stack=stack)
        self._check(maps, layer, head, 0)
        queries, keys = self.queries(stack), self.keys(stack)
        unit, to = torch.tensor(queries.unit), torch.tensor(keys.unit)
        share = 1 / torch.bincount(unit).to(maps.value)[unit]
        key, value = maps.key[layer, head].long(), maps.value[layer, head] * share[:, None]
        places = torch.stack([unit[:, None].expand_as(key).reshape(-1), to[key].reshape(-1)])
        shape = (len(queries.words), len(keys.words))
        return torch.sparse_coo_tensor(places, value.reshape(-1), shape, check_invariants=False).coalesce()

    def heads(self, *, stack: str | None = None) -> pl.DataFrame:
        """One row a head: how broad it is, where it looks in the mean, and the share of it that is kept."""
        raw, facts = self.maps[self._stack(stack)], self.facts[self._stack(stack)]
        first = next(iter(raw.values()))
        layers, heads = first.rest.shape[:2]
        places = [(layer, head) for layer in range(layers) for head in range(heads)]
        columns = {name: facts[name].flatten().tolist() for name in FACTS if name in facts}
        if "raw" in raw:
            columns["kept"] = raw["raw"].value.sum(-1).mean(-1).flatten().tolist()
        return pl.DataFrame(
            {
                "layer": [layer for layer, _ in places],
                "head": [head for _, head in places],
                "name": [f"L{layer}.H{head}" for layer, head in places],
                **columns,
            }
        )

    def save(self, path: str | Path) -> Path:
        """Write the trace to one safetensors file; `hw.open(path)` gives it back."""
        from headwise.traces.saved import save_long  # which imports this file

        return save_long(self, Path(path))

    def _stack(self, stack: str | None) -> str:
        stack = stack or self.stacks[0]
        if stack not in self.maps:
            raise InputError(f"There is no stack {stack!r} in this trace; there are {', '.join(self.stacks)}.")
        return stack

    @staticmethod
    def _check(maps: TopMaps, layer: int, head: int, query: int) -> None:
        asked = {"Layers": layer, "Heads": head, "Queries": query}
        for (name, number), size in zip(asked.items(), maps.rest.shape, strict=True):
            if not 0 <= number < size:
                raise InputError(f"{name} of this trace go from 0 to {size - 1}, but {number} was asked for.")


class Keeper:
    """Takes every block of rows as the model computes it: `model.run(batch, keeper, rows=keeper.rows)`."""

    def __init__(self, top: Top, sizes: Mapping[str, tuple[int, int, int, int]]) -> None:
        """`sizes`: layers, heads, queries and keys of every stack."""
        self.maps = {
            stack: {name: TopMaps.empty(*size, top.k) for name in top.quantities} for stack, size in sizes.items()
        }
        self.sums = {
            stack: {name: torch.zeros(*size[:2], dtype=torch.float64) for name in (*FACTS, "squares")}
            for stack, size in sizes.items()
        }
        self.queries = {stack: size[2] for stack, size in sizes.items()}
        widest = max(heads * keys for _, heads, _, keys in sizes.values())
        self.rows = max(1, BLOCK_BYTES // (4 * widest * BLOCK)) * BLOCK

    def __call__(self, layer: Layer) -> None:
        seen = int(layer.visible[0].any(0).nonzero().max()) + 1  # keys after it are seen by none of these rows
        for name, maps in self.maps[layer.stack].items():
            maps.take(layer.index, layer.first_row, ATTENTION[name](layer)[0, ..., :seen].cpu())
        sums = self.sums[layer.stack]
        for name, column in self._facts(layer).items():
            sums[name][layer.index] += column[0].double().nansum(-1).cpu()

    def _facts(self, layer: Layer) -> dict[str, Float[Tensor, "batch head query"]]:
        found = {"entropy": row_entropy(layer), "first": layer.alpha[..., 0]}
        if layer.stack != "cross":
            found |= {name: diagonal(layer, "raw", offset) for name, offset in OFFSETS.items()}
        if "effective" in self.maps[layer.stack]:
            whole, reached = squared_norms(layer)
            found |= {"squares": whole, "null_share": whole - reached}
        return found

    def facts(self) -> dict[str, dict[str, Float[Tensor, "layer head"]]]:
        """Means over all rows; the null share is that of the whole map."""
        return {stack: _means(sums, self.queries[stack], stack) for stack, sums in self.sums.items()}


def _means(sums: Mapping[str, Tensor], queries: int, stack: str) -> dict[str, Tensor]:
    counts = {name: queries - abs(offset) for name, offset in OFFSETS.items()}
    known = [name for name in FACTS[:-1] if stack != "cross" or name not in OFFSETS]
    means = {name: sums[name] / max(1, counts.get(name, queries)) for name in known}
    asked = bool((sums["squares"] > 0).any())
    return means | ({"null_share": sums["null_share"] / sums["squares"]} if asked else {})


def strongest(
    map_: Float[Tensor, "head query key"], k: int
) -> tuple[Float[Tensor, "head query top"], Int[Tensor, "head query top"]]:
    """The k entries of every row that are largest in size, and their keys.

    In two steps, which read the row once: the k largest lie in the k blocks whose largest is largest.
    """
    keys, blocks = map_.shape[-1], -(-map_.shape[-1] // BLOCK)
    if blocks <= k:
        key = map_.abs().topk(min(k, keys), dim=-1).indices
        return map_.gather(-1, key), key
    size = _filled(map_.abs(), blocks * BLOCK - keys).unflatten(-1, (blocks, BLOCK))
    chosen = size.amax(-1).topk(k, dim=-1).indices  # head query k
    within = size.gather(-2, chosen[..., None].expand(*chosen.shape, BLOCK)).flatten(-2)
    at = within.topk(k, dim=-1).indices
    key = chosen.gather(-1, at // BLOCK) * BLOCK + at % BLOCK
    return map_.gather(-1, key), key


def block_sums(map_: Float[Tensor, "head query key"]) -> Float[Tensor, "head query_block key_block"]:
    """Sums over blocks of BLOCK × BLOCK entries; the last ones may be smaller."""
    by_key = _filled(map_, (-map_.shape[-1]) % BLOCK).unflatten(-1, (-1, BLOCK)).sum(-1)
    return pad(by_key, (0, 0, 0, (-map_.shape[-2]) % BLOCK)).unflatten(-2, (-1, BLOCK)).sum(-2)


def _filled(map_: Float[Tensor, "head query key"], more: int) -> Float[Tensor, "head query wider"]:
    """With `more` keys that get 0; as it is, not a copy, where it needs none."""
    return pad(map_, (0, more)) if more else map_


def paired(sums: Float[Tensor, "layer head query_block key_block"]) -> Float[Tensor, "layer head fewer fewer_keys"]:
    """Two blocks by two, added up."""
    even = pad(sums, (0, sums.shape[-1] % 2, 0, sums.shape[-2] % 2))
    return even.unflatten(-1, (-1, 2)).sum(-1).unflatten(-2, (-1, 2)).sum(-2)

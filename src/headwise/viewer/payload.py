"""What one page shows, as plain frozen data: maps over tokens, and what may be read into them.

A page has stacks (self, or encoder, decoder and cross); a stack has the tokens of its two sides and quantities, each an
array [layer head query key]. Quantities that merge the heads, and origins, have a head axis of length one. Traces and
bertviz's tensors both become a `Page`; `packed` makes of it the header and the blocks that the browser reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from headwise.errors import InputError
from headwise.lamps import Lamps
from headwise.quantities import Kind, Quantity
from headwise.viewer.codes import FINEST, decades, encode, pack, peaks

FORMAT = 1  # of the payload; the bundle refuses another
LADDER = (FINEST, 6, 5, 4, 3, 2)  # decades under a map's largest value, from exact to the coarsest true to colours
BUDGET = 38_000_000  # bytes of all blocks of a page: what a browser opens without complaint


@dataclass(frozen=True)
class Side:
    """The tokens along one axis. `unit[t]` numbers the word of token t, `words` are the texts of the units."""

    tokens: tuple[str, ...]
    special: tuple[bool, ...]
    segment: tuple[int, ...]
    unit: tuple[int, ...]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)


def numbered(tokens: Sequence[str]) -> list[str]:
    """Tokens as they are named in sentences: one that occurs more than once, with which of them it is (page.ts too).

    >>> numbered(["the", "cat", "the"])
    ['the (1st)', 'cat', 'the (2nd)']
    """
    total, seen, named = Counter(tokens), Counter[str](), []
    for token in tokens:
        seen[token] += 1
        named.append(f"{token} ({ordinal(seen[token])})" if total[token] > 1 else token)
    return named


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"


@dataclass(frozen=True)
class Maps:
    """One quantity of one stack; `layers` and `heads` are the model's own numbers of the first two axes."""

    quantity: Quantity
    values: Float[np.ndarray, "layer head query key"]
    layers: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.quantity.name

    @property
    def kind(self) -> Kind:
        return self.quantity.kind

    @cached_property
    def peaks(self) -> Float[np.ndarray, "layer head"]:
        """The largest magnitude of every map."""
        return peaks(self.values)

    def floors(self, below: int) -> Int[np.ndarray, "layer head"]:
        """The exponent of each map's finest step: `below` decades under that of its largest value."""
        return decades(self.peaks) - below


@dataclass(frozen=True)
class Facts:
    """Whether the weights of each head are the only ones with its output.

    `other_js` is the mean Jensen-Shannon divergence (nats) between a row and its alternative, `other_change` the
    relative change of the head's output that the alternative makes; NaN where a head has no alternative.
    """

    n: int
    d_head: int
    rank: Int[np.ndarray, "layer head"]
    null_dim: Int[np.ndarray, "layer head"]
    simplex_dim: Int[np.ndarray, "layer head"]
    pearson: Float[np.ndarray, "layer head"]
    null_share: Float[np.ndarray, "layer head"]
    identifiable: Bool[np.ndarray, "layer head"]
    other_js: Float[np.ndarray, "layer head"]
    other_change: Float[np.ndarray, "layer head"]
    lamps: np.ndarray  # layer head, of headwise.lamps.Lamps
    taken: np.ndarray | None = None  # layer head: how far what is said moves, where each head was taken away


@dataclass(frozen=True)
class Telling:
    """A head that is worth a look: what it does, where it is (the model's own numbers), and how much of it it does."""

    what: str
    layer: int
    head: int
    score: float


@dataclass(frozen=True)
class Stack:
    """The maps from `queries` to `keys`. Origins are maps from a hidden token to input tokens, so both sides agree."""

    name: str
    queries: Side
    keys: Side
    quantities: tuple[Maps, ...]
    facts: Facts | None = None
    telling: tuple[Telling, ...] = ()
    why: tuple[Mapping[str, Any], ...] = ()  # reasons of some cells (why.py)


@dataclass(frozen=True)
class Switched:
    """A head that the page can switch off: its place, the quantity with the others' maps, and what then happens.

    `moved`: stack, layer and head of the maps that move most, with the share of their weight that goes elsewhere.
    """

    name: str
    stack: str
    layer: int
    head: int
    quantity: str
    says: str
    answers: str
    moved: tuple[tuple[str, int, int, float], ...]


@dataclass(frozen=True)
class Page:
    """`missing` names each quantity that could not be shown, with the reason; `notes` are sentences for the reader."""

    title: str
    model: str
    stacks: tuple[Stack, ...]
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    start: Mapping[str, str | int] | None = None
    answer: str = ""  # what the model itself says to the text
    off: tuple[Switched, ...] = ()  # heads that can be switched off here
    vector: tuple[float, ...] = ()  # of a sentence, of length 1: whoever frames two pages compares them
    live: bool = False  # whoever frames the page answers what it asks: any head off, any cell why


@dataclass(frozen=True)
class Packed:
    """`header` is JSON-ready; `blocks` maps (stack, quantity, layer) positions to packed codes [head query key]."""

    header: dict[str, Any]
    blocks: dict[tuple[int, int, int], str]


def checked(page: Page) -> Page:
    """`page`, once every array is known to fit the tokens beside it."""
    for stack in page.stacks:
        for quantity in stack.quantities:
            expected = (len(quantity.layers), len(quantity.heads), len(stack.queries), len(stack.keys))
            if quantity.values.shape != expected:
                raise InputError(
                    f"The quantity {quantity.name!r} of the stack {stack.name!r} must have the axes layer, head, query,"
                    f" key = {expected}, as its numbers and tokens say; got {quantity.values.shape}."
                )
    return page


def packed(page: Page, *, budget: int = BUDGET) -> Packed:
    """The header and blocks of `page`, as precise as fits into `budget` bytes.

    Three significant digits of every value, if they fit; else small values get a floor, one power of ten after the
    other; else the null-space part, which is raw minus effective, is left out; else layers are. The header says which,
    and the page repeats it to its reader.
    """
    page = checked(page)
    for below in LADDER:
        if estimated(page, below) <= budget:
            blocks = dict(coded_blocks(page, below))
            if size_of(blocks) <= budget:
                return Packed(header_of(page, below), blocks)
    page = without_null(page)
    blocks = dict(coded_blocks(page, LADDER[-1]))
    if size_of(blocks) > budget:
        page = thinned(page, budget / size_of(blocks), budget)
        blocks = dict(coded_blocks(page, LADDER[-1]))
    return Packed(header_of(page, LADDER[-1]), blocks)


def size_of(blocks: Mapping[tuple[int, int, int], str]) -> int:
    return sum(map(len, blocks.values()))


def coded_blocks(page: Page, below: int) -> Iterator[tuple[tuple[int, int, int], str]]:
    """Every layer of every quantity, packed."""
    for s, stack in enumerate(page.stacks):
        for q, quantity in enumerate(stack.quantities):
            floors = quantity.floors(below)[:, :, None, None]
            for position, layer in enumerate(quantity.values):
                yield (s, q, position), pack(encode(layer, floors[position]))


def estimated(page: Page, below: int) -> int:
    """Bytes of all blocks at a precision, judged from two heads of at most four layers of every quantity."""
    total = 0.0
    for quantity in (each for stack in page.stacks for each in stack.quantities):
        layers, heads = quantity.values.shape[:2]
        chosen = np.ix_(evenly(layers, 4), evenly(heads, 2))
        sample, floors = quantity.values[chosen], quantity.floors(below)[chosen][..., None, None]
        if sample.size:
            bytes_ = sum(len(pack(encode(layer, floor))) for layer, floor in zip(sample, floors, strict=True))
            total += bytes_ * layers * heads / (sample.shape[0] * sample.shape[1])
    return round(total)


def without_null(page: Page) -> Page:
    """`page` without the null-space part, which a reader can have from the other two."""
    reason = "It is raw minus effective attention; it was left out so that the page stays small."
    if not any(each.name == "null" for stack in page.stacks for each in stack.quantities):
        return page
    stacks = tuple(
        replace(stack, quantities=tuple(each for each in stack.quantities if each.name != "null"))
        for stack in page.stacks
    )
    return replace(page, stacks=stacks, missing=(*page.missing, ("null", reason)))


def thinned(page: Page, share: float, budget: int) -> Page:
    """`page` with about a `share` of its layers, evenly spread."""
    stacks = tuple(fewer_layers(stack, share) for stack in page.stacks)
    note = (
        f"The text is too long for every layer to fit into {budget / 1e6:.0f} MB, so only some layers are here,"
        " evenly spread. Choose quantities or layers yourself, or raise the budget, to see others."
    )
    return replace(page, stacks=stacks, notes=(*page.notes, note))


def fewer_layers(stack: Stack, share: float) -> Stack:
    """An evenly spread `share` of the layers of every quantity, at least one, and the facts of the same layers."""

    def places(count: int) -> list[int]:
        return evenly(count, max(1, int(count * share)))

    def thin(quantity: Maps) -> Maps:
        chosen = places(len(quantity.layers))
        layers = tuple(quantity.layers[place] for place in chosen)
        return replace(quantity, values=quantity.values[chosen], layers=layers)

    facts = None if stack.facts is None else facts_at(stack.facts, places(len(stack.facts.rank)))
    return replace(stack, quantities=tuple(map(thin, stack.quantities)), facts=facts)


def evenly(count: int, kept: int) -> list[int]:
    """At most `kept` places out of `count`, evenly spread, the first and last among them."""
    return sorted({round(place) for place in np.linspace(0, max(count - 1, 0), min(count, kept)).tolist()})


def facts_at(facts: Facts, places: list[int]) -> Facts:
    """The facts of some layers."""
    arrays = {name: table for name, table in vars(facts).items() if isinstance(table, np.ndarray)}
    tables: dict[str, Any] = {name: table[places] for name, table in arrays.items()}
    return replace(facts, **tables)


def header_of(page: Page, below: int) -> dict[str, Any]:
    """All that the page knows before it decodes its first block."""
    return {
        "format": FORMAT,
        "title": page.title,
        "model": page.model,
        "answer": page.answer,
        "exact": below == FINEST,
        "missing": [list(pair) for pair in page.missing],
        "notes": list(page.notes),
        "start": dict(page.start or {}),
        "off": [
            asdict(replace(one, moved=tuple((*at, rounded(share)) for *at, share in one.moved))) for one in page.off
        ],
        "live": page.live,
        "vector": rounded(list(page.vector)) if page.live else [],
        "stacks": [stack_header(stack, below) for stack in page.stacks],
    }


def stack_header(stack: Stack, below: int) -> dict[str, Any]:
    return {
        "name": stack.name,
        "queries": asdict(stack.queries),
        "keys": None if stack.keys == stack.queries else asdict(stack.keys),
        "quantities": [quantity_header(quantity, below) for quantity in stack.quantities],
        "facts": None if stack.facts is None else facts_header(stack.facts),
        "telling": [[one.what, one.layer, one.head, rounded(one.score)] for one in stack.telling],
        "why": list(stack.why),
    }


def quantity_header(maps: Maps, below: int) -> dict[str, Any]:
    """What the record says, and where the maps are.

    Values below zero, but for rounding, are shown as such even where the record forgets to say so.
    """
    said = {name: getattr(maps.quantity, name) for name in ("name", "kind", "label", "about", "rows", "unit")}
    return {
        **said,
        "signed": maps.quantity.signed or bool((maps.values < -1e-6 * maps.peaks[..., None, None]).any()),
        "layers": list(maps.layers),
        "heads": list(maps.heads),
        "floor": maps.floors(below).tolist(),
        "peak": rounded(maps.peaks),
        "undefined": undefined(maps.values),
    }


def undefined(values: Float[np.ndarray, "layer head query key"]) -> int:
    """How many values are no numbers, in maps that have at least one: a map without any was never computed."""
    missing = ~np.isfinite(values)
    return int(missing[~missing.all(axis=(-2, -1))].sum())


def facts_header(facts: Facts) -> dict[str, Any]:
    arrays = {name: of for name, of in vars(facts).items() if isinstance(of, np.ndarray) and name != "lamps"}
    lit = [[lit_header(head) for head in row] for row in facts.lamps]
    return {"n": facts.n, "d_head": facts.d_head, "lamps": lit, **{name: rounded(of) for name, of in arrays.items()}}


def lit_header(found: Lamps) -> dict[str, Any]:
    """Whether the map may be shown, whether it is of a sink; of every lamp its colour, level, sentence, and if held."""
    three = [[lamp.colour, rounded(lamp.level), lamp.says, lamp.held] for lamp in found]
    return {"show": found.showing, "sink": found.sink, "lamps": three}


def rounded(values: Any) -> Any:
    """An array as nested lists for JSON: floats to six digits, NaN and infinities as None."""
    if isinstance(values, np.ndarray):
        return rounded(values.tolist())
    if isinstance(values, list):
        return [rounded(value) for value in values]
    if not isinstance(values, float):
        return values
    return float(f"{values:.6g}") if math.isfinite(values) else None


def numbers(count: int, chosen: Sequence[int] | None, *, axis: str) -> tuple[int, ...]:
    """The layer or head numbers to keep: all of `count`, or the chosen ones once they are known to exist."""
    given: Any = chosen
    if given is not None and (isinstance(given, int | str) or not all(hasattr(one, "__index__") for one in given)):
        raise InputError(f"{axis}s are named by a list of their numbers, as in {axis.lower()}s=[3]; got {given!r}.")
    kept = tuple(range(count)) if chosen is None else tuple(int(number) for number in chosen)
    wrong = [number for number in kept if not 0 <= number < count]
    if wrong:
        raise InputError(f"{axis} numbers must lie in 0 … {count - 1}; got {wrong}.")
    return kept

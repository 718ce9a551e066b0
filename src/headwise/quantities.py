"""What a quantity is, and all of them by name.

A quantity is one record: its function and everything that anybody needs to know about it. The viewer, the server, the
studies, rollout, `headwise list` and the documentation ask the record; nothing else knows a quantity by its name. A
measure is one file that registers its function here:

    @ATTENTION.add("norm", "‖α f(x)‖: the length of the vector that a key really sends.", unit=LENGTH)
    def norm(layer): ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from headwise.errors import InputError, UnknownNameError
from headwise.registry import Entry, Registry, T, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.attributions import Origins
    from headwise.attributions.explain import TokenScores
    from headwise.types import Layer

Kind = Literal["attention", "mixing", "origins", "explanation"]
AXES: dict[Kind, str] = {
    "attention": "layer head query key",
    "mixing": "layer query key",
    "origins": "layer token input",
    "explanation": "token",
}
WEIGHT, LENGTH, SHARE, VALUE = "weight", "vector length", "share", "value"
ROWS_OF_SHARES = "Each row adds up to 1."
ROWS_OF_LENGTHS = "Lengths of vectors in the model's own units: rows do not add up to 1."
ROWS_UNKNOWN = "Rows are shown as given."


class Size(NamedTuple):
    """Of a text and a model, to judge what a quantity costs."""

    tokens: int
    layers: int
    width: int

    @property
    def a_pass(self) -> int:
        """Multiplications of one pass of the model over the text."""
        return self.tokens * self.layers * (12 * self.width**2 + 2 * self.tokens * self.width)


@dataclass(frozen=True)
class Quantity(Entry[Any]):
    """One quantity. `value` is its function, `about` a sentence for people, `label` its name in their words.

    `rows` is the caption of a legend: what a row adds up to. `signed`: values may be below zero. `distribution`: a row
    is non-negative and sums to 1, where it is defined. `residual`: the residual connection is inside (of mixing
    quantities), so what multiplies them through the layers must not add it again. `mean`: the mean over heads says
    something (of attention quantities). `quick`: cheap enough to be shown at once. `cost` is for people; `work`, of a
    text and model, counts multiplications beyond those of the pass that is made anyway. `needs`, of a model and its
    first layer, raises where that model cannot have it, before anything is computed. `paper` is an address.
    """

    kind: Kind = "attention"
    label: str = ""
    rows: str = ""
    unit: str = VALUE
    signed: bool = False
    distribution: bool = False
    residual: bool = False
    mean: bool = True
    quick: bool = False
    cost: str = "a few products a layer"
    work: Callable[[Size], float] | None = None
    needs: Callable[[Any, Layer], None] | None = None
    paper: str = ""

    def __post_init__(self) -> None:
        rows = ROWS_OF_SHARES if self.distribution else ROWS_OF_LENGTHS if self.unit == LENGTH else ROWS_UNKNOWN
        object.__setattr__(self, "label", self.label or self.name)
        object.__setattr__(self, "rows", self.rows or rows)
        if self.signed and self.distribution:
            raise ValueError(f"The quantity {self.name!r} cannot be signed and a distribution")

    @property
    def place(self) -> tuple[int, int, str]:
        """Where lists of all quantities show it: by kind, then as placed, then by name."""
        return (list(AXES).index(self.kind), self.order, self.name)


class Quantities(Registry[T]):
    """The quantities of one kind, each a `Quantity`."""

    record = Quantity

    def __init__(self, title: str, of: Kind, package: str):
        super().__init__(title, package=package, plugins="headwise.quantities")
        self.of: Kind = of

    def add(self, name: str, about: str, *, residual: bool | None = None, **facts: Any) -> Callable[[T], T]:
        """Decorator: register a function; `facts` are the fields of `Quantity`."""
        if self.of == "mixing" and residual is None:
            raise TypeError(
                f"A mixing quantity must say whether the residual is inside, since rollout adds it otherwise, but "
                f"{name!r} does not; pass residual=True or residual=False."
            )
        return super().add(name, about, kind=self.of, residual=bool(residual), **facts)

    def entry(self, name: str) -> Quantity:
        found = super().entry(name)
        assert isinstance(found, Quantity)
        return found

    def entries(self) -> Sequence[Quantity]:
        return [self.entry(name) for name in self]


ATTENTION: Quantities[Callable[[Layer], Tensor]] = Quantities("attention quantity", "attention", "headwise.measures")
"""layer → [batch head query key]"""

MIXING: Quantities[Callable[[Layer], Tensor]] = Quantities("mixing quantity", "mixing", "headwise.measures")
"""layer → [batch query key]: one map a layer, heads merged"""

PASSES: Quantities[Callable[..., Tensor]] = Quantities("mixing quantity by passes", "mixing", "headwise.attributions")
"""(model, batch, **options) → [batch layer query key]: mixing quantities that need passes of their own"""

ORIGINS: Quantities[Callable[..., Origins]] = Quantities("origins quantity", "origins", "headwise.attributions")
"""(model, batch, **options) → Origins"""

EXPLANATIONS: Quantities[Callable[..., TokenScores]] = Quantities("explanation", "explanation", "headwise.attributions")
"""(model, batch, *, target=None, **options) → TokenScores: one a token"""

MAPS: tuple[Quantities[Any], ...] = (ATTENTION, MIXING, PASSES, ORIGINS)  # what a trace can give


def find(name: str) -> Quantity:
    """The map called `name`, of whatever kind."""
    for registry in MAPS:
        if name in registry:
            return registry.entry(name)
    raise unknown("quantity", name, [each.name for each in every()])


def unknown_map(kind: Kind, name: str) -> UnknownNameError:
    """The error for a name that is no map of a kind: of which kind it is, or what there is of this one."""
    other = next((each.kind for each in every() if each.name == name), None)
    if other is None:
        return unknown(f"{kind} quantity", name, [each.name for each in every() if each.kind == kind])
    article = "a" if other == "mixing" else "an"
    return UnknownNameError(f"{name!r} is {article} {other} quantity, and no {kind} one; ask trace.{other}({name!r}).")


def every() -> list[Quantity]:
    """All maps, as lists show them."""
    return sorted(_every(), key=lambda each: each.place)


def _every() -> Iterator[Quantity]:
    for registry in MAPS:
        yield from registry.entries()


def check_options(name: str, method: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse options that a method does not have."""
    known = [p.name for p in inspect.signature(method).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise InputError(f"Options of {name} are {', '.join(known) or 'none'}, but {option!r} was given.")

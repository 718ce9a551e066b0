"""What every study is: numbers of a batch of texts, folded into statistics that add up, then a table and figures.

A study never sees the corpus. The engine hands it what it asks for of a batch, adds up what it returns, and asks for
the table and the figures of the sum, so that one process, eight workers and a resumed run give the same answer. The
figures are drawn from the state alone, without the model.

    observe          every attention layer, as the model computes it      (one pass, shared by all studies)
    observe_hidden   the hidden tokens of all layers                      (the same pass)
    ask              the model itself, for passes of the study's own: tangents, occlusion
    prepare          the model and the corpus's first texts, before all else: means to compare with
    conclude         once, after everything was added up: learning, resampling

A study defines those that it needs; the engine makes only the passes that some study needs.

It also says what it is, so that lists, reports and the documentation need not know it: its title in plain words, what
it needs of model and corpus, what it costs and its settings in a report, captions of its figures, and its answers.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.allowed import check_fields
from headwise.errors import InputError
from headwise.models.model import Model
from headwise.studies.answers import Answer
from headwise.studies.needs import Cost, Means, Needs
from headwise.studies.state import State, Stats, at, packed, plus, unpacked
from headwise.text.categories import CATEGORIES, categories
from headwise.types import Batch, Encoding, Layer

RENAMED = {"quantity": "quantities"}  # settings, from the old name to the new
Hidden = Mapping[str, Float[Tensor, "layer batch token d_model"]]  # by stack


@dataclass(frozen=True)
class Reading:
    """A batch as studies read it: which documents these are, and what kind each token is."""

    batch: Batch
    documents: Int[Tensor, " batch"]  # numbers over the whole corpus
    causal: bool
    notes: tuple[Any, ...] = ()  # what the corpus knows of each text: a label, a parse; None where nothing
    known: Mapping[str, Any] = field(default_factory=dict, repr=False)  # by study: what its `prepare` found
    memo: dict[str, Any] = field(default_factory=dict, repr=False)

    def keys(self, layer: Layer) -> tuple[Encoding, ...]:
        return self.batch.targets if layer.stack == "decoder" else self.batch.texts

    def queries(self, layer: Layer) -> tuple[Encoding, ...]:
        return self.batch.texts if layer.stack in ("self", "encoder") else self.batch.targets

    def key_categories(self, layer: Layer) -> Int[Tensor, "batch key"]:
        """The category of every key, −1 at padding."""
        return self._categories("decoder" if layer.stack == "decoder" else "source", self.keys(layer))

    def key_kinds(self, layer: Layer) -> Bool[Tensor, "batch key category"]:
        """Whether the key is of the category; nowhere at padding."""
        kinds = self.key_categories(layer)
        return kinds[..., None] == torch.arange(len(CATEGORIES), device=kinds.device)

    def key_lengths(self, layer: Layer) -> Int[Tensor, " batch"]:
        return torch.tensor([len(text) for text in self.keys(layer)], device=layer.alpha.device)

    def query_lengths(self, layer: Layer) -> Int[Tensor, " batch"]:
        return torch.tensor([len(text) for text in self.queries(layer)], device=layer.alpha.device)

    def row_weights(self, layer: Layer) -> Float[Tensor, "batch query"]:
        """1 / (rows of the text) at real rows: summed over rows and blocks, every document weighs 1."""
        return layer.query_mask.double() / self.query_lengths(layer)[:, None]

    def row_weights_of(self, layer: Layer, category: int) -> Float[Tensor, "batch query"]:
        """The same with only the rows of one category: every document that has such rows weighs 1."""
        return self._shared_out(layer, self._all_query_categories(layer) == category)

    def row_weights_but(self, layer: Layer, category: int) -> Float[Tensor, "batch query"]:
        """The same with all rows but those of one category."""
        kinds = self._all_query_categories(layer)
        return self._shared_out(layer, (kinds != category) & (kinds >= 0))

    def _all_query_categories(self, layer: Layer) -> Int[Tensor, "batch query"]:
        side = "source" if layer.stack in ("self", "encoder") else "decoder"
        return self._categories(side, self.queries(layer))

    @staticmethod
    def _shared_out(layer: Layer, chosen: Bool[Tensor, "batch query"]) -> Float[Tensor, "batch block"]:
        """Every text's 1 shared out among its chosen rows, of which those of the block."""
        rows = chosen.double() / chosen.sum(-1, keepdim=True).clamp(min=1)
        return rows[:, layer.first_row : layer.first_row + layer.alpha.shape[2]]

    def first(self, texts: int, model: Model) -> Reading | None:
        """Only the documents numbered below `texts`, as a batch of their own; all for 0, None where there is none."""
        rows = [row for row, number in enumerate(self.documents.tolist()) if not texts or number < texts]
        if len(rows) == len(self.documents):
            return self
        if not rows:
            return None
        sources, targets = (
            [side[row] for row in rows] if side else [] for side in (self.batch.texts, self.batch.targets)
        )
        notes = tuple(self.notes[row] for row in rows) if self.notes else ()
        return Reading(model.batch(sources, targets), self.documents[rows], self.causal, notes, self.known)

    def _categories(self, side: str, texts: tuple[Encoding, ...]) -> Int[Tensor, "batch token"]:
        if side not in self.memo:
            causal = self.causal or side == "decoder"
            kinds = [torch.tensor(categories(text, causal=causal)) for text in texts]
            padded = torch.nn.utils.rnn.pad_sequence(kinds, batch_first=True, padding_value=-1)
            self.memo[side] = padded.to(self.batch.mask.device)
        return self.memo[side]


@dataclass(frozen=True)
class Setting:
    """What a table or figure may say about the run: nothing of it is needed to fold."""

    model: str
    stacks: Mapping[str, tuple[int, int, int]]  # layers, heads, head size
    causal: bool
    tokens: Mapping[str, int]  # documents, tokens


def with_new_names(given: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
    """Settings under the names that they have now; an old name still works, and says so in one line."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        new = RENAMED.get(name)
        if name in known or new not in known:
            found[name] = value
            continue
        print(f"headwise: {name} is called {new} now; the old name works until the next release.", file=sys.stderr)
        found[str(new)] = value if isinstance(value, tuple) else (value,)
    return found


def only_quantity(study: Study, quantities: tuple[str, ...]) -> str:
    """The quantity of a study that looks at one at a time."""
    if len(quantities) != 1:
        raise InputError(
            f"quantities of study {study.name} must be one at a time, but {','.join(quantities) or 'none'} was given; "
            "run it once for each."
        )
    return quantities[0]


def asked_of(setting: Setting, texts: int) -> int:
    """How many texts were asked, where a study asks the first `texts` (0: all) of those that were read."""
    read = setting.tokens["documents"]
    return min(texts, read) if texts else read


@dataclass(frozen=True)
class Study(ABC):
    """A question. Subclasses are frozen dataclasses whose fields are the settings a user may choose."""

    name: ClassVar[str] = ""  # given by its registration
    title: ClassVar[str] = ""  # a heading in plain words; empty: the name
    needs: ClassVar[Needs] = Needs()
    cost: ClassVar[Cost] = "pass"  # shares the one pass, has passes of its own, or learns for long
    by_name: ClassVar[bool] = False  # True: in a report only where it is named
    one_by_one: ClassVar[bool] = False  # asked text by text: so slow that a run should count them
    first_by: ClassVar[
        tuple[str, ...]
    ] = ()  # what `show` sorts by: COLUMN, -COLUMN (largest first), COLUMN=VALUE or =* (first), a<b (first)
    fewest: ClassVar[int] = 1  # texts that it takes to say anything
    captions: ClassVar[Mapping[str, str]] = {}  # by figure: what is to be seen, in a line
    own_head: ClassVar[bool] = (
        False  # True: a checkpoint is loaded with the head it was saved with, where none is named
    )
    votes_on: ClassVar[tuple[str, ...]] = ()  # what its votes test, told where the study is left out
    gradient: ClassVar[bool] = False  # True: `observe` also gets ∂loss/∂α, as layer.memo["gradient"]

    def __post_init__(self) -> None:
        """Refuse settings of another type, or out of the range that their field declares."""
        check_fields(type(self), vars(self), whose=f"study {self.name}")

    def observe(self, layer: Layer, reading: Reading) -> Stats:  # noqa: ARG002
        """The statistics of one layer (or a block of its rows) of one batch."""
        return {}

    def observe_hidden(self, hidden: Hidden, reading: Reading) -> Stats:  # noqa: ARG002
        """The statistics of a batch's hidden tokens, x and e^1 … e^L of every stack; rows of padding mean nothing."""
        return {}

    def ask(self, model: Model, reading: Reading) -> Stats:  # noqa: ARG002
        """The statistics of a batch for which the model is run again, in the study's own way."""
        return {}

    def prepare(self, model: Model, texts: Sequence[Batch]) -> Any:  # noqa: ARG002
        """What must be known of the corpus beforehand, from its first texts, each alone: `reading.known[self.name]`."""
        return None

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:  # noqa: ARG002
        """What the sum over the whole corpus comes to: this is what is stored, tabulated and drawn.

        `report` shows a line about how far the work is.
        """
        return state

    def check(self, model: Model) -> None:
        """Raise, with the reason, where the study does not apply to the model."""
        if (lack := self.needs.lacks_model(self.name, model)) is not None:
            raise InputError(lack)

    def passes(self, tokens: int, heads: int) -> int:  # noqa: ARG002 - most studies share the one pass
        """About how many passes of its own a text of so many tokens takes in a model of so many heads."""
        return 0

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:  # noqa: ARG003 - most studies cost the shared pass alone
        """The settings that a report chooses, given what it can afford."""
        return {}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterable[Answer]:  # noqa: ARG002
        """What the table comes to, in plain words."""
        return ()

    def of_model(self, model: Model) -> Stats:  # noqa: ARG002 - most studies need only what was observed
        """What the weights alone tell, added once to the sum of all shards."""
        return {}

    @abstractmethod
    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact."""

    @abstractmethod
    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """Charts by the papers' own names."""

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Study:
        """The study of settings as users or manifests give them (where tuples are lists), checked."""
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
        given = with_new_names(given, {one.name for one in fields(cls)})
        check_fields(cls, given, whose=f"study {cls.name}")
        return cls(**given)

    @classmethod
    def heading(cls) -> str:
        return cls.title or cls.name

    @classmethod
    def caption(cls, figure: str) -> str:
        """Of a figure, whose name may go on with a stack or a quantity: fig2-decoder, heads-raw."""
        known = [name for name in cls.captions if figure == name or figure.startswith(f"{name}-")]
        return cls.captions[max(known, key=len)] if known else ""

    def has(self, hook: str) -> bool:
        """Whether the study defines one of the engine's calls for itself."""
        return getattr(type(self), hook) is not getattr(Study, hook)


def head_rows(columns: Mapping[str, Iterable[Float[Tensor, " head"]]], **same: Any) -> pl.DataFrame:
    """A table with one row a layer and head from columns given layer by layer."""
    layers = {name: [column.tolist() for column in values] for name, values in columns.items()}
    first = next(iter(layers.values()))
    where = [(layer, head) for layer, heads in enumerate(first) for head in range(len(heads))]
    return pl.DataFrame(
        {
            **{name: [value] * len(where) for name, value in same.items()},
            "layer": [layer for layer, _ in where],
            "head": [head for _, head in where],
            "name": [f"L{layer}.H{head}" for layer, head in where],
            **{name: [value for heads in values for value in heads] for name, values in layers.items()},
        }
    )


def each_stack(setting: Setting, draw: Callable[[str, str], Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of every stack: `draw` gets the stack and how to call it in a title.

    Names are the papers' for the first stack; those of the others end in the stack's name.
    """
    charts: dict[str, Any] = {}
    for number, stack in enumerate(setting.stacks):
        where = setting.model if stack == "self" else f"{setting.model}, {stack}"
        tail = f"-{stack}" if number else ""
        charts |= {f"{name}{tail}": chart for name, chart in draw(stack, where).items()}
    return charts


def masked_pairs(layer: Layer) -> Bool[Tensor, "batch query key"]:
    """Pairs that count: a real query and a key it sees."""
    return layer.visible & layer.query_mask[:, :, None]


__all__ = [
    "Hidden", "Reading", "Setting", "State", "Stats", "Study", "asked_of", "at", "each_stack", "head_rows",
    "masked_pairs", "only_quantity", "packed", "plus", "unpacked",
]  # fmt: skip

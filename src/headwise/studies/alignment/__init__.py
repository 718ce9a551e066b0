"""What a translation model aligns: links between words from its cross-attention, scored by AER.

After §5 of Kobayashi et al. 2020 (https://arxiv.org/abs/2004.10102, fig. 7, 8, 13–17 and table 3). The model reads the
source and is made to write the target (teacher forcing). Every map of every layer gives links; where the corpus has
gold ones, the best layer is chosen on one part of the pairs and scored on the other.

Without gold links the layer is chosen by agreement: of the links that argmax finds from the target's side or from the
source's, the share that both find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError
from headwise.measures.wordmaps import whole
from headwise.models.model import Model
from headwise.stats import Pieces, Sums
from headwise.studies import STUDIES
from headwise.studies.alignment import figures as drawn
from headwise.studies.alignment import gradients
from headwise.studies.alignment.answers import aligned
from headwise.studies.alignment.extract import EXTRACTIONS, backwards, forwards, only
from headwise.studies.alignment.maps import (
    RULES,
    Column,
    between_tokens,
    columns,
    from_rows,
    offered,
    received,
    together,
)
from headwise.studies.alignment.scores import (
    Division,
    Scored,
    aer,
    counted,
    diagonal,
    gold_bits,
    linked,
    matrix,
    to_bits,
)
from headwise.studies.alignment.sides import POSITIONS, Sides, sides
from headwise.studies.answers import DOING, Answer
from headwise.studies.hits import from_bytes, to_bytes
from headwise.studies.needs import Needs
from headwise.studies.study import Reading, Setting, State, Stats, Study
from headwise.text.alignments import Pair, read_links
from headwise.types import Layer

Lengths = tuple[int, int]


class Source(NamedTuple):
    """Where links come from: a way to take them from maps, a position, and a layer (or the gradients)."""

    extraction: str
    position: str
    stack: str  # "cross", or "gradient" with one layer 0
    layer: int

    def key(self, what: str) -> str:
        return f"{what} {self.extraction}/{self.position}@{self.stack}.{self.layer}"


@STUDIES.add(
    "alignment", "which words a translation model aligns, by weights, norms and more, with AER where gold is", order=130
)
@dataclass(frozen=True)
class Alignment(Study):
    """`rule` soft or union (see maps.py); `threshold` is the share of a row that links, for that extraction.

    `gradients`: of gradient-norm, gradient-input and smooth-gradient, which take passes of their own. `beside`: other
    aligners' links, NAME=FILE in Pharaoh format counted from 0, to be scored on the same pairs. `choose`,
    `choose_first`: the pairs that the best layer is chosen on. `examples`: pairs whose maps are kept to be drawn.
    """

    title: ClassVar[str] = "Which words are translated into which"
    needs: ClassVar[Needs] = Needs(("encoder–decoder",), "pairs")
    captions: ClassVar[Mapping[str, str]] = {
        "fig7": "alignment error by layer and map (Kobayashi et al. 2020)",
        "fig8": "the maps of single pairs, weights beside norms",
        "fig13-17": "the maps of one pair in every layer",
        "table3": "alignment error of the best layer of each map, against other aligners",
    }
    quantities: tuple[str, ...] = setting(("raw", "effective", "norm", "norm-sum", "alti"), one_of=offered)
    positions: tuple[str, ...] = setting(POSITIONS, one_of=POSITIONS)
    extractions: tuple[str, ...] = setting(("argmax",), one_of=tuple(EXTRACTIONS))
    rule: str = setting("soft", one_of=RULES)
    threshold: float = setting(0.2, above=0, most=1)
    heads: bool = True
    gradients: tuple[str, ...] = setting((), one_of=gradients.METHODS)
    samples: int = setting(10, least=1)
    noise: float = setting(0.15, least=0, most=100)
    beside: tuple[str, ...] = ()
    choose: float = setting(0.2, above=0, below=1)
    choose_first: int = setting(0, least=0)
    examples: int = setting(3, least=0)
    resamples: int = setting(1000, least=1, most=10**6)
    seed: int = setting(0, least=0, most=SEED)

    def check(self, model: Model) -> None:
        super().check(model)
        for name in ("quantities", "positions", "extractions"):
            if not getattr(self, name):
                raise InputError(f"{name} of study alignment must have at least one part; leave it out for all.")
        if self.rule == "union" and "mutual" in self.extractions:
            raise InputError("rule=union goes with argmax and threshold; got mutual. Take it with rule=soft.")
        if not any(map(together, self.quantities)) and not self.heads:
            raise InputError("norm is a quantity of single heads, but heads=false; add norm-sum, or keep the heads.")
        if self.gradients:
            gradients.check(model)
        for beside in self.beside:
            _named_file(beside)

    # --- one layer of one batch ---

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """Links as bits, a column a map; words, gold links and examples come with the first layer."""
        if layer.stack != "cross":
            return {}
        pairs = self._sides(reading, layer.alpha.dtype)
        documents = reading.documents.tolist()
        state: Stats = {}
        for position in self.positions:
            scores, union = self._scores(layer, pairs, position), self._union(layer, pairs, position)
            if scores is None:
                continue
            source = Source("", position, "cross", layer.index)
            found = union if self.rule == "union" else self._extracted(scores, pairs, position)
            state |= self._links(source, found, pairs, documents)
            state |= self._soft(source, scores, layer.alpha.shape[1], pairs, documents)
        return state | _words(pairs.pairs, documents, self.examples) if state and layer.index == 0 else state

    def _sides(self, reading: Reading, dtype: torch.dtype) -> Sides:
        if "alignment" not in reading.memo:
            needed = {*self.positions, *(["output"] if self.gradients else [])}
            positions = [position for position in POSITIONS if position in needed]
            reading.memo["alignment"] = sides(reading.batch, reading.notes, positions, dtype)
        return reading.memo["alignment"]

    def _scores(self, layer: Layer, pairs: Sides, position: str) -> Float[Tensor, "batch many row column"] | None:
        """Scores between words, for every map; None while blocks of rows are still to come."""
        memo = f"alignment.received.{layer.first_row}"
        if memo not in layer.memo:
            layer.memo[memo] = received(layer, self.quantities, pairs.receiving(), each_head=self.heads)
        part = from_rows(layer, pairs, position, layer.memo[memo])
        scores = whole(layer, pairs.words[position], part, f"alignment {position}")
        return None if scores is None else only(scores, pairs.columns)

    def _extracted(
        self, scores: Float[Tensor, "batch many row column"], pairs: Sides, position: str
    ) -> dict[str, Bool[Tensor, "batch many row word"]]:
        """Links by extraction."""
        sizes = (pairs.rows(position), pairs.source_words)
        return {name: EXTRACTIONS[name](scores, *sizes, self.threshold) for name in self.extractions}

    def _union(self, layer: Layer, pairs: Sides, position: str) -> dict[str, Bool[Tensor, "batch many row word"]]:
        """The same by the rule `union`, from links between tokens; nothing while blocks of rows are still to come."""
        if self.rule != "union":
            return {}
        maps, found = only(between_tokens(layer, self.quantities, each_head=self.heads), layer.key_mask), {}
        for name in self.extractions:
            links = EXTRACTIONS[name](maps, layer.query_mask, maps.shape[-1], self.threshold)
            part = from_rows(layer, pairs, position, links.to(maps.dtype) @ pairs.receiving()[:, None])
            words = whole(layer, pairs.words[position], part, f"alignment {position} {name}")
            if words is not None:
                found[name] = words[..., : pairs.source_words] > 0
        return found

    def _links(
        self,
        source: Source,
        found: Mapping[str, Bool[Tensor, "batch many row word"]],
        pairs: Sides,
        documents: Sequence[int],
    ) -> Stats:
        state: Stats = {}
        for extraction, links in found.items():
            bits = {
                number: to_bits(own[:, : pair.lengths[1], : pair.lengths[0]])
                for number, pair, own in zip(documents, pairs.pairs, links.numpy(), strict=True)
            }
            state[source._replace(extraction=extraction).key("links")] = Pieces.of(bits)
        return state

    def _soft(
        self, source: Source, scores: Float[Tensor, "batch many row column"], heads: int, pairs: Sides,
        documents: Sequence[int],
    ) -> Stats:  # fmt: skip
        """Of the maps of all heads together: the agreement of both sides, and the scores of the examples."""
        together = [at for at, column in enumerate(self._columns(heads)) if column.head is None]
        if not together:
            return {}
        scores, sizes = scores[:, together], (pairs.rows(source.position), pairs.source_words)
        one, other = forwards(scores, *sizes), backwards(scores, *sizes)
        both, either = ((links.sum((0, 2, 3)).double()) for links in (one & other, one | other))
        state: Stats = {f"agreement {source.position}@cross.{source.layer}": Sums(both, either)}
        maps = {
            number: own[:, : pair.lengths[1], : pair.lengths[0]].flatten(1).mT.float().clamp(min=0)
            for number, pair, own in zip(documents, pairs.pairs, scores, strict=True)
            if number < self.examples
        }
        return {**state, f"soft {source.position}@cross.{source.layer}": Pieces.of(maps)} if maps else state

    def _columns(self, heads: int) -> list[Column]:
        return columns(self.quantities, heads, each_head=self.heads)

    # --- passes of its own ---

    def ask(self, model: Model, reading: Reading) -> Stats:
        """Links from gradients, at the output position, which is the one that a gradient is of."""
        if not self.gradients:
            return {}
        pairs = self._sides(reading, model.hf.dtype)
        options = {"samples": self.samples, "noise": self.noise, "seed": self.seed}
        maps = gradients.maps(model, reading.batch, reading.documents.tolist(), self.gradients, **options)
        words = pairs.words["output"]
        scores = only(words.giving[:, None] @ maps @ words.receiving[:, None], pairs.columns)
        found = self._extracted(scores, pairs, "output")
        return self._links(Source("", "output", "gradient", 0), found, pairs, reading.documents.tolist())

    # --- the whole corpus ---

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        """Bits into scores, and the links of the best layer."""
        lengths, gold = _lengths(state), state.pieces("gold@cross.0") if "gold@cross.0" in state else None
        result = State({key: value for key, value in state.items() if not key.startswith("links ")})
        sources = list(self._sources(model.layers("cross")))
        division = None
        if gold is not None:
            division = Division.of(
                gold.numbers, fraction=self.choose, first=self.choose_first, resamples=self.resamples, seed=self.seed
            )
            for source in sources:
                report(f"alignment: scoring {source.key('links')}")
                result |= _scored(source.key, state.pieces(source.key("links")), gold, lengths, division)
            for name, links in self._others(lengths):
                result |= _scored(_beside(name), links, gold, lengths, division)
        elif self.beside:
            raise InputError("Other aligners' links are scored by gold ones, but the corpus has none; pass them too.")
        return result | self._chosen(state, result, model, lengths)

    def _others(self, lengths: Mapping[int, Lengths]) -> Iterator[tuple[str, Pieces]]:
        """What the model's links are compared with: the diagonal, and the links of other aligners."""
        yield drawn.DIAGONAL, Pieces.of({number: to_bits(diagonal(pair)[None]) for number, pair in lengths.items()})
        for beside in self.beside:
            name, path = _named_file(beside)
            yield name, _from_file(path, lengths)

    def _sources(self, layers: int) -> Iterator[Source]:
        for extraction in self.extractions:
            for position in self.positions:
                yield from (Source(extraction, position, "cross", layer) for layer in range(layers))
            if self.gradients:
                yield Source(extraction, "output", "gradient", 0)

    def _chosen(self, state: State, result: State, model: Model, lengths: Mapping[int, Lengths]) -> Stats:
        """The links of the best layer of all heads together, by AER on the choosing part or else by agreement."""
        table = self._rows(result, model.layers("cross"), model.heads("cross"))
        whole_layers = table.filter(pl.col("head").is_null() & pl.col("layer").is_not_null())
        order = ("chosen_aer", False) if whole_layers["chosen_aer"].is_not_null().any() else ("agreement", True)
        best = whole_layers.sort(order[0], descending=order[1], maintain_order=True).row(0, named=True)
        source = Source(best["extraction"], best["position"], "cross", best["layer"])
        column = self._columns(model.heads("cross")).index(Column(best["quantity"], None))
        bits = state.documents(source.key("links"))
        links = {number: linked(own, column, lengths[number]) for number, own in bits.items()}
        said = [order[0], best["quantity"], best["position"], best["extraction"], str(best["layer"])]
        return {"choice": Pieces.of({0: to_bytes(said)}), "links": Pieces.of(links)}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a map: its quantity, position, extraction, layer and head, and what its links come to.

        `aer`, `precision`, `recall`, `low` and `high` are of the pairs that score, `chosen_aer` of those that choose,
        `all_aer` of both; `best` is the layer (or head) with the lowest `chosen_aer` of its quantity, position and
        extraction. Rows of other aligners have neither layer nor position.
        """
        layers, heads, _ = setting.stacks["cross"]
        return self._rows(state, layers, heads)

    def _rows(self, state: State, layers: int, heads: int) -> pl.DataFrame:
        rows = []
        for source in self._sources(layers):
            names = self._columns(heads) if source.stack == "cross" else [Column(name, None) for name in self.gradients]
            agreement = _agreement(state, source)
            for at, column in enumerate(names):
                layer = source.layer if source.stack == "cross" else None
                agreed = next(agreement, None) if column.head is None else None
                where = (column.quantity, source.position, source.extraction, layer, column.head, agreed)
                rows.append((*where, *_numbers(state, source.key, at)))
        for name in (drawn.DIAGONAL, *(beside.partition("=")[0] for beside in self.beside)):
            if f"scored {name}@beside.0" in state:
                rows.append((name, *[None] * 5, *_numbers(state, _beside(name), 0)))
        table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
        group = ["quantity", "position", "extraction", pl.col("head").is_null()]
        lowest = pl.int_range(pl.len()).over(group) == pl.col("chosen_aer").arg_min().over(group)
        scored = pl.col("chosen_aer").is_not_null() & pl.col("layer").is_not_null()
        return table.with_columns(best=lowest.fill_null(value=False) & scored)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        yield Answer(DOING, aligned(table, setting.tokens["documents"]))

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """fig7 and table3 where there are gold links; fig8 (the best layer) and fig13-17 (every layer) of examples."""
        together = [column.quantity for column in self._columns(setting.stacks["cross"][1]) if column.head is None]
        return drawn.figures(self.table(state, setting), state, setting, together)


NUMBERS = ("aer", "low", "high", "precision", "recall", "chosen_aer", "all_aer")
SCHEMA = {"quantity": pl.String, "position": pl.String, "extraction": pl.String, "layer": pl.Int64, "head": pl.Int64,
          "agreement": pl.Float64, **dict.fromkeys(NUMBERS, pl.Float64), "links": pl.Int64}  # fmt: skip


def chosen_links(result: Mapping[str, Tensor], count: int) -> list[set[tuple[int, int]]]:
    """The links that a stored result chose, for all `count` pairs of its corpus; none where a pair was skipped."""
    pieces = Pieces.from_state({part: result[f"Pieces:links/{part}"] for part in ("numbers", "rows", "data")})
    found = dict(zip(pieces.numbers, pieces.tensors, strict=True))
    return [{(s, t) for s, t in found[at].tolist()} if at in found else set() for at in range(count)]


def choice(result: Mapping[str, Tensor]) -> dict[str, str]:
    """What was chosen, and by what."""
    said = from_bytes(result["Pieces:choice/data"])
    return dict(zip(("by", "quantity", "position", "extraction", "layer"), said, strict=True))


def _words(pairs: Sequence[Pair], documents: Sequence[int], examples: int) -> Stats:
    """Lengths and gold links, once a batch, and the words of the examples."""
    lengths = {number: torch.tensor([pair.lengths]) for number, pair in zip(documents, pairs, strict=True)}
    words = {
        number: to_bytes([*pair.source.split(), *pair.target.split()])
        for number, pair in zip(documents, pairs, strict=True)
        if number < examples
    }
    state: Stats = {"lengths@cross.0": Pieces.of(lengths)}
    if words:
        state["words@cross.0"] = Pieces.of(words)
    gold = {number: gold_bits(pair) for number, pair in zip(documents, pairs, strict=True)}
    told = {number: bits for number, bits in gold.items() if bits is not None}
    return {**state, "gold@cross.0": Pieces.of(told)} if told else state


def _lengths(state: State) -> dict[int, Lengths]:
    return {number: (int(own[0, 0]), int(own[0, 1])) for number, own in state.documents("lengths@cross.0").items()}


def _agreement(state: State, source: Source) -> Iterator[float]:
    """Of the maps of all heads together, in their order."""
    key = f"agreement {source.position}@{source.stack}.{source.layer}"
    return iter(state.sums(key).mean.tolist() if key in state else [])


def _scored(
    key: Callable[[str], str], links: Pieces, gold: Pieces, lengths: Mapping[int, Lengths], division: Division
) -> Stats:
    """The scores of a set of maps; pairs without gold links do not count."""
    by_number = dict(zip(links.numbers, links.tensors, strict=True))
    found = [by_number[number] for number in gold.numbers]
    scores = division.scores(counted(found, gold.tensors, [lengths[number] for number in gold.numbers]))
    return {key(part): Sums(value, torch.ones_like(value)) for part, value in scores._asdict().items()}


def _numbers(state: State, key: Callable[[str], str], column: int) -> tuple[float | int | None, ...]:
    """What SCHEMA calls NUMBERS, and the count of links; None where nothing was scored."""
    if not all(key(part) in state for part in Scored._fields):
        return (None,) * (len(NUMBERS) + 1)
    chosen, scored, low, high = (state.sums(key(part)).total[column] for part in Scored._fields)
    sure_found, possible_found, found, sure = scored.tolist()
    precision, recall = possible_found / found if found else None, sure_found / sure if sure else None
    ends = [float(end) for end in (low, high)]
    rates = [float(aer(counts)) for counts in (scored, chosen, chosen + scored)]
    return (rates[0], *ends, precision, recall, *rates[1:], int(found))


def _beside(name: str) -> Callable[[str], str]:
    return lambda what: f"{what} {name}@beside.0"


def _named_file(beside: str) -> tuple[str, Path]:
    name, equals, path = beside.partition("=")
    if not (name and equals and Path(path).is_file()):
        raise InputError(f"Other aligners' links must be given as NAME=FILE, but {beside!r} is not; check the file.")
    return name, Path(path)


def _from_file(path: Path, lengths: Mapping[int, Lengths]) -> Pieces:
    """Another aligner's links, of all pairs that were read; one line a pair, counted from 0."""
    order = sorted(lengths)
    if order != list(range(len(order))):
        raise InputError(
            "Other aligners' links have a line a pair, so every pair must be readable, but some were skipped; take "
            "them out of all the files, or leave --beside out."
        )
    gold = read_links(path, [lengths[number] for number in order], 0)
    return Pieces.of({
        number: to_bits(matrix(links.possible, lengths[number])[None])
        for number, links in zip(order, gold.links, strict=True)
    })  # fmt: skip


__all__ = ["Alignment", "choice", "chosen_links"]

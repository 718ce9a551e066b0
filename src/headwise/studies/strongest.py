r"""Find it in my corpus: for every head and pattern, the texts in which the head does it most.

    previous, same, next   A_{q, q−1}, A_{q, q}, A_{q, q+1}, mean over the rows of the text that have such a key
    first, separator, punctuation   Σ_{k of that kind} A_qk, mean over rows
    sharp, broad   −Σ_k α_qk ln α_qk, mean over rows: the least and the most     nats
    null           1 − Σ_q ‖a⊥_q‖² / Σ_q ‖a_q‖²: what of the squared weights changes nothing, so that raw and effective
                   attention differ
    nsubj, obj, det, …, coreference   of parsed texts (CoNLL-U) and texts with coreference: related.py

All of the raw weights. The top `texts` of each are kept with the run, with how each text begins, so that a grid of
heads leads to sentences. Texts below `shortest` tokens do not count: a row that sees three keys is extreme by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float64
from torch import Tensor

from headwise.allowed import setting
from headwise.measures.reductions import squared_norms
from headwise.models.model import Model
from headwise.plots.grid import head_grid
from headwise.plots.theme import themed
from headwise.results.shown import finite
from headwise.stats import Pieces, Top
from headwise.stats.top import NOBODY
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, Answer
from headwise.studies.profile import NUMBERS, text_means
from headwise.studies.received import over_blocks
from headwise.studies.related import RELATIONS, related_weights
from headwise.studies.study import Reading, Setting, State, Stats, Study, at, each_stack
from headwise.studies.tables import counted, first_stack
from headwise.text.written import written
from headwise.types import Encoding, Layer

PATTERNS: Mapping[str, tuple[str, int]] = {  # a number of `profile`, or the share in the null space; −1: the least
    "previous": ("previous", 1), "same": ("current", 1), "next": ("next", 1), "first": ("to_first", 1),
    "separator": ("to_separator", 1), "punctuation": ("to_punctuation", 1), "sharp": ("entropy", -1),
    "broad": ("entropy", 1), "null": ("null", 1),
}  # fmt: skip
WORDS = {
    "previous": "looks at the word before", "same": "looks at the word itself", "next": "looks at the word after",
    "first": "parks on the first token", "separator": "parks on separators", "punctuation": "parks on . and ,",
    "sharp": "is sharpest", "broad": "is broadest", "null": "has weights that change nothing",
}  # fmt: skip
SHOWN = {
    "previous": "weight on the token before", "next": "weight on the token after",
    "separator": "weight on separators", "null": "weight that changes nothing",
}  # fmt: skip
MOST = 240  # characters of a text that are kept
TELLING = 0.5  # of the weight, from which a pattern is worth a sentence


@STUDIES.add("strongest", "the texts of the corpus in which each head does what it does most", order=47)
@dataclass(frozen=True)
class Strongest(Study):
    """`texts` are kept for each head and pattern, of those with `shortest` tokens or more."""

    title: ClassVar[str] = "Find it in my texts"
    first_by: ClassVar[tuple[str, ...]] = ("stack", "pattern", "-value")
    captions: ClassVar[Mapping[str, str]] = {
        "strongest": "how much of it the head does in the text where it does it most; the pointer shows the text"
    }
    texts: int = setting(3, least=1, most=100)
    shortest: int = setting(8, least=2, most=10**6)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """The numbers of every text, once all its blocks of rows were seen, and how the text begins."""
        total = over_blocks(layer, reading, "strongest", _sums(layer, reading))
        related = related_weights(layer, reading)
        if total is None:
            return {}
        stats: Stats = {at("top", layer): self._top(_patterns(total), layer, reading)}
        if related is not None:
            stats[at("related", layer)] = self._top(related, layer, reading)
        if layer.index == 0 and layer.stack in ("self", "encoder"):
            begins = zip(reading.documents.tolist(), _said(reading), strict=True)
            stats["text"] = Pieces.of({number: _bytes(text) for number, text in begins})
        return stats

    def _top(self, values: Float64[Tensor, "batch head pattern"], layer: Layer, reading: Reading) -> Top:
        long = torch.tensor([len(text) >= self.shortest for text in reading.queries(layer)])
        return Top.of(values.where(long[:, None, None], torch.nan), reading.documents, size=self.texts)

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:  # noqa: ARG002
        """Of the texts only those that some head has among its first."""
        tops = {key: one for key, one in state.items() if isinstance(one, Top)}
        kept = {int(number) for top in tops.values() for number in top.documents.unique()}
        texts = {number: piece for number, piece in state.documents("text").items() if number in kept}
        return {**tops, "text": Pieces.of(texts)}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a head, pattern and place among its texts."""
        texts = {number: bytes(piece.tolist()).decode("utf-8") for number, piece in state.documents("text").items()}
        rows = [row for stack in setting.stacks for row in _rows(state, stack, texts)]
        schema = {"stack": pl.String, "layer": pl.Int64, "head": pl.Int64, "name": pl.String, "pattern": pl.String,
                  "place": pl.Int64, "value": pl.Float64, "document": pl.Int64, "text": pl.String}  # fmt: skip
        return pl.DataFrame(rows, schema=schema)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        """For the neighbours, the head that does it most, and where."""
        firsts = finite(first_stack(table), "value").filter(place=1)
        texts = counted(setting.tokens["documents"], "text")
        for pattern in ("previous", "next"):
            best = firsts.filter(pl.col("pattern") == pattern, pl.col("value") >= TELLING).sort(
                ["value", "name"], descending=[True, False]
            )
            if len(best):
                row = best.row(0, named=True)
                yield Answer(
                    DOING,
                    f"{row['name']} {WORDS[pattern]} most in text {row['document']} of {texts} "
                    f"({row['value']:.2f} of its weight): “{shorten(row['text'], 80, placeholder=' …')}”.",
                )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """`strongest`: layers × heads, one grid a pattern, with the text at the pointer."""
        whole = self.table(state, setting).filter(place=1)

        def drawn(stack: str, where: str) -> dict[str, Any]:
            heads = whole.filter(stack=stack).with_columns(what="pattern")
            panels = {name: title for name, title in SHOWN.items() if len(heads.filter(what=name))}
            if not panels:
                return {}
            caption = (
                "Shares of the weight (of the squared one where it changes nothing) in the text where the head does it "
                "most; point at a cell to read that text, the table has more."
            )
            return {"strongest": themed(head_grid(heads, panels, told=("text",)), f"{where}: where to look", caption)}

        return each_stack(setting, drawn)


def _sums(layer: Layer, reading: Reading) -> Float64[Tensor, "batch head number"]:
    """The parts that these rows have in each text's numbers; the last two are Σ ‖a‖² and Σ ‖a⊥‖²."""
    real = layer.query_mask[:, None].double()
    squares = [(rows.double() * real).sum(-1).cpu() for rows in squared_norms(layer)]
    return torch.cat([text_means(layer, reading, "raw"), torch.stack(squares, -1)], dim=-1)


def _patterns(total: Float64[Tensor, "batch head number"]) -> Float64[Tensor, "batch head pattern"]:
    numbers = dict(zip((*NUMBERS, "whole", "reached"), total.unbind(-1), strict=True))
    numbers["null"] = (1 - numbers["reached"] / numbers["whole"]).clamp(0, 1)
    return torch.stack([sign * numbers[name] for name, sign in PATTERNS.values()], -1)


def _said(reading: Reading) -> list[str]:
    sides: list[tuple[Encoding, ...]] = [side for side in (reading.batch.texts, reading.batch.targets) if side]
    return [" / ".join(map(written, texts)) for texts in zip(*sides, strict=True)]


def _bytes(text: str) -> Tensor:
    begin = text if len(text) <= MOST else text[: MOST - 2] + " …"
    return torch.tensor(list(begin.encode("utf-8", "replace")) or [0x20], dtype=torch.uint8)


def _rows(state: State, stack: str, texts: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    signs = {pattern: sign for pattern, (_, sign) in PATTERNS.items()}
    yield from _placed(state.by_layer(Top, "top", stack), stack, signs, texts)
    if f"related@{stack}.0" in state:
        yield from _placed(state.by_layer(Top, "related", stack), stack, dict.fromkeys(RELATIONS, 1), texts)


def _placed(
    layers: Sequence[Top], stack: str, signs: Mapping[str, int], texts: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    for layer, top in enumerate(layers):
        for head, by_pattern in enumerate(top.documents.tolist()):
            for at_, (pattern, sign) in enumerate(signs.items()):
                for place, number in enumerate(by_pattern[at_]):
                    if number != NOBODY:
                        value = sign * float(top.values[head, at_, place])
                        yield {"stack": stack, "layer": layer, "head": head, "name": f"L{layer}.H{head}",
                               "pattern": pattern, "place": place + 1, "value": value, "document": number,
                               "text": texts[number]}  # fmt: skip

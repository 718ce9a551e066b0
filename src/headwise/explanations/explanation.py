"""An explanation: what a number of the model rests on, what the scores add up to, and how the tests on the text
went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from jaxtyping import Float64
from torch import Tensor

from headwise.errors import InputError
from headwise.explanations.targets import Target
from headwise.explanations.trial import Trial
from headwise.explanations.units import Unit
from headwise.explanations.verdict import Verdict
from headwise.traces import WAYS


@dataclass(frozen=True)
class Explanation:
    """Scores of every unit for every target, above zero where a unit speaks for it.

    Where there are several targets the first is their sum, the whole answer. `adds` are the other parts: with them the
    scores of a target add up to its `value` (None for methods that add up to nothing of the model). `others` are the
    scores by other methods, `columns` more numbers of each unit (of heads: total and indirect parts).
    """

    model_name: str
    method: str
    unit: str  # tokens, words, sentences, passages or heads
    targets: tuple[Target, ...]
    units: tuple[Unit, ...]
    scores: Float64[Tensor, "target unit"]
    value: Float64[Tensor, " target"]
    log_probability: Float64[Tensor, " target"]
    passes: float
    adds: Mapping[str, Float64[Tensor, " target"]] | None = None
    error: float | None = None
    others: Mapping[str, Float64[Tensor, "target unit"]] = field(default_factory=dict)
    columns: Mapping[str, Float64[Tensor, "target unit"]] = field(default_factory=dict)
    trial: Trial | None = None
    verdict: Verdict | None = None
    note: str = ""
    says: str = ""  # what the model itself says, where something else is explained

    def __repr__(self) -> str:
        said = f": {self.verdict.sentence}" if self.verdict else ""
        return f"<headwise.Explanation of {self.targets[0]} by {self.method}, {len(self.units)} {self.unit}{said}>"

    @property
    def table(self) -> pl.DataFrame:
        """One row a unit, the strongest first; of several targets, that of the whole."""
        return self.table_of(0).sort(pl.col("score").abs(), descending=True, maintain_order=True)

    def table_of(self, target: int) -> pl.DataFrame:
        """One row a unit, in the order of the text."""
        if not 0 <= target < len(self.targets):
            raise InputError(f"Targets go from 0 to {len(self.targets) - 1}, but {target} was asked for.")
        more = {**self.columns, **self.others}
        return pl.DataFrame(
            {
                "unit": [unit.name for unit in self.units],
                "score": self.scores[target].tolist(),
                "removable": [unit.given for unit in self.units],
                **{name: scores[target].tolist() for name, scores in more.items()},
            }
        )

    def figure(self, target: int = 0) -> Any:
        """An Altair chart: the strongest units, and the deletion curve with the band of random orders."""
        return WAYS["explained.figure"](self, target)

    def page(self) -> str:
        """One HTML page that needs no network."""
        return WAYS["explained.page"](self)

    def save_html(self, path: str | Path) -> Path:
        """Write the page."""
        return WAYS["explained.save_html"](self, Path(path))

    def show(self) -> Any:
        """The page: in a notebook in place, elsewhere in the browser."""
        return WAYS["explained.show"](self)

    def _repr_html_(self) -> str:
        return WAYS["explained.frame"](self)

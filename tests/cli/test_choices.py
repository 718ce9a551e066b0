"""What `inspect`, the figure of a head and the viewer choose for a reader, by cases in which another choice shows."""

# ruff: noqa: ARG002  (the stand-in has the arguments of a trace, used or not)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from headwise.cli.inspect import _cell, _chosen, _rich_table, _verdict, telling_head
from headwise.cli.tables import chosen
from headwise.cli.view import LARGE, choices_of, view, written
from headwise.errors import InputError
from headwise.studies import STUDIES
from headwise.traces import NullSpace, Trace
from headwise.viewer.figure import caption, panels, telling_query
from headwise.viewer.of_trace import _open_heads
from headwise.viewer.payload import Stack
from viewer.samples import facts, quantity, side

LAYERS, HEADS, TOKENS = 2, 3, 5


def null_space(**changed: Any) -> NullSpace:
    table = torch.zeros(LAYERS, HEADS)
    whole = NullSpace(
        n=TOKENS, d_head=4, tolerance=1e-6, rank=table.int() + 4, null_dim=table.int() + 1, simplex_dim=table.int() + 2,
        pearson=table + 0.25, null_share=table + 0.4, identifiable=table.bool(), identifiable_rows=table,
        smallest_kept=table + 0.1, largest_dropped=table,
    )  # fmt: skip
    return replace(whole, **changed)


class Stand(Trace):
    """A trace of hand-made maps: layers 4 and 7, three heads."""

    def __init__(
        self,
        maps: dict[str, torch.Tensor],
        facts: NullSpace,
        special: tuple[bool, ...] = (True, False, False, False, True),
    ):
        for name, value in (("maps", maps), ("facts", facts), ("special", special), ("proof_error", 3e-7)):
            object.__setattr__(self, name, value)

    def of(self, stack: str | None = None) -> list[Any]:
        return [SimpleNamespace(index=4), SimpleNamespace(index=7)]

    def attention(self, name: str = "raw", *, stack: str | None = None) -> torch.Tensor:
        return self.maps[name]

    def nullspace(self, *, stack: str | None = None) -> NullSpace:
        return self.facts

    def queries(self, stack: str | None = None) -> Any:
        return SimpleNamespace(special=self.special)


def random_maps(seed: int = 0) -> torch.Tensor:
    scores = torch.randn(LAYERS, HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(seed))
    return scores.softmax(-1)


def table(shares: list[float | None]) -> pl.DataFrame:
    places = [(layer, head) for layer in (4, 7) for head in range(HEADS)]
    numbers = {"layer": [p[0] for p in places], "head": [p[1] for p in places], "null_share": shares}
    return pl.DataFrame(numbers).with_columns(sink=pl.lit(None, pl.String), show=pl.lit("yes"))


def stand(**maps: torch.Tensor) -> Any:
    return Stand({"raw": random_maps(), "norm": random_maps(), **maps}, null_space())


def test_a_layer_or_head_that_is_not_there_is_refused_and_numbers_stand_right() -> None:
    rows = table([0.1, 0.2, 0.1, 0.3, 0.7, 0.6])
    assert _chosen(rows, 7, 1)["null_share"].to_list() == [0.7]
    assert _chosen(rows, None, None).equals(rows)
    for wanted, said in (((5, None), "A layer of this model is one of [4, 7], but 5 was asked for."),
                         ((None, 3), "A head of this model is one of [0, 1, 2], but 3 was asked for.")):  # fmt: skip
        with pytest.raises(InputError) as told:
            _chosen(rows, *wanted)
        assert str(told.value) == said
    assert {column.justify for column in _rich_table(rows, "a title").columns} == {"right"}


def test_a_figure_is_of_the_head_with_most_in_the_null_space() -> None:
    assert telling_head(stand(), table([0.1, 0.2, 0.1, 0.3, 0.7, 0.6]), None) == (7, 1)
    assert telling_head(stand(), table([0.9, 0.2, 0.1, 0.3, 0.7, 0.6]), None) == (4, 0)
    assert telling_head(stand(), table([0.0, 0.0, 2e-6, 0.0, 0.0, 1.1e-6]), None) == (4, 2)


def test_where_no_head_has_any_it_is_the_one_whose_norms_disagree_most() -> None:
    raw = random_maps()
    norm = raw.clone()
    norm[1, 2] = -raw[1, 2]
    norm[0, 1] = raw[0, 1].flip(-1)
    assert telling_head(stand(raw=raw, norm=norm), table([1e-6] * 6), None) == (7, 2)
    assert telling_head(stand(raw=raw, norm=norm), table([0.0] * 6).filter(pl.col("layer") == 4), None) == (4, 1)


def test_a_figure_is_of_a_head_that_may_be_shown_where_there_is_one() -> None:
    """Ten of fifteen figures were of sinks."""
    sink, show = pl.Series("sink", ["[SEP]", None, None, None, None, None]), ["no", "no", "with care", "no", "no", "no"]
    every = table([0.9, 0.8, 0.1, 0.3, 0.7, 0.6]).with_columns(sink)
    assert telling_head(stand(), every, None) == (4, 1)
    assert telling_head(stand(), every.with_columns(show=pl.Series(show)), None) == (4, 2)
    assert telling_head(stand(), every.with_columns(sink=pl.lit("[SEP]")), None) == (4, 0), "all are sinks"


def test_heads_that_are_merged_have_no_figure() -> None:
    merged = pl.DataFrame({"layer": [0], "head": pl.Series([None], dtype=pl.Int64), "null_share": [0.5]})
    with pytest.raises(InputError, match="A figure shows one head, but mixing and origins have none"):
        telling_head(stand(), merged, None)


def test_the_verdict_counts_the_maps_that_may_be_shown() -> None:
    trace = Stand({}, null_space())
    shown = ["yes", "with care", "no", "no", "no", "yes"]
    table = pl.DataFrame({"show": shown, "sink": [None, None, "[SEP]", "[SEP]", None, None],
                          "loose": 0.049})  # fmt: skip
    proof = "Captured numbers reproduce the model to 3e-07 (relative)."
    assert _verdict(trace, table, None) == (  # pyright: ignore[reportArgumentType]
        "5 tokens, head size 4. So far, of 6 maps 2 may be shown as what the head did, 1 with care and 3 not; 2 are "
        "of sinks. Whether the heads matter was not asked (--matters asks). Read `--quantity effective` or `norm` "
        f"beside raw where a lamp is not ✓. {proof}"
    )
    good = table.filter(pl.col("show") == "yes").with_columns(matters=0.5, lamp_matters=pl.lit("green"))
    assert _verdict(trace, good, None) == (  # pyright: ignore[reportArgumentType]
        "5 tokens, head size 4. Of 2 maps 2 may be shown as what the head did, 0 with care and 0 not; none is of "
        f"a sink. {proof}"
    )
    loose = _verdict(trace, table.with_columns(loose=0.05), None)  # pyright: ignore[reportArgumentType]
    assert "Where `loose` is large, tell what tokens that send nearly the same get together." in loose
    one = _verdict(trace, table[:1], None)  # pyright: ignore[reportArgumentType]
    assert "So far, the map may be shown as what the head did. Whether the head matters was not asked (--matters" in one
    assert _verdict(trace, table.drop("show"), None) == f"5 tokens, head size 4. {proof}"  # pyright: ignore[reportArgumentType]


def test_a_large_page_says_what_to_leave_out() -> None:
    assert written(Path("a.html"), LARGE) == "wrote a.html (20.0 MB); open it in any browser, it needs no network"
    assert written(Path("a.html"), LARGE + 1).endswith(
        "no network; it is large: --keep top, fewer --quantities or a shorter text makes it smaller"
    )


@pytest.mark.parametrize(
    ("asked", "everything", "choices"),
    [((None, None), False, {"besides": []}), ((None, "globenc, flow"), False, {"besides": ["globenc", "flow"]}),
     ((None, None), True, {}), (("raw,norm", None), False, {"quantities": ["raw", "norm"]})],
)  # fmt: skip
def test_what_a_page_has_is_what_was_asked(asked: tuple, everything: bool, choices: dict) -> None:
    assert choices_of(*asked, everything=everything) == choices


def test_cells_are_words_or_two_digits() -> None:
    assert [_cell(value) for value in (True, False, 0.256, 3, "L4.H1")] == ["yes", "no", "0.26", "3", "L4.H1"]


def test_the_caption_of_a_head_says_whether_its_weights_are_unique() -> None:
    assert caption(null_space(), 1, 2) == [
        "5 tokens, head size 4, rank 4. Distributions with the same output have 2 free directions: the weights are NOT "
        "unique.",
        "40\u00a0% of the squared weights lie in the null space and change nothing; raw and effective correlate at "
        "0.25.",
    ]
    unique = torch.zeros(LAYERS, HEADS, dtype=torch.bool)
    unique[1, 2] = True
    assert caption(null_space(identifiable=unique), 1, 2) == [
        "5 tokens, head size 4, rank 4. No other distribution gives exactly this output: effective equals raw, and "
        "nothing is null.",
    ]
    assert "NOT unique" in caption(null_space(identifiable=unique), 2 - 1, 1)[0]


def test_the_query_is_the_word_with_most_in_the_null_space() -> None:
    null = torch.zeros(LAYERS, HEADS, TOKENS, TOKENS)
    null[1, 2, 0] = 9  # a special token does not count
    null[1, 2, 3] = -2  # whatever its sign
    null[1, 2, 1] = 1
    assert telling_query(stand(null=null), 1, 2, None) == 3
    every = Stand({"null": null}, null_space(), special=(True,) * TOKENS)
    assert telling_query(every, 1, 2, None) == 0  # pyright: ignore[reportArgumentType]


def test_panels_share_the_scale_of_weights_and_norms_have_their_own() -> None:
    maps = {name: random_maps(seed) for seed, name in enumerate(("raw", "effective", "null", "norm"))}
    maps["null"][1, 0, 2, 3] = -4
    maps["norm"][1, 0, 0, 0] = 30
    found = panels(stand(**maps), 1, 0, False, None)
    assert [(panel.name, panel.signed, panel.top) for panel in found] == [
        ("raw", True, 4.0), ("effective", True, 4.0), ("null", True, 4.0), ("norm", False, 30.0),
    ]  # fmt: skip
    np.testing.assert_array_equal(found[2].matrix, maps["null"][1, 0].numpy())


def test_other_weights_are_looked_for_where_there_is_most_to_move() -> None:
    """After the head that the page opens with, of each layer the broadest whose weights are not unique."""
    raw = np.zeros((2, 3, 7, 7), np.float32)
    raw[..., 0] = 1.0
    raw[0, 2] = 1 / 7  # broad
    raw[0, 1, :, :2] = 0.5
    raw[1, 1] = 1 / 7  # broad, but unique
    raw[1, 0, :, :3] = 1 / 3
    tokens, known = side(), facts()
    known = replace(known, identifiable=np.array([[False, False, False], [False, True, False]]))
    stack = Stack("self", tokens, tokens, (quantity("raw", "attention", raw),), known)
    assert _open_heads(known, stack)[-2:] == [(0, 2), (1, 0)]


def test_what_a_study_is_about_comes_first() -> None:
    """Trials of roles before heads, those that look like one before the others; heads that were taken away first."""
    rows = pl.DataFrame({
        "part": ["head", "head", "trial", "head"], "looks": [False, True, None, True], "value": [0.9, 0.1, 0.2, 0.3],
    })  # fmt: skip
    found = chosen(rows, None, None, STUDIES["roles"].first_by)
    assert found["value"].to_list() == [0.2, 0.3, 0.1, 0.9]
    rows = pl.DataFrame({"part": ["attention", "head", "correlation", "head"], "value": [0.9, 0.1, 0.2, 0.3]})
    assert chosen(rows, None, None, STUDIES["ablation"].first_by)["value"].to_list() == [0.3, 0.1, 0.9, 0.2]
    assert chosen(rows, None, "-value", STUDIES["ablation"].first_by)["value"].to_list() == [0.9, 0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"off": "L0.H1,cross.L1.H1"}, r"A head is named L5.H3, or cross L1.H2 .* but got 'cross.L1.H1'"),
        ({"off": "L3"}, "but got 'L3'"),
        ({"with_": "norm,globnec"}, "There is no quantity 'globnec'; .* Did you mean 'globenc'"),
        ({"quantities": "raws"}, "Did you mean 'raw'"),
    ],
)
def test_a_misspelt_name_is_refused_before_a_model_is_loaded(
    asked: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("headwise.models.load.load", lambda *_, **__: pytest.fail("the model was loaded"))
    with pytest.raises(InputError, match=says):
        view("a text", out=tmp_path / "page.html", **asked)  # pyright: ignore[reportArgumentType]


def test_a_head_that_is_not_there_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("headwise.cli.options.read_by", lambda *_, **__: pytest.fail("the text was traced"))
    with pytest.raises(InputError, match="Layers of tiny:bert go from 0 to 2, but 9 was asked for"):
        view("a text", out=tmp_path / "page.html", model="tiny:bert", off="L9.H0")

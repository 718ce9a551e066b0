"""The `nullspace` study against a twin that keeps every map, and its independence of batches, order and blocks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from headwise.papers.brunner2020 import freedom_by_layer
from headwise.stats import Moments
from headwise.stats.reservoir import hashed
from headwise.studies.freedom import WHAT
from headwise.studies.nullspace import NullSpace, agreement
from headwise.studies.nullspace.figures import _some_mass
from headwise.studies.study import State
from headwise.text.categories import CATEGORIES
from references.precision import nearness
from references.studies_folding import (
    FAMILIES,
    TEXTS,
    assert_drawable,
    assert_same,
    every_stack,
    exact,
    folded,
    in_blocks,
    setting,
)  # fmt: skip
from references.studies_norms import Naive
from references.studies_nullspace import (
    naive_pearson,
    naive_projection,
    naive_rank,
    naive_rows,
    naive_share,
    naive_width,
)

STUDY = NullSpace(bucket=4, buckets=12, points=50)


@cache
def state_of(family: str) -> State:
    return folded(exact(family), STUDY)


@cache
def table_of(family: str) -> pl.DataFrame:
    return STUDY.table(state_of(family), setting(exact(family)))


class Twin(Naive):
    """Adds the null space of every text, layer and head."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.rows, self.pearson, self.share = {}, {}, {}
        for index, layers in self.layers.items():
            self.effective[index] = []
            for text, layer in enumerate(layers):
                alpha, seen = layer.alpha[0].numpy(), layer.visible[0].numpy()
                parts = [
                    (alpha[head], layer.head_value[0, head].numpy(), layer.circuit.w_o[head].numpy(), seen)
                    for head in range(len(alpha))
                ]
                reached = [naive_projection(*part) for part in parts]
                self.effective[index].append(np.stack(reached))
                for head, (part, effective) in enumerate(zip(parts, reached, strict=True)):
                    self.rows[text, index, head] = naive_rows(*part[1:])
                    self.pearson[text, index, head] = naive_pearson(part[0], effective, seen)
                    self.share[text, index, head] = naive_share(part[0], effective)


@cache
def twin(family: str, stack: str) -> Twin:
    return Twin(exact(family), TEXTS, stack)


def facts(family: str, stack: str, **where: object) -> dict[str, float]:
    found = table_of(family).filter(stack=stack, **where)
    return dict(zip(found["what"], found["value"], strict=True))


@every_stack
def test_rank_and_uniqueness_by_keys_seen(family: str, stack: str) -> None:
    for layer in range(3):
        rows = [row for (_, index, _), rows in twin(family, stack).rows.items() if index == layer for row in rows]
        table = table_of(family).filter(pl.col("length").is_not_null(), stack=stack, paper="rank", layer=layer)
        wide = table.pivot("what", index="length", values="value").sort("length")
        buckets = sorted({min((n - 1) // 4, 11) for n, *_ in rows})
        assert wide.height == len(buckets)
        for bucket, found in zip(buckets, wide.iter_rows(named=True), strict=True):
            n, rank, unique = np.array([row for row in rows if min((row[0] - 1) // 4, 11) == bucket]).T
            assert found == pytest.approx(
                {"length": n.mean(), "rank": rank.mean(), "rank_min": rank.min(), "null_dim": (n - rank).mean(),
                 "identifiable_rows": unique.mean()}
            )  # fmt: skip


@every_stack
def test_agreement_and_mass_of_every_head(family: str, stack: str) -> None:
    for layer in range(3):
        for head in range(4):
            pearson, share, unique = (
                np.array([numbers[text, layer, head] for text in range(len(TEXTS))], dtype=object)
                for numbers in (twin(family, stack).pearson, twin(family, stack).share, twin(family, stack).rows)
            )
            found = facts(family, stack, paper="fig1a", layer=layer, head=head)
            kept = pearson.astype(float)[~np.isnan(pearson.astype(float))]
            assert found == pytest.approx({"pearson": kept.mean(), "pearson_sd": kept.std()}, abs=1e-6)
            found = facts(family, stack, paper="mass", layer=layer, head=head)
            assert found["null_share"] == pytest.approx(share.astype(float).mean(), abs=1e-6)
            rows = [row for text in unique for row in text]
            found = facts(family, stack, paper="rank", layer=layer, head=head)
            assert found["identifiable_rows"] == pytest.approx(np.mean([row[2] for row in rows]))


@every_stack
def test_raw_effective_and_null_by_category(family: str, stack: str) -> None:
    naive = twin(family, stack)
    for layer in range(3):
        for number, category in enumerate(CATEGORIES):
            raw, effective = (naive.to(maps[layer], number) for maps in (naive.maps, naive.effective))
            for head in range(4):
                found = table_of(family).filter(stack=stack, layer=layer, head=head, category=category)
                got = {what: value for paper, what, value in found.select("paper", "what", "value").iter_rows()
                       if paper != "fig5"}  # fmt: skip
                expected = {"raw": raw[head], "effective": effective[head], "null": raw[head] - effective[head]}
                assert got == pytest.approx(expected, abs=1e-6)
        for whose, rows in (({"rows": 1}, "separator"), ({"but": 1}, "other")):  # Clark: from [SEP], and from the rest
            raw = naive.to(naive.maps[layer], 1, **whose)
            effective = naive.to(naive.effective[layer], 1, **whose)
            for head in range(4):
                found = facts(family, stack, paper="fig5", layer=layer, head=head, category=rows)
                assert found["raw_to_separator"] == pytest.approx(raw[head], abs=1e-6)
                assert found["effective_to_separator"] == pytest.approx(effective[head], abs=1e-6)


@pytest.mark.parametrize("family", [*FAMILIES, "gpt2"])
def test_batches_order_and_blocks_do_not_matter(family: str) -> None:
    model = exact(family)
    near = nearness(model)
    assert_same(folded(model, STUDY, batch_tokens=1), state_of(family), near)
    assert_same(folded(model, STUDY, order=[3, 0, 4, 2, 1]), state_of(family), near)
    assert_same(in_blocks(model, STUDY, rows=5), state_of(family), near)


@every_stack
def test_points_are_texts_and_heads(family: str, stack: str) -> None:
    rows = state_of(family)[f"points@{stack}"].rows  # type: ignore[attr-defined]
    assert len(rows) == 50
    lengths = [len(ids) for ids in twin(family, stack).ids]
    for length, pearson, layer, head in rows.tolist():
        texts = [text for text, n in enumerate(lengths) if n == length]
        expected = [twin(family, stack).pearson[text, int(layer), int(head)] for text in texts]
        assert min(abs(np.array(expected) - pearson)) < 1e-6


def test_agreement_by_hand() -> None:
    """A = [[.5, .5], [1, 0]] projected onto (1, 1)/√2: A⊥ = [[.5, .5], [.5, .5]], even, so r is undefined."""
    one = lambda x: torch.tensor([[x]], dtype=torch.float64)  # noqa: E731
    pearson, share = agreement(one(2.0), one(2.0), one(1.5), one(1.0), one(4.0))
    assert pearson.isnan().all()
    assert float(share) == pytest.approx(1 / 3)
    # Projected onto (1, 0): A⊥ = [[.5, 0], [1, 0]]; cov = 1.25 − 2 · 1.5 / 4, var = 0.5 and 1.25 − 1.5² / 4.
    pearson, share = agreement(one(2.0), one(1.5), one(1.5), one(1.25), one(4.0))
    assert float(pearson) == pytest.approx(0.5 / np.sqrt(0.5 * 0.6875))
    assert float(share) == pytest.approx(1 - 1.25 / 1.5)


def test_lengths_beyond_the_last_bucket_share_it() -> None:
    few = NullSpace(bucket=4, buckets=3)
    for moments in folded(exact("bert"), few).by_layer(Moments, "length", "self"):
        assert moments.count.shape == (4, 3)
        assert moments.count.sum() == 4 * len(TEXTS)
        assert moments.high.nan_to_num(0).max() > 12


@pytest.mark.parametrize("family", FAMILIES)
def test_figures(family: str) -> None:
    charts = STUDY.figures(state_of(family), setting(exact(family)))
    names = ["rank", "fig1a", "fig1b", "fig1c", "fig5", "mass"]
    assert_drawable(charts, [*names, *([f"{name}-cross" for name in names] if family == "bart" else [])])


def test_a_grid_of_zeros_is_not_drawn() -> None:
    """A report of short texts had a blank grid with a colour bar from 0 to 1."""
    table = pl.DataFrame({"paper": ["mass"] * 2, "what": ["null_share"] * 2, "value": [0.0, 0.0]})
    assert not _some_mass(table)
    assert _some_mass(table.with_columns(value=pl.Series([0.0, 0.1])))


FREE = NullSpace(bucket=4, buckets=12, points=50, intervals=1)


@cache
def free_table(family: str) -> pl.DataFrame:
    return FREE.table(folded(exact(family), FREE), setting(exact(family))).filter(paper="§3.3")


@pytest.mark.parametrize(("family", "stack"), [("bert", "self"), ("llama", "self"), ("bart", "cross")])
def test_freedom_is_that_of_rows_one_by_one(family: str, stack: str) -> None:
    """§3.3: n − rank([T, 1]) of every row; the widths of the rows and keys that were drawn."""
    known = twin(family, stack)
    for index, layers in known.layers.items():
        found = free_table(family).filter(pl.col("length").is_null(), stack=stack, layer=index)
        numbers = dict(found.select("what", "value").rows())
        free = [n - rank for document in range(len(layers)) for n, rank in free_rows(known, document, index)]
        assert numbers["free_rows"] == pytest.approx(np.mean(np.array(free) > 0), abs=1e-12)
        assert numbers["free_directions"] == pytest.approx(np.mean(free), abs=1e-12)
        drawn = np.mean([drawn_widths(layer, document, index) for document, layer in enumerate(layers)], axis=0)
        assert [numbers["width"], numbers["width_top"]] == pytest.approx(drawn.tolist(), abs=1e-6)


def free_rows(known: Any, document: int, index: int) -> list[tuple[int, int]]:
    """(n, rank([T, 1])) of every head and row."""
    layer = known.layers[index][document]
    found = []
    for value in layer.head_value[0].numpy():
        for seen in layer.visible[0].numpy():
            t = np.column_stack([value[seen], np.full(seen.sum(), np.abs(value).max())])
            found.append((int(seen.sum()), naive_rank(t)))
    return found


def drawn_widths(layer: Any, document: int, index: int) -> tuple[float, float]:
    """Of the one row of a text and layer: the mean over four keys by lot, and the key with the largest weight."""
    number = torch.tensor([(document * 4096 + index) * 4096])
    row, head = int(hashed(number, 0)) % layer.alpha.shape[2], int(hashed(number, 1)) % layer.alpha.shape[1]
    seen = layer.visible[0, row]
    alpha, value = layer.alpha[0, head, row][seen].numpy(), layer.head_value[0, head][seen].numpy()
    keys = np.random.default_rng(int(number)).permutation(len(alpha))[:4]
    each = [naive_width(alpha, value, int(key)) for key in (*keys, alpha.argmax())]
    return float(np.mean(each[:-1])), each[-1]


def test_freedom_does_not_know_batches_or_blocks() -> None:
    model = exact("llama")
    whole = in_blocks(model, FREE, rows=256)
    assert_same(in_blocks(model, FREE, rows=5), whole, near=1e-6)
    names = [key for key in whole if key.startswith(("width", "free"))]
    single = folded(model, FREE, batch_tokens=1)
    assert_same(State({key: single[key] for key in names}), State({key: whole[key] for key in names}), near=1e-6)


def test_freedom_is_drawn_and_tabulated() -> None:
    about = setting(exact("bert"))
    charts = FREE.figures(folded(exact("bert"), FREE), about)
    assert_drawable(charts, ["freedom"])
    assert "freedom" not in STUDY.figures(state_of("bert"), about)
    rows = freedom_by_layer(free_table("bert"))
    assert rows.columns == ["name", *WHAT, "rows_drawn"]
    assert rows["name"].to_list()[:4] == ["L0", "L1", "L2", "all"]
    assert all(name.endswith(" keys") for name in rows["name"].to_list()[4:])
    drawn = rows["rows_drawn"].to_list()
    assert drawn[:4] == [len(TEXTS)] * 3 + [3 * len(TEXTS)]
    assert sum(drawn[4:]) == drawn[3]
    for what in ("width", "width_top"):  # of all layers is the mean over what was drawn in each
        assert rows[what][3] == pytest.approx(rows[what][:3].mean(), abs=1e-12)
        kept = rows[4:].filter(pl.col("rows_drawn") > 0)
        assert float((kept[what] * kept["rows_drawn"]).sum()) / drawn[3] == pytest.approx(rows[what][3], abs=1e-12)
    assert not free_table("bert").select(pl.col("length", "value").is_nan().any()).row(0)[1]

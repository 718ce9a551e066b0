"""The `norms` study against a twin that keeps every map, and its independence of batches, order and blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import spearmanr

import headwise as hw
from headwise.errors import InputError
from headwise.measures.norms import sent_norm
from headwise.models.values import singular_values, value_maps
from headwise.stats import Groups, OctaveBins, RankHistogram
from headwise.studies.norms import VOCABULARY, Norms, rank_counts
from headwise.studies.norms.figures import sampled
from headwise.studies.norms.frequencies import by_vocabulary, occurrences
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

STUDY = Norms(fraction=0.2, points=40)


@cache
def state_of(family: str) -> State:
    return folded(exact(family), STUDY)


@cache
def table_of(family: str) -> pl.DataFrame:
    return STUDY.table(state_of(family), setting(exact(family)))


@cache
def naive(family: str, stack: str) -> Naive:
    return Naive(exact(family), TEXTS, stack)


def facts(family: str, stack: str, paper: str, **where: object) -> dict[str, float]:
    found = table_of(family).filter(stack=stack, paper=paper, **where)
    return dict(zip(found["what"], found["value"], strict=True))


@every_stack
def test_spread_of_the_vectors_sent(family: str, stack: str) -> None:
    for layer in naive(family, stack).lengths:
        for head in range(4):
            assert facts(family, stack, "table1", layer=layer, head=head) == pytest.approx(
                naive(family, stack).spread(layer, head), rel=nearness(exact(family))
            )


@every_stack
def test_spread_of_the_stream(family: str, stack: str) -> None:
    for layer in range(3):
        expected = {} if stack == "cross" else naive(family, stack).stream(layer)
        assert facts(family, stack, "table4", layer=layer) == pytest.approx(expected, rel=nearness(exact(family)))


@every_stack
def test_attention_and_norms_by_category(family: str, stack: str) -> None:
    twin = naive(family, stack)
    for figure, category in (("fig4", 1), ("fig10", 0), ("fig11", 2), ("fig12", 3)):
        if not any((kinds == category).any() for kinds in twin.kinds):
            continue
        for layer, maps in twin.maps.items():
            alpha, norm = twin.to(maps, category), twin.to(twin.norm_maps(layer), category)
            for head in range(4):
                expected = {"alpha": alpha[head], "norm": norm[head], "f": twin.sent(layer, category)[head]}
                assert facts(family, stack, figure, layer=layer, head=head) == pytest.approx(expected, rel=1e-6)
            means = {"alpha": alpha.mean(), "norm": norm.mean()}
            found = facts(family, stack, "fig3", layer=layer, category=CATEGORIES[category])
            assert found == pytest.approx(means, rel=1e-6)


def test_lengths_of_a_category_may_be_the_mean_of_texts() -> None:
    """Kobayashi et al.'s code: each text has one mean, however many such tokens it has; texts without are not there."""
    model, twin = exact("bert"), naive("bert", "self")
    study = Norms(lengths="texts")
    table = study.table(folded(model, study), setting(model)).filter(what="f")
    for figure, category in (("fig4", 1), ("fig11", 2), ("fig12", 3)):
        texts = [kinds == category for kinds in twin.kinds]
        assert category != 3 or len({int(text.sum()) for text in texts}) > 1, "the two averages differ"
        for layer, lengths in twin.lengths.items():
            means = [each[:, text].mean(-1) for each, text in zip(lengths, texts, strict=True) if text.any()]
            found = table.filter(paper=figure, layer=layer)["value"].to_list()
            assert found == pytest.approx(sum(means) / len(means), rel=nearness(model))


@every_stack
def test_rank_correlation_is_within_its_bound(family: str, stack: str) -> None:
    twin = naive(family, stack)
    for number, category in [*enumerate(CATEGORIES), (None, "all")]:
        alpha, _ = twin.pairs(number)
        found = facts(family, stack, "table2", category=category)
        assert found.get("pairs", 0) == len(alpha)
        if len(alpha):
            assert abs(found["rho"] - twin.rho(number)) <= found["error_bound"] + 1e-9
            assert found["error_bound"] < 0.2


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_counts_are_those_of_the_statistic(family: str) -> None:
    """The one-pass count equals RankHistogram.of, padding and the causal mask included."""
    model, bins = exact(family), (OctaveBins(-8, 8, 32), OctaveBins(-40, 0, 8))
    batch, found = model.batch([model.encode(*texts) for texts in TEXTS]), []
    with torch.no_grad():
        model.run(batch, found.append)
    kinds = torch.randint(0, 4, batch.mask.shape, generator=torch.Generator().manual_seed(0))
    for layer in found:
        norms, pairs = sent_norm(layer)[:, :, None], (layer.visible & layer.query_mask[:, :, None])[:, None]
        over = Groups(kinds[:, None, None], (4,))
        expected = RankHistogram.of(norms, layer.alpha, pairs & (layer.alpha > 0), *bins, over=over)
        got = rank_counts(layer, kinds, *bins)
        assert int(got.count.sum()) == int(pairs.sum()) * 4
        assert torch.equal(got.counts, expected.counts)


@pytest.mark.parametrize("family", [*FAMILIES, "gpt2"])
def test_batches_order_and_blocks_do_not_matter(family: str) -> None:
    model = exact(family)
    near = nearness(model)
    assert_same(folded(model, STUDY, batch_tokens=1), state_of(family), near)
    assert_same(folded(model, STUDY, order=[3, 0, 4, 2, 1]), state_of(family), near)
    assert_same(in_blocks(model, STUDY, rows=5), state_of(family), near)


@every_stack
def test_sampled_pairs_are_pairs_of_the_maps(family: str, stack: str) -> None:
    alpha, norms = naive(family, stack).pairs(None)
    table = sampled(state_of(family), stack)
    assert table.height >= 40
    for _, a, f in table.iter_rows():
        assert np.hypot(alpha / a - 1, norms / f - 1).min() < nearness(exact(family))


@every_stack
def test_tokens_and_their_frequency(family: str, stack: str) -> None:
    twin, table = naive(family, stack), occurrences(state_of(family), stack)
    ids, near = np.concatenate(twin.ids), nearness(exact(family))
    expected = np.array([(twin.ids[text][place], *pair) for (text, place), pair in twin.tokens().items()])
    got = table.select("id", "alpha", "f").to_numpy()
    assert len(got) == len(expected)
    for ours, theirs in ((got, expected), (expected, got)):  # each has its partner: the order is not the corpus's
        for row in ours:
            assert (np.abs(theirs - row) <= near * np.abs(row)).all(axis=1).any()
    for number, count, rank in table.select("id", "count", "rank").iter_rows():
        assert count == (ids == number).sum()
        assert rank == 1 + sum((ids == other).sum() > count for other in set(ids.tolist()))


def test_small_sample_holds_the_same_tokens_in_every_layer() -> None:
    study = Norms(occurrences=11)
    table = occurrences(folded(exact("bert"), study), "self")
    whole = occurrences(state_of("bert"), "self")
    assert table.height == 11
    assert table.join(whole, on=["id", "rank"], how="semi").height == 11
    rounded = set(whole["alpha"].round(9))
    assert all(alpha in rounded for alpha in table["alpha"].round(9))


def test_given_frequencies(tmp_path: Path) -> None:
    model, path = exact("bert"), tmp_path / "counts.tsv"
    the, sea = (model.tokenizer.get_vocab()[word] for word in ("the", "sea"))
    path.write_text(f"the\t5\n{sea}\t70\nnowhere\t9\n")
    study = Norms(frequencies=str(path))
    state = folded(model, study)
    assert state["given"].counts.sum() == 75  # type: ignore[attr-defined]
    table = occurrences(state, "self").select("id", "count", "rank").unique().sort("rank")
    assert table.rows() == [(sea, 70.0, 1), (the, 5.0, 2)]
    with pytest.raises(InputError, match="token and count"):
        Norms(frequencies=str(tmp_path / "none.tsv")).check(model)
    assert int(VOCABULARY.index(torch.tensor(3_000_000))) == 2**18 + 1


@every_stack
def test_ranks_by_the_vocabulary(family: str, stack: str) -> None:
    """As the paper's footnote 5 has it: by id; without special tokens and single characters, but for four kinds."""
    tokenizer = exact(family).tokenizer
    words = {number: token.strip("Ġ▁Ċ# ") for token, number in tokenizer.get_vocab().items()}
    table = by_vocabulary(state_of(family), stack)
    whole = occurrences(state_of(family), stack)
    first, last = tokenizer.cls_token_id or tokenizer.bos_token_id, tokenizer.sep_token_id or tokenizer.eos_token_id
    ends = {first: "[CLS] / first", last: "[SEP] / last"}
    special = {n for n, text in words.items() if text[:1] + text[-1:] in ("[]", "<>") and len(text) > 2}
    special |= set(tokenizer.all_special_ids)
    marked = {n: ends.get(n, ". and ," if text in (",", ".") else None) for n, text in words.items()}
    kept = [n for n in whole["id"] if marked[n] or (len(words[n]) > 1 and n not in special)]
    assert sorted(table["id"]) == sorted(kept)
    for number, rank, kind in table.select("id", "rank", "kind").iter_rows():
        assert kind == (marked[number] or "other")
        plain = sum(marked[n] is None and len(words[n]) > 1 and n not in special for n in words if n < number)
        top = sum(kind is not None for kind in marked.values())
        assert (rank <= top) if marked[number] else rank == 1 + top + plain
    found = {row["what"]: row["value"] for row in table_of(family).filter(paper="fig6", stack=stack).to_dicts()}
    assert found["n_f_vocabulary"] == table.height
    for column in ("alpha", "f"):
        expected = spearmanr(table["rank"].to_numpy(), table[column].to_numpy()).statistic
        assert found[f"rho_{column}_vocabulary"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("family", ["bert", "llama", "gpt-neox", "phi3", "bart", "gemma2"])
def test_value_maps_and_singular_values(family: str) -> None:
    """f through the matrices is f through the model, and the singular values are those of the whole (d+1)² matrix."""
    model: hw.Model = exact(family)
    maps = value_maps(model)
    assert len(maps) == len(model.proof.sites)
    for site in model.proof.sites:
        value = maps[site.stack, site.index]
        assert value.error < 1e-9
        values = singular_values(site, value)
        for head, w_o in enumerate(site.circuit.w_o.numpy()):
            own = head // (len(site.circuit.w_o) // len(value.w_v))
            d, e = value.w_v.shape[1], w_o.shape[1]
            f = np.zeros((d + 1, e + 1))
            f[:d, :e], f[d, :e], f[d, e] = value.w_v[own].numpy() @ w_o, value.b_v[own].numpy() @ w_o, 1
            expected = np.linalg.svd(f, compute_uv=False)
            np.testing.assert_allclose(values[head].numpy(), expected[: values.shape[1]], atol=1e-9)
            assert np.all(expected[values.shape[1] :] < 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_figures(family: str) -> None:
    charts = STUDY.figures(state_of(family), setting(exact(family)))
    names = ["fig3", "table2", "fig4", "fig10", "fig11", "fig12", "fig5", "fig6", "fig9"]
    assert_drawable(charts, [*names, *(["fig3-cross", "fig5-decoder"] if family == "bart" else [])])

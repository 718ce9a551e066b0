"""Reduction into groups of any grid."""

import pytest
import torch

from headwise.stats import Groups, Histogram, LinearBins, Moments, RankHistogram, Sums, ravel

HEADS, QUERIES, KEYS, CATEGORIES = 5, 7, 11, 3


def test_ravel_is_row_major():
    assert int(ravel((1, 2), (3, 5))) == 7
    grid = ravel((torch.arange(3)[:, None], torch.arange(5)), (3, 5))
    assert torch.equal(grid, torch.arange(15).view(3, 5))


def grid() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Groups]:
    draw = torch.Generator().manual_seed(0)
    alpha = torch.rand(HEADS, QUERIES, KEYS, generator=draw)
    category = torch.randint(0, CATEGORIES, (KEYS,), generator=draw)
    shape = (HEADS, CATEGORIES)
    return (
        alpha,
        category,
        torch.ones(QUERIES, 1),
        Groups(ravel((torch.arange(HEADS)[:, None, None], category), shape), shape),
    )


def test_groups_by_head_and_category_against_a_loop():
    alpha, category, weight, groups = grid()
    moments, sums = Moments.of(alpha, weight, over=groups), Sums.of(alpha, weight, over=groups)
    bins = LinearBins(0.0, 1.0, 4)
    histogram = Histogram.of(alpha, weight, bins, over=groups)
    for head in range(HEADS):
        for c in range(CATEGORIES):
            values = alpha[head][:, category == c].double()
            assert moments.mean[head, c].item() == pytest.approx(values.mean().item(), rel=1e-12)
            assert moments.sd[head, c].item() == pytest.approx(values.std(correction=0).item(), rel=1e-12)
            assert moments.high[head, c] == values.max()
            assert sums.total[head, c].item() == pytest.approx(values.sum().item(), rel=1e-12)
            assert torch.equal(histogram.counts[head, c, 1:-1], values.histc(4, 0, 1))


def test_ranks_bin_before_they_broadcast():
    alpha, category, _, _ = grid()
    norm = torch.rand(HEADS, 1, KEYS)
    groups, bins = Groups(category, (CATEGORIES,)), LinearBins(0.0, 1.0, 6)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    slim = RankHistogram.of(alpha, norm, mask, bins, bins, over=groups)
    full = RankHistogram.of(alpha, norm.expand_as(alpha).contiguous(), mask.expand_as(alpha), bins, bins, over=groups)
    assert torch.equal(slim.counts, full.counts)
    assert slim.count.sum() == alpha.numel()


def test_an_index_outside_the_grid_is_refused():
    with pytest.raises(ValueError, match="must be below 2"):
        Sums.of(torch.ones(3), torch.ones(3), over=Groups(torch.tensor([0, 1, 2]), (2,)))


def test_a_bucket_of_lengths_is_one_more_axis():
    lengths = torch.tensor([3, 5, 5])
    by_length = Moments.of(torch.tensor([1.0, 2.0, 4.0]), torch.ones(3), over=Groups(lengths, (8,)))
    assert by_length.mean[3] == 1
    assert by_length.mean[5] == 3
    assert by_length.mean[4].isnan()

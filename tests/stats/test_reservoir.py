"""The sample depends on ids and seed alone."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.stats import Reservoir, merge
from headwise.stats.reservoir import hashed

N = 997


def of(ids: torch.Tensor, seed: int = 3, size: int = 50, fraction: float = 1.0) -> Reservoir:
    columns, every = (ids.double(), -ids.double()), torch.ones_like(ids).bool()
    return Reservoir.of(columns, ids, every, size=size, seed=seed, fraction=fraction)


def test_the_hash_is_splitmix64():
    """Reference output of splitmix64 for state 0: the first three values of the published generator."""
    gamma = 0x9E3779B97F4A7C15
    states = torch.tensor([(k * gamma + 2**63) % 2**64 - 2**63 for k in (1, 2, 3)])
    values = hashed(states ^ hashed_seed(0), 0)
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [value % 2**64 for value in values.tolist()] == published


def hashed_seed(seed: int) -> int:
    return ((seed + 1) * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63


@given(st.permutations(range(6)), st.integers(0, 2**62))
def test_any_split_in_any_order_gives_the_same_sample(order: list[int], seed: int):
    ids = torch.arange(N)
    whole = of(ids, seed)
    parts = merge([of(ids[k::6], seed) for k in order])
    assert torch.equal(whole.rows, parts.rows)
    assert torch.equal(whole.hashes, parts.hashes)


def test_rows_stay_together_and_the_seed_changes_the_sample():
    first, second = of(torch.arange(N), 1), of(torch.arange(N), 2)
    assert torch.equal(first.rows[:, 0], -first.rows[:, 1])
    assert len(first.rows) == 50
    assert set(first.rows[:, 0].tolist()) != set(second.rows[:, 0].tolist())


def test_the_fraction_is_met_and_the_sample_is_even():
    sample = of(torch.arange(1_000_000), size=10**6, fraction=0.01).rows[:, 0]
    assert abs(len(sample) - 10_000) < 500
    assert abs(sample.mean() - 500_000) < 15_000  # 5 standard errors


def test_a_broadcast_column():
    ids = torch.arange(12).view(3, 4)
    category = torch.tensor([0, 1, 2, 3])
    rows = Reservoir.of((ids.double(), category.double()), ids, ids % 2 == 0, size=99, seed=0).rows
    assert len(rows) == 6
    assert torch.equal(rows[:, 0] % 4, rows[:, 1])

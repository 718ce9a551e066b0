"""Control tasks: what they must be, and that nothing is selective where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.studies.probe.controls import control_heads, selectivity, word_types
from headwise.studies.probe.dependency import AttentionProbe, Example, predicted
from headwise.studies.probe.treebank import Parsed, Treebank


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), min_size=1, max_size=9), st.integers(0, 50))
def test_control_heads_are_a_tree_with_one_root(forms: list[str], seed: int) -> None:
    heads = control_heads(word_types(forms), seed=seed).tolist()
    assert heads.count(-1) == 1
    for word in range(len(heads)):
        seen = set()
        while word >= 0:
            assert word not in seen
            seen.add(word)
            word = heads[word]


def test_the_word_type_alone_decides() -> None:
    forms = ["the", "The", "cat", "the", "cat", "sat", "THE", "end"]
    for seed in range(20):
        heads = control_heads(word_types(forms), seed=seed).tolist()
        kinds = {"first": 0, "last": 7}
        behaviours: dict[str, set[str]] = {}
        for word in range(1, 7):
            found = {name for name, head in kinds.items() if heads[word] == head}
            found |= {"previous"} if heads[word] == word - 1 else set()
            assert found
            behaviours.setdefault(forms[word].lower(), set(found)).intersection_update(found)
        assert all(behaviours.values())  # one behaviour explains every token of a type
        assert heads[0] == -1
        assert heads[7] == 0


def test_behaviours_are_about_equally_frequent_and_depend_on_the_seed() -> None:
    types = word_types([f"word{number}" for number in range(3000)])
    heads = control_heads(types, seed=0)
    shares = [(heads == 0).double().mean(), (heads == 2999).double().mean(),
              (heads[5:] == torch.arange(4, 2999)).double().mean()]  # fmt: skip
    assert all(abs(float(share) - 1 / 3) < 5 * (2 / 9 / 3000) ** 0.5 for share in shares)
    assert (heads != control_heads(types, seed=1)).double().mean() > 0.5


def test_selectivity_of_a_random_probe_is_about_zero() -> None:
    """Random weights on random maps choose any candidate alike, whether the heads are real or the control's."""
    generator = torch.Generator().manual_seed(0)
    random = np.random.default_rng(0)
    sentences, examples = [], []
    for number in range(200):
        words = int(random.integers(5, 12))
        heads = torch.tensor([-1, *(int(random.integers(0, word)) for word in range(1, words))])
        types = word_types([f"w{random.integers(0, 50)}" for _ in range(words)])
        sentences.append(Parsed(number, heads, torch.ones(words, dtype=torch.bool), types))
        examples.append(Example(torch.rand(2 + words, 2 + words, 7, generator=generator), None, words))
    bank = Treebank(tuple(sentences[:1]), tuple(sentences))
    differences = []
    for seed in range(5):
        probe = AttentionProbe(7, 0)
        sums = bank.uas(predicted(probe, probe.initial(2, seed), examples), seed)["argmax"]
        task, control = sums.mean.tolist()
        assert task == pytest.approx(1 / 8.5, abs=0.06)
        differences.append(selectivity(task, control))
    assert abs(np.mean(differences)) < 0.02

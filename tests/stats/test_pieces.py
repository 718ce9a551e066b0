"""Pieces: tensors of documents side by side, however they came."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.stats import Pieces, pack, unpack

PARTS = [
    Pieces.of({7: torch.arange(6.0).view(3, 2).half()}),
    Pieces.of({2: torch.ones(1, 2).half(), 9: torch.zeros(0, 2).half()}),
    Pieces.of({4: torch.full((2, 2), 5.0).half()}),
]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_adding_does_not_matter(order):
    total = PARTS[order[0]] + PARTS[order[1]] + PARTS[order[2]]
    assert total.numbers == (2, 4, 7, 9)
    assert [len(tensor) for tensor in total.tensors] == [1, 2, 3, 0]
    assert torch.equal(total.tensors[2], PARTS[0].tensors[0])


def test_a_state_opens_again_and_stays_on_disk(tmp_path):
    total = PARTS[0] + PARTS[1] + PARTS[2]
    save_file(pack({"hidden": total}), tmp_path / "state.safetensors")
    again = Pieces.from_state(unpack(load_file(tmp_path / "state.safetensors"), "hidden"))
    assert again.numbers == total.numbers
    assert all(torch.equal(a, b) for a, b in zip(again.tensors, total.tensors, strict=True))
    joined = again + Pieces.of({1: torch.ones(1, 2).half()})
    assert joined.tensors[1].data_ptr() == again.tensors[0].data_ptr()  # nothing was copied


def test_a_document_has_one_piece():
    with pytest.raises(ValueError, match="one document twice"):
        PARTS[0] + PARTS[0]

"""Maps that are made a tile at a time are those made in one, wherever the tiles end."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from headwise.measures import alti as alti_file
from headwise.measures import norms
from headwise.measures.alti import alti
from headwise.measures.globenc import globenc
from headwise.measures.norms import norm_residual, norm_residual_ln
from headwise.types import Layer
from references import quantities as twins
from references import synthetic
from references.compare import assert_close


def again(layer: Layer) -> Layer:
    return dataclasses.replace(layer, memo={}, text_memo={})


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (4, 3), (5, 16), (64, 2)])
def test_tiles_make_the_whole(monkeypatch: pytest.MonkeyPatch, rows: int, keys: int, inner: bool) -> None:
    layer = synthetic.layer("causal", inner=inner)
    monkeypatch.setattr(alti_file, "ROWS", rows)
    monkeypatch.setattr(alti_file, "TILE", rows * keys * synthetic.D_MODEL)
    monkeypatch.setattr(norms, "WEIGHTS", keys * layer.alpha.shape[1] * layer.alpha.shape[2])
    monkeypatch.setattr(norms, "SENT", keys)
    assert_close(alti(again(layer)), twins.alti(layer))
    assert_close(globenc(again(layer)), twins.globenc(layer))
    assert_close(norm_residual_ln(again(layer)), twins.norm_residual_ln(layer))


@pytest.mark.parametrize("size", [1, 5])
def test_blocks_of_rows_in_tiles(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(alti_file, "ROWS", 3)
    monkeypatch.setattr(alti_file, "TILE", 6 * synthetic.D_MODEL)
    whole = synthetic.layer("causal")
    blocks = [dataclasses.replace(block, text_memo=whole.text_memo) for block in synthetic.blocks(whole, size)]
    for measure in (alti, globenc, norm_residual_ln, norm_residual):  # each with its own norms, and one memory of keys
        assert_close(torch.cat([measure(block) for block in blocks], 1), measure(again(whole)), 1e-6)

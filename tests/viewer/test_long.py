"""The page of a long text holds the numbers of its trace, goes from blocks to tokens, and can run nothing else."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.errors import InputError
from headwise.traces.long import BLOCK, TopMaps
from headwise.viewer.codes import decode
from headwise.viewer.long import SIDE, _level, page, payload, telling
from headwise.viewer.view import show
from references.compare import assert_close

TEXT = " ".join(["the old dog sat in the sun </script> and it was said again , of the river"] * 4)


@pytest.fixture(scope="module")
def kept() -> hw.LongTrace:
    return hw.load("tiny:gpt2").trace(TEXT, keep=hw.Top(4, ("raw", "null")))


def numbers(text: str, kind: type) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind).astype(np.int64)


def test_blocks_and_entries_are_those_of_the_trace(kept: hw.LongTrace) -> None:
    (stack,) = payload(kept, heads=["L1.H2"])["stacks"]
    assert (stack["heads"], stack["tokens"], len(stack["queries"])) == (["L1.H2"], BLOCK, len(kept.tokens))
    for name, maps in stack["maps"].items():
        blocks, top = kept.blocks(name), kept.top(name)
        cells = numbers(maps["blocks"]["bytes"], np.int8).reshape(maps["shape"]) / 127
        assert_close(cells * np.array(maps["blocks"]["tops"])[:, :, None, None], blocks, 0.005)
        entries = maps["heads"]["L1.H2"]
        assert numbers(entries["keys"], np.uint16).tolist() == top.key[1, 2].flatten().tolist()
        weights = decode(numbers(entries["codes"], np.int16).astype(np.int16), entries["floor"])
        told = [float(f"{x:.2e}") for x in top.value[1, 2].flatten().tolist()]
        assert weights.tolist() == pytest.approx(told, rel=1e-12)  # to its third digit, and its sign
    shown = stack["maps"]["raw"]["shown"][1][2]
    assert shown == pytest.approx(float(kept.top("raw").value[1, 2].sum(-1).mean()), abs=1e-4)


@pytest.mark.parametrize(("tokens", "level"), [(1, 0), (BLOCK * SIDE, 0), (BLOCK * SIDE + 1, 1), (4 * BLOCK * SIDE, 2)])
def test_cells_are_put_together_until_they_fit(tokens: int, level: int) -> None:
    assert _level(tokens) == level


def test_a_sharp_head_that_does_not_park_is_telling() -> None:
    facts = {"first": torch.tensor([[0.9, 0.1, 0.1]]), "entropy": torch.tensor([[0.1, 0.1, 4.0]])}
    assert telling(facts, 100).argmax() == 1
    assert telling(facts, 100)[0, 1] == pytest.approx(0.9 * (1 - 0.1 / np.log(100)))


def test_only_as_many_heads_as_fit_have_their_tokens(kept: hw.LongTrace, monkeypatch) -> None:
    assert len(payload(kept)["stacks"][0]["heads"]) == 12
    each = 4 * len(kept.tokens) * 4 * 2  # four bytes an entry, four a row, two quantities
    monkeypatch.setattr("headwise.viewer.long.BUDGET", 2 * each + 1)
    best = telling(kept.facts["self"], len(kept.tokens)).flatten().argsort(descending=True)[:2]
    assert payload(kept)["stacks"][0]["heads"] == sorted(f"L{n // 4}.H{n % 4}" for n in best.tolist())


def test_text_cannot_leave_its_element(kept: hw.LongTrace) -> None:
    html = page(kept)
    assert html.isascii()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    assert json.loads(found[1])["model"] == "tiny:gpt2"
    assert html.count("</script>") == 2


def test_a_head_that_is_not_there(kept: hw.LongTrace) -> None:
    with pytest.raises(InputError, match=r"Heads go from L0\.H0 to L2\.H3, but 'L9\.H0' was asked for"):
        page(kept, heads=["L9.H0"])


def test_in_a_notebook_it_is_shown_in_place(kept: hw.LongTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(show.__globals__, "in_notebook", lambda: True)  # subtle: headwise.viewer.view is the function
    assert kept.show() is kept
    assert kept._repr_html_().startswith("<iframe srcdoc=")


def test_the_page_opens_at_the_sharpest_head_that_is_no_sink_and_says_so() -> None:
    """Of three heads the first parks, the second looks near, the third from token 9 to token 2."""
    whole = hw.load("tiny:bert").trace("a b c d e f g h i j k l", keep=hw.Top(2, ("raw",)))
    tokens = len(whole.tokens)
    key = torch.zeros(1, 3, tokens, 2, dtype=torch.int32)
    value = torch.zeros(1, 3, tokens, 2)
    value[0, 0, :, 0] = 0.9  # on [CLS]
    key[0, 0, :, 1], value[0, 0, :, 1] = 9, 0.1
    key[0, 1, :, 0], value[0, 1, :, 0] = torch.arange(tokens, dtype=torch.int32), 0.9
    key[0, 2, :, 0], value[0, 2, :, 0] = 2, 0.01
    key[0, 2, 9, 0], value[0, 2, 9, 0] = 2, 0.6
    maps = TopMaps(key, value, 1 - value.sum(-1), torch.ones(1, 3, 1, 1))
    facts = {name: torch.zeros(1, 3) for name in whole.facts["self"]}
    made = replace(whole, maps={"self": {"raw": maps}}, facts={"self": facts})
    start = payload(made)["stacks"][0]["start"]
    assert (start["head"], start["query"], start["key"]) == ([0, 2], 9, 2)
    assert start["others"] == []
    assert start["why"] == (
        "The page opens at L0.H2: of all heads that are no sinks, it looks most sharply at words more than 3 tokens "
        "away; it was chosen for that and is not a typical head."
    )
    named = payload(made, heads=["L0.H1", "L0.H2"])["stacks"][0]["start"]
    assert (named["head"], named["why"]) == ([0, 1], "The page opens at L0.H1: it was asked for.")

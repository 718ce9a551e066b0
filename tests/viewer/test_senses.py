"""The page of a picture or a sound holds the trace's own numbers, and nothing that could run."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import headwise as hw
from headwise.models.pictures import read_png
from headwise.viewer.senses import has_places, page, payload

PICTURE = np.arange(24 * 24 * 3, dtype=np.uint32).reshape(24, 24, 3).astype(np.uint8)
SOUND = np.sin(np.arange(8000) * 0.2).astype(np.float32)


@pytest.fixture(scope="module")
def seen() -> hw.Trace:
    return hw.load("tiny:vit").trace(image=PICTURE)


@pytest.fixture(scope="module")
def heard() -> hw.Trace:
    return hw.load("tiny:whisper").trace(audio=SOUND, pair="the </script> dog")


def unpacked(maps: dict) -> np.ndarray:
    shares = np.frombuffer(base64.b64decode(maps["bytes"]), np.uint8).reshape(maps["shape"]) / 255
    return shares * np.array(maps["tops"])[:, :, None, None]


def test_a_picture_is_shown_with_its_own_weights(seen: hw.Trace) -> None:
    told = payload(seen)
    (stack,) = told["stacks"]
    assert stack["keys"]["tokens"][:2] == ["[CLS]", "0,0"]
    assert stack["keys"]["places"][:2] == [[], [0.0, 0.0, 0.33333, 0.33333]]
    for name in ("raw", "effective", "norm"):
        own = np.abs(seen.attention(name).numpy())
        assert np.abs(unpacked(stack["maps"][name]) - own).max() <= own.max() / 255
    assert read_png(base64.b64decode(told["picture"]["png"].partition(",")[2])).shape == (24, 24, 3)


def test_a_sound_is_shown_in_tenths_of_a_second(heard: hw.Trace) -> None:
    told = payload(heard)
    cross = next(stack for stack in told["stacks"] if stack["name"] == "cross")
    assert cross["keys"]["tokens"] == ["0.0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "silence"]
    assert cross["keys"]["places"][1] == [0.1, 0.2]
    assert cross["keys"]["places"][5] == [0.5, 1.0]
    assert told["picture"]["seconds"] == 0.5
    own = heard.words("raw", stack="cross").numpy()
    assert np.abs(unpacked(cross["maps"]["raw"]) - own).max() <= 1 / 255
    assert read_png(base64.b64decode(told["picture"]["png"].partition(",")[2])).shape == (16, 50, 3)  # mel, 10 ms


def test_the_page_is_ascii_and_its_text_cannot_end_the_data(heard: hw.Trace, tmp_path: Path) -> None:
    whole = page(heard)
    assert whole.isascii()
    data = re.search(r'id="data">(.*?)</script>', whole, re.S)
    assert json.loads(data.group(1))["kind"] == "audio"
    assert whole.count("</script>") == 2
    assert heard.save_html(tmp_path / "a.html").read_text() == whole


def test_text_has_the_page_of_text() -> None:
    assert not has_places(hw.load("tiny:bert").trace("the old dog"))

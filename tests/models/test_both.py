"""A text with a picture in it: the picture's tokens stand in the text, and the maps are the language model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.errors import InputError
from headwise.models.capture import eager
from headwise.viewer.senses import payload
from references import quantities as twins
from references.compare import assert_close

PICTURE = np.arange(24 * 24 * 3, dtype=np.uint32).reshape(24, 24, 3).astype(np.uint8)
PATCHES = tuple(f"{row},{column}" for row in range(3) for column in range(3))


@pytest.fixture(scope="module")
def llava() -> hw.Model:
    return hw.load("tiny:llava")


def test_the_picture_stands_where_its_mark_is(llava: hw.Model) -> None:
    text = llava.trace("the old<mask> sea", image=PICTURE).text
    at = text.tokens.index("0,0")
    assert text.tokens[at : at + 9] == PATCHES
    assert "".join(text.tokens[1:at]) == "theĠold"
    assert "".join(text.tokens[at + 9 : -1]) == "Ġsea"
    assert text.ids[at : at + 9] == (4,) * 9
    assert [place for place in text.places if place][5] == pytest.approx((1 / 3, 2 / 3, 2 / 3, 1.0))  # row 1, column 2
    assert [bool(place) for place in text.places] == [name in PATCHES for name in text.tokens]
    assert [text.words[unit] for unit in text.unit[at : at + 9]] == list(PATCHES)
    assert list(dict.fromkeys(text.unit)) == list(range(len(text.words)))


def test_without_a_mark_it_comes_first(llava: hw.Model) -> None:
    plain, text = llava.encode("the sea"), llava.trace("the sea", image=PICTURE).text
    assert text.tokens == (plain.tokens[0], *PATCHES, *plain.tokens[1:])


def test_the_maps_are_those_of_the_language_model(llava: hw.Model) -> None:
    """Those of the picture part are computed on the way and belong to no layer."""
    trace = llava.trace("the old <mask> sea", image=PICTURE)
    with torch.no_grad(), eager(llava.hf):
        own = llava.hf(**trace.text.given, output_attentions=True, use_cache=False)
    assert llava.layers() == 3
    assert trace.output_error < 1e-5
    assert_close(trace.attention("raw"), torch.cat(own.attentions), 1e-6)
    for layer in trace.layers:
        rebuilt = torch.einsum("bhqk,bhkd,hde->bqe", layer.alpha, layer.head_value, layer.circuit.w_o)
        assert_close(rebuilt + layer.circuit.b_o, layer.out, 1e-5)
        assert_close(trace.attention("effective")[layer.index], twins.ATTENTION["effective"](layer)[0], 1e-4)
        assert_close(trace.attention("norm")[layer.index], twins.ATTENTION["norm"](layer)[0], 1e-4)


def test_a_changed_patch_changes_tokens_from_the_picture_on(llava: hw.Model) -> None:
    """Words before the picture do not see it; the features of its patches do."""
    other = PICTURE.copy()
    other[16:, :8] = 255 - other[16:, :8]
    before, after = (llava.trace("the old <mask> sea", image=one) for one in (PICTURE, other))
    at = before.text.tokens.index("0,0")
    apart = (before.hidden["self"][-1] - after.hidden["self"][-1]).abs().amax(-1)
    assert float(apart[:at].max()) == 0
    assert float(apart[at:].min()) > 0


def test_a_saved_folder_reads_both(llava: hw.Model, tmp_path: Path) -> None:
    llava.hf.save_pretrained(tmp_path)
    llava.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 1]}')
    again = hw.load(tmp_path)
    pixels = again.trace("the sea", image=PICTURE).text.given["pixel_values"]
    assert_close(pixels[0, 1], torch.from_numpy(PICTURE[:, :, 1] / 255 - 0.2), 1e-6)
    expected = (
        torch.from_numpy(PICTURE).permute(2, 0, 1) / 255 / 0.5 - 1
    )  # mean and deviation are 0.5 where none is said
    same = again.trace("the sea", image=expected.float()), llava.trace("the sea", image=PICTURE)
    assert_close(same[0].attention("raw"), same[1].attention("raw"), 1e-5)


def test_the_page_has_the_picture_and_the_words_around_it(llava: hw.Model) -> None:
    trace = llava.trace("the old <mask> sea", image=PICTURE)
    page = payload(trace, ["raw"])
    assert page["kind"] == "image"
    keys = page["stacks"][0]["keys"]
    assert [bool(place) for place in keys["places"]] == [bool(place) for place in trace.text.places]
    assert len(keys["tokens"]) == len(trace.text)
    assert page["picture"]["png"].startswith("data:image/png;base64,")


def test_what_cannot_be_read_together_is_said(llava: hw.Model) -> None:
    for model, given, said in (
        (hw.load("tiny:llama"), {"text": "the sea", "image": PICTURE}, "must read both"),
        (llava, {"text": "<mask> or <mask>", "image": PICTURE}, "one mark for its picture, but this one has 2"),
        (llava, {"text": "the sea", "ids": [5], "image": PICTURE}, "One of text"),
        (llava, {"text": "the sea", "image": PICTURE, "generate": 3}, "generate"),
    ):
        with pytest.raises(InputError, match=said) as error:
            model.trace(**given)
        assert "\n" not in str(error.value)

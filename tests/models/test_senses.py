"""Pictures and sound: patches and frames are tokens with a place, and everything else is as for text."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import HeadwiseError, InputError
from headwise.models.capture import eager
from headwise.models.pictures import as_array, read_png, write_png
from headwise.models.sounds import read_wav, resampled
from references.compare import assert_close

PICTURE = np.arange(24 * 24 * 3, dtype=np.uint32).reshape(24, 24, 3).astype(np.uint8)
SOUND = np.sin(np.arange(8000) * 0.2).astype(np.float32)  # half a second


@pytest.fixture(scope="module")
def vit() -> hw.Model:
    return hw.load("tiny:vit")


@pytest.fixture(scope="module")
def whisper() -> hw.Model:
    return hw.load("tiny:whisper")


def test_patches_are_tokens_with_a_place(vit: hw.Model) -> None:
    trace = vit.trace(image=PICTURE)
    assert trace.tokens == ("[CLS]", *(f"{row},{column}" for row in range(3) for column in range(3)))
    assert trace.text.special == (True, *[False] * 9)
    assert trace.text.places[0] == ()
    assert trace.text.places[6] == pytest.approx((1 / 3, 2 / 3, 2 / 3, 1.0))  # row 1, column 2


def test_the_maps_of_a_picture_are_the_models_own(vit: hw.Model) -> None:
    trace = vit.trace(image=PICTURE)
    with torch.no_grad(), eager(vit.hf):
        own = vit.hf(**trace.text.given, output_attentions=True).attentions
    assert_close(trace.attention("raw"), torch.cat(own), 1e-6)


def test_every_kind_of_quantity_is_there_for_a_picture(vit: hw.Model) -> None:
    """Attention, mixing, origins, null space: ten tokens on heads of six numbers leave directions free."""
    trace = vit.trace(image=PICTURE)
    for name in ("effective", "norm"):
        assert trace.attention(name).shape == (3, 4, 10, 10)
    for name in ("globenc", "value-zeroing"):
        assert trace.mixing(name).shape == (3, 10, 10)
    for name in ("hidden-token", "rollout"):
        assert trace.origins(name).shape == (3, 10, 10)
    assert int(trace.nullspace().null_dim.min()) >= 4


def test_a_patch_that_is_changed_changes_its_own_origin_most(vit: hw.Model) -> None:
    """The place is right: another patch at (row 2, column 0) changes the embedding of token "2,0" alone."""
    other = PICTURE.copy()
    other[16:, :8] = 255 - other[16:, :8]
    before, after = (vit.trace(image=picture).hidden["self"][0] for picture in (PICTURE, other))
    changed = (before - after).abs().amax(-1) > 1e-6
    assert [trace_token for trace_token, c in zip(vit.trace(image=PICTURE).tokens, changed, strict=True) if c] == [
        "2,0"
    ]


def test_whisper_has_three_stacks_and_seconds(whisper: hw.Model) -> None:
    trace = whisper.trace(audio=SOUND, pair="the old dog")
    assert trace.stacks == ("encoder", "decoder", "cross")
    assert len(trace.text) == 50
    assert trace.text.places[10] == pytest.approx((0.2, 0.22))
    assert trace.text.words == ("0.0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "silence")
    assert trace.words("raw", stack="cross").shape == (3, 4, len(trace.target.words), 6)
    with torch.no_grad(), eager(whisper.hf):
        batch = whisper.batch([trace.text], [trace.target])
        own = whisper.hf(**batch.inputs, output_attentions=True)
    for stack in ("encoder", "decoder", "cross"):
        assert_close(trace.attention("raw", stack=stack), torch.cat(own[f"{stack}_attentions"]), 1e-6)


def test_sound_of_samples_has_frames_of_its_own_length() -> None:
    model = hw.load("tiny:wav2vec2")
    short, long = (model.trace(audio=SOUND[:count]) for count in (4000, 8000))
    assert len(long.text) > len(short.text) > 5
    assert long.text.places[-1][1] == pytest.approx(0.5)
    assert long.attention("effective").shape == (3, 4, len(long.text), len(long.text))


def test_a_tower_is_loaded_by_what_it_reads() -> None:
    assert hw.load("tiny:clip", task="image").trace(image=PICTURE).tokens[0] == "[CLS]"
    assert len(hw.load("tiny:clip", task="text").trace("the old dog").tokens) >= 3
    with pytest.raises(InputError, match=r"two towers.*task='text' or task='image'"):
        hw.load("tiny:clip")


@pytest.mark.parametrize(("name", "given", "says"), [
    ("tiny:vit", {"text": "the old dog"}, "tiny:vit reads pictures: pass image=FILE or an array; but text was given."),
    ("tiny:vit", {"audio": SOUND}, "tiny:vit reads pictures: pass image=FILE or an array; but sound was given."),
    ("tiny:whisper", {"text": "the old dog"}, "tiny:whisper reads sound: pass audio=FILE.wav or samples; but text was "
     "given."),
    ("tiny:bert", {"image": PICTURE}, "tiny:bert reads text: pass a string; but a picture was given."),
    ("tiny:vit", {}, "One of text (a string), ids, messages, image and audio must be given, but none was; pass one of "
     "them."),
])  # fmt: skip
def test_what_a_model_does_not_read_is_a_line(name: str, given: dict, says: str) -> None:
    with pytest.raises(HeadwiseError) as error:
        hw.load(name).trace(**given)
    assert str(error.value) == says


def test_a_model_of_pictures_is_saved_and_loaded(vit: hw.Model, tmp_path: Path) -> None:
    vit.hf.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}')
    loaded = hw.load(str(tmp_path))
    assert_close(loaded.trace(image=PICTURE).attention("raw"), vit.trace(image=PICTURE).attention("raw"), 1e-6)


def test_a_trace_of_a_picture_is_saved_whole(vit: hw.Model, tmp_path: Path) -> None:
    trace = vit.trace(image=PICTURE)
    opened = hw.open(trace.save(tmp_path / "a.safetensors"))
    assert opened.text == trace.text
    assert_close(opened.text.given["pixel_values"], trace.text.given["pixel_values"], 0)


def test_png_goes_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(write_png(PICTURE))
    assert (as_array(tmp_path / "a.png") == PICTURE).all()


def test_every_filter_of_png_is_taken_off() -> None:
    """Lines filtered by hand, one kind each: left, above, mean, Paeth."""
    import struct
    import zlib

    picture = np.array([[10, 20, 250], [13, 18, 3], [200, 7, 9], [14, 60, 90], [15, 61, 255]], np.uint8)
    above = np.vstack([np.zeros(3, np.uint8), picture[:-1]]).astype(int)
    left = np.hstack([np.zeros((5, 1), int), picture[:, :-1].astype(int)])
    corner = np.hstack([np.zeros((5, 1), int), above[:, :-1]])
    guesses = [0, left, above, (left + above) // 2, None]
    lines = b""
    for kind in range(5):
        if kind == 4:
            p = left + above - corner
            near = np.stack([abs(p - left), abs(p - above), abs(p - corner)]).argmin(0)
            guess = np.choose(near, [left, above, corner])
        else:
            guess = guesses[kind]
        line = (picture.astype(int) - guess)[kind] & 255
        lines += bytes([kind]) + bytes(line.tolist())
    whole = write_png(PICTURE)
    header = struct.pack(">IIBBBBB", 3, 5, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    coded = whole[:8] + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts
    )
    assert (read_png(coded)[:, :, 0] == picture).all()


def test_wav_of_two_channels_is_read_and_a_tone_keeps_its_pitch(tmp_path: Path) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(22050) / 22050)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2), file.setsampwidth(2), file.setframerate(22050)
        file.writeframes((np.stack([tone, tone], 1) * 20000).astype("<i2").tobytes())
    samples, rate = read_wav(tmp_path / "a.wav")
    assert rate == 22050
    at_16k = resampled(samples, rate, 16000)
    assert len(at_16k) == 16000
    assert np.abs(np.fft.rfft(at_16k)).argmax() == 440


@pytest.mark.parametrize("wrong", [np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8), "nowhere.png"])
def test_what_is_no_picture_is_a_line(vit: hw.Model, wrong: object) -> None:
    with pytest.raises(InputError, match="A picture must be"):
        vit.trace(image=wrong)


def test_a_classifier_of_pictures_is_read() -> None:
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=24, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    hf = transformers.ViTForImageClassification(config).eval()
    trace = hw.load((hf, None)).trace(image=PICTURE)
    assert trace.output_error < 1e-5


def test_patches_of_a_spectrogram_have_the_seconds_of_their_columns() -> None:
    """AST: two tokens of its own, then frequency by frequency; columns of 10 ms, patches of 8 every 4."""
    config = transformers.ASTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, patch_size=8,
        frequency_stride=4, time_stride=4, max_length=24, num_mel_bins=16,
    )  # fmt: skip
    trace = hw.load((transformers.ASTModel(config).eval(), None)).trace(audio=torch.randn(24, 16))
    assert len(trace.text) == 2 + 3 * 5  # (16 - 8) / 4 + 1 rows, (24 - 8) / 4 + 1 columns
    assert trace.tokens[:3] == ("[CLS]", "[REG1]", "0.00")
    assert trace.text.places[2 + 5 + 1] == pytest.approx((0.04, 0.12))  # second row, second column
    assert trace.text.words == ("[CLS]", "[REG1]", "0.0 s", "0.1 s")

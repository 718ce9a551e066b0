"""Whether a model's folder holds what a model is read from; looked at before anything heavy is imported."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headwise.errors import ModelError

VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "source.spm",
                "sentencepiece.bpe.model")  # fmt: skip
PREFIXES = ("PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING")
ENDINGS = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".onnx")  # of files, never of a name of the hub


def check_folder(where: str) -> None:
    """Refuse a folder that is not there, or that holds no whole model."""
    folder = Path(where)
    if where.startswith((".", "/", "~")) and not os.path.exists(where):
        raise _missing(where)
    if folder.is_file():
        raise ModelError(
            f"A model is a folder (or a .gguf file, or a name of the hub), but {where[:120]} is a file; give the "
            "folder that save_pretrained wrote."
        )
    if not folder.is_dir():
        return
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        from headwise.models.own import learned_prefix  # which imports torch
        from headwise.results.records import read_record

        if read_record(folder / "adapter_config.json", {}).get("peft_type") in PREFIXES:
            raise learned_prefix(where)
        raise ModelError(
            f"A model folder must hold a whole model, but {where} holds a PEFT adapter; merge it into its base "
            "(peft: AutoPeftModel.from_pretrained(folder).merge_and_unload()) and save that."
        )
    if not (folder / "config.json").is_file():
        raise ModelError(f"A model folder must hold a config.json, but {where} does not; pass a checkpoint's folder.")
    if not any((folder / file).is_file() for file in (*VOCABULARIES, "preprocessor_config.json")):
        raise ModelError(f"A model folder must hold its tokenizer, but {where} has no tokenizer.json or vocabulary.")
    if list(folder.glob("*.safetensors")):
        return
    if list(folder.glob("*.bin")) or list(folder.glob("*.pt")):
        raise ModelError(
            f"Weights must be safetensors, but {where} holds only pickled ones, which may run code; convert "
            "them with model.save_pretrained(folder) where you trust them."
        )
    raise ModelError(f"A model folder must hold *.safetensors, but {where} has none; save the model there.")


def _missing(where: str) -> ModelError:
    return ModelError(
        f"A model's folder must exist, but {where[:120]} does not (looked for from {Path.cwd()}); check the path."
    )


def check_name(name: str) -> None:
    """The same of the name of a model where it must be a path; another one is left to `load`."""
    with suppress(OSError, ValueError):  # too long, a NUL in it: `load` says it
        if (name.endswith(".gguf") and os.path.isfile(name)) or os.path.exists(f"{name}/adapter_config.json"):
            return
        if name.endswith(ENDINGS) and not os.path.exists(name):
            raise _missing(name)
        if os.sep in name or name.startswith((".", "~")):
            check_folder(name)

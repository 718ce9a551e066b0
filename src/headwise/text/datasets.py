"""Hugging Face datasets as JSON lines, so that they have a fingerprint and can be read again by another process."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import InputError
from headwise.text.readers import first_line, pick_columns
from headwise.text.streams import Stream


@dataclass(frozen=True)
class Named:
    """A dataset as the readers' `Source`."""

    name: str
    columns: tuple[str | int, ...] | None
    label: str | int | None
    path: str = ""


def dump_dataset(name: str, columns: Sequence[str | int] | None, label: str | int | None, file: Stream) -> None:
    """Write the text columns of a dataset (and its label's) as JSON lines under their own or the usual names."""
    rows = load_dataset(name)
    asked = Named(name, tuple(columns) if columns else None, label)
    names, label_name = pick_columns(asked, rows.column_names)
    keys = names if columns else ["text", "pair"]
    for row in rows.select_columns([*names, *([label_name] if label_name else [])]):
        line = {key: row[column] for key, column in zip(keys, names, strict=False)}
        line |= {label_name: row[label_name]} if label_name else {}
        file.write(json.dumps(line).encode() + b"\n")


def load_dataset(name: str) -> Any:
    """`hf:glue/mrpc:validation`: a path on the hub, perhaps with a configuration, and a split."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise InputError(
            f"Corpus {name} must be read with Hugging Face datasets; it is not installed. "
            "Run pip install 'headwise[datasets]'."
        ) from None
    path, _, split = name.removeprefix("hf:").rpartition(":")
    failures = []
    for arguments in dataset_names(path):
        try:
            return datasets.load_dataset(*arguments, split=split)
        except Exception as error:  # the hub's many kinds of failure, all told in one line below
            failures.append(first_line(error))
    raise InputError(f"A dataset must be hf:PATH[/CONFIG]:SPLIT to be loaded; got {name}: {failures}.")


def dataset_names(path: str) -> list[tuple[str, ...]]:
    """Readings of a path: `a/b` is owner a's dataset b, else configuration b of a; `a/b/c` is c of a/b."""
    parts = path.split("/")
    if len(parts) == 2:
        return [(path,), (parts[0], parts[1])]
    return [("/".join(parts[:2]), *parts[2:])] if path else []

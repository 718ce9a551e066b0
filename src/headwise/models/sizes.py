"""The sizes that a configuration claims, before anything is built of them.

A wrong digit in config.json must not hang for hours (ten million layers are built one by one) nor fill the memory
(positions are counted out before a weight is read).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers.utils import cached_file  # type: ignore[attr-defined]

from headwise.errors import ModelError
from headwise.results.records import DamagedError, read_record

LAYERS, SIZES = (
    re.compile(r"layers$|n_layer$"),
    re.compile(r"(size|dim|heads?|embeddings|positions|experts|d_model|d_ff|d_kv|n_embd|n_ctx|n_inner)$"),
)
MOST_LAYERS, MOST = 2000, 2 * 10**7  # several times what any published model has (126 layers, ten million positions)
DEEP = 4  # configurations within configurations


def check_sizes(where: str) -> None:
    """Raise, in a line, where config.json of a folder or a hub id claims a size that no model has."""
    file = cached_file(where, "config.json", _raise_exceptions_for_missing_entries=False)
    if file is None:
        return
    try:
        config = read_record(Path(file), {})
    except DamagedError as error:
        raise ModelError(f"config.json of {where} must be JSON as it was saved, but {error}.") from None
    for name, value, most in claims(config):
        if value > most:
            raise ModelError(
                f"{name} of a model must be at most {most:,}, but config.json of {where} says {value:.0f}; correct it."
            )


def claims(config: Mapping[str, Any], deep: int = DEEP) -> Iterator[tuple[str, float, int]]:
    """Every size in a configuration and those within it: its name, what is claimed, what may be.

    >>> list(claims({"num_hidden_layers": 3, "text_config": {"hidden_size": 64}, "rope_theta": 10**9}))
    [('num_hidden_layers', 3, 2000), ('hidden_size', 64, 20000000)]
    """
    for name, value in config.items():
        if isinstance(value, Mapping) and deep:
            yield from claims(value, deep - 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if LAYERS.search(name):
                yield name, value, MOST_LAYERS
            elif SIZES.search(name):
                yield name, value, MOST

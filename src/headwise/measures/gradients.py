"""Gradients, whatever the caller switched off: notebooks often begin with `torch.set_grad_enabled(False)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def differentiating() -> Iterator[None]:
    """As a block or a decorator: what is computed here leaves a graph, inside `no_grad` and `inference_mode` too."""
    with torch.inference_mode(False), torch.enable_grad():
        yield

"""Pure functions of captured attention, one file an idea; users reach them by name through these registries."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from headwise.registry import Registry
from headwise.types import Layer

_FILES = (
    "headwise.measures.weights",
    "headwise.measures.nullspace",
    "headwise.measures.norms",
    "headwise.measures.globenc",
    "headwise.measures.alti",
)

ATTENTION: Registry[Callable[[Layer], Tensor]] = Registry("attention quantity", _FILES)
"""layer → [batch head query key]"""

MIXING: Registry[Callable[[Layer], Tensor]] = Registry("mixing quantity", _FILES)
"""layer → [batch query key]: one map a layer, heads merged"""

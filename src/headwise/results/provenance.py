"""What a result must say about how it came about, beside its model and corpus."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("headwise", "torch", "transformers", "numpy", "polars", "safetensors")


def provenance(*, seed: int | None = None) -> dict[str, Any]:
    """Versions, platform, time (UTC) and seed, for a manifest; a package that is not installed is None."""
    return {
        "versions": {"python": platform.python_version(), **{name: installed(name) for name in PACKAGES}},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
    }


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

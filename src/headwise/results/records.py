"""JSON that people or disks may have damaged: one reader, which gives a record of the right shape or one reason.

A shape names the fields that must be there and their kind: a type, or a shape again. More fields may be there.

    read_record(path, {"digest": str, "plan": {"corpus": dict}})
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

Shape = Mapping[str, Any]
MOST_BYTES = 64 * 2**20  # of a note about a run; a larger file is none of ours


class DamagedError(ValueError):
    """A file that is there but is not what was written; its text is the reason, to be put into a sentence."""


def read_record(path: Path, shape: Shape) -> dict[str, Any]:
    """The JSON object in a file. Raises FileNotFoundError where there is none, DamagedError where it is another."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DamagedError(f"it has more than {MOST_BYTES >> 20} MB")
        record = json.loads(content)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:  # a folder or a loop of links in its place
        raise DamagedError(str(error.strerror).lower()) from None
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise DamagedError("it is not JSON") from None
    except DamagedError:
        raise
    except ValueError as error:  # a NUL in the path, a number of a million digits
        raise DamagedError(str(error).splitlines()[0]) from None
    fits(record, shape)
    return record


def fits(record: Any, shape: Shape, where: str = "it") -> None:
    """Refuse a record without a field of the shape, or with one of another kind."""
    if not isinstance(record, dict):
        raise DamagedError(f"{where} must be an object, got {type(record).__name__}")
    for name, kind in shape.items():
        if name not in record:
            raise DamagedError(f"{where} has no {name!r}")
        if isinstance(kind, Mapping):
            fits(record[name], kind, name)
        elif not isinstance(record[name], kind) or (kind is int and isinstance(record[name], bool)):
            raise DamagedError(f"{name!r} must be {kind.__name__}, got {type(record[name]).__name__}")


def inside(folder: Path, name: str) -> Path:
    """The file called `name` below a folder; refused, before anything is opened, where the name leads out of it."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise DamagedError(f"{name!r} is not a file of this folder")
    there = folder / path
    try:
        real = there.resolve()
    except (OSError, RuntimeError):  # a loop of links
        raise DamagedError(f"{name!r} is a loop of links") from None
    if not real.is_relative_to(folder.resolve()):
        raise DamagedError(f"{name!r} leads out of this folder")
    return there

"""Files at an address (`s3://`, `gs://`, `hf://`, `memory://` …), by fsspec: a corpus, or the folder of a result.

A corpus is copied to a temporary file, as standard input is, so that it has a fingerprint and can be read again. A
result is made in a local folder and copied when it is finished, its manifest last: a folder with a manifest is whole
there, too.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from headwise.errors import InputError
from headwise.text.streams import Stream

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
EXTRA = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "abfs": "adlfs"}
LAST = "manifest.json"


def is_address(name: str) -> bool:
    """
    >>> [is_address(name) for name in ("s3://bucket/a.txt", "hf:glue:test", "C:/a", "a.txt")]
    [True, False, False, False]
    """
    return ADDRESS.match(name) is not None


def copy_remote(address: str, file: Stream) -> None:
    """The bytes at an address into a file."""
    with _told(address), _fsspec().open(address, "rb") as source:
        shutil.copyfileobj(source, file)


def pull(address: str, folder: Path) -> None:
    """What a finished result at an address has, into a folder; nothing where there is none."""
    with _told(address):
        system, root = _fsspec().core.url_to_fs(address)
        if not any(PurePosixPath(path).name == LAST for path in system.find(root)):
            return
        for path in system.find(root):
            place = folder / PurePosixPath(path).relative_to(root)
            if ".." in place.parts or place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(path, str(place))


def push(folder: Path, address: str) -> None:
    """Every file of a folder that is not hidden, to an address; the manifests last."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    seen = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    with _told(address):
        system, root = _fsspec().core.url_to_fs(address)
        for path in sorted(seen, key=lambda path: (path.name == LAST, path)):
            there = f"{root}/{path.relative_to(folder).as_posix()}"
            system.makedirs(there.rpartition("/")[0], exist_ok=True)
            system.put_file(str(path), there)


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise InputError("Files at an address are read with fsspec, which is not there: pip install fsspec.") from None
    return fsspec


@contextmanager
def _told(address: str) -> Iterator[None]:
    """Whatever a store's client raises, in one line."""
    scheme = address.partition("://")[0]
    try:
        yield
    except InputError:
        raise
    except ImportError:
        package = EXTRA.get(scheme, scheme)
        raise InputError(f"{address} needs {package}, which is not installed: pip install {package}.") from None
    except Exception as error:  # every client has kinds of its own
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"{address} must be there and open to you; got: {reason}. Check it.") from None

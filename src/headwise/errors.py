"""The exceptions a user can meet. Each message says what must hold, what was got, and what to do next."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class HeadwiseError(Exception):
    """Base of every error that is the user's to solve: the command line prints it in one line and exits with 2."""


class InputError(HeadwiseError):
    """A text, corpus, argument or file that cannot be used as given."""


class TooLongError(InputError):
    """A text with more tokens than the model reads."""


class WholeMapsError(InputError, AttributeError):
    """A long text was asked for what needs whole maps; an AttributeError, so that `hasattr` says no."""


class ModelError(HeadwiseError):
    """A model that cannot be found, loaded, or analysed."""


class ProofError(ModelError):
    """The captured numbers do not reproduce the model's own output, so none of them may be shown."""


class UnknownNameError(InputError):
    """A name that no registry holds; the message lists the nearest ones."""


class PluginError(HeadwiseError):
    """An installed package says that it extends headwise, but cannot be imported."""


REASONS = {
    errno.ENOSPC: "must have room; its disk is full. Free some space and run the same command again.",
    errno.EDQUOT: "must have room; your quota is used up. Free some space and run the same command again.",
    errno.EACCES: "must be writable; permission is denied. Choose another folder or change its mode.",
    errno.EPERM: "must be writable; permission is denied. Choose another folder or change its mode.",
    errno.EROFS: "must be writable; its file system is read-only. Choose another folder.",
    errno.ENOTDIR: "must be a folder; there is a file in its way. Choose another folder.",
    errno.EEXIST: "must be a folder; there is a file of that name. Choose another folder.",
}


@contextmanager
def writing_to(folder: Path) -> Generator[None, None, None]:
    """Turn the operating system's refusals into one line."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0, f"must be writable; got: {error.strerror or error}. Check it.")
        raise InputError(f"Folder {folder} {reason}") from error

"""Commands that are named in passing, in the text of a page or in `--help`, are commands that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from typer.main import get_command

from docs.pages import PAGES, name
from headwise.cli import app

VERBS = get_command(app).commands  # type: ignore[attr-defined]


def mentioned() -> Iterator[tuple[str, str]]:
    """Where, and which."""
    for page in PAGES:
        yield from ((name(page), found) for found in re.findall(r"`headwise ([^`]+)`", page.read_text("utf-8")))
    for verb, command in VERBS.items():
        yield from (
            (f"headwise {verb} --help", found) for found in re.findall(r"^ +headwise (.+)$", command.help, re.M)
        )


@pytest.mark.parametrize(("where", "said"), sorted(set(mentioned())))
def test_a_command_that_is_mentioned_exists_with_its_options(where, said):
    verb, *words = shlex.split(said, comments=True)
    if verb == "--help":
        return
    assert verb in VERBS, f"{where}: there is no `headwise {verb}`"
    options = {option for parameter in VERBS[verb].params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if re.match(r"--[a-z]|-[a-z]$", word) and word not in options | {"--help", "-h"}]
    assert not unknown, f"{where}: `headwise {verb}` has no {unknown}"

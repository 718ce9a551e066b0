"""`headwise list families`: what was tried, and when."""

from __future__ import annotations

import json
from importlib.resources import files

from headwise.cli.list_ import tried_lines


def test_the_last_sweep_is_told_with_its_days_and_version() -> None:
    tried = {"days": "from 2026-01-02 to 2026-02-03", "transformers": "5.1", "text": "7 right, 1 wrong of 8",
             "pictures and sound": "2 right of 2"}  # fmt: skip
    assert list(tried_lines(tried)) == [
        "[bold]tried from 2026-01-02 to 2026-02-03, with transformers 5.1: a tiny model of every type[/]",
        "  text                 7 right, 1 wrong of 8",
        "  pictures and sound   2 right of 2",
        "  docs/families.md says of each type what was found, and why some are refused",
    ]


def test_the_sweep_that_comes_with_the_package_is_the_one_of_the_page() -> None:
    tried = json.loads(files("headwise.models").joinpath("tried.json").read_text("utf-8"))
    assert set(tried) == {"days", "transformers", "text", "pictures and sound"}
    for kind in ("text", "pictures and sound"):
        assert " 0 wrong, 0 traceback," in tried[kind]

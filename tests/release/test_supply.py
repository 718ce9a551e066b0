"""Hashes, licences and the bill of materials are of what is pinned."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from references.scripts import script

ROOT = Path(__file__).parents[2]
supply = script("release/supply.py")


def test_every_pin_has_hashes() -> None:
    text = (ROOT / "constraints.hashed.txt").read_text()
    found = dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE))
    assert found == supply.pins(), "run: python release/supply.py hashes"


def test_the_bill_has_the_core_as_it_is_pinned() -> None:
    bill = json.loads((ROOT / "release" / "sbom.cdx.json").read_text())
    parts = {part["purl"].removeprefix("pkg:pypi/").partition("@")[0]: part["version"] for part in bill["components"]}
    pins = supply.pins()
    assert {name: version for name, version in parts.items() if pins.get(name, version) != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.match(r"[\w-]+", each).group() for each in project["dependencies"]} <= set(parts)  # type: ignore[union-attr]
    assert bill["metadata"]["component"]["version"] == project["version"]


def test_no_core_dependency_is_gpl() -> None:
    assert supply.print_licences() == 0


@pytest.mark.parametrize(
    ("told", "gpl"),
    [("GPL-3.0-or-later", True), ("AGPL-3.0", True), ("GNU General Public License v3 (GPLv3)", True), ("MIT", False),
     ("LGPL-2.1", False), ("GNU Lesser General Public License v3 (LGPLv3)", False), ("Apache-2.0", False)],
)  # fmt: skip
def test_what_counts_as_gpl(told: str, gpl: bool) -> None:
    assert (supply.GPL.search(told) is not None) == gpl


def test_what_ci_installs_by_hash_is_all_but_what_comes_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert supply.print_archives() == 0
    shown = capsys.readouterr().out
    found = dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", shown, re.MULTILINE))
    assert found == {name: pin for name, pin in supply.pins().items() if name not in ("torch", "eflomal")}
    assert shown.count("--hash") < (ROOT / "constraints.hashed.txt").read_text().count("--hash")

"""The project's home is written into every file that names it, and its links name files that are there."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

from references.scripts import script

ROOT = Path(__file__).parents[2]
address = script("release/address.py")
HOME = "some-one/head.wise"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("pyproject.toml", "CITATION.cff", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("plugin"))
    monkeypatch.setattr(address, "ROOT", tmp_path)
    return tmp_path


def test_every_notebook_gets_links_to_itself(copy: Path) -> None:
    assert address.main([HOME]) == 0
    books = sorted((copy / "examples").glob("*.ipynb"))
    assert len(books) >= 3
    for path in books:
        book, before = (json.loads((where / "examples" / path.name).read_text()) for where in (copy, ROOT))
        first = "".join(book["cells"][0]["source"])
        assert book["cells"][1:] == [one for one in before["cells"] if one.get("id") != address.BADGE]
        assert book["nbformat"] >= 4
        named = re.findall(rf"{re.escape(HOME)}/(?:blob/main/|main\?labpath=)([^)]+)\)", first)
        assert [unquote(one) for one in named] == [f"examples/{path.name}"] * 2
    assert (ROOT / ".binder" / "requirements.txt").is_file()  # what Binder installs


def test_the_home_is_everywhere_and_twice_is_once(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address.main(["another/one"])
    address.main([HOME])
    once = {path: path.read_text() for path in copy.rglob("*") if path.is_file()}
    address.main([HOME])
    assert {path: path.read_text() for path in once} == once
    assert not any("another/one" in text for text in once.values())
    project = tomllib.loads((copy / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Homepage"] == f"https://github.com/{HOME}"
    assert project["scripts"] == {"headwise": "headwise.cli:main"}
    assert f'repository-code: "https://github.com/{HOME}"' in (copy / "CITATION.cff").read_text()
    assert "site_url: https://some-one.github.io/head.wise/\n" in (copy / "mkdocs.yml").read_text()
    assert address.main(["--check"]) == 0
    assert "all files name it" in capsys.readouterr().out


def test_without_a_home_it_says_what_to_do(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if address.home_of(copy) is None:
        assert address.main(["--check"]) == 1
        assert "no home yet: python release/address.py OWNER/NAME" in capsys.readouterr().out
    assert address.main(["no home"]) == 2
    address.main([HOME])
    citation = copy / "CITATION.cff"
    citation.write_text(citation.read_text().replace(HOME, "old/home"))
    assert address.main(["--check"]) == 1
    assert "stale are CITATION.cff" in capsys.readouterr().out


def test_the_steps_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "release"))
    from steps import steps

    left = steps("1.2", None, "## 1.2\n\n## 1.1 (2026-01-02)\n", ["a.whl"])
    assert left[:2] == [
        "python release/address.py OWNER/NAME, and commit (links, badges of notebooks)",
        "date version 1.2 in CHANGELOG.md (## 1.2 (YYYY-MM-DD)), commit",
    ]
    assert left[3:5] == ["git tag v1.2 && git push origin v1.2", "twine upload dist/a.whl"]
    assert steps("1.1", HOME, "## 1.1 (2026-01-02)\n", [])[:2] == [f"home: {HOME}", "CHANGELOG.md has a date"]

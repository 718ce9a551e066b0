"""A package that is installed beside headwise extends it, by the example that ships; a broken one is one line."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import headwise as hw
from headwise.cli.list_ import _quantities
from headwise.errors import PluginError
from headwise.quantities import ATTENTION, EXPLANATIONS, MAPS
from headwise.server.answer import quantity_labels
from headwise.studies import STUDIES
from headwise.text.corpus import open_corpus
from headwise.text.readers import READERS
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import header_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
REGISTRIES = (*MAPS, EXPLANATIONS, STUDIES, READERS)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages; registries look again, and forget afterwards what they found."""
    for registry in REGISTRIES:
        known = {name: registry.entry(name) for name in registry}
        monkeypatch.setattr(registry, "_entries", known)
        monkeypatch.setattr(registry, "_filled", False)
    for name in [name for name in sys.modules if name.startswith("headwise_along")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, *, name: str, points: dict[str, dict[str, str]]) -> None:
    """What an installer writes beside a package so that it is known as installed."""
    facts = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items()) for group, each in points.items()
    ]
    (facts / "entry_points.txt").write_text("\n".join(groups))


def test_the_example_is_in_the_list_the_viewer_the_server_and_a_report(
    site: Path, load: Callable[..., hw.Model]
) -> None:
    assert "along" not in ATTENTION._entries
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    copytree(EXAMPLE / "headwise_along", site / "headwise_along")
    install(site, name=project["name"], points=project["entry-points"])

    assert any(name.strip() == "along" and "pulls the output back" in about for _, name, about in _quantities())
    model = load("tiny:bert")
    header = header_of(page_of_trace(model.trace("the sea"), quantities=["raw", "along"]), 3)
    mine = header["stacks"][0]["quantities"][1]
    assert (mine["name"], mine["label"], mine["signed"]) == ("along", "Along the output", True)
    assert quantity_labels()["along"] == "Along the output"

    corpus = site / "texts.txt"
    corpus.write_text("THE OLD SEA RUNS.\nIT RUNS HOME.\n")
    assert [document.text for document in open_corpus(corpus, kind="shouted").documents()] == [
        "the old sea runs.", "it runs home.",
    ]  # fmt: skip
    page = hw.report(
        model, corpus=corpus, kind="shouted", out=site / "out", studies=["surface"],
        settings={"surface": {"quantities": ("raw", "along")}},
    )  # fmt: skip
    assert "along" in page.read_text("utf-8")
    assert set(hw.open(site / "out" / "results").table["quantity"]) == {"raw", "along"}  # pyright: ignore


def test_a_plugin_that_fails_is_one_line_that_names_its_package(site: Path) -> None:
    (site / "headwise_broken.py").write_text("import a_module_that_is_not_there\n")
    install(site, name="headwise-broken", points={"headwise.quantities": {"mine": "headwise_broken"}})
    with pytest.raises(PluginError) as raised:
        list(ATTENTION)
    assert str(raised.value) == (
        "The plug-in 'mine' of headwise-broken (headwise.quantities) must be importable, but it fails: "
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'; mend it, or uninstall headwise-broken."
    )

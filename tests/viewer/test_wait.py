"""What a page of a text must not wait for: modules that only figures, studies or reports need."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import headwise

SOURCES = Path(headwise.__file__).parent.parent
FOR_FIGURES = {"altair", "matplotlib", "vl_convert", "pandas", "sklearn"}


def at_once(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports when it is imported itself, not in a function or for its types alone."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def file_of(module: str) -> Path | None:
    path = SOURCES / module.replace(".", "/")
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def reached(starts: list[str]) -> dict[str, str]:
    """Every module that importing `starts` imports, and who imports it first."""
    found, left = {}, [(name, "") for name in starts]
    while left:
        name, by = left.pop()
        if name in found:
            continue
        found[name] = by
        if (file := file_of(name)) is not None:
            left += [(each, name) for each in at_once(ast.parse(file.read_text("utf-8")))]
            left += [(name.rpartition(".")[0], name)] if "." in name else []
    return found


def test_the_walk_sees_what_is_imported() -> None:
    code = "import a\nfrom b.c import d\nif TYPE_CHECKING:\n    import e\ndef f():\n    import g"
    assert list(at_once(ast.parse(code))) == ["a", "b.c", "b.c.d"]
    assert {"headwise.plots.theme", "altair"} <= reached(["headwise.plots.head"]).keys()


def test_a_page_of_a_text_waits_for_no_figures() -> None:
    viewer = [f"headwise.viewer.{file.stem}" for file in (SOURCES / "headwise/viewer").glob("*.py")]
    ways = ["headwise.models.load", "headwise.explanations.why", "headwise.explanations.explain"]
    found = reached(["headwise.cli.view", *viewer, *ways])
    assert "headwise.traces.trace" in found  # the walk went on
    heavy = {name: by for name, by in found.items() if name.partition(".")[0] in FOR_FIGURES}
    assert not heavy, f"imported at once, by: {heavy}"

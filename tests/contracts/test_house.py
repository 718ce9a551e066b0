"""The house as its plan says: nothing reaches upward by a string, and nobody keeps a list of quantities."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import headwise
from headwise.quantities import every
from headwise.viewer.of_trace import ALTERNATIVE

SOURCE = Path(headwise.__file__).parent
NAMES = {*(quantity.name for quantity in every()), ALTERNATIVE.name}

BY_STRING = {  # who may import a module of headwise by a string, and why
    "__init__.py": "names of the public surface are imported at their first use",
    "registry.py": "a registry imports the package that fills it",
}
LISTS = {  # where two or more quantities stand side by side by name, and why
    "changes.py": "ways to change a head's weights, of which two are called as the quantities are",
    "models/weighing.py": "the same ways, done",
    "measures/reductions.py": "sums that need no map; what is not here is formed first, and gives the same",
    "viewer/figure.py": "the four maps that a figure of one head puts side by side, and their legends",
    "studies/nullspace/facts.py": "what the null space takes from raw weights: raw, effective, their difference",
    "studies/received.py": "the two means that this study takes, each by its own formula",
    "papers/brunner2020.py": "the figures of the paper in which each is drawn",
    "papers/pictures.py": "the three maps that the paper's figure puts side by side",
    "studies/edges.py": "the quantities that are compared, each by what it says of an edge",
    "studies/ablation/__init__.py": "three statistics of a head, each by its formula; two have names of quantities",
    "studies/ablation/facts.py": "their names in the table, in a sentence and in a legend: the only other place",
    "studies/alignment/figures.py": "short names in the legends of the paper's figures; all others go by their own",
}


FAMILIES = {  # who may ask a model for its family by name, and why
    "models/senses.py": "how Whisper's seconds lie on its frames, which its configuration does not say",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))


def imports_by_string(tree: ast.Module) -> list[str]:
    """What is imported by a string: a name of headwise, or one that cannot be read off the source."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [c for c in calls if ast.unparse(c.func).rpartition(".")[2] in ("import_module", "__import__") and c.args]
    found = [c.args[0] for c in named]
    outside = [a for a in found if isinstance(a, ast.Constant) and not str(a.value).startswith(("headwise", "."))]
    return [ast.unparse(a) for a in found if a not in outside]


def lists_of_names(tree: ast.Module) -> list[str]:
    """Literal tuples, lists, sets and dicts with two or more quantities; the defaults of a study's settings aside."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    lines = [line for each in classes for line in each.body if isinstance(line, ast.AnnAssign) and line.value]
    defaults = {id(node) for line in lines for node in ast.walk(line.value)}  # type: ignore[arg-type]
    found = []
    for node in ast.walk(tree):
        members = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = {member.value for member in members if isinstance(member, ast.Constant)} & NAMES
        if len(names) >= 2 and id(node) not in defaults:
            found.append(ast.unparse(node))
    return found


def test_the_checks_can_fail() -> None:
    assert imports_by_string(ast.parse("importlib.import_module('headwise.viewer')")) == ["'headwise.viewer'"]
    assert imports_by_string(ast.parse("import_module(where)")) == ["where"]
    assert imports_by_string(ast.parse("importlib.import_module('torch.fx')")) == []
    assert lists_of_names(ast.parse("X = ('rollout', 'flow')")) == ["('rollout', 'flow')"]
    assert lists_of_names(ast.parse("X = {'raw': 1, 'norm': 2}")) == ["{'raw': 1, 'norm': 2}"]
    assert lists_of_names(ast.parse("class S:\n    quantities: tuple[str, ...] = ('raw', 'norm')")) == []


def test_tests_read_nothing_outside_the_repository() -> None:
    """Data sets are for benchmarks/datasets.py; a test that skips where there is no data is a test nobody runs."""
    root, here = SOURCE.parents[1], Path(__file__)
    texts = {path: path.read_text("utf-8") for path in sorted((root / "tests").rglob("*.py")) if path != here}
    outside = re.compile(r"""["'/]shared["']? ?/|["']/(?:work|home|data|mnt)/|Path\.home\(\)|expanduser""")
    assert outside.search('Path("/work/shared/data")')
    assert outside.search('root / "shared" / "data"')
    above = re.compile(r"__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]")
    found = [path.name for path, text in texts.items() if outside.search(text)]
    for path, text in texts.items():
        root_is = len(path.relative_to(root).parts) - 1  # parents[this] is the repository
        found += [path.name for number in above.findall(text) if int(number) > root_is]
    assert found == []


def test_nothing_reaches_upward_by_a_string() -> None:
    found = {name: strings for name, tree in modules() if (strings := imports_by_string(tree))}
    assert set(found) == set(BY_STRING), found


def test_nobody_else_keeps_a_list_of_quantities() -> None:
    found = {name: lists for name, tree in modules() if (lists := lists_of_names(tree))}
    assert set(found) == set(LISTS), {name: lists for name, lists in found.items() if name not in LISTS}


def asks_for_family(tree: ast.Module) -> list[str]:
    """Comparisons with a configuration's `model_type`."""
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    return [ast.unparse(node) for node in compared if "model_type" in ast.unparse(node)]


def test_a_family_is_known_by_what_it_computes_and_not_by_name() -> None:
    assert asks_for_family(ast.parse("x = {} if hf.config.model_type == 'mpnet' else y"))
    found = {name: asked for name, tree in modules() if (asked := asks_for_family(tree))}
    assert set(found) == set(FAMILIES), found


SIDE = re.compile(r"(^|[.;(] )(left|right)[:,] |\(left:|\bon the (left|right)\b|\b(left|right) (scale|panel)", re.I)


def sides(tree: ast.Module) -> list[str]:
    """Strings that place a panel on a side; what a function says of itself aside."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
    return [found for found in strings if isinstance(found, str) and SIDE.search(found)]


def test_a_caption_names_its_panels_for_on_narrow_pages_they_stand_below_each_other() -> None:
    assert len(sides(ast.parse("x = ['Left: x', 'it is left, too', 'high on the left', 'falls to the right: y']"))) == 2
    drawn = ("studies/", "plots/", "explanations/", "papers/")
    assert {path: found for path, tree in modules() if path.startswith(drawn) and (found := sides(tree))} == {}


def test_the_list_of_folders_is_short_and_told_in_the_architecture() -> None:
    told = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    table = told.partition("| folder | what | may know |")[2].partition("\n\n")[0]
    folders = {f"{path.name}/" for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    named = [name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(folders | files)
    assert len(folders) <= 17

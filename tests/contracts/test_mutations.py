"""`make mutants`: the mistakes it makes are single, real, repeatable, and none in what nothing depends on."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def tool(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


mutations, by_hand = tool("mutations"), tool("by_hand")

SOURCE = '''
"""A docstring."""

def far(x: "shape of x", limit=3) -> "shape":
    """Another."""
    if x < limit and x != 0:
        return max(x, -limit)
    return "near"

def drawn(table):
    return chart(table, help="words").encode(x="head", y="layer", color="#333")
'''


def of(line: str) -> list[str]:
    return [mutant.after for mutant in mutations.mutants_of("a.py", line)]


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("a < b", ["a <= b"]),
        ("a == b", ["a != b"]),
        ("a + b", ["a - b"]),
        ("a or b", ["a and b"]),
        ("f(a, b)", ["None", "f(b, a)"]),
        ("y = table.arg_max()", ["table.arg_min"]),
        ("y = f(x=a, y=b)", ["f(y=b)", "f(x=a)", "f(y=a, x=b)"]),
        ("y = [a for a in b if a]", ["if not a"]),
        ("y = 3", ["4"]),
        ("y = True", ["False"]),
        ("y = 'Yes'", ["'XXYes'"]),
        ("y = f(help='words', strict=True)", []),
        ("y = f(strokeWidth=2)", []),
        ("y: 'a shape' = z", []),
        ("__all__ = ['a']", []),
    ],
)
def test_the_mistakes_of_a_line(line: str, after: list[str]) -> None:
    assert of(line) == after


def test_a_mutant_is_the_module_with_one_mistake() -> None:
    mutants = mutations.mutants_of("a.py", SOURCE)
    plain = ast.unparse(ast.parse(SOURCE))
    made = [mutations.mutated(SOURCE, mutant) for mutant in mutants]
    assert len(set(made)) == len(made)
    assert plain not in made
    for mutant, source in zip(mutants, made, strict=True):
        changed = [pair for pair in zip(plain.splitlines(), source.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(changed) == 1, mutant
    assert {mutant.function for mutant in mutants} == {"far", "drawn"}
    assert {mutant.first for mutant in mutants} == {4, 10}


def test_a_sample_stays_the_same_when_something_else_changes() -> None:
    before = mutations.sample(mutations.mutants_of("a.py", SOURCE), 5, seed=0)
    after = mutations.sample(mutations.mutants_of("a.py", "\n\nZERO = z\n" + SOURCE), 5, seed=0)
    assert [mutant.name for mutant in before] == [mutant.name for mutant in after]
    assert before != mutations.sample(mutations.mutants_of("a.py", SOURCE), 5, seed=1)


@pytest.mark.parametrize("slip", by_hand.SLIPS, ids=lambda slip: slip.what)
def test_what_is_made_by_hand_can_be_made(slip) -> None:
    assert (ROOT / "src" / slip.path).read_text("utf-8").count(slip.before) == 1
    assert (ROOT / slip.tests).is_file()

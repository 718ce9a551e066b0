"""`make mutants`: the mistakes it makes are single, real, repeatable, and none in what nothing depends on."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from references.scripts import script

ROOT = Path(__file__).parents[2]


mutations, by_hand, trials = (script(f"tools/{name}.py", name=name) for name in ("mutations", "by_hand", "trials"))

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


MODULE = """
LIMIT = 3

def near(x):
    def inner(y):
        return y < 5
    return inner(x) and x != LIMIT and all(x for x in [x])

class Place:
    def far(self):
        return 10
"""


@pytest.mark.parametrize(
    ("before", "after", "can"),
    [
        ("y < 5", "y > 5", True),
        ("return 10", "return 11", True),
        ("return inner(x) and x != LIMIT and all(x for x in [x])", "return True", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("def near(x):", "def near(x=1):", False),
    ],
)
def test_the_code_of_a_function_is_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, can: bool
) -> None:
    """Also behind a name that was taken before; what is done at import cannot be."""
    path = tmp_path / "exchanged.py"
    path.write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "exchanged", None)
    monkeypatch.delitem(sys.modules, "exchanged")  # and again at the end
    module = importlib.import_module("exchanged")
    near, place = module.near, module.Place()
    codes = trials.codes_of(path, MODULE, MODULE.replace(before, after))
    assert (codes is not None) == can
    if codes is not None:
        trials.exchange(codes)
        assert (near(9), place.far()) == ((False, 11) if "10" in before else (True, 10))


def test_a_fork_tells_how_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    codes = [trials.forked(lambda end=end: end, 60, log) for end in (0, 1)]
    assert [trials.outcome(code) for code in codes] == [trials.SURVIVED, trials.KILLED]
    assert trials.outcome(-1) == trials.LOST


def test_what_a_shared_fixture_calls_is_called_for_all_who_use_it() -> None:
    calls = trials.Calls(trials.Reached(Path("/package"), Path("/")))
    calls.reached.calls = {"a.py:1": {"fixture tests results"}, "a.py:9": {"one"}}
    calls.users = {"fixture tests results": {"one", "two"}}
    assert json.loads(calls.written())["calls"] == {"a.py:1": ["one", "two"], "a.py:9": ["one"]}

"""Small mistakes made on purpose: every place of a module where one can be made, and the module with it.

A mistake is what a tired person writes: `<` for `<=`, `+` for `-`, the other branch, a swapped pair of arguments, an
option left out, `arg_min` for `arg_max`, `x` for `y`, another number, another word. A test suite that passes all the
same does not guard that place. Left alone: annotations, docstrings, the words of `--help`, `frozen=` and `strict=`,
on which no number and no sentence depends, and how a figure looks (colours, widths, dashes).
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = Callable[[], None]  # makes the mistake in the tree

COMPARED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = (
    ("min", "max"), ("any", "all"), ("arg_min", "arg_max"), ("argmin", "argmax"), ("sum", "mean"), ("amin", "amax"),
    ("head", "tail"), ("ceil", "floor"), ("startswith", "endswith"), ("x", "y"), ("X", "Y"), ("first", "last"),
    ("row", "column"), ("exp", "log"), ("tril", "triu"), ("rows", "columns"), ("zeros", "ones"),
    ("zeros_like", "ones_like"), ("less", "greater"), ("lower", "upper"), ("removeprefix", "removesuffix"),
)  # fmt: skip
OTHER = {one: two for pair in PAIRS for one, two in (pair, pair[::-1])}
UNREAD = {"help", "frozen", "strict", "slots", "rich_help_panel"}  # keywords
LOOKS = {  # keywords that say how a figure looks, where their values are written out: no field, no number, no word
    "align", "angle", "baseline", "color", "cornerRadius", "dx", "dy", "fill", "filled", "fillOpacity", "fontSize",
    "fontStyle", "fontWeight", "height", "indent", "interpolate", "labelAngle", "labelFontSize", "offset", "opacity",
    "orient", "padding", "point", "size", "spacing", "stroke", "strokeDash", "strokeOpacity", "strokeWidth", "style",
    "thickness", "titleFontSize", "width",
}  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Place:
    """A node of a module, the function that it stands in (Class.method, or <module>) and where that one begins."""

    node: ast.AST
    function: str
    first: int


@dataclass(frozen=True)
class Mutant:
    """One mistake. `number` tells apart those that read the same."""

    path: str
    function: str
    first: int
    line: int
    kind: str
    before: str
    after: str
    number: int
    site: int  # which place, and which mistake there
    choice: int

    @property
    def name(self) -> str:
        return f"{self.path}::{self.function}  {self.before} → {self.after}  #{self.number}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mistake that can be made in a module."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for at, place in enumerate(places(ast.parse(source))):
        for choice in range(len(changes(place.node))):
            node, before = place.node, _line(place.node)
            _, change = changes(node)[choice]
            kept = _kept(node)
            change()
            after = _line(node)
            _restore(node, kept)
            key = (place.function, before, after)
            seen[key] += 1
            kind = changes(node)[choice][0]
            line = getattr(node, "lineno", 0)
            found.append(Mutant(path, place.function, place.first, line, kind, before, after, seen[key], at, choice))
    return found


def mutated(source: str, mutant: Mutant) -> str:
    """The module with the mistake in it (without its comments)."""
    tree = ast.parse(source)
    place = next(place for at, place in enumerate(places(tree)) if at == mutant.site)
    changes(place.node)[mutant.choice][1]()
    return ast.unparse(ast.fix_missing_locations(tree))


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them by the hash of their names: an edit elsewhere does not change which ones."""
    return sorted(mutants, key=lambda m: hashlib.sha256(f"{seed} {m.name}".encode()).digest())[:count]


def places(tree: ast.Module) -> Iterator[Place]:
    """The nodes that people read or that compute, in the order of the text."""
    yield from _below(tree, (), 0)


def _below(node: ast.AST, names: tuple[str, ...], first: int) -> Iterator[Place]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        names = (*names, node.name)
        if isinstance(node, FUNCTIONS) and not first:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    yield Place(node, ".".join(names) or "<module>", first)
    for child in _read(node):
        yield from _below(child, names, first)


def _read(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node, without what nothing depends on."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_comment", "ctx", "ops", "op"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _unread(child):
                yield child


def _unread(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.keyword):
        return _unread_keyword(node)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return True
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar")


def _unread_keyword(node: ast.keyword) -> bool:
    if node.arg in LOOKS:
        return not any(isinstance(below, ast.Name | ast.Call | ast.JoinedStr) for below in ast.walk(node.value))
    return node.arg in UNREAD


def changes(node: ast.AST) -> list[tuple[str, Change]]:
    """The mistakes that can be made at a node, each with its kind."""
    match node:
        case ast.Compare() if type(node.ops[0]) in COMPARED:
            return [("comparison", _set(node, "ops", [COMPARED[type(node.ops[0])](), *node.ops[1:]]))]
        case ast.BinOp() if type(node.op) in COMPUTED:
            return [("arithmetic", _set(node, "op", COMPUTED[type(node.op)]()))]
        case ast.BoolOp():
            return [("logic", _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()))]
        case ast.UnaryOp(op=ast.USub()):
            return [("arithmetic", _set(node, "op", ast.UAdd()))]
        case ast.If() | ast.IfExp() | ast.While():
            return [("branch", _set(node, "test", _not(node.test)))]
        case ast.comprehension(ifs=[condition, *rest]):
            return [("branch", _set(node, "ifs", [_not(condition), *rest]))]
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            return [("return", _set(node, "value", ast.Constant(None)))]
        case ast.Constant(value=value):
            return _constants(node, value)
        case ast.Call():
            return _calls(node)
        case ast.Name(id=name, ctx=ast.Load()) if name in OTHER and name not in ("x", "y", "X", "Y", "row", "rows"):
            return [("name", _set(node, "id", OTHER[name]))]
        case ast.Attribute(attr=name) if name in OTHER and name not in ("rows", "columns", "first", "last"):
            return [("name", _set(node, "attr", OTHER[name]))]
        case ast.Expr(value=ast.Call()):
            return [("left out", _set(node, "value", ast.Constant(None)))]
    return []


def _constants(node: ast.Constant, value: object) -> list[tuple[str, Change]]:
    if isinstance(value, bool):
        return [("number", _set(node, "value", not value))]
    if isinstance(value, int):
        return [("number", _set(node, "value", value + 1))]
    if isinstance(value, float):
        return [("number", _set(node, "value", value * 2 + (value == 0)))]
    if isinstance(value, str) and any(c.isalnum() for c in value):
        return [("words", _set(node, "value", f"XX{value}"))]
    return []


def _calls(node: ast.Call) -> list[tuple[str, Change]]:
    found: list[tuple[str, Change]] = []
    if len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
        one, two, *rest = node.args
        if ast.dump(one) != ast.dump(two) and not (isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
            found.append(("swapped", _set(node, "args", [two, one, *rest])))
    read = [k for k in node.keywords if k.arg and not _unread_keyword(k)]
    for keyword in read:
        left = [k for k in node.keywords if k is not keyword]
        found.append(("left out", _set(node, "keywords", left)))
    names = {k.arg for k in read}
    if {"x", "y"} <= names:
        swapped = [ast.keyword(OTHER[k.arg], k.value) if k.arg in ("x", "y") else k for k in node.keywords]
        found.append(("swapped", _set(node, "keywords", swapped)))
    return found


def _set(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _kept(node: ast.AST) -> dict[str, object]:
    return dict(ast.iter_fields(node))


def _restore(node: ast.AST, kept: dict[str, object]) -> None:
    for field, value in kept.items():
        setattr(node, field, value)


def _line(node: ast.AST) -> str:
    """The node as text, in one line and not too long; of a statement with a body its head alone."""
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(ast.fix_missing_locations(node.test))}"[:160]
    if isinstance(node, ast.comprehension):
        return " ".join(f"if {ast.unparse(ast.fix_missing_locations(c))}" for c in node.ifs)[:160]
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())[:160]

"""Figures as TikZ: points worked out by hand, texts that would like to be commands, and one figure of every shape."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import numpy as np
import polars as pl
import pytest
import vl_convert

from headwise.errors import InputError
from headwise.plots.bipartite import lines_between
from headwise.plots.boxes import boxes
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.latex import escaped, strange
from headwise.plots.lines import band
from headwise.plots.maps import heat_map, map_table
from headwise.plots.paper import Paper, save_paper
from headwise.plots.paths import WHOLE, inside, moved, segments
from headwise.plots.scatter import by_layer
from headwise.plots.theme import save_chart, themed
from headwise.plots.tikz import tikz

K = 0.5522847498  # 4/3 (√2 − 1): a handle of a quarter of the unit circle
HOSTILE = r"\input{/etc/passwd} \write18{rm} ^^5cinput $x$ # % & _ ~ } \end{tikzpicture}"


def drawing(content: str, *, size: str = 'width="100" height="100"') -> list[str]:
    """The commands of a drawing, without what is around them."""
    lines = tikz(f'<svg xmlns="http://www.w3.org/2000/svg" {size}><g fill="none">{content}</g></svg>').splitlines()
    return lines[next(at for at, line in enumerate(lines) if "bounding box" in line) + 1 : -1]


@pytest.mark.parametrize(
    ("d", "expected"),
    [
        ("M1,2l3,4H9v-1z", [("M", [1 + 2j]), ("L", [4 + 6j]), ("L", [9 + 6j]), ("L", [9 + 5j]), ("Z", [])]),
        ("m1,1 2,0m0,5h1Zl1,1", [("M", [1 + 1j]), ("L", [3 + 1j]), ("M", [3 + 6j]), ("L", [4 + 6j]), ("Z", []),
                                 ("L", [4 + 7j])]),
        ("M1,1V4c1,0,2,1,2,2", [("M", [1 + 1j]), ("L", [1 + 4j]), ("C", [2 + 4j, 3 + 5j, 3 + 6j])]),
        ("M0,0Q3,0,3,3", [("M", [0]), ("C", [2, 3 + 1j, 3 + 3j])]),
        ("M1,0A1,1,0,0,1,0,1", [("M", [1]), ("C", [1 + K * 1j, K + 1j, 1j])]),
        ("M1,0a1,1,0,0,0,-1,1", [("M", [1]), ("C", [1 - K, (1 - K) * 1j, 1j])]),  # round the other centre, (1,1)
        ("M1,0A1,1,0,1,0,0,1", [("M", [1]), ("C", [1 - K * 1j, K - 1j, -1j]), ("C", [-K - 1j, -1 - K * 1j, -1]),
                                ("C", [-1 + K * 1j, -K + 1j, 1j])]),
        ("M0,2A2,1,90,0,1,-1,0", [("M", [2j]), ("C", [-K + 2j, -1 + 2 * K * 1j, -1])]),  # its long side stands
        ("M-2,0A1,1,0,0,1,2,0", [("M", [-2]), ("C", [-2 - 2 * K * 1j, -2 * K - 2j, -2j]),  # too small: of radius 2
                                 ("C", [2 * K - 2j, 2 - 2 * K * 1j, 2])]),
        ("M1,1A0,3,0,0,1,4,4A1,1,0,0,1,4,4", [("M", [1 + 1j]), ("L", [4 + 4j])]),
        ("", []),
    ],
)  # fmt: skip
def test_paths_by_hand(d: str, expected: list[tuple[str, list[complex]]]) -> None:
    found = list(segments(d))
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    for (_, points), (_, told) in zip(found, expected, strict=True):
        assert points == pytest.approx(told, abs=1e-9)


@pytest.mark.parametrize("d", ["M0,0S1,1,2,2", "M0,0L1", "M0,0Z1", "M0,0T3,3"])
def test_paths_that_are_not_understood_are_refused(d: str) -> None:
    with pytest.raises(InputError, match=r"save it as \.pdf"):
        list(segments(d))


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("", 3 + 1j),
        ("translate(10)", 13 + 1j),
        ("translate(10,20) rotate(90) translate(3,0)", 9 + 26j),  # (3,1) → (6,1) → (-1,6) → (9,26)
        ("rotate(90,1,1)", 1 + 3j),  # (2,0) from (1,1) turns to (0,2)
        ("scale(2) translate(1,1)", 8 + 4j),
        ("scale(2,-1)", 6 - 1j),
        ("matrix(1,2,3,4,5,6)", 11 + 16j),  # 3·(1,2) + 1·(3,4) + (5,6)
    ],
)
def test_transforms_by_hand(transform: str, expected: complex) -> None:
    assert moved(inside(WHOLE, transform), 3 + 1j) == pytest.approx(expected)
    with pytest.raises(InputError, match="skewX"):
        inside(WHOLE, "skewX(3)")


def test_what_is_drawn_by_hand() -> None:
    assert drawing('<g transform="translate(10,20)"><path d="M0,0h5v-5Z" fill="#abc" fill-opacity="0.5"/></g>') == [
        r"\path[fill=hwAABBCC,fill opacity=0.5] (10,80)--(15,80)--(15,85)--cycle;"
    ]
    line = (
        '<line x2="4" y2="0" stroke="rgb(1, 2, 255)" stroke-width="2" stroke-dasharray="4,1" stroke-linecap="round"/>'
    )
    dashed = "line cap=round,dash pattern=on 2bp off 0.5bp"
    assert drawing(line, size='width="50" height="50" viewBox="0 0 100 100"') == [
        rf"\path[draw=hw0102FF,line width=1bp,{dashed}] (0,50)--(2,50);"
    ]
    circle = '<path d="M2.5,0A2.5,2.5,0,1,1,-2.5,0A2.5,2.5,0,1,1,2.5,0" transform="translate(7,9)" {}/>'
    assert drawing(circle.format('fill="red"')) == [r"\path[fill=hwFF0000] (7,91) circle[radius=2.5bp];"]
    (both,) = drawing(circle.format('fill="red" stroke="red" opacity="0.4"'))  # seen through as one
    assert both.startswith(
        r"\begin{scope}[transparency group,opacity=0.4]\path[fill=hwFF0000,draw=hwFF0000,line width=1bp]"
    )
    rect = '<rect x="1" y="2" width="3" height="4" fill="white" stroke="black" stroke-dasharray="{}"/>'
    shape = "(1,98)--(4,98)--(4,94)--(1,94)--cycle;"
    assert drawing(rect.format("1,0")) == [rf"\path[fill=hwFFFFFF,draw=hw000000,line width=1bp] {shape}"]
    assert "dash pattern=on 3bp off 3bp]" in drawing(rect.format("3"))[0]
    assert "dash pattern=on 1bp off 2bp on 3bp off 1bp on 2bp off 3bp]" in drawing(rect.format("1,2,3"))[0]


def test_what_is_not_seen_is_not_drawn() -> None:
    unseen = ["", 'fill="red" opacity="0"', 'fill="red" fill-opacity="0"', 'stroke="red" stroke-width="0"',
              'fill="red" display="none"', 'fill="transparent"']  # fmt: skip
    assert drawing("".join(f'<path d="M0,0h1" {how}/>' for how in unseen)) == []
    assert drawing('<path d="" fill="red"/><text fill="#000"></text><text opacity="0" fill="#000">a</text>') == []


def test_opacities_multiply() -> None:
    (line,) = drawing('<g opacity="0.5"><line x2="1" opacity="0.5" stroke-opacity="0.8" stroke="red"/></g>')
    assert "draw opacity=0.2," in line


def test_texts_stand_at_their_baselines() -> None:
    text = '<text font-size="20px" fill="#000" text-anchor="{}" {} transform="translate(10,20) {}">{}</text>'
    size = "inner sep=0pt,outer sep=0pt,{}scale=2.007,font=\\fontsize{{10}}{{12}}\\selectfont{},text=hw000000"
    turned = size.format("rotate=90,", r"\bfseries\itshape")
    how = 'font-weight="bold" font-style="italic"'
    assert drawing(text.format("end", how, "rotate(-90) translate(3,0)", "a_b")) == [
        rf"\node[anchor=base east,{turned}] at (10,83) {{a\_b}};"  # three to the right, turned, is three up
    ]
    lines = "<tspan>one</tspan><tspan x='0' dy='14'>two</tspan><tspan x='0' dy='14'>three</tspan>"
    assert drawing(text.format("middle", 'font-weight="normal"', "", lines)) == [
        rf"\node[anchor=base,{size.format('', '')}] at (10,{y}) {{{word}}};"
        for y, word in ((80, "one"), (66, "two"), (52, "three"))
    ]
    assert "anchor=base west," in drawing(text.format("start", "", "", "x"))[0]


def test_a_clip_holds_what_is_in_it() -> None:
    clip = '<defs><clipPath id="c"><rect width="5" height="6"/></clipPath></defs>'
    line = '<line x2="9" stroke="red"/>'
    assert drawing(f'{clip}<g transform="translate(1,2)" clip-path="url(#c)">{line}</g>{line}') == [
        r"\begin{scope}\clip (1,98)--(6,98)--(6,92)--(1,92)--cycle;",
        r"\path[draw=hwFF0000,line width=1bp] (1,98)--(10,98);",
        r"\end{scope}",
        r"\path[draw=hwFF0000,line width=1bp] (0,100)--(9,100);",
    ]


@pytest.mark.parametrize(
    ("ends", "way", "first", "last"),
    [
        ('x1="0" x2="0" y1="1" y2="0"', "vertical", "FF0000", "0000FF"),  # upwards
        ('x1="0" x2="0" y1="0" y2="1"', "vertical", "0000FF", "FF0000"),  # downwards; TikZ goes up
        ('x1="0" x2="1" y1="0" y2="0"', "horizontal", "FF0000", "0000FF"),
        ('x1="1" x2="0" y1="0" y2="0"', "horizontal", "0000FF", "FF0000"),
    ],
)
def test_a_gradient_goes_its_way(ends: str, way: str, first: str, last: str) -> None:
    stops = (
        '<stop offset="0" stop-color="#f00"/><stop offset="0.5" stop-color="#fff"/><stop offset="1" stop-color="#00f"/>'
    )
    svg = f'<svg width="9" height="9"><defs><linearGradient id="g" {ends}>{stops}</linearGradient></defs>'
    said = tikz(f'{svg}<path d="M0,0h9v1Z" fill="url(#g)"/></svg>')
    stops = [(0, first), (25, first), (50, "FFFFFF"), (75, last), (100, last)]
    declared = "; ".join(f"color({at}bp)=(hw{colour})" for at, colour in stops)
    (name,) = re.findall(rf"\\pgfdeclare{way}shading{{(\w+)}}{{100bp}}{{{re.escape(declared)}}}", said)
    assert rf"\path[shading={name}] (0,9)--(9,9)--(9,8)--cycle;" in said


@pytest.mark.parametrize(
    ("content", "says"), [("<image/>", "<image>"), ('<path d="M0,0h1" fill="papayawhip"/>', "not papayawhip")]
)
def test_what_is_not_known_is_refused_in_a_line(content: str, says: str) -> None:
    with pytest.raises(InputError, match=rf"{says}.*save it as \.pdf"):
        drawing(content)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#$%&_{}", r"\#\$\%\&\_\{\}"),
        ("\\^~", r"\textbackslash{}\textasciicircum{}$\sim$"),
        ('<|">', r"$<$$|${\char34}$>$"),
        ("−0.5 α × 2 ‖x‖²", r"$-$0.5 $\alpha$ $\times$ 2 $\|$x$\|$$^{2}$"),
        ("a–b", r"a\textendash{}b"),
        ("▁the Ġof", r"\rule[-.15em]{.5em}{.08em}the Ġof"),
        ("##ing [CLS]", r"\#\#ing [CLS]"),
        ("--", r"-\kern0pt{}-"),
        ("``a''?`", r"`\kern0pt{}`a'\kern0pt{}'?\kern0pt{}`"),
        ("a\n\n\tb\x1b\u2028c", "a   b  c"),
        ("a\u200bb\u202ec\xad", "abc"),
        ("a\xa0b", "a~b"),
    ],
)
def test_texts_come_out_as_they_are(text: str, expected: str) -> None:
    assert escaped(text) == expected


def commands(latex: str) -> set[str]:
    return set(re.findall(r"\\(?:[A-Za-z]+|.)", latex))


def test_a_text_can_not_command() -> None:
    allowed = {r"\textbackslash", r"\textasciicircum", r"\sim", *(f"\\{sign}" for sign in "#$%&_{}")}
    told = escaped(HOSTILE)
    assert commands(told) == allowed
    assert told.startswith(r"\textbackslash{}input\{/etc/passwd\} \textbackslash{}write18\{rm\}")
    assert not re.search(r"(?<!\\)[#$%&_^~]", told.replace(r"$\sim$", ""))
    every = "".join(map(chr, range(0x100))) + "\u2028\u2029"
    assert not re.search(r"[\x00-\x1f\x7f-\xa0]", escaped(every))  # TeX ends lines there, or comments
    chart = alt.Chart(pl.DataFrame({"x": [HOSTILE], "y": [1.0]})).mark_bar()
    svg = vl_convert.vegalite_to_svg(chart.encode(x=alt.X("x:N", axis=alt.Axis(labelLimit=0)), y="y:Q").to_dict())
    said = tikz(svg)
    assert escaped(HOSTILE) in said
    assert commands(said) - allowed <= {
        rf"\{name}" for name in ("usepackage", "begin", "end", "definecolor", "path", "node", "fontsize", "selectfont",
                                 "bfseries")
    }  # fmt: skip


def test_other_scripts_are_named_on_top() -> None:
    text = '<svg width="1" height="1"><text fill="red">{}</text></svg>'
    assert tikz(text.format("你 é α Þ")).splitlines()[1].endswith("them: U+00DE U+4F60")
    assert "xelatex" not in tikz(text.format("naïve Ġα ▁…"))
    assert strange("≤ \u200b\x01") == []
    assert "{a b }" in tikz(text.format("a\x01b\uffff"))  # XML may not have them


def grid() -> Any:
    cells = [
        {"layer": i, "head": j, "what": "a", "name": f"L{i}.H{j}", "value": i + j / 7}
        for i in (0, 1)
        for j in (0, 1, 2)
    ]
    return head_grid(pl.DataFrame(cells), {"a": "weight α, 5 %"})


def interval() -> Any:
    return band(pl.DataFrame({"n": [1, 2, 3], "low": [0.1, 0.2, 0.2], "value": [0.2, 0.3, 0.5],
                              "high": [0.3, 0.5, 0.6]}), "n", unit="share_of {it}")  # fmt: skip


def box() -> Any:
    table = {"layer": [1, 0], "q05": [0.1, 0.2], "q25": [0.2, 0.3], "median": [0.3, 0.4], "q75": [0.4, 0.5]}
    return boxes(pl.DataFrame({**table, "q95": [0.5, 0.6], "count": [7, 8]}), "layer", titles=("layer", "share"),
                 order=[0, 1], percent=True)  # fmt: skip


def points() -> Any:
    table = pl.DataFrame({"a": [1.0, 0.5, 2.0], "b": [5.0, 6.0, 7.0], "kind": ["#k", "l", "l"]})
    return cloud(table, "a", "b", titles=("‖f(x)‖", "the b"), kinds=["#k", "l"], logarithmic=(True, False))


def layers() -> Any:
    table = pl.DataFrame({"layer": [0, 0, 1], "name": ["L0.H0", "L0.H1", "L1.H0"], "p": [1.0, 2.0, 1.5]})
    return by_layer(table, {"p": "Pearson"}, "nats", rule=0.5)


def arcs() -> Any:
    weights = np.array([[0.0, 0.4, 0.2], [0.1, 0.0, 0.5], [0.3, 0.1, 0.0]])
    return lines_between(weights, ["##a", "Ġb", "[SEP]"], title="t", marked=[(1, 2)], names="gold & old")


def heat() -> Any:
    table = map_table(np.array([[1.0, -0.5], [0.25, 0.0]]), ["1 a_", "2 b"], ["1 a_", "2 b"], "raw")
    return heat_map(table, title="raw", top=1.0, signed=True, size=40, unit="share")


def stacked() -> Any:
    table = pl.DataFrame({"layer": [0, 0, 1, 1], "what": ["x_1", "y^2", "x_1", "y^2"], "share": [0.3, 0.7, 0.6, 0.4]})
    return alt.Chart(table).mark_bar().encode(x="layer:O", y=alt.Y("share:Q", stack=True), color="what:N")


SHAPES: list[Callable[[], Any]] = [grid, interval, box, points, layers, arcs, heat, stacked]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_that_a_figure_draws_is_drawn(shape: Callable[[], Any]) -> None:
    svg = vl_convert.vegalite_to_svg(themed(shape(), "One: 100 %", "of $ 5").to_dict())
    root = ElementTree.fromstring(svg)
    texts = [part.text for node in root.iter() if node.tag.endswith("text") for part in node.iter() if part.text]
    said = tikz(svg)
    assert len(texts) > 3
    assert re.findall(r"\\node\[.*?\] at \([^)]*\) \{(.*)\};", said) == [escaped(text) for text in texts]

    def painted(node: ElementTree.Element, kind: str) -> bool:
        return node.get(kind, "none") not in ("none", "transparent") and node.get(f"{kind}-opacity") != "0"

    shapes = [node for node in root.iter() if node.tag.rpartition("}")[2] in ("path", "line", "rect")]
    hidden = {id(part) for node in root.iter() if node.tag.endswith("clipPath") for part in node}
    seen = [node for node in shapes if id(node) not in hidden and node.get("display") != "none"
            and (painted(node, "fill") or (painted(node, "stroke") and node.get("stroke-width") != "0"))
            and node.get("opacity") != "0"]  # fmt: skip
    assert len(re.findall(r"\\path\[(?!use)", said)) == len(seen) > 3


@pytest.mark.parametrize("how", ["paper", "chart"])
def test_it_is_saved_as_the_others_are(how: str, tmp_path: Path) -> None:
    chart, path = themed(grid(), "One", "of two"), tmp_path / "f.tikz"
    if how == "paper":
        names = [p.name for p in save_paper(chart.to_dict(), path, Paper(width=3.3, font="serif", title=False), of="b")]
        assert names == ["f.tikz", "f.caption.txt", "f.csv"]
        assert "{One}" not in path.read_text("utf-8")
    else:
        assert save_chart(chart, path) == path
        assert "{One}" in path.read_text("utf-8")
    box_ = re.search(r"bounding box\] \(0,0\) rectangle \(([\d.]+),", path.read_text("utf-8"))
    assert box_ is not None
    wide = float(ElementTree.fromstring(vl_convert.vegalite_to_svg(chart.to_dict())).get("width", 0))
    assert float(box_[1]) == pytest.approx(3.3 * 72 if how == "paper" else wide, rel=0.001)


def test_other_endings_name_it(tmp_path: Path) -> None:
    for save in (lambda path: save_paper({}, path, Paper()), lambda path: save_chart(alt.Chart(), path)):
        with pytest.raises(InputError, match=r"\.tikz"):
            save(tmp_path / "f.tex")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_reads_it(tmp_path: Path) -> None:
    pictures = [
        tikz(vl_convert.vegalite_to_svg(themed(shape(), HOSTILE, "− α ▁ Ġ ‖ ² ≤ “é”").to_dict())) for shape in SHAPES
    ]
    body = "\n\n".join(pictures)
    (tmp_path / "f.tex").write_text(
        "\\documentclass{article}\\usepackage{tikz}\\begin{document}\n" + body + "\\end{document}\n", "utf-8"
    )
    asked = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "f.tex"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:].decode("latin-1")
    log = (tmp_path / "f.log").read_text("latin-1")
    assert not re.search(r"(?m)^!|Missing character|/etc/passwd", log)

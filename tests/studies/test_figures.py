"""Every figure of every study by its specification: which field lies on which axis, what rows lie in it, its numbers.

An axis that is swapped, a panel that is missing, a field that no row has: each of them fails here. Looked at by eye once,
then written down; a figure that is drawn otherwise on purpose changes its line.
"""

# ruff: noqa: E501 - a figure is a line

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import headwise as hw
from headwise.results import Result
from headwise.studies import STUDIES
from references import induction
from references.specs import signature, sizes, title, views
from references.words import COREF_CONLLU, conll

FIGURES = {
    ("ablation", "estimate"): "circle(x=estimate y=value)",
    ("ablation", "heads"): "2×rect(x=head y=layer color=value)",
    ("ablation", "removal"): "line(x=removed y=value color=name)",
    ("ablation", "statistics"): "rule(x=value) rule(x=low x2=high y=name) circle(x=value y=name)",
    ("adversary", "divergence"): "2×rule(x=low x2=high y=name) 2×circle(x=value y=name)",
    ("adversary", "importance"): "rule(x=value) rule(x=low x2=high y=name) circle(x=value y=name)",
    ("alignment", "fig13-17"): "6×rect(x=to y=from color=value) 6×circle(x=to y=from) 6×rect(x=to y=from)",
    ("alignment", "fig7"): "2×rule(x=layer y=low y2=high color=quantity) 2×line(x=layer y=aer color=quantity)",
    ("alignment", "fig8"): "6×rect(x=to y=from color=value) 6×circle(x=to y=from) 6×rect(x=to y=from)",
    ("alignment", "table3"): "rule(x=low x2=high y=name) circle(x=aer y=name) text(x=high y=name text=aer)",
    (
        "coref",
        "table2",
    ): "rule(x=low x2=high y=place color=quantity) circle(x=accuracy y=place color=quantity) text(x=high y=place text=name)",
    ("distances", "fig6"): "circle(x=x y=y color=layer) circle(x=x y=y color=behaviour) circle(x=x y=y color=cluster)",
    ("edges", "edges"): "4×rule(x=value) 4×rule(x=low x2=high y=name) 4×circle(x=value y=name)",
    ("faithfulness", "aopc"): "3×rule(x=value) 3×rule(x=low x2=high y=name) 3×circle(x=value y=name)",
    ("faithfulness", "curves"): "2×line(x=percent y=value color=name)",
    (
        "identity",
        "fig2a",
    ): "area(x=layer y=low y2=high color=map detail=distance) line(x=layer y=value color=map strokeDash=distance) circle(x=layer y=value color=map) rule(y=y) text(y=y text=name)",
    ("identity", "fig2b"): "line(x=tested y=value color=layer)",
    ("identity", "fig8"): "line(x=tested y=value color=layer)",
    ("identity", "frequency"): "rect(x=layer y=group color=value) text(x=layer y=group text=value)",
    ("identity", "matrix-linear-cosine"): "rect(x=tested y=layer color=value) text(x=tested y=layer text=value)",
    ("identity", "matrix-linear-l2"): "rect(x=tested y=layer color=value) text(x=tested y=layer text=value)",
    ("importance", "fig3"): "circle(x=layer y=value color=what) line(x=layer y=value color=what)",
    ("lamps", "lamps"): "4×rect(x=head y=layer color=value)",
    ("mixing", "fig18"): "2×line(x=place y=value color=kind) 2×rule(x=place) 2×text(x=place text=name)",
    ("mixing", "fig19"): "rect(x=token y=layer color=value) rect(x=token y=layer)",
    ("mixing", "fig26-37"): "3×rule(x=group y=q05 y2=q95) 3×bar(x=group y=q25 y2=q75) 3×tick(x=group y=median)",
    ("mixing", "fig2b"): "rule(x=layer y=q05 y2=q95) bar(x=layer y=q25 y2=q75) tick(x=layer y=median)",
    ("mixing", "fig3"): "2×rule(x=group y=q05 y2=q95) 2×bar(x=group y=q25 y2=q75) 2×tick(x=group y=median)",
    (
        "mixing",
        "fig3a",
    ): "rule(x=layer y=q05 y2=q95) bar(x=layer y=q25 y2=q75) tick(x=layer y=median) tick(x=layer y=value)",
    ("mixing", "fig3b"): "line(x=layer y=value color=kind)",
    ("mixing", "fig4"): "rule(x=group y=q05 y2=q95) bar(x=group y=q25 y2=q75) tick(x=group y=median)",
    ("mixing", "fig4a"): "line(x=layer y=value color=kind)",
    ("mixing", "fig4b"): "line(x=place y=value color=kind) rule(x=place) text(x=place text=name)",
    ("norms", "fig10"): "2×rect(x=head y=layer color=value)",
    ("norms", "fig11"): "2×rect(x=head y=layer color=value)",
    ("norms", "fig12"): "2×rect(x=head y=layer color=value)",
    ("norms", "fig3"): "2×circle(x=layer y=value color=what) 2×line(x=layer y=value color=what)",
    ("norms", "fig4"): "2×rect(x=head y=layer color=value)",
    ("norms", "fig5"): "circle(x=alpha y=f color=kind)",
    (
        "norms",
        "fig6",
    ): "circle(x=rank y=alpha color=kind) circle(x=rank y=f color=kind) circle(x=rank y=alpha) circle(x=rank y=f)",
    ("norms", "fig9"): "line(x=number y=value color=layer detail=name)",
    ("norms", "table2"): "rule(x=x) rule(x=low x2=high y=category) point(x=rho y=category)",
    (
        "nullspace",
        "fig1a",
    ): "rule(x=x y=y y2=end) circle(x=length y=pearson) area(x=length y=low y2=high) line(x=length y=value)",
    ("nullspace", "fig1b"): "circle(x=layer y=value color=what) line(x=layer y=value color=what)",
    ("nullspace", "fig1c"): "circle(x=layer y=value color=what) line(x=layer y=value color=what)",
    ("nullspace", "fig5"): "2×circle(x=layer y=value color=what) 2×line(x=layer y=value color=what)",
    (
        "nullspace",
        "mass",
    ): "rect(x=head y=layer color=value) circle(x=layer y=value color=what) line(x=layer y=value color=what)",
    ("nullspace", "rank"): "3×line(x=length y=value color=layer) 2×line(x=length y=value)",
    ("probe", "structural"): "rule(x=layer y=low y2=high) line(x=layer y=uuas color=kind)",
    ("probe", "table3"): "rule(x=low x2=high y=row) point(x=uas y=row color=kind shape=kind)",
    ("probe", "weights"): "6×rect(x=head y=layer color=value)",
    ("profile", "profile"): "4×rect(x=head y=layer color=value)",
    ("reasons", "beliefs"): "3×rule(x=value) 3×rule(x=low x2=high y=name) 3×circle(x=value y=name)",
    ("reasons", "trials"): "3×rule(x=value) 3×rule(x=low x2=high y=name) 3×circle(x=value y=name)",
    ("roles", "atlas"): "rect(x=head y=layer color=role) circle(x=head y=layer)",
    ("roles", "trials"): "rule(x=value) rule(x=low x2=high y=name) circle(x=value y=name)",
    ("surface", "fig2"): "3×circle(x=layer y=value color=what) 3×line(x=layer y=value color=what)",
    ("surface", "fig2-bottom"): "3×circle(x=layer y=value color=what) 3×line(x=layer y=value color=what)",
    ("surface", "fig4"): "circle(x=layer y=value color=what) line(x=layer y=value color=what) rule(y=y)",
    ("surface", "rel-pos"): "3×circle(x=layer y=value color=what) 3×line(x=layer y=value color=what)",
    ("syntax", "heads-effective"): "rect(x=name y=relation color=accuracy) point(x=name y=relation)",
    ("syntax", "heads-norm"): "rect(x=name y=relation color=accuracy) point(x=name y=relation)",
    ("syntax", "heads-raw"): "rect(x=name y=relation color=accuracy) point(x=name y=relation)",
    (
        "syntax",
        "table1",
    ): "tick(x=accuracy y=place) rule(x=low x2=high y=place color=quantity) circle(x=accuracy y=place color=quantity) text(x=high y=place text=name)",
}
WORDS = (
    "the",
    "old",
    "dog",
    "saw",
    "a",
    "young",
    "cat",
    "in",
    "the",
    "big",
    "sea",
    "and",
    "it",
    "was",
    "so",
    ".",
    "the",
    "sun",
    ",",
    "they",
    "say",
    ",",
    "is",
    "big",
)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "mixing": {"texts": 2, "quantities": ("rollout",)}, "identity": {"folds": 2, "sentences": 40},
    "syntax": {"resamples": 10, "choose_first": 4},
    "probe": {"vectors": "model", "seeds": 1, "epochs": 1, "structural_epochs": 1, "structural_rank": 2},
    "faithfulness": {"methods": ("random", "raw-attention", "leave-one-out")}, "adversary": {"steps": 2},
    "reasons": {"methods": ("leave-one-out", "raw-attention", "random"), "texts": 3},
    "ablation": {"texts": 7, "ways": ("mean",), "curve": 2, "draws": 1}, "edges": {"edges": 24, "texts": 3},
    "roles": {"sequences": 2, "texts": 2, "draws": 2},
    "coref": {"resamples": 10, "choose_first": 1}, "alignment": {"resamples": 10, "choose_first": 2},
}  # fmt: skip


def conllu(count: int) -> str:
    """Sentences of some length, each word hanging on the one before."""
    text = ""
    for sentence in range(count):
        words = WORDS[sentence % 5 : sentence % 5 + 12]
        for at, word in enumerate(words, start=1):
            tag = "PUNCT" if word in ".," else "NOUN" if at % 2 else "VERB"
            relation = "root" if at == 1 else "punct" if tag == "PUNCT" else "dep"
            text += f"{at}\t{word}\t_\t{tag}\t{tag}\t_\t{at - 1}\t{relation}\t_\t_\n"
        text += "\n"
    return text


@pytest.fixture(scope="module")
def results(load: Callable[..., hw.Model], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Every study on a few texts."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "parsed.conllu").write_text(conllu(10), "utf-8")
    (folder / "labelled.tsv").write_text("text\tlabel\n" + "the old sea\t1\nit was so , they say\t0\n" * 3, "utf-8")
    (folder / "some.pairs").write_text("das Haus ist alt ||| the house is old ||| 0-0 1-1 2-2 3-3\n" * 6, "utf-8")
    for name in ("one", "two", "three"):
        for kind, text in (("conll", "\n".join(conll())), ("conllu", COREF_CONLLU)):
            (folder / "tales" / kind).mkdir(parents=True, exist_ok=True)
            (folder / "tales" / kind / f"{name}.{kind}").write_text(text, "utf-8")
    plain = (
        "surface",
        "profile",
        "norms",
        "nullspace",
        "distances",
        "importance",
        "mixing",
        "identity",
        "syntax",
        "probe",
    )
    runs = (
        (plain, ("bert", "masked-lm"), "parsed.conllu", {}),
        (("faithfulness", "adversary", "reasons"), ("bert", "classification"), "labelled.tsv", {"label": "label"}),
        (("alignment",), ("marian", "translation"), "some.pairs", {}),
        (("coref",), ("bert", None), "tales/conll", {"truncate": True}),
        (("ablation", "edges", "lamps"), ("llama", "causal-lm"), "parsed.conllu", {}),
    )
    found: dict[str, Result] = {}
    for studies, (family, task), corpus, options in runs:
        made = hw.run(studies, load(f"tiny:{family}", task), corpus=folder / corpus, out=folder / studies[0], progress=False,
                      settings={name: SETTINGS.get(name, {}) for name in studies}, **options)  # fmt: skip
        found |= {studies[0]: made} if isinstance(made, Result) else made
    (folder / "numbers.txt").write_text("w3 w4 w5 w6 w7 w8 w9\nw4 w5 w9 w12 w2 w3 w8", "utf-8")
    found["roles"] = hw.run("roles", induction.loaded(), corpus=folder / "numbers.txt", out=folder / "roles",
                            progress=False, settings={"roles": SETTINGS["roles"]})  # fmt: skip
    return found


def test_every_figure_of_every_study_is_drawn_as_it_is_written_down(results: dict[str, Result]) -> None:
    drawn = {
        (study, figure): signature(result.spec(figure))
        for study, result in results.items()
        for figure in result.figures
    }
    assert drawn == FIGURES


def test_every_figure_is_what_vega_lite_allows(results: dict[str, Result]) -> None:
    """A run writes figures without validation, which takes long; opening one validates it."""
    for result in results.values():
        for figure in result.figures:
            result.figure(figure)


def test_every_figure_has_a_caption_and_a_title(results: dict[str, Result]) -> None:
    for study, result in results.items():
        for figure in result.figures:
            assert STUDIES[study].caption(figure), f"{study} {figure} must have a caption"
            assert ": " in title(result.spec(figure))


def test_what_is_drawn_lies_in_the_rows(results: dict[str, Result]) -> None:
    for study, result in results.items():
        for figure in result.figures:
            for view in views(result.spec(figure)):
                assert view.rows, f"{study} {figure}: {view} has no rows"
                there = set().union(*view.rows)
                assert {*view.fields.values(), *view.told} <= there, f"{study} {figure}: {view} of {sorted(there)}"


def test_every_panel_is_large_enough_to_be_read(results: dict[str, Result]) -> None:
    for study, result in results.items():
        for figure in result.figures:
            small = [size for size in sizes(result.spec(figure)) if size < 20]
            assert not small, f"{study} {figure} has a panel of {small} pixels"


def grid(spec: Mapping[str, Any], number: int = 0) -> dict[tuple[int, int], float]:
    """The values of a grid of heads by what lies on its axes: (y, x)."""
    view = [view for view in views(spec) if view.mark == "rect"][number]
    return {(row[view.fields["y"]], row[view.fields["x"]]): row[view.fields["color"]] for row in view.rows}


def test_grids_of_heads_show_the_table_with_layers_down_and_heads_along(results: dict[str, Result]) -> None:
    for study, figure, column in (("profile", "profile", "to_first"),):
        table = results[study].table
        expected = {(row["layer"], row["head"]): row[column] for row in table.iter_rows(named=True)}
        assert grid(results[study].spec(figure)) == pytest.approx(expected)
    share = results["nullspace"].table.filter(what="null_share").drop_nulls("head")
    expected = {(row["layer"], row["head"]): row["value"] for row in share.iter_rows(named=True)}
    assert grid(results["nullspace"].spec("mass")) == pytest.approx(expected)


def test_points_by_layer_are_the_tables_own(results: dict[str, Result]) -> None:
    table = results["surface"].table.filter(quantity="raw")
    points = views(results["surface"].spec("fig4"))[0]
    drawn = sorted((row["layer"], round(row["value"], 9)) for row in points.rows if row["what"] == "all rows")
    assert drawn == sorted((row["layer"], round(row["entropy"], 9)) for row in table.iter_rows(named=True))


def test_titles_tell_the_numbers_of_the_table(results: dict[str, Result]) -> None:
    pairs = results["distances"].table.filter(stack="self")
    inside = pairs.filter((pairs["layer_a"] == pairs["layer_b"]) & (pairs["a"] != pairs["b"]))["js"].mean()
    outside = pairs.filter(pairs["layer_a"] != pairs["layer_b"])["js"].mean()
    assert f"within a layer {inside:.3f}, between layers {outside:.3f} nats" in title(results["distances"].spec("fig6"))
    size = results["nullspace"].manifest["stacks"]["self"][2]
    assert f"(head size {size})" in title(results["nullspace"].spec("rank"))
    texts = results["faithfulness"].table["texts"].max()
    assert re.search(
        rf"\b{texts} texts, mean probability of the prediction 0\.\d\d", title(results["faithfulness"].spec("aopc"))
    )


def test_a_figure_is_json_that_any_reader_takes(results: dict[str, Result]) -> None:
    for result in results.values():
        for figure in result.figures:
            text = Path(result.folder / "figures" / f"{figure}.json").read_text("utf-8")
            json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_reading_of_specifications_sees_a_swapped_axis() -> None:
    """The tool itself: of the same rows, another axis gives another signature."""
    chart = {
        "data": {"values": [{"a": 1, "b": math.pi}]},
        "mark": "point",
        "encoding": {"x": {"field": "a"}, "y": {"field": "b"}},
    }
    swapped = {**chart, "encoding": {"x": {"field": "b"}, "y": {"field": "a"}}}
    assert signature(chart) == "point(x=a y=b)"
    assert signature(swapped) == "point(x=b y=a)"
    assert signature({"hconcat": [chart, chart]}) == "2×point(x=a y=b)"
    assert (
        signature({"layer": [{"mark": "line"}], **{k: v for k, v in chart.items() if k != "mark"}}) == "line(x=a y=b)"
    )

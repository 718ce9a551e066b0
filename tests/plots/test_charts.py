"""The charts that most figures are made of, from tables written by hand: which field is on which axis, in which order,
under which title, and the numbers that lie in it."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from headwise.plots.boxes import boxes
from headwise.plots.cloud import cloud
from headwise.plots.grid import head_grid
from headwise.plots.lines import band, line_by
from headwise.plots.scatter import by_layer
from headwise.plots.series import series
from headwise.plots.strip import strip
from headwise.plots.theme import CATEGORIES, DIVERGING, SEQUENTIAL


def rows(spec: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    """The data that a chart, or a layer of one, draws."""
    return spec["datasets"][part.get("data", spec.get("data"))["name"]]


def on(part: dict[str, Any]) -> dict[str, Any]:
    """Channel → (field, title) of a mark; a tooltip is the list of its fields with their formats."""
    found: dict[str, Any] = {}
    for channel, said in part["encoding"].items():
        if isinstance(said, list):
            found[channel] = [(one["field"], one.get("format")) for one in said]
        else:
            found[channel] = (said.get("field", said.get("value")), said.get("title"))
    return found


def test_a_grid_of_heads_has_layers_down_and_heads_along() -> None:
    cells = [(layer, head, what) for what in ("entropy", "other") for layer in (0, 1) for head in (0, 1, 2)]
    table = pl.DataFrame(
        {
            "layer": [c[0] for c in cells], "head": [c[1] for c in cells], "what": [c[2] for c in cells],
            "name": [f"L{c[0]}.H{c[1]}" for c in cells], "value": [float(at) for at in range(len(cells))],
        }
    )  # fmt: skip
    spec = head_grid(table, {"other": "The other", "entropy": "Entropy"}, tops={"entropy": 9.0}).to_dict()
    assert [part["title"]["text"] for part in spec["hconcat"]] == ["The other", "Entropy"]
    assert spec["resolve"] == {"scale": {"color": "independent"}}
    other, entropy = spec["hconcat"]
    assert on(other) == {
        "x": ("head", "head"), "y": ("layer", "layer"), "color": ("value", None),
        "tooltip": [("name", None), ("value", ".4g")],
    }  # fmt: skip
    assert [(row["layer"], row["head"], row["value"]) for row in rows(spec, other)][:4] == [
        (0, 0, 6.0), (0, 1, 7.0), (0, 2, 8.0), (1, 0, 9.0),
    ]  # fmt: skip
    assert [part["encoding"]["color"]["scale"]["domain"] for part in (other, entropy)] == [[0, 11.0], [0, 9.0]]
    assert all(part["encoding"]["color"]["scale"]["clamp"] for part in (other, entropy))
    assert other["width"] / 3 == entropy["width"] / 3  # a column a head


def test_a_grid_of_nothing_but_zeros_still_has_a_scale() -> None:
    table = pl.DataFrame({"layer": [0], "head": [0], "what": ["a"], "name": ["L0.H0"], "value": [0.0]})
    (part,) = head_grid(table, {"a": "A"}).to_dict()["hconcat"]
    assert part["encoding"]["color"]["scale"]["domain"] == [0, 1]


def test_a_grid_without_a_number_is_not_drawn() -> None:
    rows_ = {"layer": [0, 0], "head": [0, 0], "what": ["a", "b"], "name": ["L0.H0"] * 2, "value": [0.5, float("nan")]}
    spec = head_grid(pl.DataFrame(rows_), {"a": "A", "b": "B"}).to_dict()
    assert [part["title"]["text"] for part in spec["hconcat"]] == ["A"]
    told = pl.DataFrame({**rows_, "text": ["<b>one</b>", "two"]})
    (part,) = head_grid(told, {"a": "A", "b": "B"}, told=("text",)).to_dict()["hconcat"]
    assert [tip["field"] for tip in part["encoding"]["tooltip"]] == ["name", "value", "text"]


def test_a_strip_frames_its_own_token_and_ends_its_colours_at_the_others() -> None:
    table = pl.DataFrame(
        {"layer": [1, 1, 2, 2], "token": ["1 a", "2 b"] * 2, "value": [0.9, 0.1, 0.7, 0.3]}
    )  # fmt: skip
    spec = strip(table, own="1 a", unit="share").to_dict()
    cells, frame = spec["layer"]
    assert on(cells) == {
        "x": ("token", "input token"), "y": ("layer", "layer"), "color": ("value", "share"),
        "tooltip": [("layer", None), ("token", None), ("value", ".2%")],
    }  # fmt: skip
    assert cells["encoding"]["x"]["sort"] == ["1 a", "2 b"]
    assert cells["encoding"]["color"]["scale"]["domain"] == [0, 0.3]
    assert cells["encoding"]["color"]["legend"]["format"] == ".1%"
    assert frame["transform"] == [{"filter": "(datum.token === '1 a')"}]
    assert on(frame)["x"] == ("token", "input token")


def test_a_cloud_has_its_columns_on_its_axes_and_drops_what_a_logarithm_cannot_show() -> None:
    table = pl.DataFrame({"a": [1.0, 0.0, 2.0, float("nan")], "b": [5.0, 6.0, -7.0, 8.0], "kind": ["k", "l", "l", "k"]})
    options: dict[str, Any] = {
        "titles": ("the a", "the b"),
        "kinds": ["l", "k"],
        "title": "Here",
    }
    spec = cloud(table, "a", "b", logarithmic=(True, False), tooltip=["kind:N"], **options).to_dict()
    assert on(spec) == {
        "x": ("a", "the a"), "y": ("b", "the b"), "color": ("kind", None),
        "tooltip": [("kind", None), ("a", ".4g"), ("b", ".4g")],
    }  # fmt: skip
    assert [(row["a"], row["b"]) for row in rows(spec, spec)] == [(1.0, 5.0), (2.0, -7.0)]
    assert spec["encoding"]["x"]["scale"] == {"type": "log", "nice": False}
    assert spec["encoding"]["y"]["scale"] == {"zero": False, "nice": True}
    assert spec["encoding"]["color"]["scale"]["domain"] == ["l", "k"]
    assert spec["title"]["text"] == "Here"
    assert "color" not in cloud(table, "a", "b", titles=("", "")).to_dict()["encoding"]


def test_points_by_layer_with_their_means_as_lines() -> None:
    table = pl.DataFrame(
        {
            "layer": [0, 0, 1], "name": ["L0.H0", "L0.H1", "L1.H0"], "side": ["here", "there", "here"],
            "p": [1.0, 2.0, float("nan")], "q": [3.0, None, 4.0],
        }
    )  # fmt: skip
    spec = by_layer(table, {"p": "Pearson", "q": "Other", "absent": "Absent"}, "nats", rule=0.5).to_dict()
    (panel,) = spec["hconcat"]
    points, lines, rule = panel["layer"]
    assert on(points) == {
        "x": ("layer", "layer"), "color": ("what", None), "y": ("value", "nats"),
        "tooltip": [("name", None), ("what", None), ("value", ".3f")],
    }  # fmt: skip
    assert lines["encoding"]["y"] == {"aggregate": "mean", "field": "value", "title": "nats", "type": "quantitative"}
    assert [(row["what"], row["layer"], row["value"]) for row in rows(spec, points)] == [
        ("Pearson", 0, 1.0), ("Pearson", 0, 2.0), ("Other", 0, 3.0), ("Other", 1, 4.0),
    ]  # fmt: skip
    assert rows(spec, rule) == [{"y": 0.5}]
    assert points["encoding"]["color"]["scale"]["domain"] == ["Pearson", "Other", "Absent"]
    facets = by_layer(table, {"p": "Pearson"}, "nats", facet="side").to_dict()
    assert [(part["title"]["text"], len(part["layer"])) for part in facets["hconcat"]] == [("here", 2), ("there", 2)]
    assert facets["resolve"]["scale"] == {"y": "independent", "color": "shared"}


def test_a_line_for_each_and_one_to_compare_with() -> None:
    table = pl.DataFrame({"length": [1, 2], "layer": [0, 0], "head": [1, 1], "value": [0.5, 0.25]})
    options: dict[str, Any] = {"titles": ("tokens", "share"), "colour": "layer"}
    spec = line_by(table, "length", **options, detail="head", dashed={1.0: 0.5, 2.0: 0.75}).to_dict()
    lines, dashed = spec["layer"]
    assert on(lines) == {
        "x": ("length", "tokens"), "y": ("value", "share"), "color": ("layer", "layer"), "detail": ("head", None),
        "tooltip": [("layer", None), ("length", None), ("value", ".4g")],
    }  # fmt: skip
    assert rows(spec, dashed) == [{"length": 1.0, "value": 0.5}, {"length": 2.0, "value": 0.75}]
    assert on(dashed) == {"x": ("length", None), "y": ("value", None)}
    scales = [
        line_by(table, "length", **options, **more).to_dict()["layer"][0]["encoding"]["y"]["scale"]
        for more in ({}, {"logarithmic": True}, {"logarithmic": True, "ends": (0.0, 2.0)})
    ]
    assert scales == [{"zero": False}, {"type": "log"}, {"domain": [0.0, 2.0]}]


def test_a_band_reaches_from_low_to_high() -> None:
    table = pl.DataFrame({"n": [1], "low": [0.1], "value": [0.2], "high": [0.3]})
    area, line = band(table, "n", unit="share").to_dict()["layer"]
    assert on(area) == {"x": ("n", None), "y": ("low", "share"), "y2": ("high", None)}
    assert on(line) == {"x": ("n", None), "y": ("value", "share")}


def test_a_line_for_each_kind_with_marked_places() -> None:
    table = pl.DataFrame({"step": [3, 1, 3], "kind": ["b", "a", "a"], "value": [0.1, 0.2, 0.3]})
    options: dict[str, Any] = {"titles": ("steps", "share"), "legend": "Kinds"}
    spec = series(table, "step", {"b": "#111", "a": "#222"}, **options, points=True, marked={2.0: "knee"}).to_dict()
    lines, rule, text = spec["layer"]
    assert on(lines) == {
        "x": ("step", "steps"), "y": ("value", "share"), "color": ("kind", None),
        "tooltip": [("kind", None), ("step", None), ("value", ".3%")],
    }  # fmt: skip
    assert lines["encoding"]["x"]["axis"]["values"] == [1, 3]
    assert lines["encoding"]["y"]["axis"]["format"] == ".2~%"
    assert lines["encoding"]["color"]["scale"] == {"domain": ["b", "a"], "range": ["#111", "#222"]}
    assert lines["encoding"]["color"]["legend"] == {"title": "Kinds"}
    assert rows(spec, rule) == rows(spec, text) == [{"step": 2.0, "name": "knee"}]
    assert (on(rule)["x"], on(text)["text"]) == (("step", None), ("name", None))
    plain = series(table, "step", {"b": "#111"}, titles=("", ""), legend=None, percent=False).to_dict()
    assert len(plain["layer"]) == 1
    assert "values" not in plain["layer"][0]["encoding"]["x"]["axis"]
    assert plain["layer"][0]["encoding"]["color"]["legend"] is None
    assert plain["layer"][0]["encoding"]["y"]["axis"]["format"] == "~g"
    assert on(plain["layer"][0])["tooltip"][-1] == ("value", ".4g")


def test_boxes_from_quantiles() -> None:
    table = pl.DataFrame(
        {"layer": [1, 0], "q05": [0.1, 0.2], "q25": [0.2, 0.3], "median": [0.3, 0.4], "q75": [0.4, 0.5],
         "q95": [0.5, 0.6], "count": [7, 8]}
    )  # fmt: skip
    even = pl.DataFrame({"layer": [0], "value": [0.5]})
    options: dict[str, Any] = {"titles": ("layer", "share"), "order": [1, 0]}
    spec = boxes(table, "layer", **options, percent=True, title="T", top=0.8, rule=even).to_dict()
    whisker, box, median, tick = spec["layer"]
    assert on(whisker) == {
        "x": ("layer", "layer"), "y": ("q05", "share"), "y2": ("q95", None),
        "tooltip": [("layer", None), *((name, ".1%") for name in ("q05", "q25", "median", "q75", "q95")),
                    ("count", None)],
    }  # fmt: skip
    assert whisker["encoding"]["x"]["sort"] == [1, 0]
    assert whisker["encoding"]["y"]["scale"] == {"domain": [0, 0.8]}
    assert whisker["encoding"]["y"]["axis"] == {"format": "%"}
    assert (on(box)["y"], on(box)["y2"], on(median)["y"]) == (("q25", None), ("q75", None), ("median", None))
    assert (rows(spec, tick), on(tick)["y"], on(tick)["x"]) == (even.to_dicts(), ("value", None), ("layer", None))
    assert spec["title"]["text"] == "T"
    wide = [part["mark"].get("size") for part in (box, median, tick)]
    assert wide[0] == wide[1] == wide[2] - 6, "the median is as wide as its box, the rule a little wider"
    assert 0 < wide[0] < spec["width"]["step"], "boxes do not touch"
    plain = boxes(table, "layer", **options).to_dict()["layer"]
    assert len(plain) == 3
    assert plain[0]["encoding"]["y"]["scale"] == {"zero": True}
    assert on(plain[0])["tooltip"][1] == ("q05", ".0f")


def test_colours_are_colours_and_white_is_zero() -> None:
    for palette in (DIVERGING, SEQUENTIAL, CATEGORIES):
        assert all(re.fullmatch("#[0-9A-Fa-f]{6}", colour) for colour in palette)
        assert len(set(palette)) == len(palette)
    assert (DIVERGING[len(DIVERGING) // 2], SEQUENTIAL[0]) == ("#ffffff", "#ffffff")

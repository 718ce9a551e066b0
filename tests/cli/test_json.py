"""JSON for programs: as its schema in docs/schemas says, and exit code 1 where a condition holds."""

from __future__ import annotations

import json
import re
import sys
from math import nan
from pathlib import Path

import polars as pl
import pytest
from jsonschema import Draft202012Validator

from headwise.cli import main
from headwise.reports.comparison.gate import gauges

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
STRICT = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}


def verb(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["headwise", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def valid(text: str, name: str) -> dict:
    found = json.loads(text, **STRICT)
    Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text())).validate(found)
    return found


def rows(*heads: tuple[str, str, float, bool]) -> pl.DataFrame:
    table = pl.DataFrame(heads, schema=["name", "what", "change", "clear"], orient="row")
    return table.with_columns(stack=pl.lit("self"))


def test_gauges_by_hand() -> None:
    table = rows(
        ("L0.H0", "to_first", 0.25, True), ("L0.H0", "to_separator", -0.5, True), ("L0.H0", "raw cv", nan, False),
        ("L0.H1", "to_first", 0.5, False), ("L0.H1", "to_separator", 0.0, False), ("L0.H1", "raw cv", 3.0, False),
    )  # fmt: skip
    found = gauges(table, texts=7)
    assert (found["clear"], found["texts"]) == (2, 7)
    assert found["to_first"] == {"L0.H0": 0.25, "L0.H1": 0.5}
    assert found["sink_share"] == {"L0.H0": -0.25, "L0.H1": 0.5}
    assert found["sink_share.size"] == {"L0.H0": 0.25, "L0.H1": 0.5}
    assert found["sink_share.mean"] == 0.125
    assert found["raw.cv.mean"] == 3.0
    twice = gauges(pl.concat([table, table.with_columns(stack=pl.lit("cross"))]), texts=7)
    assert list(twice["to_first"]) == ["self L0.H0", "self L0.H1", "cross L0.H0", "cross L0.H1"]  # pyright: ignore[reportArgumentType]


def test_the_gate_of_a_comparison(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("headwise.reports.comparison.run.figures_of", lambda *_: {})
    corpus = tmp_path / "c.txt"
    corpus.write_text("".join(f"The dog sat in the sun{' and slept' * n}.\n" for n in range(10)))
    where = ["compare", "tiny:bert", "tiny:bert", "--corpus", str(corpus), "--resamples", "100", "--out"]
    said = valid_run(monkeypatch, capsys, [*where, str(tmp_path / "out"), "--json", "-"])
    assert valid(said, "compare")["failed"] == []
    code = verb(
        monkeypatch, *where, str(tmp_path / "out"), "--fail-if", "texts >= 10", "--json", str(tmp_path / "x.json")
    )
    assert code == 1
    assert 'headwise: failed: texts is 10 (--fail-if "texts >= 10")' in capsys.readouterr().err
    assert valid((tmp_path / "x.json").read_text(), "compare")["failed"] == ['texts is 10 (--fail-if "texts >= 10")']
    assert verb(monkeypatch, *where, str(tmp_path / "out"), "--fail-if", "texts > 10") == 0
    assert verb(monkeypatch, *where, str(tmp_path / "out"), "--fail-if", "tests > 3") == 2
    shown = valid_run(monkeypatch, capsys, ["show", str(tmp_path / "out" / "a"), "--json", "-"])
    assert valid(shown, "show")["documents"] == 10


def valid_run(monkeypatch, capsys, words: list[str]) -> str:
    capsys.readouterr()
    assert verb(monkeypatch, *words) == 0
    return capsys.readouterr().out


def test_inspect(monkeypatch, capsys) -> None:
    said = valid_run(monkeypatch, capsys, ["inspect", "the dog", "--model", "tiny:bert", "--json", "-"])
    assert valid(said, "inspect")["output_error"] < 1e-5
    assert valid(said, "inspect")["query_key"] is None


def test_inspect_of_one_cell(monkeypatch, capsys) -> None:
    cell = ["--head", "L1.H2", "--query", "3", "--key", "1"]
    words = ["inspect", "the old dog", "--model", "tiny:llama", *cell, "--json", "-"]
    said = valid(valid_run(monkeypatch, capsys, words), "inspect")
    found = said["query_key"]
    assert (found["where"], found["tokens"]) == ("L1.H2", [said["tokens"][3], said["tokens"][1]])
    dot = sum(row["query"] * row["key"] for row in found["dimensions"])
    assert found["dot"] == pytest.approx(dot, rel=1e-5, abs=1e-9)
    assert found["score"] == pytest.approx(found["times"] * dot + found["added"], rel=1e-4, abs=2e-6)


def test_doctor(monkeypatch, capsys) -> None:
    found = valid(valid_run(monkeypatch, capsys, ["doctor", "tiny:gpt-neox", "--json", "-"]), "doctor")
    assert [(layer["heads"], layer["head_size"]) for layer in found["layers"]] == [(4, 6)] * 3
    refused = {one["name"] for one in found["quantities"] if one["refused"]}
    assert "norm-residual" in refused
    assert not {"raw", "effective"} & refused


def test_explain_and_cite(tmp_path: Path, monkeypatch, capsys) -> None:
    words = ["explain", "the old dog and the cat", "--model", "tiny:gpt2", "--task", "causal-lm", "--method", "paths"]
    found = valid(valid_run(monkeypatch, capsys, [*words, "--json", "-"]), "explain")
    (target,) = found["targets"]
    scores = [unit["score"] for unit in target["units"] if unit["score"] is not None]
    assert sum(scores) + sum(part[0] for part in found["adds"].values()) == pytest.approx(target["value"], rel=1e-4)
    assert (found["belief"] is None) == (found["verdict"] is None)
    (tmp_path / "c.txt").write_text("the old dog sat. the cat slept.")
    words = [
        "cite",
        "--context",
        str(tmp_path / "c.txt"),
        "--question",
        "who sat?",
        "--answer",
        "the dog.",
        "--passes",
        "16",
    ]
    cited = valid(valid_run(monkeypatch, capsys, [*words, "--model", "tiny:gpt2", "--json", "-"]), "cite")
    assert cited["answer"] == "the dog."
    assert len(cited["fit"]) == len(cited["sentences"]) == 1


def test_align(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "de").write_text("das Haus ist alt\n" * 3)
    (tmp_path / "en").write_text("the house is old\n" * 3)
    words = ["align", "--model", "tiny:marian", "--source", str(tmp_path / "de"), "--target", str(tmp_path / "en")]
    found = valid(valid_run(monkeypatch, capsys, [*words, "--out", str(tmp_path / "out"), "--json", "-"]), "align")
    written = (tmp_path / "out" / "links.txt").read_text().splitlines()
    assert [" ".join(f"{s}-{t}" for s, t in links) for links in found["links"]] == written
    assert (found["pairs"], found["scores"]) == (3, [])


def test_reproduce(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "wikitext2").mkdir()
    (tmp_path / "wikitext2" / "wiki.test.raw").write_text(" = Cats = \n" + " The cat sat on the mat . \n" * 3)
    words = [
        "reproduce",
        "clark2019",
        "--item",
        "fig2",
        "--data",
        str(tmp_path),
        "--model",
        "tiny:bert",
        "--controls",
        "0",
    ]
    found = valid(valid_run(monkeypatch, capsys, [*words, "--out", str(tmp_path / "o"), "--json", "-"]), "reproduce")
    assert {claim["verdict"] for claim in found["claims"]} == {"undecided"}


@pytest.mark.parametrize("what", ["quantities", "studies", "models"])
def test_list(what: str, monkeypatch, capsys) -> None:
    """The names of the printed list, in its order; a line each in a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    found = valid(valid_run(monkeypatch, capsys, ["list", what, "--json", "-"]), "list")
    printed = valid_run(monkeypatch, capsys, ["list", what]).splitlines()
    names = [entry["name"] for entry in found["entries"]]
    assert found["list"] == what
    assert [line.split()[0] for line in printed if line.split()[0] in names] == names
    assert all(entry["about"] in "\n".join(printed) for entry in found["entries"])


def test_list_families(monkeypatch, capsys) -> None:
    from headwise.models import tiny

    monkeypatch.setattr(tiny, "FAMILIES", {"bert": tiny.FAMILIES["bert"]})
    for others in ("OUTSIDE", "SENSES"):
        monkeypatch.setattr(tiny, others, {})
    proved, *refused = valid(valid_run(monkeypatch, capsys, ["list", "families", "--json", "-"]), "list")["entries"]
    assert (proved["name"], proved["stacks"], proved["residual"], proved["refused"]) == ("bert", ["self"], True, None)
    assert 0 <= proved["projection_error"] < 1e-5
    assert {one["name"]: one["refused"] for one in refused} == tiny.REFUSED


def test_the_card_of_a_report(tmp_path: Path, monkeypatch, capsys) -> None:
    corpus, out = tmp_path / "c.txt", tmp_path / "out"
    corpus.write_text("The dog sat in the sun.\nIt was said again.\n")
    words = ["report", "--model", "tiny:bert", "--corpus", str(corpus), "--studies", "surface", "--out", str(out)]
    said = valid_run(monkeypatch, capsys, [*words, "--card"])
    assert said.startswith("## May its attention be shown as an explanation?\n")
    assert said == (out / "card.md").read_text() + "\n"
    assert (out / "report.html").is_file()
    assert "report.html" in valid_run(monkeypatch, capsys, words)


def test_run_writes_what_show_does(tmp_path: Path, monkeypatch, capsys) -> None:
    corpus, out = tmp_path / "c.txt", tmp_path / "out"
    corpus.write_text("The dog sat in the sun.\nIt was said again.\n")
    words = ["run", "surface,lamps", "--model", "tiny:bert", "--corpus", str(corpus), "--out", str(out)]
    found = valid(valid_run(monkeypatch, capsys, [*words, "--json", "-"]), "run")
    assert [one["study"] for one in found["results"]] == ["surface", "lamps"]
    for one in found["results"]:
        shown = valid_run(monkeypatch, capsys, ["show", str(out / one["study"]), "--json", "-"])
        assert valid(shown, "show") == one


def test_the_page_of_documents_calls_none_a_list() -> None:
    """Every document is an object that names its schema; the guide once called one a list."""
    page = (SCHEMAS.parent / "guides" / "pipelines.md").read_text("utf-8")
    rows = re.findall(r"\(\.\./schemas/(\w+)\.json\)(.*?)\|", page)
    assert {name for name, _ in rows} == {path.stem for path in SCHEMAS.glob("*.json")}
    for name, said in rows:
        schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
        assert schema["type"] == "object"
        assert "schema" in schema["required"]
        assert not said.strip(": ").startswith("a list"), name
        for field in re.findall(r"`(\w+)` is a list", said):
            assert schema["properties"][field]["type"] == "array"

"""What was read, in the shell's words: columns, how many texts a study asked, and commands that can be pasted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from headwise.cli import main
from headwise.cli.run import texts_of
from headwise.reports.comparison.run import compare
from headwise.text.corpus import open_corpus


def manifest(study: str, documents: int, **settings: Any) -> dict[str, Any]:
    return {"study": study, "documents": documents, "settings": settings}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (manifest("reasons", 60, texts=1), "the first 1 of 60 texts"),
        (manifest("ablation", 6, texts=6), "6 texts"),
        (manifest("ablation", 7, texts=6), "the first 6 of 7 texts"),
        (manifest("faithfulness", 1200, texts=0), "1,200 texts"),
        (manifest("surface", 1), "1 text"),
        (manifest("strongest", 60, texts=3), "60 texts"),  # its texts are examples that are kept
        (manifest("compare", 60, texts=48), "60 texts"),
    ],
)
def test_texts_that_were_asked_are_told_and_not_those_of_the_corpus(found: dict[str, Any], said: str) -> None:
    assert texts_of(found) == said


def test_a_string_of_columns_is_one_or_several_with_commas(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("satz,zweiter Satz,urteil\nEins.,Zwei.,1\n")
    alone, both, numbered = (open_corpus(path, columns=columns) for columns in ("satz", "satz,zweiter Satz", "1,0"))
    assert (alone.columns, both.columns, numbered.columns) == (("satz",), ("satz", "zweiter Satz"), (1, 0))
    assert [(one.text, one.pair) for one in both.documents()] == [("Eins.", "Zwei.")]
    assert alone == open_corpus(path, columns=["satz"])


def said_to(name: str, args: list[str], where: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command `name` asks of Python."""
    asked: dict[str, Any] = {}

    def stop(*given: Any, **options: Any) -> None:
        asked.update(options, given=given)
        raise SystemExit(0)

    monkeypatch.setattr("headwise.cli.options.check_first", lambda **_: None)  # these names are of no files
    monkeypatch.setattr(where, stop)
    monkeypatch.setattr(sys, "argv", ["headwise", name, *args])
    with pytest.raises(SystemExit):
        main()
    return asked


def test_a_report_says_its_command_so_that_it_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["--model", "./my model", "--columns", "Satz A,Satz B", "--label", "it's"]
    asked = said_to("report", args, "headwise.reports.report", monkeypatch)
    assert asked["command"] == """headwise report --model './my model' --columns 'Satz A,Satz B' --label 'it'"'"'s'"""
    assert shlex.split(asked["command"]) == ["headwise", "report", *args]


def test_compare_takes_columns_and_labels_as_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["demo", "./m", "--corpus", "p.csv", "--columns", "Satz A,Satz B", "--label", "3", "--out", "o"]
    asked = said_to("compare", args, "headwise.reports.comparison.run.compare", monkeypatch)
    assert (asked["columns"], asked["label"], asked["given"]) == ("Satz A,Satz B", 3, ("demo", "./m"))


def test_compare_loads_the_head_that_a_study_asks_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class AskedError(Exception):
        pass

    def load(name: str, **options: Any) -> None:
        raise AskedError(name, options["task"])

    monkeypatch.setattr("headwise.reports.comparison.run.own_task", lambda name: f"the task of {name}")
    monkeypatch.setattr("headwise.reports.comparison.run.load", load)
    with pytest.raises(AskedError) as own:
        compare("./m", "./n", out=tmp_path, study="ablation", task=None)
    with pytest.raises(AskedError) as named:
        compare("./m", "./n", out=tmp_path, study="ablation", task="masked-lm")
    assert (own.value.args, named.value.args) == (("./m", "the task of ./m"), ("./m", "masked-lm"))


JSONL = '{"text": "it was in the north"}\n'


@pytest.mark.parametrize(
    "words",
    [
        ["verdict", "tiny:bert", "--studies", "lamps"],
        ["verdict", "tiny:bert", "--studies", "lamps", "--json"],
        ["report", "--model", "tiny:bert", "--studies", "surface"],
        ["compare", "tiny:bert", "tiny:bert", "--resamples", "100"],
    ],
)
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.jsonl", '{"text": "the river was old"}\n{"text": \n{"text": "it was in the north"}\n[\n' + JSONL * 8,
         "2 texts were skipped (2 malformed JSON)"),
        ("c.csv", "n,text\n1,the river was old\n2\n" + "3,it was in the north\n" * 9,
         "1 text was skipped (1 missing column)"),
        ("c.txt", "the river was old\n" * 10, ""),
    ],
)  # fmt: skip
def test_lines_that_could_not_be_read_are_told_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], name: str,
    content: str, said: str,
) -> None:  # fmt: skip
    """Once, on standard error; nothing where all were read."""
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["headwise", *words, "--corpus", name, "--out", "out"])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert not stop.value.code
    assert [line for line in err.splitlines() if "skipped" in line] == ([f"{name}: {said}"] if said else [])
    assert "was skipped" not in out

"""The command line, in process: what it prints and writes, and that a mistake is one line and exit code 2."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

import headwise as hw
from headwise.cli import flowing, main, options
from headwise.cli.inspect import fitting

TEXT = "the river of the city was in the north and it was old"


@pytest.fixture
def headwise(monkeypatch, capsys):
    """`headwise("inspect", "text")` → (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headwise", *arguments])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_version_is_said(headwise) -> None:
    assert headwise("--version") == (0, f"headwise {hw.__version__}\n", "")
    assert "Commands" in headwise()[1], "no command is none of them"


def test_a_list_that_is_not_named_says_which_there_are(headwise) -> None:
    said = "A list must be named: one of quantities, studies, models, families, as in `headwise list quantities`."
    assert headwise("list") == (2, "", f"headwise: {said}\n")


def test_layers_are_told_where_somebody_waits(load, monkeypatch, capsys) -> None:
    """Three layers, twice, and after it no hook is left."""
    model = load("tiny:gpt2")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with options.layers_told(model, every=0):
        model.trace(TEXT, keep="top")
    said = capsys.readouterr().err.splitlines()
    assert said == [f"read {done} of 6 layers (each twice) …" for done in range(1, 7)]
    model.trace(TEXT, keep="top")
    assert capsys.readouterr().err == ""


def test_a_long_phase_is_told_off_a_terminal_too_and_a_short_one_nowhere(capsys) -> None:
    with options.phase("reading it"):
        pass
    assert capsys.readouterr().err == ""
    told = threading.Event()
    with options.phase("reading it", after=0.01):
        while not (said := capsys.readouterr().err):
            told.wait(0.01)
    assert said.startswith("still reading it, for 0 s …\n")


@pytest.mark.parametrize(
    ("arguments", "phases"),
    [
        (["inspect", TEXT, "--matters"],
         ["loading tiny:bert", "reading it", "computing raw and what each head matters"]),
        (["view", TEXT, "--quantities", "raw,norm"],
         ["loading tiny:bert", "reading it", "computing what the page shows (raw, norm)"]),
        (["view", TEXT, "--everything"],
         ["loading tiny:bert", "reading it", "computing what the page shows (every quantity, what each head matters)"]),
    ],
)  # fmt: skip
def test_every_slow_part_of_one_text_has_a_name(headwise, monkeypatch, tmp_path, arguments, phases) -> None:
    heard: list[str] = []
    monkeypatch.setattr(options, "phase", lambda doing: heard.append(doing) or contextlib.nullcontext())
    out = ["--out", str(tmp_path / "page.html")] if arguments[0] == "view" else []
    assert headwise(*arguments, "--model", "tiny:bert", *out)[0] == 0
    assert heard == phases


def test_inspect_prints_a_table_and_a_verdict(headwise):
    code, out, _ = headwise("inspect", TEXT, "--model", "tiny:bert", "--layer", "1")
    assert code == 0
    assert all(f"L1.H{head}" in out for head in range(4))
    assert "L0.H0" not in out
    assert "head size 6. So far, of 4 maps 0 may be shown" in out
    assert "lamps: unique? carries anything? matters?" in out


def test_inspect_begins_with_the_tokens_as_people_read_them(headwise):
    _, out, _ = headwise("inspect", "a dog\na", "--model", "tiny:gpt2", "--layer", "1")
    assert out.splitlines()[0] == "<s> a do g ↵ a </s>"


@pytest.mark.parametrize(
    ("width", "left"),
    [(None, []), ("93", []), ("85", ["next"]), ("80", ["next", "same"]), ("75", ["next", "same", "prev"]),
     ("55", ["next", "same", "prev", "special", "null", "loose"]),
     ("20", ["next", "same", "prev", "special", "null", "loose", "entropy"])],
)  # fmt: skip
def test_a_narrow_terminal_has_fewer_columns_of_heads_and_every_number_whole(headwise, monkeypatch, width, left):
    """What lights the lamp *carries*, and what each head matters, is never among those that are left out."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    code, out, _ = headwise("inspect", TEXT, "--model", "tiny:bert", "--matters")
    assert code == 0
    lines = out.splitlines()
    heading = next(line for line in lines if line.split()[:1] == ["lamps"]).split()
    every = ["lamps", "entropy", "special", "prev", "same", "next", "null", "loose", "carried", "parked", "sent",
             "sink", "matters"]  # fmt: skip
    assert [name for name in every if name not in heading] == [name for name in every if name in left]
    rows = [line for line in lines if re.match(r" *L\d\.H\d ", line)]
    assert all(re.search(r" -?\d\.\d{4}$", row) for row in rows)
    assert not any("…" in row for row in rows)
    said = [line for line in lines if line.startswith("left out")]
    word = "column" if len(left) == 1 else "columns"
    assert said == ([f"left out: {word} {', '.join(left)}; a wider terminal or --csv FILE has them"] if left else [])
    assert ("null: share" in out) == ("null" not in left)


def test_where_a_sink_has_a_long_name_that_is_shortened_first() -> None:
    rows = pl.DataFrame({"name": ["L0.H0", "L0.H1"], "entropy": [0.5, 1.0], "next": [0.25, 0.5],
                         "sink": ['"unbelievable"', None], "matters": [0.1, -0.2]})  # fmt: skip
    for width, sink, left in ((50, '"unbelievable"', []), (38, '"unbeli…', []), (30, '"unbeli…', ["next"])):
        printed, lacking = fitting(rows, "", width)
        assert next(iter(printed.columns[-2].cells)) == sink
        assert lacking == left


def test_what_is_parked_is_defined_alike_in_the_help_and_below_the_table(headwise):
    """A sink may be one word that every row looks at, so "on no word" alone would be untrue of it."""
    _, asked, _ = headwise("inspect", "--help")
    _, said, _ = headwise("inspect", TEXT, "--model", "tiny:bert", "--layer", "0")
    help_, table = (" ".join(text.split()) for text in (asked, said))
    assert (
        "the share of the weight that is parked on no word, or on one token, whoever looks, and the share of what is "
        "sent from there; and where"
    ) in help_
    assert (
        "parked: share of the weight on no word, or on one token, whoever looks; sent: share of what is sent from there"
    ) in table


def test_inspect_takes_the_name_that_a_head_has_everywhere(headwise):
    names = [["--head", "L1.H2"], ["--layer", "1", "--head", "2"], ["--layer", "1", "--head", "L1.H2"]]
    found = [headwise("inspect", TEXT, "--model", "tiny:bert", "--json", "-", *name)[1] for name in names]
    assert [row["name"] for row in json.loads(found[0])["heads"]] == ["L1.H2"]
    assert found[1:] == found[:1] * 2
    _, out, _ = headwise("inspect", TEXT, TEXT, "--model", "tiny:t5", "--json", "-", "--head", "cross L1.H0")
    assert [row["name"] for row in json.loads(out)["heads"]] == ["L1.H0"]
    assert (
        out
        == headwise("inspect", TEXT, TEXT, "--model", "tiny:t5", "--json", "-", "--head", "L1.H0", "--stack", "cross")[
            1
        ]
    )


def test_lamps_in_inspect_are_those_of_the_rule(headwise):
    """Unique at this length, yet no lamp is green where weight is parked; what matters is dark until it is asked."""
    code, out, _ = headwise("inspect", "the city .", "--model", "tiny:bert", "--json", "-")
    rows = json.loads(out)["heads"]
    assert code == 0
    assert all(row["lamp_matters"] == "dark" for row in rows)
    assert {row["show"] for row in rows if row["parked"] >= 0.5} <= {"with care", "no"}
    assert any(row["sink"] for row in rows)
    assert all("green" not in (row["lamp_unique"], row["lamp_carries"]) for row in rows if row["sink"])
    asked = json.loads(headwise("inspect", "the city .", "--model", "tiny:bert", "--matters", "--json", "-")[1])[
        "heads"
    ]
    assert all(row["lamp_matters"] != "dark" for row in asked)
    held = [row for row in asked if row["held"]]
    assert all(set(row["held"].split(", ")) <= {"unique", "carries", "matters"} for row in held)
    assert any("unique" in row["held"] for row in held)
    out = headwise("inspect", "the city .", "--model", "tiny:bert", "--matters")[1]
    assert "○" in out.partition("lamps: ")[0]
    assert (
        "matters: how far the sentence vector moves (1 − cos) with the head at zero (ablation of a report: at its mean)"
    ) in out
    assert "may be shown as what the head did" in out
    assert "was not asked" not in out


def test_inspect_writes_numbers_that_agree(headwise, tmp_path):
    names = {"json": "a.json", "csv": "a.csv", "parquet": "a.parquet"}
    flags = [part for kind, name in names.items() for part in (f"--{kind}", str(tmp_path / name))]
    code, _, _ = headwise("inspect", TEXT, "--model", "tiny:gpt2", *flags)
    assert code == 0
    heads = json.loads((tmp_path / "a.json").read_text())["heads"]
    table = pl.read_parquet(tmp_path / "a.parquet")
    assert len(heads) == len(table) == len(pl.read_csv(tmp_path / "a.csv")) == 12
    assert heads[5]["entropy"] == pytest.approx(table["entropy"][5])


def test_json_to_standard_output_is_json_alone(headwise):
    code, out, _ = headwise("inspect", TEXT, "--model", "tiny:llama", "--json", "-")
    assert code == 0
    assert json.loads(out)["model"] == "tiny:llama"


@pytest.mark.parametrize("ending", ["svg", "png", "pdf", "html"])
def test_figures(headwise, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    code, _, err = headwise("inspect", TEXT, "--model", "tiny:bert", "--head", "2", "--figure", str(path))
    assert code == 0
    assert str(path) in err
    start = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<"}[ending]
    assert path.read_bytes().lstrip().startswith(start)
    assert path.stat().st_size > 5_000


def test_words_and_cross_attention_figures(headwise, tmp_path):
    arguments = ["--model", "tiny:t5", "--stack", "cross", "--words", "--figure", str(tmp_path / "c.svg")]
    code, _, _ = headwise("inspect", TEXT, "the old city", *arguments)
    assert code == 0
    assert (tmp_path / "c.svg").stat().st_size > 5_000


def test_standard_input(headwise, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert headwise("inspect", "-", "--model", "tiny:bert")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    code, _, err = headwise("inspect", "-", "--model", "tiny:bert")
    assert code == 2
    assert "UTF-8" in err


def test_view_and_saved_traces(headwise, tmp_path):
    saved, page = tmp_path / "t.safetensors", tmp_path / "out.html"
    assert headwise("inspect", TEXT, "--model", "tiny:bert", "--save", str(saved))[0] == 0
    code, out, _ = headwise("view", "--from", str(saved), "-o", str(page))
    assert code == 0
    assert str(page) in out
    assert b"</html>" in page.read_bytes()[-200:]


def test_run_and_show(headwise, tmp_path):
    corpus = tmp_path / "c.txt"
    corpus.write_text(f"{TEXT}\n\n{TEXT}.\n")
    out = tmp_path / "out"
    code, said, _ = headwise("run", "surface", "--model", "tiny:bert", "--corpus", str(corpus), "--out", str(out),
                             "--quantity", "raw,norm")  # fmt: skip
    assert code == 0
    assert "2 texts" in said
    code, said, _ = headwise("show", str(out))
    assert code == 0
    assert "L0.H0" in said
    code, said, _ = headwise("show", str(out), "--figure", "fig2", "--save", str(tmp_path / "x.pdf"))
    assert code == 0
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    assert set(pl.read_parquet(out / "table.parquet")["quantity"]) == {"raw", "norm"}


def test_lists(headwise):
    assert "effective" in headwise("list", "quantities")[1]
    assert "surface" in headwise("list", "studies")[1]
    assert "demo-llm" in headwise("list", "models")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", ""], "empty"),
        (["inspect", "word " * 900], "--truncate"),
        (["inspect", TEXT, "--quantity", "efective"], "Did you mean 'effective'"),
        (["inspect", TEXT, "--layer", "9"], "9 was asked for"),
        (
            ["inspect", TEXT, "--head", "-1"],
            "A head is named L5.H3, or cross L1.H2 where there are several stacks, but got",
        ),
        (["inspect", TEXT, "--head", "L9.H0"], "Layers of tiny:bert go from 0 to 2, but 9 was asked for."),
        (["inspect", TEXT, "--head", "L1.H2", "--layer", "0"], "leave --layer and --stack out"),
        (["inspect", TEXT, "--stack", "cross"], "no stack 'cross'"),
        (["inspect", TEXT, "--figure", "out.gif"], ".svg"),
        (["inspect", TEXT, "--figure", "no/such/folder/out.svg"], "does not; make it first"),
        (["inspect", TEXT, "--task", "parsing"], "masked-lm"),
        (["inspect", TEXT, "--query", "900", "--figure", "/tmp/never-written.svg"], "900 was asked for"),
        (["inspect", TEXT, "--key", "1", "--layer", "0"], "pass --head, as L3.H1, and --query beside it"),
        (["view"], "either a text or a saved trace"),
        (["view", "--from", "no-such-file"], "trace.save"),
        (["show", "no-such-folder"], "manifest.json"),
        (["run", "surfac", "--out", "never-made"], "Did you mean 'surface'"),
        (["list", "things"], "quantities"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(headwise, arguments, said):
    if arguments[0] in ("inspect", "run"):
        arguments = [*arguments, "--model", "tiny:bert"]
    code, _, err = headwise(*arguments)
    assert code == 2
    assert err.startswith("headwise: ")
    assert len(err.strip().splitlines()) == 1, err
    assert said in err


def test_whoever_waits_at_a_terminal_is_told_what_for(headwise, monkeypatch):
    said = "loading tiny:bert, then tracing what it reads …"
    assert said not in headwise("inspect", TEXT, "--model", "tiny:bert")[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert headwise("inspect", TEXT, "--model", "tiny:bert")[2].startswith(said)


def test_unknown_model_offline(headwise):
    code, _, err = headwise("inspect", TEXT, "--model", "nobody/nothing")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert "hub" in err


def test_help_imports_nothing_heavy_and_teaches():
    script = "import sys; sys.argv = ['headwise', '--help']\nfrom headwise.cli import main\n"
    script += "try: main()\nexcept SystemExit: pass\nassert not {'torch', 'transformers', 'polars'} & set(sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "may I believe it?" in shown.stdout


def test_the_help_of_a_verb_wraps_with_the_terminal() -> None:
    """At 80 columns every other line of a paragraph ended after a word or two."""
    text = "What it does,\nand how.\n\nIt goes\non here.\n\n  headwise x\n  headwise y\n\nAnd\nthere.\n"
    assert flowing(text).split("\n\n") == [
        "What it does, and how.", "It goes on here.", "Examples:\n  headwise x\n  headwise y", "And there.",
    ]  # fmt: skip


@pytest.mark.parametrize("verb", ["verdict", "show", "run", "doctor"])
def test_the_examples_of_a_verb_stand_apart(headwise, verb: str) -> None:
    _, out, _ = headwise(verb, "--help")
    lines = [line.rstrip() for line in out.splitlines()]
    after = lines[lines.index(" Examples:") + 1]
    assert after.startswith(f"   headwise {verb} "), "an example has an indent"


def test_with_a_page_the_shell_says_what_the_model_itself_says_too(headwise, tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    said = [headwise("explain", "the old dog and", "--model", "tiny:bert", "--task", "classification",
                     "--target", label, "-o", page)[1] for label in ("LABEL_0", "LABEL_1")]  # fmt: skip
    assert sum("The model itself says: LABEL_" in out for out in said) == 1, "of the label that it does not say"


def test_python_m_headwise_is_headwise(tmp_path: Path):
    shown = subprocess.run(
        [sys.executable, "-m", "headwise", "list", "things"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr


@pytest.fixture
def parallel(tmp_path: Path) -> dict[str, Path]:
    """Six pairs in three files, the gold links counted from 1."""
    files = {
        "de": "The old dog sat in the sun .\nit was said\nthe big sea\nthe end\nall of it\nso it was\n",
        "en": "so it was in the sea .\nit was said , again\nthe sea is big\nthe end\nall of it\nso was it\n",
        "gold": "1-1 2p2 3-3 8-7\n1-1 2-2 3-3\n1-1\n2-2\n3-3 1-1\n1-1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in (*files, "out")}


def test_align_scores_and_writes_links_and_pages(headwise, parallel):
    flags = [part for name in ("de", "en", "gold") for part in (f"--{SIDES[name]}", str(parallel[name]))]
    code, out, err = headwise("align", "--model", "tiny:marian", *flags, "--out", str(parallel["out"]),
                              "--set", "choose_first=2", "--set", "resamples=20", "--pages", "1")  # fmt: skip
    assert code == 0
    assert "counts words from 1" in err
    assert out.count("  AER ") == 4 * 2 + 1
    lines = (parallel["out"] / "links.txt").read_text().split("\n")
    assert len(lines) == 7
    both = zip(*(parallel[side].read_text().split("\n") for side in ("de", "en")), strict=True)
    sizes = [(len(one.split()), len(other.split())) for one, other in both]
    for line, (source, target) in zip(lines, sizes, strict=True):
        for link in line.split():
            s, t = map(int, link.split("-"))
            assert s < source
            assert t < target
    assert (parallel["out"] / "pages" / "0001.html").stat().st_size > 10_000
    assert headwise("show", str(parallel["out"]))[0] == 0


SIDES = {"de": "source", "en": "target", "gold": "gold"}


def test_align_without_gold_is_the_study(headwise, parallel):
    flags = ["--source", str(parallel["de"]), "--target", str(parallel["en"])]
    code, out, _ = headwise("align", "--model", "tiny:t5", *flags, "--out", str(parallel["out"]))
    assert code == 0
    assert "chosen by the agreement of both sides" in out
    assert "AER" not in out
    table = pl.read_parquet(parallel["out"] / "table.parquet")
    code, _, _ = headwise("run", "alignment", "--model", "tiny:t5", "--corpus", str(parallel["out"] / "corpus.pairs"),
                          "--set", "heads=false", "--out", str(parallel["out"] / "again"))  # fmt: skip
    assert code == 0
    assert pl.read_parquet(parallel["out"] / "again" / "table.parquet").equals(table)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "tiny:gpt2"], "takes an encoder–decoder"),
        (["--model", "tiny:marian", "--gold", "{de}"], "a link must be written"),
        (["--model", "tiny:marian", "--beside", "x={gold}"], "pass --gold too"),
        (["--model", "tiny:marian", "--gold", "{gold}", "--base", "0"], "line 1: the source has 8 words"),
        (["--model", "tiny:marian", "--set", "rule=first"], "rule of study alignment must be one of soft, union"),
    ],
)
def test_align_refuses_in_one_line(headwise, parallel, flags, said):
    filled = [flag.format(**parallel) for flag in flags]
    usual = {"--source": "de", "--target": "en"}
    sides = [part for flag, name in usual.items() if flag not in filled for part in (flag, str(parallel[name]))]
    code, _, err = headwise("align", *filled, *sides, "--out", str(parallel["out"]))
    assert code == 2
    *before, last = err.strip().split("\n")
    assert last.startswith("headwise: ")
    assert re.search(said, last)
    assert set(before) <= {f"reading the pairs and loading {flags[1]} …"}
    assert not parallel["out"].exists()


def test_a_quantity_without_heads_is_a_row_a_layer(headwise):
    code, out, _ = headwise("inspect", TEXT, "--model", "tiny:bert", "--quantity", "globenc")
    assert code == 0
    assert "L2" in out
    assert "H0" not in out


def test_a_page_that_lacks_what_was_asked_for_says_so(headwise, tmp_path):
    """`--with output-weighted` of a model without an output wrote a page without it, and not a word."""
    asked = ("view", TEXT, "--model", "tiny:bert", "--out", str(tmp_path / "p.html"))
    says = "output-weighted needs a model with an output, but tiny:bert (BertModel) has no head for texts"
    code, _, err = headwise(*asked, "--with", "output-weighted,raw-mean")
    assert code == 0
    told = [line for line in err.splitlines() if "not on the page" in line]
    assert len(told) == 1
    assert told[0].startswith(f"not on the page: {says}; load it with task=")
    assert "not on the page" not in headwise(*asked)[2]
    (tmp_path / "p.html").unlink()
    code, _, err = headwise(*asked, "--quantities", "output-weighted")
    assert code == 2
    assert says in err
    assert not (tmp_path / "p.html").exists(), "a page of nothing"


def test_of_a_long_text_the_strongest_entries(headwise, tmp_path):
    saved, page = tmp_path / "long.safetensors", tmp_path / "long.html"
    code, out, err = headwise("inspect", TEXT, "--model", "tiny:gpt2", "--keep", "top", "--save", str(saved))
    assert code == 0
    assert "L2.H3" in out
    assert "kept: the share of a row" in out
    assert f"wrote {saved}" in err
    assert headwise("view", "--from", str(saved), "--quantities", "raw", "--out", str(page))[0] == 0
    assert headwise("view", TEXT, "--model", "tiny:gpt2", "--keep", "top", "--out", str(page))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("inspect", TEXT, "--keep", "most"), 'keep must be "all", "top" or hw.Top'),
        (("inspect", TEXT, "--keep", "top", "--matters"), "leave out the rest"),
        (("view", TEXT, "--keep", "top", "--everything"), "pass --quantities, or none of the rest"),
    ],
)
def test_what_a_long_text_has_not(headwise, arguments, says):
    code, _, err = headwise(*arguments, "--model", "tiny:gpt2")
    assert code == 2
    assert says in err

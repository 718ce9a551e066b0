"""Items of a paper by name: shared passes, verdicts, and what cannot be run says what it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import headwise as hw
from headwise.errors import InputError, ModelError, UnknownNameError
from headwise.papers import PAPERS, Job
from headwise.papers import reproduce as runs
from headwise.papers.items import chosen_items, passes
from headwise.papers.kobayashi2020 import of_gradients
from headwise.papers.pictures import (
    antecedent_heads,
    between_words,
    gold,
    heads_by_name,
    relation_heads,
    with_less_data,
)
from headwise.papers.reproduce import learned_first, reproduce
from headwise.papers.rows import judged_again
from headwise.papers.shown import written
from headwise.text.conllu import sentences, words_of
from references.specs import views


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "wikitext2"
    folder.mkdir(parents=True)
    lines = [f" The cat number {n} sat on the mat , and it purred . \n" for n in range(8)]
    (folder / "wiki.test.raw").write_text(" = Cats = \n" + "".join(lines), "utf-8")
    return tmp_path / "data"


def test_an_item_is_run_drawn_and_judged(data: Path, tmp_path: Path) -> None:
    table = reproduce(
        "clark2019", items=["rel-pos", "fig6"], data=data, out=tmp_path / "out", model="tiny:bert", progress=False
    )
    assert table["item"].to_list() == ["rel-pos", "fig6"]
    assert set(table["verdict"]) <= {"holds", "undecided", "does not hold", "not comparable"}
    assert (tmp_path / "out" / "figures" / "rel-pos-rel-pos.svg").is_file()
    stored = pl.read_parquet(tmp_path / "out" / "verdicts.parquet")
    claims = {claim.says: claim for item in PAPERS["clark2019"].items for claim in item.claims}
    again = [judged_again(claims[row["claim"]], row) for row in stored.iter_rows(named=True)]
    assert [one.verdict for one in again] == table["verdict"].to_list()
    assert [one.ours for one in again] == table["ours"].to_list()
    assert pl.read_csv(tmp_path / "out" / "verdicts.csv")["item"].to_list() == ["rel-pos", "fig6"]


def test_what_is_missing_is_told(data: Path, tmp_path: Path) -> None:
    table = reproduce(
        "clark2019",
        items=["table2", "fig3"],
        data=data,
        out=tmp_path / "out",
        model="tiny:bert",
        progress=False,
    )
    no_data, no_loss = table["ours"].to_list()
    assert "OntoGUM" in no_data
    assert "--task masked-lm or causal-lm" in no_loss
    assert set(table["verdict"]) == {""}


PARSE = """# text = The old cat sat .
1\tThe\tthe\tDET\tDT\t_\t3\tdet\t_\t_
2\told\told\tADJ\tJJ\t_\t3\tamod\t_\t_
3\tcat\tcat\tNOUN\tNN\t_\t4\tnsubj\t_\t_
4\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

"""


@pytest.mark.parametrize(("paper", "items"), [("clark2019", ["fig1", "fig5"]), ("brunner2020", ["fig6", "§3.3"])])
def test_items_that_show_single_heads_are_drawn(paper: str, items: list[str], data: Path, tmp_path: Path) -> None:
    """Maps of heads that the study chose, over all texts; the relation's own lines are coloured."""
    (data / "ud-ewt").mkdir()
    (data / "ud-ewt" / "en_ewt-ud-test.conllu").write_text(PARSE * 60, "utf-8")
    out = tmp_path / "out"
    reproduce(paper, items=items, data=data, out=out, model="tiny:bert", controls=0, progress=False)
    drawn = {path.name for path in (out / "figures").iterdir()}
    corpus = {"alternative-freedom.svg", "alternative.md"} if paper == "brunner2020" else set()
    assert drawn == {f"{item.id}-maps.svg" for item in chosen_items(paper, items)} | corpus
    said = {"clark2019": {"fig1": "attends to the previous token", "fig5": "nsubj: L"},
            "brunner2020": {"fig6": "raw, effective and null attention", "alternative": "two attentions"}}  # fmt: skip
    for item, words in said[paper].items():
        assert words in (out / "figures" / f"{item}-maps.svg").read_text("utf-8")
    if paper == "clark2019":  # the first twelve words of a text of thirteen
        lines = (out / "figures" / "fig1-maps.svg").read_text("utf-8")
        assert (">purred<" in lines, ">.<" in lines) == (True, False)


RELATION = {"stack": "self", "best": True, "count": 60, "accuracy": 0.7, "low": 0.6, "high": 0.8}


def relations_table(low: float, count: int = 60) -> pl.DataFrame:
    det = {**RELATION, "relation": "det"}
    return pl.DataFrame([
        {**det, "quantity": "raw", "name": "L1.H2", "low": low, "count": count},
        {**det, "quantity": "raw", "name": "L0.H0", "accuracy": 0.3, "low": 0.9},
        {**det, "quantity": "offset", "name": "+1", "accuracy": 0.5, "count": count},
        {**det, "quantity": "raw", "name": "L3.H3", "relation": "all", "low": 0.9},
        {**det, "quantity": "raw", "name": "L2.H2", "relation": "amod", "best": False, "low": 0.9},
    ])  # fmt: skip


def test_heads_are_named_where_their_interval_is_above_the_baseline() -> None:
    assert relation_heads(relations_table(0.51)) == [("L1.H2", "det", "a relation")]
    assert relation_heads(relations_table(0.5)) == []
    assert relation_heads(relations_table(0.51, count=19)) == [("L0.H0", "det", "a relation")]  # of enough pairs
    head = {**RELATION, "type": "all", "reading": "mentions", "quantity": "raw", "name": "L4.H5"}
    nearest = {**head, "quantity": "rules", "name": "nearest", "accuracy": 0.4}
    named = lambda low: antecedent_heads(pl.DataFrame([{**head, "low": low}, nearest]))  # noqa: E731
    assert named(0.41) == [("L4.H5", "coreference", "antecedents")]
    assert named(0.4) == []


def test_the_plane_of_heads_has_the_names(load) -> None:
    plane = pl.DataFrame({
        "stack": "self", "a": ["L1.H2", "L1.H2", "L0.H1"], "x_a": [0.1, 0.1, -0.2], "y_a": [0.0, 0.0, 0.3],
    })  # fmt: skip
    spec = heads_by_name(plane, load("tiny:bert"), None, relations_table(0.6), None)["named"].to_dict()
    rows = {row["name"]: row for data in spec["datasets"].values() for row in data}
    assert (rows["L1.H2"]["told"], rows["L1.H2"]["x"]) == ("L1.H2 det", 0.1)
    assert rows["L0.H1"]["does"] is None
    assert heads_by_name(plane, load("tiny:bert"), None, None, None) == {}


def test_a_probe_learns_from_the_training_file_and_is_scored_on_the_other(data: Path, tmp_path: Path) -> None:
    folder = data / "ud-ewt"
    folder.mkdir()
    (folder / "en_ewt-ud-test.conllu").write_text(PARSE * 3, "utf-8")
    asked = {"items": ["table3"], "data": data, "model": "tiny:bert", "progress": False}
    told = reproduce("clark2019", out=tmp_path / "none", **asked)["ours"][0]
    assert told.startswith(f"not run: {folder / 'en_ewt-ud-train.conllu'} is not there")
    (folder / "en_ewt-ud-train.conllu").write_text(PARSE.replace("cat", "dog") * 7, "utf-8")
    small = {"probe": {"seeds": 1, "epochs": 1, "structural_epochs": 0, "quantities": ("raw",), "vectors": "model"}}
    reproduce("clark2019", out=tmp_path / "out", settings=small, **asked)
    run = hw.open(tmp_path / "out" / "0")
    assert (run.manifest["documents"], run.manifest["settings"]["train"]) == (10, 7)
    assert run.table.filter(probe="right-branching")["count"].to_list() == [12]  # words of the three sentences
    place, count = learned_first(folder / "en_ewt-ud-test.conllu", "en_ewt-ud-train.conllu", 2, tmp_path)
    assert (count, place.read_text("utf-8")) == (2, PARSE.replace("cat", "dog") * 2 + PARSE * 2)


def test_rates_with_less_data_stand_beside_those_with_all(load) -> None:
    row = {"what": "rate", "map": "mlp", "set": "test", "offset": 0, "layer": 0, "tested": 0, "value": 0.8}
    whole = pl.DataFrame([row, {**row, "tested": 1, "value": 0.1}, {**row, "set": "train", "value": 0.99}])
    half = pl.DataFrame([{**row, "value": 0.7}])
    spec = with_less_data(whole, load("tiny:bert"), None, half, None, half)["fractions"].to_dict()
    rows = [(row["share"], row["value"]) for data in spec["datasets"].values() for row in data]
    assert rows == [(50, 0.7), (90, 0.7), (100, 0.8)]
    assert {str(view) for view in views(spec) if view.mark == "line"} == {"line(x=share y=value color=layer)"}


def test_the_maps_of_gradients_have_a_table_of_their_own() -> None:
    row = {
        "quantity": "smooth-gradient",
        "position": "input",
        "extraction": "argmax",
        "aer": 0.4,
        "low": 0.3,
        "high": 0.5,
    }
    table = pl.DataFrame([row, {**row, "quantity": "norm-sum"}, {**row, "aer": float("nan")}])
    assert of_gradients(table).rows() == [("smooth-gradient", "input", "argmax", 40.0, 30.0, 50.0)]


def test_lines_drawn_between_the_words_of_a_parse_are_those_of_their_tokens(load) -> None:
    """Given by a word's tokens in the mean, got in the sum; the full stop is a word of its own."""
    sentence = next(sentences(PARSE.replace("sat .", "sat.").splitlines()))
    trace = load("tiny:bert").trace("The old cat sat.")
    tokens = words_of(trace.queries(), sentence.spans)
    found, raw = between_words(trace, sentence, 1, 2), trace.attention("raw")[1, 2]
    for one in range(5):
        for other in range(5):
            mine, theirs = ([at for at, word in enumerate(tokens) if word == each] for each in (one, other))
            expected = sum(float(raw[i, j]) for i in mine for j in theirs) / len(mine)
            assert found[one, other] == pytest.approx(expected, abs=1e-6)
    assert gold(sentence, "nsubj", from_dependent=True) == [(2, 3)]
    assert gold(sentence, "nsubj", from_dependent=False) == [(3, 2)]
    assert gold(sentence, "root", from_dependent=True) == []


def test_every_item_writes_a_file_whatever_its_model_has(tmp_path: Path) -> None:
    """Of a run without any of its figures the table is left, so there is always something to look at."""
    table = pl.DataFrame({"name": ["L0.H0"], "value": [0.5]})
    for paper in PAPERS.values():
        for item in paper.items:
            plain = replace(item, rows=None)
            assert [path.name for path in written(plain, table, {}, tmp_path / paper.name)] == [f"{item.id}.md"]


def test_jobs_on_one_corpus_share_a_pass_unless_a_study_comes_twice() -> None:
    jobs = [item.job for item in PAPERS["brunner2020"].items if isinstance(item.job, Job)]
    groups = passes(jobs, Path("data"))
    for _, group in groups:
        assert len({job.study for job in group}) == len(group)
    assert {job for _, group in groups for job in group} == set(jobs)
    assert max(len(group) for _, group in groups) >= 2


def test_items_have_several_names_and_unknown_ones_are_listed() -> None:
    assert chosen_items("clark2019", ["fig2"]) == chosen_items("clark2019", ["fig2-top"])
    assert [item.id for item in chosen_items("brunner2020", ["fig15", "fig14-17", "fig14–17"])] == ["fig15"]
    assert [item.id for item in chosen_items("brunner2020", ["fig8", "fig9", "fig8-10", "fig17"])] == [
        "fig2b", "fig9", "fig14",
    ]  # fmt: skip
    assert [item.id for item in chosen_items("kobayashi2020", ["fig11"])] == ["fig4"]
    assert [item.id for item in chosen_items("kobayashi2020", ["fig13–17"])] == ["fig8"]
    assert [item.id for item in chosen_items("brunner2020", ["fig38-43", "fig11–13"])] == [
        "fig38", "fig40", "fig11", "fig12", "fig13",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="rel-pos"):
        chosen_items("clark2019", ["fig99"])
    with pytest.raises(UnknownNameError, match="kobayashi2020"):
        chosen_items("vaswani2017", [])


def test_alignment_is_run_from_two_texts_and_gold_links(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "align-de-en"
    folder.mkdir(parents=True)
    (folder / "de").write_text("Das Haus ist alt .\nEr läuft .\n" * 4, "latin-1")
    (folder / "en").write_text("The house is old .\nHe runs .\n" * 4, "latin-1")
    (folder / "alignmentDeEn.talp").write_text("1-1 2-2 3-3 4p4 5-5\n1-1 2-2 3-3\n" * 4)
    asked = {"items": ["table3", "fig8"], "data": tmp_path / "data", "progress": False}
    table = reproduce("kobayashi2020", out=tmp_path / "out", model="tiny:marian", **asked)
    assert table["item"].to_list() == ["fig7"] * 3 + ["fig8"]
    assert set(table["why"][:3]) == {"8 pairs, and it takes 50"}
    assert (tmp_path / "out" / "figures" / "fig7-table3.svg").is_file()
    refused = reproduce("kobayashi2020", out=tmp_path / "other", model="tiny:bert", **asked)
    assert "a German–English translation model" in refused["ours"][0]


def test_two_models_are_drawn_on_one_plot(tmp_path: Path) -> None:
    """fig12: the fine-tuned model's rates beside those of the model that it came from; each of its own run."""
    (tmp_path / "mrpc").mkdir()
    lines = [f"1\t1\t2\tThe cat {n} sat .\tA dog ran on {n} .\n" for n in range(6)]
    (tmp_path / "mrpc" / "dev.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(lines))
    asked = {"items": ["fig12"], "data": tmp_path, "controls": 0, "progress": False,
             "settings": {"identity": {"folds": 1, "split": (50, 25, 25), "solver": "closed-form"}}}  # fmt: skip
    alone = reproduce("brunner2020", out=tmp_path / "one", model="tiny:bert", **asked)
    assert "--against the one that it came from" in alone["ours"][0]
    both = reproduce("brunner2020", out=tmp_path / "two", model="tiny:bert", against="tiny:ernie", **asked)
    assert both["ours"][0].endswith("fig12-two-models.svg")
    assert "tiny:bert against tiny:ernie" in (tmp_path / "two" / "figures" / "fig12-two-models.svg").read_text("utf-8")
    run = hw.open(tmp_path / "two" / "0" / "against")
    assert run.manifest["model"]["name"] == "tiny:ernie"
    with pytest.raises(InputError, match="must be another model"):
        reproduce("brunner2020", out=tmp_path, model="demo", against="demo", **asked)


def test_what_needs_the_head_of_a_checkpoint_is_loaded_with_it(tmp_path: Path, monkeypatch) -> None:
    """SmoothGrad asks for gradients of a prediction; nobody should have to say --task translation for that."""
    loaded = []

    def refuse(name: str, **how: object) -> None:
        loaded.append(how["task"])
        raise ModelError(name)

    files = Path("align-de-en/de"), Path("align-de-en/en"), Path("align-de-en/alignmentDeEn.talp")
    for path in (tmp_path / name for name in files):
        path.parent.mkdir(exist_ok=True)
        path.write_text("", "utf-8")
    monkeypatch.setattr(runs, "load", refuse)
    for item, task in (("smoothgrad", None), ("fig7", None), ("smoothgrad", "encoder")):
        with pytest.raises(ModelError):
            reproduce("kobayashi2020", items=[item], data=tmp_path, out=tmp_path, model="demo-nmt", task=task)
    assert loaded == ["translation", None, "encoder"]


def test_too_few_texts_for_a_verdict_are_told_before_the_controls() -> None:
    surface = next(item for item in PAPERS["clark2019"].items if item.id == "rel-pos")
    assert isinstance(surface.job, Job)
    assert runs.too_few(surface.job, {"texts": 20}, [surface]) == ""
    assert runs.too_few(surface.job, {"texts": 15}, [surface]) == (
        "15 texts were read, for paragraphs and headings count as documents and are put together: verdicts that take "
        "20 can only be undecided, whatever the controls give; read more (--first), or leave the controls out "
        "(--controls 0)."
    )


@pytest.mark.slow
def test_nothing_holds_for_a_network_that_learned_nothing(tmp_path: Path) -> None:
    """The tiny models are random: whatever is said of them is true of any network of their shape."""
    folder = tmp_path / "data" / "wikitext2"
    folder.mkdir(parents=True)
    lines = [
        f" Cat number {n} sat on the mat , it purred , " + "and slept again " * (n % 9) + ". \n" for n in range(48)
    ]
    (folder / "wiki.test.raw").write_text(" = Cats = \n" + "".join(lines), "utf-8")
    asked = {"data": tmp_path / "data", "model": "tiny:bert", "first": 48, "progress": False}
    surface = reproduce("clark2019", items=["rel-pos", "fig2", "fig4", "fig6"], out=tmp_path / "a", **asked)
    norms = reproduce("kobayashi2020", items=["table1", "table4", "fig3", "fig9"], out=tmp_path / "b", **asked)
    null = reproduce("brunner2020", items=["rank", "fig1a", "fig1bc"], out=tmp_path / "c", **asked)
    found = pl.concat([surface, norms, null])
    assert len(found) == 13
    assert "holds" not in set(found["verdict"]), found.filter(verdict="holds")["ours"].to_list()
    assert not found["why"].str.contains("takes|no interval|no control").any()
    assert found["why"].str.starts_with("networks that learned nothing do it too").sum() >= 3
    assert (tmp_path / "b" / "figures" / "table1.md").read_text("utf-8").splitlines()[-1].startswith("| mean | ")

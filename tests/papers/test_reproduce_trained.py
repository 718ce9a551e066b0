"""Yang's items on a handful of sentences: every table, figure and verdict; a second call trains nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headwise.cli.settings import plan_of
from headwise.errors import InputError, ModelError
from headwise.models.glove import glove
from headwise.papers import PAPERS, Training, chunking
from headwise.papers import reproduce as module
from headwise.papers.chunking.experiment import Plan
from headwise.papers.reproduce import reproduce

SENTENCES = (
    "The DT B-NP\nold JJ I-NP\ndog NN I-NP\nsaw VBD B-VP\nit PRP B-NP\n. . O\n",
    "She PRP B-NP\nwent VBD B-VP\nto TO B-PP\nthe DT B-NP\nriver NN I-NP\n. . O\n",
    "He PRP B-NP\nhas VBZ B-VP\nnot RB I-VP\ncome VBN I-VP\nback RB B-ADVP\n. . O\n",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        glove()
    except ModelError as error:
        pytest.skip(f"the word vectors cannot be had: {error}")
    folder = tmp_path_factory.mktemp("data") / "conll2000"
    folder.mkdir()
    (folder / "train.txt").write_text("\n".join(SENTENCES * 8))
    (folder / "test.txt").write_text("\n".join([*SENTENCES, SENTENCES[0].replace(". . O\n", "") * 8]))
    return folder.parent


def test_every_item_is_trained_drawn_and_judged(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Plan(seeds=(0, 1), lambdas=(0.0, 0.2, 3.0), base_epochs=1, adversary_epochs=1, probe_epochs=1)
    monkeypatch.setattr(module.chunking, "Plan", lambda **_: small)
    table = reproduce("yang", data=data, out=tmp_path / "out")
    items = PAPERS["yang"].items
    assert set(table["item"]) == {item.id for item in items}
    judged = table.filter(pl.col("verdict") != "")
    assert len(judged) == sum(len(item.claims) for item in items)
    assert set(judged["verdict"]) <= {"undecided"}
    for item in items:
        assert isinstance(item.job, Training)
        for figure in item.figures:
            assert (tmp_path / "out" / "figures" / f"{item.id}-{figure}.svg").is_file()
    said: list[str] = []
    again = chunking.tables(data / "conll2000", tmp_path / "out" / "trained", plan=small, say=said.append)
    assert not [line for line in said if "epoch" in line or "rows" in line]
    assert again["curve"].equals(pl.read_parquet(tmp_path / "out" / "trained" / "tables" / "curve.parquet"))


def test_an_item_trains_only_what_it_needs_and_another_plan_is_refused(data: Path, tmp_path: Path) -> None:
    small = Plan(sentences=12, seeds=(0,), base_epochs=1)
    folder, out = data / "conll2000", tmp_path / "out"
    made = chunking.tables(folder, out, plan=small, names=["importance"], say=lambda _: None)
    assert set(made) == {"importance"}
    assert not (out / "adversaries").exists()
    with pytest.raises(InputError, match="another --out"):
        chunking.tables(folder, out, plan=Plan(), say=lambda _: None)


def test_short_sentences_have_no_exact_form_and_that_is_no_error(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "short"
    folder.mkdir()
    (folder / "train.txt").write_bytes((data / "conll2000" / "train.txt").read_bytes())
    (folder / "test.txt").write_text("\n".join(SENTENCES))
    small = Plan(seeds=(0, 1), lambdas=(0.0, 3.0), base_epochs=1, adversary_epochs=1)
    names = chunking.DRAWN_FROM["three-kinds"]
    made = chunking.tables(folder, tmp_path / "out", plan=small, names=names, say=lambda _: None)
    assert made["exact"].is_empty()
    assert set(chunking.figures(made)) == {"table1", "fig1", "three-kinds", "matched"}
    spec = chunking.figures({"curve": made["curve"]})["table1"].to_dict()
    rows = {(row["what"], row["name"]): row for data in spec["datasets"].values() for row in data}
    assert set(rows) == {("f1", "base"), ("f1", "λ=0"), ("f1", "λ=3"), ("kl", "λ=0"), ("kl", "λ=3")}
    far = made["curve"].filter(pl.col("kind") == "adversary", pl.col("lambda") == 3.0)
    assert rows["f1", "λ=3"]["value"] == pytest.approx(far["f1"].mean())
    assert rows["kl", "λ=3"]["value"] == pytest.approx(far["kl"].mean())


@pytest.mark.parametrize(("written", "said"), [
    ("lambdas=0.2,-1", "lambdas of the plan of yang must be"), ("lambdas=x", "lambdas of the plan of yang must be"),
    ("lambda=3", "but there is no 'lambda': sentences, seeds, lambdas"), ("lambdas=3,3", "each value once"),
    ("seeds=", "at least one"), ("rate=0", "rate of the plan of yang must be"), ("batch", "written KEY=VALUE"),
])  # fmt: skip
def test_a_plan_that_cannot_be_is_one_line(written: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Plan(**plan_of(Plan, [written], whose="the plan of yang"))


def test_the_grid_is_set_by_the_command_line() -> None:
    given = plan_of(Plan, ["lambdas=0.2,0.5,2,3", "seeds=0,1"], whose="the plan of yang")
    assert (Plan(**given).lambdas, Plan(**given).seeds) == ((0.2, 0.5, 2, 3), (0, 1))
    assert len([value for value in Plan().lambdas if 0.2 < value < 3]) >= 2


def test_too_few_sentences_are_refused_in_a_line(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gave 3 and 0"):
        chunking.tables(data / "conll2000", tmp_path / "out", plan=Plan(sentences=3), names=["curve"])


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "conll2000").mkdir()
    table = reproduce("yang", items=["table1"], data=tmp_path, out=tmp_path / "out")
    assert "train.txt is not there" in table["ours"][0]
    assert "CoNLL-2000" in table["ours"][0]

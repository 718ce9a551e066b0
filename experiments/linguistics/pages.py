"""From the results of run.sh: tables to this folder, best rows as Markdown beside the paper's, figures and pages.

The page shows demo/syntax/table1.png and demo/fig5.svg; all other figures and the viewer pages stay in OUT.

python experiments/linguistics/pages.py out/linguistics ../shared/data
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

import headwise as hw
from headwise.measures.wordmaps import word_map, words
from headwise.plots.bipartite import lines_between
from headwise.plots.theme import save_chart, themed
from headwise.results import open_result
from headwise.studies.syntax.pairs import pairs
from headwise.text.conllu import Sentence, sentences, words_of

HERE = Path(__file__).parent
# Clark et al. 2019, Table 1: best head's accuracy, best offset's. auxpass as in the authors' notebook (94.1 / 82.5).
PAPER = {
    "all": (34.5, 26.3), "sd:prep": (66.7, 61.8), "sd:pobj": (76.3, 34.6), "det": (94.3, 51.7),
    "compound": (70.4, 70.2), "nsubj": (58.5, 45.5), "amod": (75.6, 68.3), "obj": (86.8, 40.0), "advmod": (48.8, 40.2),
    "aux": (81.1, 71.5), "nmod:poss": (80.5, 47.7), "aux:pass": (94.1, 82.5), "ccomp": (48.8, 12.4),
    "mark": (50.7, 14.5), "compound:prt": (99.1, 91.4),
}  # fmt: skip
QUANTITIES = ("raw", "effective", "norm")
LONGEST_EXAMPLE = 11  # words
CANDIDATES = 40  # sentences looked at for an example
EXAMPLES = ("det", "obj", "nsubj", "sd:pobj", "nmod:poss", "compound:prt")


def main(out: Path, data: Path) -> None:
    for folder in sorted(path.parent for path in out.glob("*/*/manifest.json")):
        keep(folder, HERE / folder.parent.name / folder.name)
    for model in ("demo", "demo-llm"):
        for study in ("syntax", "syntax-long"):
            if (out / model / study).is_dir():
                print(f"\n### {model}, {study}\n\n{table1(open_result(out / model / study).table)}")
        for study in ("coref", "coref-windows"):
            if (out / model / study).is_dir():
                print(f"\n### {model}, {study}\n\n{table2(open_result(out / model / study).table)}")
        if (out / model / "syntax").is_dir():
            fig5(model, open_result(out / model / "syntax").table, data, out / model / "fig5")


def keep(folder: Path, target: Path) -> None:
    """The manifest and the table; the figures as PNG beside the results, but for the one that the page shows."""
    target.mkdir(parents=True, exist_ok=True)
    result = open_result(folder)
    for name in ("manifest.json", "table.parquet"):
        shutil.copy(folder / name, target / name)
    for name in result.figures:
        shown = (target.parent.name, target.name, name) == ("demo", "syntax", "table1")
        save_chart(result.figure(name), (target if shown else folder) / f"{name}.png")


def table1(table: pl.DataFrame) -> str:
    """A line a relation: the best head under each quantity with its interval, the best offset, the paper's two."""
    best = table.filter(pl.col("best"))
    lines = [
        "| relation | pairs | raw | effective | norm | offset | paper: head | paper: offset |",
        "|---|---|---|---|---|---|---|---|",
    ]
    order = ["all", "all but punctuation", *[relation for relation in PAPER if relation != "all"]]
    for relation in order:
        rows = {row["quantity"]: row for row in best.filter(relation=relation).iter_rows(named=True)}
        if "raw" not in rows:
            continue
        heads = [_cell(rows[quantity]) for quantity in QUANTITIES]
        paper = PAPER.get(relation, ("", ""))
        offset = f"{100 * rows['offset']['accuracy']:.1f} ({rows['offset']['name']})"
        lines.append(
            f"| {relation} | {rows['raw']['count']:,} | {' | '.join(heads)} | {offset} | {paper[0]} | {paper[1]} |"
        )
    return "\n".join(lines)


def table2(table: pl.DataFrame) -> str:
    """A line a predictor: the head that is best on all mentions, then the rules."""
    kinds = ("all", "pronoun", "proper", "nominal")
    counts = {row["type"]: row["count"] for row in table.iter_rows(named=True)}
    lines = [
        "| predictor | " + " | ".join(f"{kind} ({counts[kind]:,})" for kind in kinds) + " |",
        "|---|---|---|---|---|",
    ]
    best = table.filter(pl.col("best"), pl.col("type") == "all").filter(pl.col("quantity") != "rules")
    predictors = [(row["quantity"], row["reading"], row["name"]) for row in best.iter_rows(named=True)]
    predictors += [("rules", "mentions", name) for name in ("nearest", "head match", "sieves")]
    for quantity, reading, name in sorted(predictors, key=lambda place: (place[0] == "rules", place[1])):
        rows = {
            row["type"]: row
            for row in table.filter(quantity=quantity, reading=reading, name=name).iter_rows(named=True)
        }
        title = name if quantity == "rules" else f"{name}, {quantity}, among {reading}"
        cells = [
            f"{100 * rows[kind]['accuracy']:.0f} ± {50 * (rows[kind]['high'] - rows[kind]['low']):.0f}"
            for kind in kinds
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fig5(model_name: str, table: pl.DataFrame, data: Path, folder: Path) -> None:
    """Short test sentences in which the best head of a relation is right, as SVG and as pages of the viewer."""
    model = hw.load(model_name)
    with (data / "ud-ewt" / "en_ewt-ud-test.conllu").open(encoding="utf-8") as file:
        short = [one for one in sentences(file) if 5 <= len(one) <= LONGEST_EXAMPLE]
    panels = []
    folder.mkdir(parents=True, exist_ok=True)
    for relation in EXAMPLES:
        row = table.filter(pl.col("best"), quantity="raw", relation=relation).row(0, named=True)
        layer, head, forward = row["layer"], row["head"], row["direction"] == "from-dependent"
        having = [one for one in short if any(p.relation == relation for p in pairs(one))][:CANDIDATES]
        sentence = max(having, key=lambda one: telling(model, one, relation, layer, head, forward))
        weights = map_of(model, sentence, layer, head)
        gold = [(p.asker, p.head) if forward else (p.head, p.asker) for p in pairs(sentence) if p.relation == relation]
        title = f"{row['name']}: {relation}, {100 * row['accuracy']:.0f} % ({row['direction']})"
        panels.append(lines_between(weights, sentence.forms, title=title, marked=gold, names="gold pairs"))
        kept = None if model.layers() <= 12 else [layer]  # a page of thirty layers would be megabytes
        model.trace(sentence.text, layers=kept).save_html(folder / f"{relation.replace(':', '-')}-{row['name']}.html")
    rows = [alt.hconcat(*panels[at : at + 3], spacing=30) for at in range(0, len(panels), 3)]
    chart = themed(
        alt.vconcat(*rows, spacing=30).resolve_scale(color="shared"),
        f"{model_name}: heads that know a relation",
        "Left attends to right; the darker, the nearer to the most that the word gives (special tokens left out).",
        "Chosen to show: of forty short test sentences the one with most such pairs found; accuracy is over all.",
    )
    save_chart(chart, HERE / "demo" / "fig5.svg" if model_name == "demo" else folder / "fig5.svg")


def map_of(model: hw.Model, sentence: Sentence, layer: int, head: int) -> np.ndarray:
    """The word map of one head, the diagonal and special tokens left out."""
    trace = model.trace(sentence.text, layers=[layer])
    known = words([words_of(trace.text, sentence.spans)], [len(sentence)])
    found = word_map(trace.layers[0], "raw", known)
    assert found is not None
    weights = found[0, head].double().numpy().copy()
    np.fill_diagonal(weights, 0.0)
    return weights


def telling(
    model: hw.Model, sentence: Sentence, relation: str, layer: int, head: int, forward: bool
) -> tuple[int, int]:
    """How many pairs of the relation the head finds less those that it misses; then the shorter sentence."""
    gold = [(p.asker, p.head) for p in pairs(sentence) if p.relation == relation]
    if model_skips(model, sentence):
        return -99, 0
    weights = map_of(model, sentence, layer, head)
    choice = weights.argmax(-1) if forward else weights.argmax(0)
    right = sum(int(choice[asker] == target) for asker, target in gold)
    return 2 * right - len(gold), -len(sentence)


def model_skips(model: hw.Model, sentence: Sentence) -> bool:
    """Whether a word has no token of its own, so that the picture would have an empty line."""
    return set(range(len(sentence))) - set(words_of(model.encode(sentence.text), sentence.spans)) != set()


def _cell(row: dict[str, Any]) -> str:
    arrow = {"from-dependent": "d→h", "to-dependent": "h→d", "from-head": "h⇒d"}[row["direction"]]
    return f"{100 * row['accuracy']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}] {row['name']} {arrow}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

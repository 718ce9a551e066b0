"""`make evidence`: verdicts on every page of experiments/ and on docs/evidence.md, from the tables stored here.

Text outside the markers is by hand. With --check nothing is written, and pages that are out of date are an error.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl

from headwise.papers import Item, Training
from headwise.papers.data import MNLI
from headwise.papers.evidence import (
    KEY,
    Told,
    absent,
    between,
    claims_by_models,
    from_table,
    from_trained,
    from_verdicts,
    in_order,
    one_run,
)

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "evidence.md"
MARK = "verdicts"
TUNED, DE_EN, TAGGER = "demo, fine-tuned on MRPC", "de–en, trained here", "one-layer tagger"
MODELS = ("demo", "demo-base", "demo-llm", TUNED, DE_EN, TAGGER)
NAMES = {"mrpc": TUNED}  # of files → of columns
SURFACE = ("rel-pos", "fig2-top", "fig2-bottom", "fig4")
NORMS = ("table1", "table4", "fig3", "table2", "fig6", "fig9")
NULL = ("rank", "fig1a", "fig1bc")


# Why a cell has no number, no interval or no control: by model, and by study, or study and item ("" for any).
REASONS: dict[str, dict[str, str]] = {
    "demo": {},
    "demo-base": {
        "importance fig3": "has no masked-LM head; one was made for demo alone",
        "identity": "not run: maps of 768 × 768 take hundreds of pairs, and 40 pairs 28 s of processor a fold",
        "mixing": "not run: 29 s of processor a pair of MRPC; CoLA (fig40) was",
    },
    "demo-llm": {
        "probe": "a third seed was not run, each takes a training of its own",
        "identity fig2a": "no untrained networks: the claim fails without them",
        "identity fig2b": "30 layers of 576 × 576 maps for each of six untrained networks were not run",
        "identity fig11": "not run: a map of 576 × 576 a layer and fold; fig2a took eight of the 30 layers",
        "identity fig14": "not run: a map for each of six neighbours, layer and fold, where fig2a has one",
        "identity fig38": "not run: input tokens have no position, so no map tells a repeated word apart (fig2a)",
        "mixing": "not run: 30 layers, where the 12 of demo-base take 29 s of processor a pair",
        "coref": "not run with untrained networks",
        "norms": "not run with untrained networks",
        "nullspace": "not run with untrained networks",
    },
    TUNED: {
        "probe": "not run: three seeds of probes, which take demo-base 432 s of processor; column demo has it before",
        "identity": "not run: maps for ten folds and six untrained networks; column demo has it before",
        "mixing": "not run: tangents chosen by their error, 10 s of processor a pair; fig3a and fig4b were",
        "": "not run, column demo has what its encoder was before",
    },
    DE_EN: {"": "its encoder reads German, these texts are English"},
    TAGGER: {"": "one layer over words, trained for Yang's claims; not a model that reads these texts"},
}
NO_MNLI = "not run: MNLI is not among the data that can be had offline"


def reason(item: Item, model: str) -> str:
    """The most special one: of the item, what the item takes of any model, of its study, of the model."""
    known, job = REASONS[model], item.job
    if isinstance(job, Training):
        return absent(item)
    if job.data == MNLI:
        return NO_MNLI
    return known.get(f"{job.study} {item.id}") or absent(item) or known.get(job.study) or known.get("", "")


def stored(folder: str, model: str, paper: str, items: tuple[str, ...], *, page: str) -> list[Told]:
    """The claims by the table and manifest of a folder."""
    place = HERE / page / folder
    manifest = json.loads((place / "manifest.json").read_bytes())
    table = pl.read_parquet(place / "table.parquet")
    return from_table(paper, items, table, manifest, model=model, page=f"{page}/README.md")


def controlled(page: str) -> list[Told]:
    """The claims of runs with intervals and controls: verdicts-MODEL_….parquet of a folder."""
    found = []
    for path in sorted((HERE / page).glob("verdicts-*.parquet")):
        name = path.stem.split("_")[0].removeprefix("verdicts-")
        found += from_verdicts(pl.read_parquet(path), model=NAMES.get(name, name), page=f"{page}/README.md")
    return [made_here(one) if page == "masked-lm" and one.model == "demo" else one for one in found]


def made_here(one: Told) -> Told:
    """A head that the model does not come with is told of in the cell, with how good it is."""
    scored = json.loads((HERE / "masked-lm" / "head.json").read_bytes())["scored"]
    ours, alone = (f"{scored[name]:,.0f}" for name in ("perplexity", "frequencies alone"))
    told = f"by a masked-LM head that was trained here: perplexity {ours}, frequencies alone {alone}"
    return replace(one, judged=replace(one.judged, instead=told))


TEXTS = {"mrpc": 408, "cola": 1043}  # of the development sets; the decoder read 200 pairs


def identity() -> list[Told]:
    """Tables of ten folds; neighbours have four."""
    found = []
    for name, items, folds, model in (
        ("mrpc-input", ("fig2a", "fig2b"), 10, "demo"), ("mrpc-previous", ("fig11",), 10, "demo"),
        ("mrpc-neighbours", ("fig14",), 4, "demo"), ("cola-input", ("fig38",), 10, "demo"),
        ("mrpc-llm", ("fig2a", "fig2b"), 10, "demo-llm"),
    ):  # fmt: skip
        table = pl.read_parquet(HERE / "identity" / "tables" / f"{name}.parquet")
        texts = 200 if model == "demo-llm" else TEXTS[name.split("-")[0]]
        manifest = {"documents": texts, "settings": {"folds": folds}}
        beside = HERE / "identity" / "tables" / f"{name}-controls.parquet"
        controls = pl.read_parquet(beside) if beside.is_file() else None
        found += from_table(
            "brunner2020", items, table, manifest, model=model, page="identity/README.md", controls=controls
        )
    return found


def adversary() -> list[Told]:
    tables = {path.stem: pl.read_parquet(path) for path in (HERE / "adversary" / "tables").glob("*.parquet")}
    return from_trained(tables, seeds=5, model=TAGGER, page="adversary/README.md")


def pages() -> dict[str, list[Told]]:
    """Every page with its claims; a run with controls goes before a table without."""
    found = {
        "wikitext2": [
            *stored("demo/surface", "demo", "clark2019", SURFACE, page="wikitext2"),
            *stored("demo/distances", "demo", "clark2019", ("fig6",), page="wikitext2"),
            *stored("demo/norms", "demo", "kobayashi2020", NORMS, page="wikitext2"),
            *stored("demo/nullspace", "demo", "brunner2020", NULL, page="wikitext2"),
        ],
        "sample": [
            *stored("demo-llm/surface", "demo-llm", "clark2019", SURFACE, page="sample"),
            *stored("demo-llm/distances", "demo-llm", "clark2019", ("fig6",), page="sample"),
            *stored("demo-llm/norms", "demo-llm", "kobayashi2020", NORMS, page="sample"),
            *stored("demo-llm/nullspace", "demo-llm", "brunner2020", ("rank", "fig1bc"), page="sample"),
        ],
        "linguistics": [
            one
            for model in ("demo", "demo-llm")
            for study, item in (("syntax", "table1"), ("coref", "table2"))
            for one in stored(f"{model}/{study}", model, "clark2019", (item,), page="linguistics")
        ],
        "probe": [
            one
            for model in ("demo", "demo-llm")
            for one in stored(model, model, "clark2019", ("table3",), page="probe")
        ],
        "identity": identity(),
        "mixing": [
            *stored("mrpc", "demo", "brunner2020", ("fig3a", "fig3b", "fig4b"), page="mixing"),
            *stored("cola", "demo", "brunner2020", ("fig40",), page="mixing"),
        ],
        "finetune": [],
        "masked-lm": [],
        "alignment": stored(".", DE_EN, "kobayashi2020", ("fig7",), page="alignment"),
        "adversary": adversary(),
    }
    return {page: in_order(without_repeats([*controlled(page), *told]), MODELS) for page, told in found.items()}


def without_repeats(told: list[Told]) -> list[Told]:
    """The first of each claim and model."""
    first = {}
    for one in told:
        first.setdefault((one.paper.name, one.item.id, one.claim.says, one.model), one)
    return list(first.values())


def on_top(found: dict[str, list[Told]]) -> list[Told]:
    """What the page of claims by models tells."""
    return in_order(without_repeats([one for told in found.values() for one in told]), MODELS)


def contents() -> dict[Path, str]:
    """What stands between the markers of every page."""
    found = pages()
    everything = on_top(found)
    made = {HERE / page / "README.md": one_run(told) for page, told in found.items()}
    made[HERE / "README.md"] = f"{KEY}\n\n{claims_by_models(everything, MODELS, reason)}"
    made[DOCS] = f"{KEY}\n\n{claims_by_models(everything, MODELS, reason, root='../experiments/')}"
    return made


def main() -> int:
    late = []
    for path, content in contents().items():
        old = path.read_text("utf-8")
        new = between(old, MARK, content)
        if new != old:
            late.append(path)
            if "--check" not in sys.argv:
                path.write_text(new, "utf-8")
                print(f"wrote {path.relative_to(HERE.parent)}")
    if late and "--check" in sys.argv:
        print("run `make evidence`; out of date:", *(str(path.relative_to(HERE.parent)) for path in late))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

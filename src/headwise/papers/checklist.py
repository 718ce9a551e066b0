"""docs/papers.md: every figure and table of the papers, the command that makes it, and what it writes.

    python -m headwise.papers.checklist > docs/papers.md

The rows are the registry's own, so what is not there cannot be run, and what can be run is there (a test compares).
"""

from __future__ import annotations

from collections.abc import Iterator

from headwise.papers import PAPERS, Item, Job, Paper

HEAD = """# The papers, figure by figure

For readers who know the papers: find the figure, run its line. `headwise reproduce --list` says the same in a terminal.

`headwise reproduce PAPER --item NAME --data DATA --model MODEL --out OUT`

What it shows is written to `OUT/figures/` under the names below (a picture as `.svg`, a table of the paper as `.md`),
the numbers behind it to `OUT/0/STUDY/`, and what the paper claims, ours, n, control and verdict to `OUT/verdicts.csv`
([how verdicts are made](evidence.md)). `--first 20` tries it on few texts. A figure inside a group finds it:
`--item fig16`, `--item fig38-43`. Figures that a model cannot have (separators in a model without any) are left out.
*Reads* is a path in DATA; where the paper's own corpus is not free, it is an open one of the same kind.
"""
COLUMNS = "| in the paper | shows | command | writes | reads | study |\n|---|---|---|---|---|---|\n"


def page() -> str:
    return "".join([HEAD, *(part for paper in PAPERS.values() for part in _section(paper))])


def _section(paper: Paper) -> Iterator[str]:
    yield f"\n## {paper.cite}\n\n"
    if paper.link:
        yield f"<{paper.link}>\n\n"
    yield COLUMNS
    yield from (_row(paper, item) for item in paper.items)


def _row(paper: Paper, item: Item) -> str:
    job = item.job
    study = f"[{job.study}](studies/{job.study}.md)" if isinstance(job, Job) else "trains taggers"
    names = ", ".join(dict.fromkeys((item.id, *item.also)))
    command = f"`headwise reproduce {paper.name} --item {item.id}{' --against BASE' if item.against else ''}`"
    cells = (names, item.shows.replace("|", "\\|"), command, ", ".join(f"`{name}`" for name in files(item)),
             f"`{job.data}`", study)  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def files(item: Item) -> list[str]:
    """What an item writes at the most.

    >>> files(PAPERS["kobayashi2020"].items[0])
    ['table1.md']
    """
    drawn = [f"{item.id}-{name}.svg" for name in item.figures]
    return [*drawn, *([f"{item.id}.md"] if item.rows is not None or not drawn else [])]


if __name__ == "__main__":
    print(page(), end="")

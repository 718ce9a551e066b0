"""Word alignment by a translation model: the study `alignment` on two files of sentences, and the links it chose."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.engine.run import run
from headwise.errors import InputError
from headwise.models.load import load
from headwise.models.model import Model
from headwise.results import Result
from headwise.results.files import write_files
from headwise.studies.alignment import Alignment, chosen_links
from headwise.studies.alignment.gradients import METHODS
from headwise.text.alignments import Pair, parse_pair, read_pairs, write_links, write_pairs

CORPUS, LINKS = "corpus.pairs", "links.txt"


def align(
    model: str | Model,
    source: str | Path,
    target: str | Path,
    *,
    out: str | Path,
    gold: str | Path | None = None,
    base: int | None = None,
    encoding: str | None = None,
    beside: Sequence[str] = (),
    gradients: bool = False,
    settings: Mapping[str, Any] | None = None,
    truncate: bool = False,
    device: str = "cpu",
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Link the words of line n of `source` with those of line n of `target`, its translation.

    Links go to OUT/links.txt in Pharaoh format. With `gold` links the layer is chosen by AER on a fifth of the pairs
    and scored on the rest; without, by how well the links from either side agree. `beside`: links of other aligners to
    score too, NAME=FILE. `settings` are those of the study.
    """
    links = None if gold is None else Path(gold)
    pairs, said = read_pairs(Path(source), Path(target), links, encoding=encoding, base=base)
    for note in said:
        say(note)
    if beside and gold is None:
        raise InputError("Other aligners' links are scored by gold ones, but there are none; pass --gold too.")
    chosen: dict[str, Any] = {
        "heads": gold is not None,
        "beside": tuple(beside),
        **({"gradients": METHODS} if gradients else {}),
    }
    chosen |= settings or {}
    task = "translation" if gradients or chosen.get("gradients") else None
    loaded = load(model, task=task, device=device) if isinstance(model, str) else model
    Alignment(**chosen).check(loaded)  # before anything is written
    write_files(Path(out), {CORPUS: write_pairs(pairs)})
    told = {"alignment": chosen}
    result = run("alignment", loaded, corpus=Path(out) / CORPUS, out=out, settings=told, truncate=truncate).only
    write_files(result.folder, {LINKS: write_links(chosen_links(result.state, len(pairs)))})
    return result


def aligned_pairs(out: Path) -> list[Pair]:
    """The pairs that `align` read; subtle: a pipe, as of <(…), can be read only once."""
    lines = (out / CORPUS).read_bytes().decode().split("\n")[:-1]
    return [parse_pair(line, f"{out / CORPUS}, line {number}") for number, line in enumerate(lines, start=1)]

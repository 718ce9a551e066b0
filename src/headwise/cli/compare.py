"""`headwise compare`: two models, two corpora or two results, head by head."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options
from headwise.cli.fail_if import FailIf, end, failures, parsed
from headwise.cli.remembered import listed
from headwise.cli.run import (
    Columns,
    Corpus,
    Dtype,
    First,
    Kind,
    Label,
    MaxTokens,
    Seed,
    Segments,
    Truncate,
    reading,
    tell_skipped,
)
from headwise.errors import InputError

HELP = """Differences per head: two models, a model and its fine-tuned copy, a model on two corpora, two stored results.

What each head gives to special tokens, punctuation and neighbours, and its entropy, on every text; the differences
B − A with intervals from resampled texts, heads taken at the same place or matched by what they do; figures, one page.

  headwise compare demo ./my-finetuned --corpus dev.txt --out out/tuned
  headwise compare demo ./my-classifier --corpus dev.csv --columns "Satz A,Satz B" --label Urteil --out out/pairs
  headwise compare demo --corpus news.txt --corpus-b wiki.txt --out out/corpora
  headwise compare tiny:bert tiny:roberta --match profile --out out/families
  headwise compare out/run1 out/run2 --out out/both
  headwise compare old new --fail-if "sink_share.mean > 5%" --json changes.json --out out/gate
"""

A = Annotated[str, typer.Argument(help="A model, or the folder of a stored result.", show_default=False)]
B = Annotated[str | None, typer.Argument(help="Another; none: the same model on --corpus-b.", show_default=False)]
Out = Annotated[Path, typer.Option(help="Folder for the comparison, its page, and both runs.", show_default=False)]
CorpusB = Annotated[str | None, typer.Option(help="The corpus of B, where it is another.")]
StudyName = Annotated[
    str, typer.Option("--study", help="profile; others (surface, norms, nullspace) give no intervals.")
]
Match = Annotated[
    str,
    typer.Option(help="position; attention (Jensen-Shannon of rows, needs one tokenizer); or profile (what heads do)."),
]
Texts = Annotated[int, typer.Option(help="Texts on which rows are compared, for --match attention.", min=1)]
Json = Annotated[str | None, typer.Option("--json", help="Write the differences as JSON; - for standard output.")]
Resamples = Annotated[int, typer.Option(help="Resamples of the texts, for intervals.", min=100)]


def compare(
    a: A,
    out: Out,
    b: B = None,
    corpus: Corpus = "sample",
    corpus_b: CorpusB = None,
    study: StudyName = "profile",
    match: Match = "position",
    texts: Texts = 48,
    resamples: Resamples = 2000,
    task: options.Task = None,
    dtype: Dtype = "float32",
    device: options.Device = "cpu",
    kind: Kind = None,
    columns: Columns = None,
    segments: Segments = None,
    label: Label = None,
    first: First = None,
    truncate: Truncate = False,
    max_tokens: MaxTokens = None,
    seed: Seed = 0,
    fail_if: FailIf = None,
    json_: Json = None,
) -> None:
    if b is None and corpus_b is None:
        raise InputError("There must be two sides: name a second model or result, or a second corpus with --corpus-b.")
    conditions = parsed(fail_if or [])
    if fail_if and study == "profile":
        conditions = parsed(fail_if, [name for (name,) in listed("compare-fail-if", _may_ask)])
    options.check_first(models=[a] if b is None else [a, b], corpora=[corpus, corpus_b], out=out)
    options.check_json(json_)
    with options.telling(f"comparing {a} with {b or corpus_b}") as say:
        from headwise.reports.comparison.gate import document, gauges
        from headwise.reports.comparison.page import findings
        from headwise.reports.comparison.run import compare as compare_sides

        result = compare_sides(
            a, b, out=out, corpus=corpus, corpus_b=corpus_b, study=study, match=match, texts=texts,
            resamples=resamples, seed=seed, task=task, dtype=dtype, device=device, truncate=truncate,
            max_tokens=max_tokens, progress="lines", say=say,
            **reading(kind=kind, columns=columns, segments=segments, label=label, first=first),
        )  # fmt: skip
    read = [(side["corpus"]["name"], side["skipped"] or {}) for side in result.manifest["sides"].values()]
    for at, (name, counts) in enumerate(read):
        if (name, counts) not in read[:at]:  # two models on one corpus
            tell_skipped(name, counts)
    reasons = failures(conditions, gauges(result.table, texts=result.manifest["documents"])) if conditions else []
    if json_ is not None:
        options.write_json(json_, document(result, reasons))
    if json_ != "-":
        one, other = result.manifest["names"]
        for line in findings(result.table, one, other, result.manifest["settings"]):
            print(line)
        print(f"wrote {out}/page.html; open it in any browser, it needs no network")
    end(reasons)


def _may_ask() -> list[list[str]]:
    """What --fail-if may ask of profiles (reports/comparison/gate.py)."""
    from headwise.studies.profile import NUMBERS

    of_heads = [number.replace(" ", ".") for number in (*NUMBERS, "sink_share")]
    return [[f"{name}{tail}"] for name in of_heads for tail in ("", ".size", ".mean")] + [["clear"], ["texts"]]

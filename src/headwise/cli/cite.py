"""`headwise cite`: which passages of a context an answer rests on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli import options
from headwise.errors import InputError

HELP = """For every sentence of an answer, the sources it rests on, with the effect of each when it is removed.

Sources are taken out at random and the answer's probability is asked again; a sparse linear model says what each adds.

  headwise cite --context notes.txt --question "Who fed the cat?"
  headwise cite --context a.txt --context b.txt --question "Who fed the cat?" --answer "Anna did." --units passages
"""

Context = Annotated[list[Path], typer.Option(help="Text files (UTF-8); give the option once for each.")]
QuestionOption = Annotated[str, typer.Option("--question", help="What is asked about them.")]
Answer = Annotated[str | None, typer.Option(help="The answer; without it the model writes one.")]
ModelOption = Annotated[str, typer.Option("--model", help="A model that writes: hub id, folder or demo-llm.")]
Units = Annotated[str, typer.Option(help="Sources: sentences or passages (separated by an empty line).")]
Generate = Annotated[int, typer.Option(help="Tokens that the model may write.")]
Passes = Annotated[int, typer.Option(help="Ablations at most; fewer where the effects are clear before.")]
Seed = Annotated[int, typer.Option(help="Of the random ablations.")]


def cite(
    context: Context,
    question: QuestionOption,
    answer: Answer = None,
    model: ModelOption = "demo-llm",
    units: Units = "sentences",
    generate: Generate = 32,
    passes: Passes = 64,
    seed: Seed = 0,
    device: options.Device = "cpu",
    json_: options.Json = None,
) -> None:
    text = "\n\n".join(_read(path) for path in context)
    from headwise.explanations.citations import cite as cited
    from headwise.explanations.explain import load_predictor
    from headwise.results.shown import number

    task = "causal-lm" if model.startswith("tiny:") else None
    loaded = load_predictor(model, task, device=device)
    found = cited(loaded, text, question, answer, units=units, generate=generate, passes=passes, seed=seed)
    if json_ is not None:
        options.write_json(json_, {"schema": "headwise-cite-1", "model": loaded.name, **asdict(found)})
    if json_ == "-":
        return
    for sentence, fit in zip(found.sentences, found.fit, strict=True):
        print(sentence.sentence)
        for citation in sentence.citations:
            print(
                f"  {citation.effect:6.2f} nats ({number(citation.low)} to {number(citation.high)})  {citation.source}"
            )
        if not sentence.citations:
            print("  rests on none: the model's own knowledge")
        print(f"  {number(100 * max(fit, 0.0), '.0f')} % of what an ablation does is known from the others")
    print(f"{found.passes} passes over {len(found.sources)} {units}, seed {found.seed}")


def _read(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"A context must be UTF-8, but byte {error.start} of {path} is not; convert it first."
        ) from None
    except OSError as error:
        raise InputError(f"A context must be a readable file, but {path} is not ({error.strerror}).") from None
    if not text.strip():
        raise InputError(f"A context must have at least one visible character, but {path} is empty; give another file.")
    return text.strip()

"""`headwise list`: what there is, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

import typer

from headwise.cli import options
from headwise.cli.remembered import listed
from headwise.errors import InputError, UnknownNameError

HELP = """What there is by name: quantities, studies, models, families.

`headwise list families` builds a tiny random member of every supported family, captures it and proves its numbers, \
so what it shows is what holds on this machine with this version of transformers."""

Row = list[str]  # how it is printed, its name, what it is; a heading has no more than the name
NMT = "a small German–English translation model that comes with headwise"
What = Annotated[str | None, typer.Argument(help="quantities, studies, models or families", show_default=False)]
Json = Annotated[str | None, typer.Option("--json", help="Write the list as JSON; - for standard output.")]


def list_(what: What = None, json_: Json = None) -> None:
    kinds = {"quantities": _quantities, "studies": _studies, "models": _models, "families": _families}
    if what is None:
        raise InputError(f"A list must be named: one of {', '.join(kinds)}, as in `headwise list quantities`.")
    if what not in kinds:
        raise UnknownNameError(f"There is no list of {what!r}; there are {', '.join(kinds)}.")
    if json_ is not None:
        entries = [dict(entry) for entry in ENTRIES[what]()]
        options.write_json(json_, {"schema": "headwise-list-1", "list": what, "entries": entries})
    if json_ != "-":
        _print(what, kinds[what])


def _print(what: str, rows_of: Callable[[], Iterator[Row]]) -> None:
    """One line a row; on a terminal it goes on below, beside its name."""
    from rich.console import Console
    from rich.text import Text

    from headwise.cli.printed import lines, terminal

    console, width = Console(highlight=False), terminal()
    rows = rows_of() if what == "families" else listed(f"list-{what}", lambda: [*rows_of()])  # proved here and now
    for style, lead, about in rows:
        hang = " " * (len(lead) + 2) if about else "  "
        text = Text("\n".join(lines(f"{lead}  {about}", width, indent="", hang=hang)))
        text.stylize(style, 0, len(lead) if about and lead.strip() else None)
        console.print(text, soft_wrap=True)


def _wide(names: Iterable[str]) -> int:
    return max(map(len, names))


def _quantities() -> Iterator[Row]:
    from headwise.quantities import AXES

    entries = list(_quantity_entries())
    wide = _wide(entry["name"] for entry in entries)
    for kind, axes in AXES.items():
        yield ["bold", f"{kind} [{axes}]", ""]
        yield from (["", f"  {one['name']:<{wide}}", one["about"]] for one in entries if one["kind"] == kind)


def _studies() -> Iterator[Row]:
    entries = list(_study_entries())
    wide = _wide(entry["name"] for entry in entries)
    for entry in entries:
        yield ["bold", f"{entry['name']:<{wide}}", entry["about"]]
        settings = "  ".join(f"{name}={value}" for name, value in entry["settings"].items())
        if settings:
            yield ["dim", " " * wide, f"--set {settings}"]


def _written(value: object) -> str:
    """A setting's default as it would be typed."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


def _models() -> Iterator[Row]:
    entries = [*_model_entries()]
    wide = _wide(entry["name"] for entry in entries)
    yield from (["bold", f"{entry['name']:<{wide}}", f"{entry['about']} ({entry['licence']})"] for entry in entries)
    yield ["bold", f"{'tiny:NAME':<{wide}}", "a random model of any family in `headwise list families`"]
    yield ["", "or a hub id, or a folder with config.json, a tokenizer and *.safetensors", ""]


def _families() -> Iterator[Row]:
    from headwise.models.load import load
    from headwise.models.tiny import FAMILIES, OUTSIDE, REFUSED, SENSES

    families = {**FAMILIES, **OUTSIDE, **SENSES}
    wide = _wide([*families, *REFUSED])
    yield [
        "bold",
        "proved here and now: Σ_h α V W_O + b_O equals the model's own output (relative error), with "
        f"transformers {version('transformers')}",
        "",
    ]
    for name, family in families.items():
        model = load(f"tiny:{name}", task="image" if name == "clip" else None)
        residual = all(site.residual_of is not None for site in model.proof.sites)
        notes = [family.note, "" if residual else "no residual norms"]
        about = (
            f"{family.kind:<16} {', '.join(model.stacks):<24} {model.proof.projection_error:.0e}  "
            f"{'; '.join(note for note in notes if note)}"
        )
        yield ["", f"  {name:<{wide}}", about.rstrip()]
    yield ["bold", "refused", ""]
    yield from (["", f"  {name:<{wide}}", why] for name, why in REFUSED.items())
    yield from tried_rows(json.loads(files("headwise.models").joinpath("tried.json").read_text("utf-8")))


def tried_rows(tried: Mapping[str, str]) -> Iterator[Row]:
    """What the last sweep over all model types found, and when (benchmarks/coverage.py)."""
    yield ["bold", f"tried {tried['days']}, with transformers {tried['transformers']}: a tiny model of every type", ""]
    yield from (["", f"  {kind:<20}", tried[kind]] for kind in ("text", "pictures and sound"))
    yield ["", "  docs/families.md says of each type what was found, and why some are refused", ""]


# The same for programs: a name and what it is, and what else is known of it.


def _quantity_entries() -> Iterator[Mapping[str, Any]]:
    from headwise.quantities import AXES, EXPLANATIONS, every

    for kind, axes in AXES.items():
        entries = EXPLANATIONS.entries() if kind == "explanation" else [each for each in every() if each.kind == kind]
        yield from ({"name": one.name, "about": one.about, "kind": kind, "axes": axes} for one in entries)


def _study_entries() -> Iterator[Mapping[str, Any]]:
    from dataclasses import fields

    from headwise.studies import STUDIES

    for entry in STUDIES.entries():
        settings = {field.name: _written(field.default) for field in fields(entry.value)}
        yield {"name": entry.name, "about": entry.about, "settings": settings}


def _model_entries() -> Iterator[Mapping[str, Any]]:
    from headwise.models.packaged import PACKAGED

    for name, package in PACKAGED.items():
        yield {"name": name, "about": package.about, "licence": package.licence}
    yield {"name": "demo-nmt", "about": NMT, "licence": "Apache-2.0"}


def _family_entries() -> Iterator[Mapping[str, Any]]:
    from headwise.models.load import load
    from headwise.models.tiny import FAMILIES, OUTSIDE, REFUSED, SENSES

    for name, family in {**FAMILIES, **OUTSIDE, **SENSES}.items():
        model = load(f"tiny:{name}", task="image" if name == "clip" else None)
        yield {
            "name": name, "about": family.note, "kind": family.kind, "stacks": list(model.stacks),
            "projection_error": model.proof.projection_error, "refused": None,
            "residual": all(site.residual_of is not None for site in model.proof.sites),
        }  # fmt: skip
    yield from ({"name": name, "about": "", "refused": why} for name, why in REFUSED.items())


ENTRIES = {"quantities": _quantity_entries, "studies": _study_entries, "models": _model_entries,
           "families": _family_entries}  # fmt: skip

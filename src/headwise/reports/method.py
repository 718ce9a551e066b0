"""How a report was made, in sentences: model, proof, corpus, studies, what was not run; every setting behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headwise.models.packaged import real_name
from headwise.reports.answers import Results
from headwise.reports.plan import Agenda
from headwise.results.shown import number
from headwise.studies import STUDIES
from headwise.studies.tables import counted
from headwise.viewer.build import ascii_text as text


def method(results: Results, agenda: Agenda, command: str) -> Iterable[str]:
    """The section of the page."""
    yield '<section id="method">\n<h2>How this was made</h2>\n'
    yield from (f"<p>{text(line)}</p>\n" for line in sentences(results, agenda))
    if command:
        yield f"<p>Made by <code>{text(command)}</code>.</p>\n"
    yield "<details><summary>Every setting and version</summary><dl>\n"
    first = next(iter(results.values())).manifest
    told = {"model": first["model"], "proof": first["proof"], "corpus": first["plan"]["corpus"],
            "engine": first["engine"], "versions": first["versions"],
            **{name: result.manifest["settings"] for name, result in results.items()}}  # fmt: skip
    yield from (f"<dt>{text(key)}</dt><dd>{_told(value)}</dd>\n" for key, value in told.items())
    yield (
        "</dl></details>\n<p>The results themselves, with checksums, are in the folder beside this page; "
        "<code>headwise show FOLDER</code> opens them again.</p>\n</section>\n"
    )


def sentences(results: Results, agenda: Agenda) -> list[str]:
    """What anyone must know to judge or repeat it, a paragraph each."""
    first = next(iter(results.values())).manifest
    model, corpus, proof = first["model"], first["plan"]["corpus"], first["proof"]
    revision = f", revision {model['revision']}" if model["revision"] else ""
    threads = counted(first["engine"]["threads"], "thread")
    ran = ", ".join(f"“{STUDIES[name].heading()}” ({name})" for name in results)
    found = [
        f"The model is {real_name(model['name'])} ({model['type']}, weights {model['weights']}{revision}), in "
        f"{model['dtype']}. Before anything was counted it was proved that what is captured is the model's own: what "
        f"heads send is right to {number(proof['projection_error'], '.0e')}, and the watched model gives its own "
        f"output to {number(proof['output_error'], '.0e')}.",
        f"The corpus is {Path(corpus['name']).name} (fingerprint {corpus['fingerprint']}). "
        f"{counted(first['documents'], 'text')} with {counted(first['tokens'], 'token')} were read; "
        f"{_skipped(first['skipped'])}.",
        f"These questions were asked, all of the same texts: {ran}. Whatever is drawn by lot comes from seed "
        f"{first['seed']}; it ran on the {first['engine']['name']} engine with {threads}, on {first['time'][:10]}.",
    ]
    if agenda.note:
        found.append(agenda.note if agenda.note.endswith(".") else f"{agenda.note}.")
    found += [f"Not run: {name}. {_sentence(reason)}" for name, reason in agenda.left_out.items()]
    return found


def _skipped(skipped: Mapping[str, int]) -> str:
    parts = [f"{count:,} ({reason})" for reason, count in skipped.items()]
    return f"left out were {', '.join(parts)}" if parts else "none was left out"


def _sentence(reason: str) -> str:
    """
    >>> _sentence("it needs labels"), _sentence("It does not.")
    ('It needs labels.', 'It does not.')
    """
    return reason[:1].upper() + reason[1:] + ("" if reason.endswith(".") else ".")


def _told(value: Any) -> str:
    """A value of the manifest in words: settings as key = value."""
    if isinstance(value, Mapping):
        return "; ".join(f"{text(str(key))} = {_told(one)}" for key, one in value.items() if one is not None)
    if isinstance(value, list):
        return ", ".join(_told(one) for one in value)
    return text(number(value, ".3g") if isinstance(value, float) else str(value))

"""The report as one HTML file: answers, claims, a section a study, example texts, the method. It needs no network.

Text is in the page itself; figures, tables and viewer pages are drawn by `static/report.js` from JSON when they come
into sight. Scripts are allowed by their hash alone, and everything that comes from a model or a corpus is escaped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from headwise.models.packaged import real_name
from headwise.papers import PAPERS, Claim, Evidence, Item, Job, Judged, Paper, judge
from headwise.papers.claim import counts_of
from headwise.papers.controls import Beside
from headwise.reports.answers import Card, Results, cards, summary, texts_read
from headwise.reports.method import method
from headwise.reports.onepage import block, made_of
from headwise.reports.plan import Agenda
from headwise.reports.verdict import QUESTION, Judgement, judged
from headwise.results import Result
from headwise.results.shown import number, spaced
from headwise.studies import STUDIES
from headwise.studies.answers import BELIEVE
from headwise.studies.study import RENAMED
from headwise.viewer.build import ascii_text as text
from headwise.viewer.build import bundle, digest, script_json

FIND = "strongest"  # the study whose table a click on a head leads to
HINT = "A click on a head in any grid of this page lists its texts here."
MOST_ROWS = 6000  # of a table in the page; the whole is in the folder of its result
VERDICTS = {"holds": "yes", "undecided": "part", "does not hold": "no", "not comparable": "none"}


@dataclass(frozen=True)
class Example:
    """A text of the corpus in the viewer: its first words, and the viewer's own page."""

    title: str
    html: str


@dataclass(frozen=True)
class Checked:
    paper: Paper
    item: Item
    claim: Claim
    found: Judged


def page(
    results: Results, agenda: Agenda, examples: Sequence[Example] = (), *, command: str = "",
    right: Sequence[bool] = (), beside: Beside | None = None,
) -> str:  # fmt: skip
    """The whole report."""
    script, style, charts = static("report.js"), static("report.css"), chart_library()
    facts = summary(results)
    title = f"{real_name(facts['model'])} on {facts['corpus']} · headwise report"
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(script, charts)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            *_head(facts, results, bool(examples)),
            "<main>\n",
            *_verdict(judged(results, right)),
            *_answers(cards(results, agenda.left_out), results),
            *_claims(checked(results, beside), beside),
            *(part for name, result in results.items() for part in _study(name, result)),
            *_examples(examples),
            *method(results, agenda, command),
            "</main>\n<noscript>Figures and tables are drawn with JavaScript, which is switched off here.</noscript>\n",
            f"<script>{charts}</script>\n<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def checked(results: Results, beside: Beside | None = None) -> list[Checked]:
    """Every claim of the papers that the studies at hand can speak to, once; not where another thing was asked for."""
    found, seen = [], set()
    for paper in PAPERS.values():
        for item in paper.items:
            if not isinstance(item.job, Job) or item.job.study not in results:
                continue
            result = results[item.job.study]
            if not _as_claimed(result, item.job.settings):
                continue
            for claim in item.claims:
                if (paper.name, claim.look) not in seen:  # the same claim on another corpus
                    seen.add((paper.name, claim.look))
                    others = beside.tables.get(item.job.study, {}) if beside else {}
                    evidence = Evidence(
                        result.table, counts_of(result.manifest), result.parts, others.get("untrained"),
                        others.get("shuffled", ()),
                    )  # fmt: skip
                    found.append(Checked(paper, item, claim, judge(claim, evidence)))
    return found


def _as_claimed(result: Result, settings: Mapping[str, Any]) -> bool:
    """Whether a run asked the item's question: what is looked at is as in the item, or its default."""
    default = STUDIES[result.manifest["study"]]().settings()
    wanted = {RENAMED.get(key, key): [value] if key in RENAMED else value for key, value in settings.items()}
    looked_at = ("target", "offsets", *(["quantities"] if len(default.get("quantities", ())) == 1 else []))
    for key in looked_at:
        if key in default and result.manifest["settings"].get(key) != json.loads(
            json.dumps(wanted.get(key, default[key]), default=list)
        ):
            return False
    return True


# --- parts ---


def _head(facts: Mapping[str, Any], results: Results, examples: bool) -> Iterable[str]:
    yield "<header>\n<p class='brand'>headwise report</p>\n"
    name = text(real_name(facts["model"]))
    yield f"<h1>What is <b>{name}</b> attending to, and may I believe it?</h1>\n<p class='facts'>"
    yield (
        f"{text(facts['type'])}, layers × heads: {text(facts['stacks'])} · corpus {text(facts['corpus'])}: "
        f"{text(texts_read(facts))} · the captured numbers are the model's own to "
        f"{number(facts['proof'], '.1e')}{_watched(facts['watched'])}</p>\n"
    )
    links = [
        ("verdict", "Verdict"),
        ("answers", "Answers"),
        ("claims", "Claims"),
        *((name, STUDIES[name].heading()) for name in results),
    ]
    links += [("examples", "Examples")] if examples else []
    yield "<nav aria-label='Sections'>"
    yield "".join(f'<a href="#{name}">{text(label)}</a>' for name, label in [*links, ("method", "Method")])
    yield '<button type="button" id="print">Print</button></nav>\n</header>\n'


def _verdict(found: Judgement) -> Iterable[str]:
    """The first page: the same as `headwise verdict` writes."""
    yield f'<section id="verdict">\n<h2>{text(QUESTION)}</h2>\n<article>\n'
    yield from block(found)
    yield f'<p class="caption">{text(made_of(found))}</p>\n</article>\n</section>\n'


def _answers(found: Sequence[Card], results: Results) -> Iterable[str]:
    yield '<section id="answers">\n<h2>In short</h2>\n<div class="cards">\n'
    for card in found:
        short = f"{card.short.partition(':')[0]}, as said above." if card.question == BELIEVE else card.short
        yield f"<article><h3>{text(card.question)}</h3><p class='short'>{text(short)}</p><ul>"
        yield "".join(f"<li>{text(line)} {_link(study, results)}</li>" for line, study in card.because)
        yield "</ul></article>\n"
    yield "</div>\n</section>\n"


def _link(study: str, results: Results) -> str:
    """To the study's section, or, where it was not run, to the reason."""
    return f'<a href="#{study if study in results else "method"}">{study}</a>'


def _controls(beside: Beside | None) -> str:
    """What the claims were held against, as a sentence."""
    if beside is None:
        return (
            "A report runs no untrained network beside the model, so a claim that needs such a control stays undecided "
            "here: <code>--controls 3</code> runs them for what one pass measures, <code>headwise reproduce PAPER "
            "--data DATA</code> for all."
        )
    return (
        f"Beside the model, {2 * beside.count} networks of its shape that learned nothing ({beside.count} drawn anew, "
        f"{beside.count} with the weights shuffled) read up to {beside.texts} of the texts, for "
        f"{text(', '.join(beside.tables) or 'no study')}; for the rest "
        "<code>headwise reproduce PAPER --data DATA</code> runs them."
    )


def _claims(found: Sequence[Checked], beside: Beside | None = None) -> Iterable[str]:
    yield (
        '<section id="claims">\n<h2>What the papers say, and what holds here</h2>\n<p>The papers looked at other '
        "models (mostly BERT-base), so a number need not match; the rule beside a claim decides whether it holds. "
        f"{_controls(beside)}</p>\n"
        '<div class="wide"><table class="claims"><thead><tr><th>paper</th><th>claim</th><th>there</th><th>here</th>'
        "<th>n</th><th>control</th><th>verdict</th><th>rule</th></tr></thead><tbody>\n"
    )
    for one in found:
        where = f'<a href="{one.paper.link}" rel="noreferrer">{one.paper.name}</a> {text(one.item.id)}'
        told = one.found
        cells = (text(spaced(cell)) for cell in (one.claim.says, one.claim.theirs, told.ours, told.n, told.control))
        yield f"<tr><td>{where}</td>" + "".join(f"<td>{cell}</td>" for cell in cells)
        verdict = f"{told.verdict}: {told.why}" if told.why and told.numbers else told.verdict
        rule = text(spaced(one.claim.rule))
        yield f'<td class="{VERDICTS[told.verdict]}">{text(spaced(verdict))}</td><td>{rule}</td></tr>\n'
    yield "</tbody></table></div>\n</section>\n"


def _study(name: str, result: Result) -> Iterable[str]:
    study = STUDIES[name]
    yield f'<section id="{name}">\n<h2>{text(study.heading())}</h2>\n<p class="asks">{text(_asks(name))}</p>\n'
    for figure in result.figures:
        spec = result.spec(figure)
        yield f'<figure class="chart" id="{name}-{figure}" data-spec="spec-{name}-{figure}"><p>{figure}</p></figure>\n'
        yield f'<p class="caption"><code>{text(figure)}</code> {text(study.caption(figure))}</p>\n'
        yield f'<script type="application/json" id="spec-{name}-{figure}">{script_json(spec)}</script>\n'
    shown = result.table.head(MOST_ROWS)
    cut = f", of which the first {MOST_ROWS:,} are here" if len(result.table) > MOST_ROWS else ""
    hint = f"<p class='muted'>{HINT}</p>" if name == FIND else ""
    yield f"{hint}<details class='data'><summary>Table: {len(result.table):,} rows{cut}</summary>"
    yield f'<div class="table" data-name="{name}" data-rows="rows-{name}"></div></details>\n'
    yield f'<script type="application/json" id="rows-{name}">{script_json(columns_of(shown))}</script>\n</section>\n'


def _asks(name: str) -> str:
    about = STUDIES.entry(name).about
    return about[0].upper() + about[1:]


def _examples(examples: Sequence[Example]) -> Iterable[str]:
    if not examples:
        return
    yield '<section id="examples">\n<h2>Examples, in the viewer</h2>\n<p>Every head and quantity of single texts.</p>\n'
    for at, example in enumerate(examples):
        yield (
            f'<details class="example" data-page="page-{at}"><summary>{text(example.title)}</summary></details>\n'
            f'<script type="application/json" id="page-{at}">{script_json(example.html)}</script>\n'
        )
    yield "</section>\n"


def _watched(proof: Mapping[str, Any] | None) -> str:
    """How far the run's own pass was from the model's, on the text on which it was tried."""
    if not proof:
        return ""
    error = number(proof["output_error"], ".1e")
    return f"; watched, its output on a text of {proof['tokens']:,} tokens is its own to {error}"


# --- data ---


def columns_of(table: pl.DataFrame) -> dict[str, Any]:
    """A table column by column; numbers keep six digits, and what is not finite is null."""
    columns = {name: [_plain(value) for value in table[name].to_list()] for name in table.columns}
    return {"names": list(columns), "columns": list(columns.values())}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


# --- what every report carries ---


@cache
def static(name: str) -> str:
    return files("headwise.reports").joinpath("static", name).read_text("utf-8").strip()


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and vega-embed as vl-convert carries them, in ASCII."""
    import vl_convert

    bundled: str = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\u{ord(found[0]):04x}", bundled)


def policy(script: str, charts: str) -> str:
    """The viewer's script is among those allowed, as a frame without an address keeps to its parent's policy.

    subtle: the charts' library writes style attributes, which no hash can allow; no text from outside reaches a style.
    """
    scripts = " ".join(f"'{digest(one)}'" for one in (charts, script, bundle("viewer.js")))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'"
    )

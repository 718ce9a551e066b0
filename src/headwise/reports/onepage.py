"""The verdict on one page to print: HTML without a script, Markdown, and a section for a model card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from headwise.reports.answers import texts_read
from headwise.reports.sentences import both_ends
from headwise.reports.verdict import QUESTION, Judgement
from headwise.results.shown import number as written
from headwise.studies import tables as shares
from headwise.studies.answers import Number, Tested
from headwise.viewer.build import ascii_text as text

LEAD = {"yes": "Yes", "with care": "With care", "no": "No", "undecided": "Undecided"}
SHOW = "What may be shown of its answer?"
TESTED = {
    "unique": "Are the weights unique?",
    "alike": "Are the raw weights those that reach the output?",
    "carries": "Do vectors go where the weights go?",
    "parked": "Do first tokens and separators carry what they get?",
    "words": "Are hidden tokens still words?",
    "heads": "Do the heads matter to the answer?",
    "matters": "Does what they name matter to the answer?",
}
OWN = {("adversary", "matters"): "Would other weights have given another answer?"}  # yes is good, as of the others
TESTED_BY = {
    "unique": "lamps would test it",
    "alike": "nullspace would test it, on texts longer than a head's size",
    "carries": "lamps would test it",
    "parked": "norms would test it",
    "words": "mixing would test it",
    "heads": "ablation would test it, on six texts or more, which a head's own interval takes",
    "matters": f"what would test it stands under “{SHOW}”",
}
NOTHING = "Nothing, by what was tested."
KINDS = {"yes": "yes", "with care": "care", "no": "no", "undecided": "muted"}  # classes of the style sheets


def html(found: Judgement) -> str:
    """The whole page."""
    title = f"{found.facts['model']}: verdict · headwise"
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{text(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n",
            f"<h1>{text(QUESTION)}</h1>\n<p class='muted'>{text(_subject(found))}</p>\n",
            *block(found),
            f"<h2>Made of</h2>\n<p class='muted'>{text(made_of(found))}</p>\n</body>\n</html>\n",
        ]
    )


@cache
def style() -> str:
    return files("headwise.reports").joinpath("static", "verdict.css").read_text("utf-8").strip()


def block(found: Judgement) -> Iterable[str]:
    """The answer, its numbers, the tests, and what may be written; the report's first page has the same."""
    yield f'<p class="answer {KINDS[found.verdict]}">{LEAD[found.verdict]}</p>\n'
    yield f'<p class="short">{text(without_lead(found))}</p>\n'
    yield from _numbers(found)
    yield '<h2>The tests</h2>\n<div class="sheet"><table>\n'
    for study, tested, vote, because in found.votes:
        yield f'<tr><td>{text(question(study, tested))}</td><td class="n {KINDS[vote]}">{vote}</td>'
        yield f'<td>{text(because)} <span class="muted">{text(study)}</span></td></tr>\n'
    for study, tested, because in found.undecided:
        yield f"<tr><td>{text(question(study, tested))}</td><td class='n muted'>undecided</td>"
        yield f'<td>{text(because)} <span class="muted">{text(study)}</span></td></tr>\n'
    for one in found.not_tested:
        yield f"<tr><td>{text(TESTED[one])}</td><td class='n muted'>not tested</td>"
        yield f"<td class='muted'>{text(TESTED_BY[one])}</td></tr>\n"
    yield f"</table></div>\n<h2>{SHOW}</h2>\n<p>{text(found.instead)}</p>\n"
    yield '<div class="two">\n'
    yield f"<div><h2>You may write</h2>{_list(found.may)}</div>\n"
    yield f"<div><h2>You may not write</h2>{_list(found.may_not)}</div>\n</div>\n"


def question(study: str, tested: Tested) -> str:
    """What a study's vote answers: of two that test the same each has its own way to ask."""
    return OWN.get((study, tested), TESTED[tested])


def without_lead(found: Judgement) -> str:
    """The sentence after the answer, which does not say the answer again: Not the raw weights: …"""
    rest = found.short.removeprefix(LEAD[found.verdict]).lstrip(",: ")
    return rest[:1].upper() + rest[1:]


def asked_of(one: Number, found: Judgement) -> str:
    """Of how many texts a number is; a study that takes many passes asks only the first of those that were read."""
    read = found.facts["documents"]
    return f"{one.n:,} of {shares.counted(read, 'text')}" if one.n < read else shares.counted(one.n, "text")


def _numbers(found: Judgement) -> Iterable[str]:
    if not found.numbers:
        return
    yield '<h2>The numbers, those that decided first</h2>\n<div class="sheet"><table>\n'
    yield "<thead><tr><th></th><th>95 % interval</th><th>n</th></tr></thead>\n"
    for one in found.numbers:
        yield f"<tr><td><b>{amount(one)}</b> {text(one.says)}</td>"
        yield f"<td class='n' data-head='95 % interval'>{interval(one)}</td>"
        yield f"<td class='n' data-head='n'>{asked_of(one, found)}</td></tr>\n"
    yield "</table></div>\n"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else f"<p>{NOTHING}</p>"


def markdown(found: Judgement, *, level: int = 1) -> str:
    """The same as Markdown."""
    head, sub = "#" * level, "#" * (level + 1)
    rows = [f"| {amount(n)} {n.says} | {interval(n)} | {asked_of(n, found)} |" for n in found.numbers]
    tests = [f"| {question(s, tested)} | {vote} | {because} | `{s}` |" for s, tested, vote, because in found.votes]
    tests += [f"| {question(s, tested)} | undecided | {because} | `{s}` |" for s, tested, because in found.undecided]
    tests += [f"| {TESTED[one]} | not tested | {TESTED_BY[one]} | |" for one in found.not_tested]
    lines = [
        f"{head} {QUESTION}", "", f"**{LEAD[found.verdict]}.** {without_lead(found)}", "", _subject(found), "",
        *(["| number | 95 % interval | n |", "|---|---|---|", *rows, ""] if rows else []),
        "| test | vote | because | study |", "|---|---|---|---|", *tests, "",
        f"{sub} {SHOW}", "", found.instead, "",
        f"{sub} You may write", "", *(f"- {line}" for line in found.may or (NOTHING,)), "",
        f"{sub} You may not write", "", *(f"- {line}" for line in found.may_not), "", made_of(found), "",
    ]  # fmt: skip
    return "\n".join(lines)


def card(found: Judgement) -> str:
    """A section for the README of a model on the Hugging Face hub."""
    title = "## May its attention be shown as an explanation?"
    return markdown(found, level=2).replace(f"## {QUESTION}", title, 1)


def percent(share: float) -> str:
    """A share as people write it; zero without digits that it does not have."""
    return "undefined" if share != share else "0\u00a0%" if share == 0 else shares.percent(share)


def amount(number: Number) -> str:
    if not number.share:
        return written(number.value)
    if number.low is None or number.high is None or number.low == number.high:
        return percent(number.value)
    return shares.within(number.value, number.low, number.high)[0]


def interval(number: Number) -> str:
    if number.low is None or number.high is None:
        return f"no interval: {number.without}" if number.without else "–"
    if not number.share:
        return " to ".join(both_ends(number))
    if number.low == number.high == 0:
        return f"{percent(0)} to {percent(0)}"
    return shares.ends(number.low, number.high)


def made_of(found: Judgement) -> str:
    """Everything that another one needs to make the page again."""
    facts = found.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    called = "" if facts["called"] == facts["model"] else f" (headwise calls it {facts['called']})"
    revision = f", revision {facts['revision']}" if facts["revision"] else ""
    return (
        f"Model {facts['model']}{called}{revision}, weights {facts['weights']}; corpus {facts['corpus']}, fingerprint "
        f"{facts['fingerprint']}; studies {', '.join(facts['studies'])}; captured numbers are the model's own to "
        f"{facts['proof']:.0e}; {facts['time']}; {versions}."
    )


def _subject(found: Judgement) -> str:
    facts = found.facts
    return (
        f"{facts['model']} ({facts['type']}, layers × heads: {facts['stacks']}) on {facts['corpus']}: "
        f"{texts_read(facts)}."
    )

"""What mkdocs does not do by itself: formulas without a script, experiments' pictures, search without the network.

Formulas ($…$, $$…$$) become MathML at build time: browsers draw it, so no script and no font is fetched. Pictures of
experiments, and their pages, are linked as `../experiments/…`, which a reader of the repository can follow; the site
gets a copy, of the pages without the links to what is not on it (scripts, tables). The
theme's `offline` plugin would fetch a script that lets search run from the disk; `worker.js` takes its place. The table
of studies is made of what they say of themselves, and a study without a page of its own gets one.
"""

from __future__ import annotations

import html
import inspect
import re
from dataclasses import fields
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from headwise.studies import STUDIES

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
PICTURE = re.compile(r"\.\./(experiments/[\w/.-]+\.(?:png|svg))")
PAGE = re.compile(r"\.\./(experiments/[\w-]+/README\.md)")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)]+)\)")
FETCHED = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
ROOT = Path(__file__).parents[2]
TABLE_OF_STUDIES = "<!-- studies -->"


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    linked = {name for page in files.documentation_pages() for name in PICTURE.findall(page.content_string)}
    for name in sorted(linked):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name in pages_of_experiments():
        files.append(File.generated(config, name, content=page_of_experiment(name)))
        for picture in sorted(pictures_of(name) - linked):
            files.append(File.generated(config, picture, abs_src_path=str(ROOT / picture)))
    for name in without_page(ROOT / "docs"):
        files.append(File.generated(config, f"studies/{name}.md", content=page_of_study(name)))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Studies without a page of their own stand after the others, the pages of experiments last."""
    for section in config.nav or []:
        if isinstance(section, dict) and "Studies" in section:
            section["Studies"] += [f"studies/{name}.md" for name in without_page(ROOT / "docs")]
    config.nav = [*(config.nav or []), {"Experiments": pages_of_experiments()}]
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    return PAGE.sub(r"\1", PICTURE.sub(r"\1", markdown)).replace(TABLE_OF_STUDIES, table_of_studies())


def pages_of_experiments() -> list[str]:
    """Those that a page of the documentation links."""
    return sorted({name for page in (ROOT / "docs").rglob("*.md") for name in PAGE.findall(page.read_text("utf-8"))})


def pictures_of(name: str) -> set[str]:
    """The pictures in the folder of an experiment that its page shows."""
    shown = {link for _, _, link in LINK.findall((ROOT / name).read_text("utf-8")) if link.endswith((".png", ".svg"))}
    return {f"{Path(name).parent.as_posix()}/{link}" for link in shown}


def page_of_experiment(name: str) -> str:
    """Its text; a link to what the site does not have is left as words."""
    there = pages_of_experiments()

    def mended(found: re.Match[str]) -> str:
        _, words, link = found.groups()
        if link.startswith("../../docs/"):
            return f"[{words}](../../{link.removeprefix('../../docs/')})"
        beside = link.startswith("../") and f"experiments/{link.removeprefix('../')}" in there
        kept = beside or link.startswith("https://") or link.endswith((".png", ".svg"))
        return found[0] if kept else words

    return LINK.sub(mended, (ROOT / name).read_text("utf-8"))


def without_page(docs: Path) -> list[str]:
    return [name for name in STUDIES if not (docs / "studies" / f"{name}.md").is_file()]


def table_of_studies() -> str:
    """One row a study, of its own words."""
    rows = ["| study | asks | needs | figures | settings |", "|---|---|---|---|---|"]
    for entry in STUDIES.entries():
        study = entry.value
        settings = ", ".join(f"`{field.name}`" for field in fields(study)) or "none"
        figures = ", ".join(f"`{name}`" for name in study.captions)
        about = entry.about.replace("|", "\\|")
        rows.append(f"| [`{entry.name}`]({entry.name}.md) | {about} | {study.needs.told()} | {figures} | {settings} |")
    return "\n".join(rows)


def page_of_study(name: str) -> str:
    """What a study says of itself, as a page."""
    study, about = STUDIES[name], STUDIES.entry(name).about
    figures = "".join(f"- `{figure}`: {caption}\n" for figure, caption in study.captions.items())
    return (
        f"# `{name}`: {study.heading()}\n\n{about[0].upper()}{about[1:]}.\n\n"
        f"```sh\nheadwise run {name} --out out\n```\n\n{inspect.cleandoc(study.__doc__ or '')}\n\n"
        f"## Figures\n\n{figures}"
    )


def on_page_content(content: str, **_: object) -> str:
    content = INLINE.sub(lambda found: convert(html.unescape(found[1])), content)
    return BLOCK.sub(lambda found: convert(html.unescape(found[1]), display="block"), content)


def on_post_page(output: str, **_: object) -> str:
    return offline(output)


def on_post_template(output_content: str, **_: object) -> str:
    return offline(output_content)


def offline(page: str) -> str:
    return page.replace(FETCHED, f"<script>\n{Path(__file__).with_name('worker.js').read_text()}</script>")

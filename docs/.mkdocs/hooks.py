"""What mkdocs does not do by itself: formulas without a script, experiments' pictures, search without the network.

Formulas ($…$, $$…$$) become MathML at build time: browsers draw it, so no script and no font is fetched. Pictures of
experiments are linked as `../experiments/…`, which a reader of the repository can follow; the site gets a copy. The
theme's `offline` plugin would fetch a script that lets search run from the disk; `worker.js` takes its place.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
PICTURE = re.compile(r"\.\./(experiments/[\w/.-]+\.(?:png|svg))")
FETCHED = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    linked = {name for page in files.documentation_pages() for name in PICTURE.findall(page.content_string)}
    for name in sorted(linked):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    return PICTURE.sub(r"\1", markdown)


def on_page_content(content: str, **_: object) -> str:
    content = INLINE.sub(lambda found: convert(html.unescape(found[1])), content)
    return BLOCK.sub(lambda found: convert(html.unescape(found[1]), display="block"), content)


def on_post_page(output: str, **_: object) -> str:
    return offline(output)


def on_post_template(output_content: str, **_: object) -> str:
    return offline(output_content)


def offline(page: str) -> str:
    return page.replace(FETCHED, f"<script>\n{Path(__file__).with_name('worker.js').read_text()}</script>")

"""A page as one HTML file: the committed bundle, the data, and a policy that lets nothing else in.

The content security policy names the bundle's script and style by their hashes and forbids every connection, so a page
cannot load, send or run anything that was not built into it. The file is ASCII throughout: text travels as escapes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

from headwise.viewer.payload import BUDGET, Page, packed

FRAME_BUDGET = 12_000_000  # bytes of data in a notebook cell: the notebook stores every cell's output
LEAST, MOST = 240, 1200  # pixels of a frame; what is longer scrolls in it, or nothing could be brought into view
# A frame is as high as its page says. Each output brings this along, and the first that runs listens for all.
FITTED = f"""if (!window.headwiseFitted) {{
  window.headwiseFitted = true;
  addEventListener("message", ({{ source, data }}) => {{
    if (!data || data.headwise !== "height") return;
    for (const frame of document.querySelectorAll("iframe[data-headwise]"))
      if (frame.contentWindow === source) frame.style.height = Math.max({LEAST}, Math.min({MOST}, data.height)) + "px";
  }});
}}"""
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'\u2028\u2029"}


def html_of(page: Page, *, budget: int = BUDGET) -> str:
    """The whole page; `budget` bounds the bytes of its data."""
    data = packed(page, budget=budget)
    script, style = bundle("viewer.js"), bundle("viewer.css")
    blocks = (
        f'<script type="text/plain" id="block-{s}-{q}-{layer}">{block}</script>\n'
        for (s, q, layer), block in data.blocks.items()
    )
    return whole(
        title_of(page), script, style,
        '<div id="app"><p class="loading">Reading the page&#8230;</p></div>\n',
        "<noscript>This page draws its maps with JavaScript, which is switched off here.</noscript>\n",
        f'<script type="application/json" id="header">{script_json(data.header)}</script>\n',
        *blocks,
    )  # fmt: skip


def small_bundle(name: str) -> tuple[str, str]:
    """Script and style of a small page, after what all of them share."""
    script, style = (bundle(f"small.{kind}") + bundle(f"{name}.{kind}") for kind in ("js", "css"))
    return script, style


def small_page(name: str, title: str, data: Any, *, does: str) -> str:
    """A page of the bundle `name`, whose data are one block of JSON; `does` says what it needs JavaScript for."""
    script, style = small_bundle(name)
    return whole(
        title, script, style,
        '<main id="app"></main>\n',
        f"<noscript>This page {does} with JavaScript, which is switched off here.</noscript>\n",
        f'<script type="application/json" id="data">{script_json(data)}</script>\n',
    )  # fmt: skip


def whole(title: str, script: str, style: str, *body: str) -> str:
    """Head, body, and the script at the end."""
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(script, style)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>{ascii_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            *body,
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def frame_of(page: Page, *, budget: int = FRAME_BUDGET, height: int = 760) -> str:
    """The page as an element for a notebook's cell: a sandboxed frame that carries the whole page in `srcdoc`."""
    return framed(html_of(page, budget=budget), height=height)


def framed(page: str, *, height: int = 760, title: str = "headwise viewer") -> str:
    """A whole page in such a frame; `height` is for a front end that runs no scripts, elsewhere it is the page's."""
    source = html.escape(page, quote=True)
    return (
        f'<iframe srcdoc="{source}" sandbox="allow-scripts allow-downloads" title="{title}" width="100%"'
        f' height="{height}" style="border:0;width:100%;height:{height}px" loading="lazy" data-headwise></iframe>'
        f"<script>{FITTED}</script>"
    )


def title_of(page: Page) -> str:
    words = " ".join(page.title.split())
    short = words if len(words) <= 60 else words[:59] + "…"
    return f"{short} · headwise" if short else "headwise"


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or begin a comment.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def ascii_text(text: str) -> str:
    """Text for an HTML element, in ASCII, control characters dropped (but a space that does not break is none)."""
    kept = "".join(c for c in text if c.isprintable() or c == "\u00a0")
    return html.escape(kept).encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def bundle(name: str) -> str:
    """A file of the built viewer, as the package ships it."""
    return files("headwise.viewer").joinpath("static", name).read_text("ascii")


def policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")

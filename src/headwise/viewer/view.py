"""What users hold: a page that can be shown, saved, or displayed by a notebook."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import inspect
import tempfile
import warnings
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise.errors import InputError
from headwise.results.files import write_files
from headwise.traces import WAYS, LongTrace
from headwise.viewer import long, senses
from headwise.viewer.build import frame_of, framed, html_of
from headwise.viewer.of_tensors import GIVEN, page_of_tensors
from headwise.viewer.of_trace import TraceLike, page_of_trace
from headwise.viewer.payload import BUDGET, Page

LARGE = 20 * 2**20  # bytes of a page, above which the way to a smaller one is told
SMALLER = "model.trace(text, keep='top'), fewer quantities= or a shorter text makes it smaller"
FEWER = "include_layers=[…], include_heads=[…] or a shorter text makes it smaller"


@dataclass(frozen=True)
class View:
    """One page. In a notebook, leave it as the last line of a cell; elsewhere `show` opens it in the browser."""

    page: Page
    budget: int = BUDGET
    smaller: str = ""  # how it becomes so, said of a large page; the command line says it in its own words

    def __repr__(self) -> str:
        stacks = ", ".join(f"{stack.name} {len(stack.queries)} × {len(stack.keys)}" for stack in self.page.stacks)
        return f"<headwise.View of {stacks} tokens: .show(), .save(path)>"

    def html(self) -> str:
        """The page as HTML text."""
        return html_of(self.page, budget=self.budget)

    def save(self, path: str | Path) -> Path:
        """Write the page to one file that needs no network; its folder must exist."""
        check_folder(Path(path))
        html = self.html()
        if len(html) > LARGE and self.smaller:
            said = f"{path} is large, {len(html) / 2**20:.1f} MB, and takes long to open: {self.smaller}."
            warnings.warn(said, stacklevel=2)
        return written(html, Path(path))

    def show(self) -> View | Path:
        """In a notebook, this object, which the notebook displays; elsewhere a file opened in the browser."""
        if in_notebook():
            return self
        return _opened(self.html())

    def _repr_html_(self) -> str:
        return frame_of(self.page)


def written(html: str, path: Path) -> Path:
    """A page as a file, whole or not at all."""
    check_folder(path)
    write_files(path.parent, {path.name: html.encode("ascii")})
    return path


def check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(f"The folder of a page must exist, but {path.parent} does not; make it first.")


def view(
    attention: Any = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    *more: Any,
    budget: int = BUDGET,
    **bertviz: Any,
) -> View:
    """The viewer on a trace, or on attention tensors with the arguments of bertviz's `head_view` and `model_view`.

    On a trace: `quantities`, `besides`, `layers`, `heads`, `alternatives`, `matters`, `off`, `syntax` (page_of_trace).

    `attention` has one tensor (batch, heads, query, key) a layer. Also taken: `encoder_attention`, `decoder_attention`,
    `cross_attention`, `encoder_tokens`, `decoder_tokens`, `prettify_tokens`, `layer`, `heads`, `include_layers`,
    `include_heads`, `head`, `display_mode`, and `model`, a name for the page.
    """
    bertviz = _without_action(bertviz)
    if isinstance(attention, LongTrace):
        raise InputError(
            "A long text has a page of its own, which hw.view does not make; use trace.show() or .save_html."
        )
    if isinstance(attention, TraceLike):
        if tokens is not None or sentence_b_start is not None:
            raise InputError("A trace has its own tokens; pass it alone: hw.view(trace).")
        return replace(view_of(attention, budget=budget, **bertviz), smaller=SMALLER)
    if asked := NEURONS & {*bertviz}:
        raise InputError(
            f"neuron_view's {min(asked)} is not taken, as tensors alone have no queries and keys; "
            'hw.load("bert-base-uncased").trace(text).query_key(layer, head, query, key) has them.'
        )
    if more:
        raise InputError(
            "After sentence_b_start every argument goes by its name, as in hw.view(…, layer=3, heads=[1])."
        )
    check_choices(bertviz, page_of_tensors, "A page of tensors", aside=("budget",))
    page = page_of_tensors(attention, tokens, sentence_b_start, **bertviz)
    for about in dict.fromkeys(stack.quantities[0].quantity.about for stack in page.stacks):
        if about.startswith(GIVEN):
            warnings.warn(about, stacklevel=2)
    return View(page, budget, FEWER)


NEURONS = {"model_type", "tokenizer", "sentence_a", "sentence_b"}  # bertviz's neuron_view runs the model itself


def _without_action(given: Mapping[str, Any]) -> dict[str, Any]:
    """bertviz's arguments without what it does with the page: here that is a method of what is given back."""
    if given.get("html_action", "view") != "view":
        raise InputError(
            f"html_action={given['html_action']!r} is not taken, as hw.view always gives the page back; write "
            "hw.view(…).save(path), or hw.view(…).html() for its text."
        )
    return {name: value for name, value in given.items() if name != "html_action"}


def check_choices(given: Mapping[str, Any], make: Callable[..., Any], what: str, *, aside: Sequence[str] = ()) -> None:
    """Refuse what `make` takes no argument for, with what it does take; `aside`: what its caller takes besides."""
    names = [name for name, of in inspect.signature(make).parameters.items() if of.kind is not of.VAR_KEYWORD][1:]
    if wrong := [name for name in given if name not in names]:
        raise InputError(f"{what} takes {', '.join([*names, *aside])}, but {wrong[0]!r} was passed; leave it out.")


def view_of(trace: TraceLike, *, budget: int = BUDGET, **choices: Any) -> View:
    """The viewer on a trace; `choices` are those of `page_of_trace`: quantities, layers, heads, alternatives."""
    check_choices(choices, page_of_trace, "A page of a trace", aside=("budget",))
    return View(page_of_trace(trace, **choices), budget)


def page_of(trace: TraceLike, *, budget: int = BUDGET, **choices: Any) -> str:
    """The page of a trace as HTML text."""
    return view_of(trace, budget=budget, **choices).html()


@WAYS.add("save_html", "The viewer's page of a text, as a file.")
def save_page(trace: TraceLike, path: str | Path, *, budget: int = BUDGET, **choices: Any) -> Path:
    """Write the page of a trace to a file."""
    check_folder(Path(path))  # before the page is made, which may take a while
    if (own := _own_page(trace, **choices)) is not None:
        return written(own, Path(path))
    return replace(view_of(trace, budget=budget, **choices), smaller=SMALLER).save(path)


@WAYS.add("show", "The viewer, in a notebook in place, elsewhere in the browser.")
def show(trace: TraceLike, **choices: Any) -> Any:
    """Show a trace: in a notebook in place, elsewhere in the browser; what is quick, unless `quantities` are named."""
    if (own := _own_page(trace, **choices)) is not None:
        return trace if in_notebook() else _opened(own)
    return view_of(trace, **_quick(choices)).show()


@WAYS.add("frame", "The viewer as a notebook's cell.")
def frame(trace: TraceLike, **choices: Any) -> str:
    """The page of a trace as a notebook shows it: what is quick; `hw.view(trace)` has everything."""
    if (own := _own_page(trace, **choices)) is not None:
        return framed(own)
    check_choices(choices, page_of_trace, "A page of a trace")
    return frame_of(page_of_trace(trace, **_quick(choices)))


def _own_page(trace: Any, **choices: Any) -> str | None:
    """Long texts, pictures and sounds have pages of their own."""
    if isinstance(trace, LongTrace):
        check_choices(choices, long.page, "A page of a long text")
        return long.page(trace, **choices)
    if not senses.has_places(trace):
        return None
    check_choices(choices, senses.page, "A page of a picture or a sound")
    return senses.page(trace, **choices)


def _opened(html: str) -> Path:
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="headwise-", delete=False) as file:
        file.write(html)
    webbrowser.open(Path(file.name).as_uri())
    return Path(file.name)


def _quick(choices: dict[str, Any]) -> dict[str, Any]:
    return {"besides": (), **choices}


def in_notebook() -> bool:
    """True where a kernel runs this process, so that rich output has a place to go."""
    try:
        from IPython import get_ipython  # pyright: ignore[reportMissingImports, reportPrivateImportUsage]
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})

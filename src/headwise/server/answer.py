"""What a visitor asks, and the viewer's page that answers it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from headwise.errors import InputError, TooLongError
from headwise.explanations.explain import explain
from headwise.interventions.off import head_named
from headwise.interventions.outcomes import head_kind
from headwise.interventions.spans import answers_questions
from headwise.models.model import Model
from headwise.server.jobs import Job
from headwise.text.tokens import encode
from headwise.traces import Trace
from headwise.viewer.build import html_of
from headwise.viewer.explained import page as explained_page
from headwise.viewer.of_trace import page_of_trace, shown
from headwise.viewer.why import cell_told

SETS = ("quick", "all")
MOST_CHARACTERS = 20_000  # of text and pair together
FIELDS = ("text", "pair", "model", "quantity", "off", "show", "why")
SHOWS = ("maps", "answer")
TEXTS = (
    "The trophy does not fit in the suitcase because it is too big.",
    "She went to the bank to open an account, then sat on the bank of the river.",
    "The keys to the old cabinet in the kitchen are on the table.",
)
WRITTEN = (*TEXTS[:1], "Anna met Peter in Rome. Later, in Paris, Anna met")  # for a model that goes on writing
BLANKS = ("The capital of France is {}.", "She went to the {} to open an account.")  # for one that fills them
QUESTIONS = (
    ("What is too big?", TEXTS[0]),
    ("Where are the keys?", TEXTS[2]),
)
GERMAN = (
    ("Ich habe das Buch gestern gelesen.", "I read the book yesterday."),
    ("Gestern habe ich meinen Bruder in der Stadt getroffen.", "Yesterday I met my brother in the city."),
    ("Wir müssen heute Abend nach Hause gehen.", "We have to go home tonight."),
)
CELL = ("stack", "layer", "head", "query", "key")


@dataclass(frozen=True)
class Ask:
    """`quantity` is quick, all, or one by name, which comes beside raw. `off` is a head that is switched off.

    `show`: maps, or what the answer rests on. `why` is a cell of a map (`CELL`), whose reasons are asked for in place
    of a page.
    """

    text: str
    model: str
    pair: str | None = None
    quantity: str = "quick"
    off: str | None = None
    show: str = "maps"
    why: Mapping[str, Any] | None = None

    @property
    def kind(self) -> str:
        """What the answer is: maps, answer (both pages) or why (JSON)."""
        return self.show if self.why is None else "why"

    @property
    def quantities(self) -> Sequence[str] | None:
        """The names to compute; None for all that a page spends unasked."""
        if self.quantity == "all":
            return None
        if self.quantity == "quick":
            return tuple(quantity.name for quantity in shown() if quantity.quick)
        return tuple(dict.fromkeys(("raw", self.quantity)))


def quantity_labels() -> dict[str, str]:
    """Every quantity that can be asked for by name, as the viewer orders and calls them."""
    return {quantity.name: quantity.label for quantity in shown()}


def examples(model: Model) -> tuple[tuple[str, str], ...]:
    """Texts to begin with, each with its second text (which may be empty); none for a model that reads no text.

    An encoder–decoder that is not known to read German gets English and writes its own target.
    """
    if model.sense != "text" or not getattr(model, "tokenizer", None):
        return ()
    if model.name == "demo-nmt" or str(getattr(model.tokenizer, "source_lang", "")).startswith("de"):
        return GERMAN
    if answers_questions(model):
        return QUESTIONS
    blank = mask_of(model) if head_kind(model) == "masked-token" else None
    texts = [text.format(blank) for text in BLANKS] if blank else WRITTEN if model.causal else TEXTS
    return tuple((text, "") for text in texts)


def mask_of(model: Model) -> str | None:
    """The token that hides a word from the model, where it knows one."""
    return getattr(getattr(model, "tokenizer", None), "mask_token", None)


def asked(body: Any, models: Sequence[str]) -> Ask:
    """The question in a request's body, once everything in it is as it must be."""
    if not isinstance(body, dict) or set(body) - set(FIELDS):
        raise InputError(
            f"A question must be an object with no other fields than {', '.join(FIELDS)}; send such a one."
        )
    text, pair = _text(body, "text"), _text(body, "pair") or None
    if not text.strip():
        raise InputError("There must be a text, but it is empty; type one.")
    model, quantity = body.get("model", models[0]), body.get("quantity", "quick")
    if model not in models:
        raise InputError(
            f"The model must be one that the server was started with: {', '.join(models)}, but {_got(model)} was asked "
            "for; choose one."
        )
    if not isinstance(quantity, str) or quantity not in (*SETS, *quantity_labels()):
        raise InputError(
            f"The quantity must be quick, all, or one of `headwise list quantities`, but {_got(quantity)} was asked "
            "for; choose one of these."
        )
    show = body.get("show", SHOWS[0])
    if show not in SHOWS:
        raise InputError(
            f"What is shown must be one of {', '.join(SHOWS)}, but {_got(show)} was asked for; choose one."
        )
    return Ask(text, str(model), pair, quantity, _text(body, "off") or None, str(show), _cell(body.get("why")))


def _got(value: Any) -> str:
    """What a visitor sent, short enough for a sentence."""
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:79]}…"


def _cell(why: Any) -> Mapping[str, Any] | None:
    if why is None:
        return None
    whole = isinstance(why, dict) and set(why) == set(CELL) and isinstance(why["stack"], str)
    if not whole or any(type(why[name]) is not int for name in CELL[1:]):
        raise InputError(f"A cell must be an object with {', '.join(CELL)}, all but the first whole numbers; send one.")
    return why


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InputError(f"The field {name!r} must be a text, but it is something else; send a string.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write and no text has
        raise InputError(f"The field {name!r} must be text, but it has half a character; send whole ones.") from None
    return text


def page_for(job: Job, models: Mapping[str, Model], *, max_tokens: int) -> bytes:
    """The page for a job's question; says where it is, and ends early where the job was cancelled."""
    ask: Ask = job.ask
    model = models[ask.model]
    with stopping(job.check):
        job.tell("Reading the text", 0.0)
        _check_length(model, ask, max_tokens)
        if ask.off is not None:
            head_named(model, ask.off)
        if ask.kind == "answer":
            return explained_page(explain(model, ask.text, ask.pair)).encode("ascii")
        trace = model.trace(ask.text, ask.pair)
        if ask.why is not None:
            return json.dumps(cell_told(trace, **ask.why)).encode("ascii")
        names = quantity_labels() if ask.quantities is None else ask.quantities
        page = page_of_trace(Watched(trace, job, len(names) * len(trace.stacks)), quantities=ask.quantities,
                             off=None if ask.off is None else [ask.off])  # fmt: skip
        if not any(stack.quantities for stack in page.stacks):
            raise InputError("; ".join(reason for _, reason in page.missing) or "This model has nothing to show here.")
        job.tell("Writing the page", 0.95)
        return html_of(replace(page, live=True)).encode("ascii")


def _check_length(model: Model, ask: Ask, most: int) -> None:
    """Before the model runs: maps grow with the square of the tokens."""
    limit = min(most, model.limit or most)
    text = encode(model.tokenizer, ask.text, None if model.is_encoder_decoder else ask.pair, limit=None)
    sides = {"text": len(text)}
    if model.is_encoder_decoder and ask.pair is not None:
        sides["target"] = len(model.encode_target(ask.pair))
    for side, tokens in sides.items():
        if tokens > limit:
            more = "start the server with a larger --max-tokens" if limit == most else "the model reads no more"
            raise TooLongError(
                f"A {side} may have {limit} tokens here, but this has {tokens}; send a shorter one ({more})."
            )


@contextmanager
def stopping(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before every module that runs, so that a pass of many seconds can be stopped inside."""
    handle = register_module_forward_pre_hook(lambda _module, _args: check())
    try:
        yield
    finally:
        handle.remove()


@dataclass
class Watched:
    """A trace that tells its job which quantity is being computed (`TraceLike`, so a page can be made of it)."""

    trace: Trace
    job: Job
    total: int
    told: int = 0

    def __post_init__(self) -> None:
        self.model_name, self.layers = self.trace.model_name, self.trace.layers
        self.output_error, self.changed_by = self.trace.output_error, self.trace.changed_by

    @property
    def stacks(self) -> tuple[str, ...]:
        return self.trace.stacks

    def queries(self, stack: str | None = None) -> Any:
        return self.trace.queries(stack)

    def keys(self, stack: str | None = None) -> Any:
        return self.trace.keys(stack)

    def attention(self, name: str = "raw", *, stack: str | None = None) -> Any:
        self._tell(name)
        return self.trace.attention(name, stack=stack)

    def mixing(self, name: str, *, stack: str | None = None) -> Any:
        self._tell(name)
        return self.trace.mixing(name, stack=stack)

    def origins(self, name: str) -> Any:
        self._tell(name)
        return self.trace.origins(name)

    def nullspace(self, *, stack: str | None = None) -> Any:
        self.job.check()
        return self.trace.nullspace(stack=stack)

    def alternative_attention(self, layer: int, head: int, *, stack: str | None = None) -> Any:
        self.job.tell(f"Other weights of L{layer}.H{head}", 0.9)
        return self.trace.alternative_attention(layer, head, stack=stack)

    def _tell(self, name: str) -> None:
        self.job.tell(quantity_labels()[name], 0.9 * min(self.told / self.total, 1.0))
        self.told += 1

"""A trace as a page: every quantity it can give, and why the others are not there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from headwise.errors import HeadwiseError, InputError, UnknownNameError
from headwise.interventions.answered import answered, headless, unanswered
from headwise.interventions.matters import matters_of, quick
from headwise.interventions.outcomes import FAR, IN_WORDS, kind_of
from headwise.lamps import Head, lamps, with_other
from headwise.models.packaged import called
from headwise.quantities import ATTENTION, MIXING, ORIGINS, PASSES, WEIGHT, Quantity, Size, every
from headwise.text.written import pretty, written
from headwise.traces import LongTrace, Trace
from headwise.traces.lamps import trace_lamps
from headwise.viewer.parsed import with_syntax
from headwise.viewer.payload import Facts, Maps, Page, Side, Stack, numbers
from headwise.viewer.room import affordable
from headwise.viewer.switched import with_heads_off
from headwise.viewer.telling import opening, opening_head, opening_note, opening_stack, telling
from headwise.viewer.why import with_whys

ALTERNATIVE = Quantity(
    "alternative",
    None,
    "Weights the head could have had: non-negative, rows add up to 1, and its output is the same.",
    order=50,
    label="Other weights, same output",
    unit=WEIGHT,
    distribution=True,
    cost="a linear programme a row",
    paper="https://arxiv.org/abs/1908.04211",
)  # found by search for some heads, so that no registry holds it
LEFT_OUT = (
    "Left out, to be quick; ask for it: `headwise view --with {0}`, `--everything`, hw.view(trace, besides=['{0}'])."
)
DEAR = (
    "It takes long to compute for a text of this length; ask for it by name: `headwise view --with {0}`, "
    "hw.view(trace, besides=['{0}'])."
)
SLOW = (
    "Other weights take long to compute for a text of this length; ask for them: `headwise view --with alternative`, "
    "hw.view(trace, alternatives=1)."
)
PINNED = "No head has any on this text: one distribution of weights alone gives its output."
NO_MODEL = (
    "The model's answer is not here, for a saved trace has no model: `headwise view TEXT --model {0}` shows it, and "
    "what else runs the model."
)
Matters = bool | Literal["exact"]  # by a few backward passes, or by taking every head away
WORK = 10**11  # multiplications that a quantity may cost unasked: a few seconds


@runtime_checkable
class TraceLike(Protocol):
    """What a page needs of `headwise.Trace`; any object that has it can be shown."""

    @property
    def model_name(self) -> str: ...
    @property
    def stacks(self) -> tuple[str, ...]: ...
    def queries(self, stack: str | None = None) -> Any: ...
    def keys(self, stack: str | None = None) -> Any: ...
    def attention(self, name: str = "raw", *, stack: str | None = None) -> Any: ...
    def mixing(self, name: str, *, stack: str | None = None) -> Any: ...
    def nullspace(self, *, stack: str | None = None) -> Any: ...
    def alternative_attention(self, layer: int, head: int, *, stack: str | None = None) -> Any: ...


def page_of_trace(
    trace: TraceLike,
    *,
    quantities: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    alternatives: int | None = None,
    matters: Matters = False,
    besides: Sequence[str] | None = None,
    off: Sequence[str] | None = None,
    syntax: str | Path | None = None,
) -> Page:
    """Everything that `trace` can show; `quantities`, `layers` and `heads` keep only the named ones.

    With `besides` (which may be empty) the page has the quantities that are quick and these, other weights of the head
    that it opens with, and says how to ask for the rest.

    `alternatives` is the number of heads for which other weights with the same output are computed, the
    one that the page opens with and at most one more a layer; None spends a few seconds on it. `matters` asks, by one
    backward pass (or exactly), what the model loses without each head, for the third lamp, and switches the heads off
    that matter most, one at a time; `off` names others. `syntax`: the folder of a run of `syntax` on this model, whose
    best heads join the strip.
    """
    missing: list[tuple[str, str]] = []
    unasked = quantities is None
    if besides is not None and quantities is None:
        quantities, alternatives = (*quick_names(), *besides), 1 if alternatives is None else alternatives
        missing += [(each.name, _left_out(trace, each)) for each in shown() if each.name not in quantities]
    stacks = tuple(
        _stack(trace, name, quantities, layers, heads, alternatives, missing, matters) for name in trace.stacks
    )
    stacks = tuple(replace(stack, telling=telling(stack)) for stack in stacks)
    if syntax is not None:
        real = _real(trace)
        stacks = tuple(with_syntax(stack, syntax, None if real is None else real.model) for stack in stacks)
    opened = opening_stack(stacks)
    start, (answer, vector) = opening(opened), _answer(trace)
    page = Page(
        title=written(trace.queries(trace.stacks[0])),
        model=f"{called(trace.model_name)}{getattr(trace, 'changed_by', '')}",
        stacks=stacks,
        missing=tuple(dict.fromkeys(missing)),
        notes=(*opening_note(start, opened), *_unloaded(trace, answer), *_proof(trace)),
        start=start,
        answer=answer,
        vector=vector,
    )
    page = with_whys(page, trace) if unasked else page
    real = _real(trace)
    if real is not None and real.model is not None and not real.change and (matters or off):
        with real.as_read():
            return with_heads_off(page, real, off)
    if off:
        raise InputError("Heads are switched off in a model, but this trace has none at hand; view a text, unchanged.")
    return page


def _left_out(trace: TraceLike, quantity: Quantity) -> str:
    """Why a quantity that was not asked for is not there: to be quick, or because this model cannot have it."""
    real = _real(trace)
    runs = quantity.kind == "origins" or quantity.name in PASSES
    try:
        if real is not None and runs:
            real.check_model(quantity.name)
        if real is not None and quantity.needs is not None:
            quantity.needs(real.model, real.layers[0])
    except HeadwiseError as error:
        return str(error)
    return LEFT_OUT.format(quantity.name)


def _real(trace: TraceLike) -> Trace | None:
    """The trace itself: a server watches the one that it shows."""
    real = trace if isinstance(trace, Trace) else getattr(trace, "trace", None)
    return real if isinstance(real, Trace) else None


def answer_of(trace: TraceLike | LongTrace) -> str:
    """What the model says to the text, or what would make it say more; empty where it is not at hand."""
    return _answer(trace)[0]


def _answer(trace: TraceLike | LongTrace) -> tuple[str, tuple[float, ...]]:
    """The same, and the vector of a sentence."""
    real = trace if isinstance(trace, LongTrace) else _real(trace)
    if real is None or real.model is None:
        return "", ()
    try:
        with real.model.exactly(*getattr(real, "change", ())):
            found = answered(real.model, real.text, real.target)
    except HeadwiseError:
        return "", ()
    if found is None:
        return unanswered(real.model) or headless(real.model), ()
    return found.says, found.vector


def _unloaded(trace: TraceLike, answer: str) -> Iterator[str]:
    """That the model was loaded without its head, where the answer does not say so."""
    real = _real(trace)
    said = "" if real is None or real.model is None else headless(real.model)
    if said not in ("", answer):
        yield said


def _proof(trace: Any) -> Iterator[str]:
    """That there is no answer without a model; whether the model was changed, and that watching changed nothing."""
    if isinstance(trace, Trace) and trace.model is None:
        yield NO_MODEL.format(trace.model_name)
    error, by = getattr(trace, "output_error", math.nan), getattr(trace, "changed_by", "")
    if by:
        yield (
            f"This is not the model as it is: it was{by}. A head whose output is changed keeps its own weights; what "
            "it sends (norms, mixing) is what is left of it."
        )
    if math.isfinite(error):
        gave = ", changed so, gave the output that it gives unwatched"
        gave = gave if by else " gave the output that it gives by itself"
        yield f"While these numbers were read, the model{gave} on this text, to {error:.0e} of its largest number."


def array(tensor: Any) -> np.ndarray:
    """A tensor of any library as a NumPy array; half precisions become float32, since NumPy lacks bfloat16."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        tensor = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    values = np.asarray(tensor)
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def side_of(encoding: Any) -> Side:
    return Side(
        tokens=tuple(pretty(token) for token in encoding.tokens),
        special=tuple(bool(flag) for flag in encoding.special),
        segment=tuple(int(number) for number in encoding.segment),
        unit=tuple(int(number) for number in encoding.unit),
        words=tuple(encoding.words),
    )


def _stack(
    trace: TraceLike,
    name: str,
    wanted: Sequence[str] | None,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    alternatives: int | None,
    missing: list[tuple[str, str]],
    matters: Matters,
) -> Stack:
    quantities = tuple(_quantities(trace, name, wanted, layers, heads, missing))
    stack = Stack(name, side_of(trace.queries(name)), side_of(trace.keys(name)), quantities)
    if not quantities or quantities[0].kind != "attention":
        return stack
    stack = replace(stack, facts=_facts(trace, name, quantities[0], missing, matters))
    return _with_alternatives(trace, stack, alternatives, missing) if _asked(ALTERNATIVE.name, wanted) else stack


def _asked(name: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or name in wanted


def _quantities(
    trace: TraceLike,
    stack: str,
    wanted: Sequence[str] | None,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    missing: list[tuple[str, str]],
) -> Iterator[Maps]:
    for quantity, compute in _offers(trace, stack):
        name, of_heads = quantity.name, quantity.kind == "attention"
        if not _asked(name, wanted):
            continue
        if wanted is None and _work(trace, quantity, stack) > WORK:
            missing.append((name, DEAR.format(name)))
            continue
        try:
            values = array(compute())
        except UnknownNameError:
            continue  # a quantity of a later release of the library, or one that it does not have yet
        except HeadwiseError as error:
            missing.append((name, str(error)))
            continue
        if not of_heads:
            values = values[:, None]
        kept_layers = numbers(values.shape[0], layers, axis="Layer")
        kept_heads = numbers(values.shape[1], heads if of_heads else None, axis="Head")
        values = values[list(kept_layers)][:, list(kept_heads)]
        yield Maps(quantity, values, kept_layers, kept_heads)


def _offers(trace: TraceLike, stack: str) -> Iterator[tuple[Quantity, Callable[[], Any]]]:
    """Each quantity with how to compute it. What runs the model itself is of the first stack."""
    first = stack == trace.stacks[0]
    for quantity in ATTENTION.entries():
        yield quantity, lambda name=quantity.name: trace.attention(name, stack=stack)
    for quantity in in_order([*MIXING.entries(), *(PASSES.entries() if first else [])]):
        yield quantity, lambda name=quantity.name: trace.mixing(name, stack=stack)
    origins = getattr(trace, "origins", None)
    if origins is not None and first:
        for quantity in ORIGINS.entries():
            yield quantity, lambda name=quantity.name: origins(name)


def shown() -> list[Quantity]:
    """Every quantity that a page can show, in the order of the page."""
    return in_order([*every(), ALTERNATIVE])


def quick_names() -> tuple[str, ...]:
    """What a page has at once: cheap quantities, and other weights of one head."""
    return (*(quantity.name for quantity in shown() if quantity.quick), ALTERNATIVE.name)


def in_order(quantities: Iterable[Quantity]) -> list[Quantity]:
    return sorted(quantities, key=lambda quantity: quantity.place)


def _work(trace: TraceLike, quantity: Quantity, stack: str) -> float:
    """Multiplications of a quantity that runs the model by itself; 0 for the others, and where sizes are not known."""
    layers = getattr(trace, "layers", None)
    if not layers or quantity.work is None:
        return 0.0
    return float(quantity.work(Size(len(trace.queries(stack)), len(layers), layers[0].out.shape[-1])))


def _facts(trace: TraceLike, stack: str, like: Maps, missing: list[tuple[str, str]], matters: Matters) -> Facts | None:
    """The facts of the layers and heads that `like` shows."""
    try:
        found = trace.nullspace(stack=stack)
    except HeadwiseError as error:
        missing.append(("what the weights of a head pin down", str(error)))
        return None
    chosen = np.ix_(like.layers, like.heads)
    real = _real(trace)
    moved = _moved(real, stack, exact=matters == "exact") if matters and real is not None else {}
    lit = lamps_of(trace, stack, found, moved)
    unknown = np.full((len(like.layers), len(like.heads)), np.nan, np.float32)
    return Facts(
        n=int(found.n),
        d_head=int(found.d_head),
        rank=array(found.rank)[chosen],
        null_dim=array(found.null_dim)[chosen],
        simplex_dim=array(found.simplex_dim)[chosen],
        pearson=array(found.pearson)[chosen],
        null_share=array(found.null_share)[chosen],
        identifiable=array(found.identifiable)[chosen],
        other_js=unknown,
        other_change=unknown,
        lamps=lit[chosen],
        taken=array(moved["matters"])[chosen] if moved.get("exact") else None,
    )


def lamps_of(trace: TraceLike, stack: str, found: Any, moved: Mapping[str, Any]) -> np.ndarray:
    """[layer head] of `Lamps`; of what only looks like a trace, what its null space tells."""
    real = _real(trace)
    if real is not None:
        rows = trace_lamps(real, stack=stack, **moved)
    else:
        pairs = zip(array(found.null_share).tolist(), array(found.identifiable).tolist(), strict=True)
        rows = [[lamps(Head(null_share=share, unique_rows=float(only))) for share, only in zip(*row, strict=True)]
                for row in pairs]  # fmt: skip
    lit = np.empty((len(rows), len(rows[0])), object)
    for at, row in enumerate(rows):
        for head, one in enumerate(row):
            lit[at, head] = one
    return lit


def _moved(trace: Trace, stack: str, *, exact: bool) -> dict[str, Any]:
    """What the model loses without each head, exactly where that is quick; nothing where it cannot be asked."""
    try:
        exact = exact or quick(trace.model, trace.text, trace.target)
        with trace.as_read():
            found = matters_of(trace.model, trace.text, trace.target, stack=stack, exact=exact)
        kind = kind_of(trace.model)
        return {"matters": found, "what": FAR[kind], "unit": IN_WORDS[kind], "exact": exact}
    except HeadwiseError:
        return {}


def _with_alternatives(trace: TraceLike, stack: Stack, count: int | None, missing: list[tuple[str, str]]) -> Stack:
    """`stack` with other weights of the same output for some heads; the maps of all other heads stay undefined."""
    like, facts = stack.quantities[0], stack.facts
    found = [] if facts is None else _open_heads(facts, stack)
    chosen = found[: affordable(len(stack.keys)) if count is None else count]
    if facts is not None and not found:
        missing.append((ALTERNATIVE.name, PINNED))
    if found and not chosen:
        missing.append((ALTERNATIVE.name, SLOW))
    if facts is None or not chosen:
        return stack
    values = np.full(like.values.shape, np.nan, np.float32)
    js, change, lit = facts.other_js.copy(), facts.other_change.copy(), facts.lamps.copy()
    for place in chosen:
        layer, head = like.layers[place[0]], like.heads[place[1]]
        other = trace.alternative_attention(layer, head, stack=stack.name)
        values[place] = array(other.alpha)
        js[place], change[place] = float(np.nanmean(array(other.js))), float(other.change)
        lit[place] = with_other(lit[place], float(np.nanmax(np.abs(values[place] - like.values[place]))))
    made = Maps(ALTERNATIVE, values, like.layers, like.heads)
    facts = replace(facts, other_js=js, other_change=change, lamps=lit)
    return replace(stack, quantities=(*stack.quantities, made), facts=facts)


def _open_heads(facts: Facts, stack: Stack) -> list[tuple[int, int]]:
    """Places of heads with other weights: the one the page opens with, then of each layer the one with most to move.

    That is the head whose rows have the largest entropy: a far alternative puts the weight of many keys on few.
    """
    alpha = np.nan_to_num(stack.quantities[0].values)
    entropy: Float[np.ndarray, "layer head"] = -(alpha * np.log(np.maximum(alpha, 1e-30))).sum(-1).mean(-1)
    spread = np.where(facts.identifiable, -np.inf, entropy)
    widest = [(layer, int(row.argmax())) for layer, row in enumerate(spread)]
    ordered = sorted(widest, key=lambda place: -spread[place])
    first = [place] if (place := opening_head(stack)) is not None else []
    return [place for place in dict.fromkeys([*first, *ordered]) if np.isfinite(spread[place])]

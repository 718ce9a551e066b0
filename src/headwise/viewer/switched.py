"""Heads switched off on a page: for a few of them the maps of all others, what the model says, and what moves most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headwise.errors import HeadwiseError, InputError
from headwise.interventions.off import Head, Off, head_named, most_needed, name_of, switched_off
from headwise.interventions.outcomes import FAR, IN_WORDS, kind_of
from headwise.lamps import lamps
from headwise.quantities import WEIGHT, Quantity
from headwise.traces import Trace
from headwise.traces.lamps import readings
from headwise.viewer.payload import Facts, Maps, Page, Stack, Switched

UNASKED = 3  # heads that are switched off where what matters is asked
NAMED = 6  # heads whose maps move most, by name


def with_heads_off(page: Page, trace: Trace, names: Sequence[str] | None) -> Page:
    """`page` with the named heads switched off, one at a time; None: with those that matter most, where that is known.

    They are shown beside the raw weights, so that a page without those has none of them.
    """
    if not page.stacks or any(not stack.quantities or stack.quantities[0].name != "raw" for stack in page.stacks):
        if names is None:
            return page
        raise InputError("Heads are switched off beside raw weights, but the page has none; add raw to its quantities.")
    try:
        if names is not None:
            heads = [head_named(trace.model, name) for name in names]
        else:
            heads = seen_most(page) or most_needed(trace.model, trace.text, trace.target, UNASKED)
        found = switched_off(trace.model, trace.text, trace.target, heads)
    except HeadwiseError as error:
        if names is not None:
            raise
        return replace(page, missing=(*page.missing, ("heads switched off", str(error))))
    stacks = tuple(
        replace(stack, quantities=(*stack.quantities, *(_maps(one, stack, page) for one in found)),
                facts=_known(stack, trace, [one for one in found if one.head[0] == stack.name]))
        for stack in page.stacks
    )  # fmt: skip
    return replace(page, stacks=stacks, off=tuple(_switched(one, page) for one in found))


def seen_most(page: Page) -> list[Head]:
    """The heads without which what is said moves most, where every head was taken away: as their lamps say."""
    found: list[tuple[float, Head]] = []
    for stack in page.stacks:
        if stack.facts is None or stack.facts.taken is None:
            return []
        like = stack.quantities[0]
        found += [(float(moved), (stack.name, like.layers[layer], like.heads[head]))
                  for (layer, head), moved in np.ndenumerate(stack.facts.taken)]  # fmt: skip
    return [head for _, head in sorted(found, key=lambda one: -one[0])[:UNASKED]]


def _known(stack: Stack, trace: Trace, found: Sequence[Off]) -> Facts | None:
    """The facts of a stack, with what its switched-off heads were seen to matter: that tells more than an estimate."""
    if stack.facts is None or not found:
        return stack.facts
    lit, read, kind = stack.facts.lamps.copy(), readings(trace, stack=stack.name), kind_of(trace.model)
    layers, heads = stack.quantities[0].layers, stack.quantities[0].heads
    for _, layer, head, effect in ((*one.head, one.effect) for one in found):
        if layer in layers and head in heads:
            known = replace(read[layer][head], matters=effect, what=FAR[kind], unit=IN_WORDS[kind], exact=True)
            place, new = (layers.index(layer), heads.index(head)), lamps(known)
            told = lit[place].unique  # which may say how far other weights went
            lit[place] = new._replace(unique=told) if told.held == new.unique.held else new
    return replace(stack.facts, lamps=lit)


def _name(one: Off, page: Page) -> str:
    return name_of(one.head, [stack.name for stack in page.stacks])


def _quantity(one: Off, page: Page) -> Quantity:
    name = _name(one, page)
    return Quantity(
        f"without-{name.replace(' ', '-')}",
        None,
        f"The weights that the model has when {name} gives nothing. Below it and in its own layer nothing changes.",
        order=60,
        label=f"Raw attention, {name} off",
        unit=WEIGHT,
        distribution=True,
        cost="a pass",
    )


def _maps(one: Off, stack: Stack, page: Page) -> Maps:
    like = stack.quantities[0]
    values = one.maps[stack.name].float().cpu().numpy()[list(like.layers)][:, list(like.heads)]
    return Maps(_quantity(one, page), values, like.layers, like.heads)


def _switched(one: Off, page: Page) -> Switched:
    """With the heads on the page whose maps move most, the first of them first."""
    moved = []
    for stack in page.stacks:
        like, shares = stack.quantities[0], one.moved[stack.name].double().cpu().numpy()
        moved += [(stack.name, layer, head, float(shares[layer, head])) for layer in like.layers for head in like.heads]
    moved = sorted((each for each in moved if np.isfinite(each[3]) and each[3] > 0), key=lambda each: -each[3])
    return Switched(_name(one, page), *one.head, _quantity(one, page).name, one.says, one.answers, tuple(moved[:NAMED]))

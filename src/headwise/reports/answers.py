"""The first page: four questions, answered in plain words with this model's numbers.

Every answer is a pure function of the tables; what was not run is not spoken of. The rules are in the text of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from headwise.papers.brunner2020 import mean_by_length, mixing_rows, own_layers, told
from headwise.papers.claim import first_stack, heads, percent
from headwise.papers.clark2019 import raw
from headwise.papers.kobayashi2020 import parked_shares
from headwise.results import Result

Results = Mapping[str, Result]
NAMES = {"first": "the first token", "separator": "separators"}
SAME = 0.05  # nats of Jensen–Shannon divergence below which two heads are called copies
BEHAVIOURS = {
    "previous token": "look at the previous token",
    "next token": "look at the next token",
    "current token": "look at the token itself",
    "first token": "park on the first token",
    "separator": "park on separators",
    "punctuation": "look at periods and commas",
    "broad": "look everywhere",
}


@dataclass(frozen=True)
class Answer:
    """`short` answers the question; each line of `because` says a number and the study that it comes from."""

    question: str
    short: str
    because: tuple[tuple[str, str], ...]  # text, study


def answers(results: Results) -> list[Answer]:
    asked: tuple[Callable[[Results], Answer | None], ...] = (believable, doing, mixing, noise)
    return [answer for ask in asked if (answer := ask(results)) is not None]


def believable(results: Results) -> Answer | None:
    """Of single heads: r ≥ 0.9: nearly what reaches the output; ≥ 0.5: with care; below: not the raw weights."""
    if "nullspace" not in results:
        return None
    result = results["nullspace"]
    size = next(iter(result.manifest["stacks"].values()))[2]
    length = result.manifest["tokens"] / result.manifest["documents"]
    because = []
    r = _correlation(result.table)
    free = mean_by_length(result.table, "rank", "null_dim")["value"].mean() or 0.0
    if r is None:
        short = "These texts are too short to tell raw and effective attention apart."
    elif r >= 0.9:
        short = "As far as single heads go: at these lengths the raw weights are nearly what reaches a head's output."
    elif r >= 0.5:
        short = "With care: a good part of the raw weights changes nothing in a head's output."
    else:
        short = "No, not the raw weights: most of what they show changes nothing in a head's output."
    because.append((
        f"A head passes on {size} numbers a token, and the texts have {length:.0f} tokens on average: a row of weights "
        f"can be moved in {free:.0f} directions, in the mean, and the head's output stays the same.",
        "nullspace",
    ))  # fmt: skip
    if r is not None:
        because.append((
            f"Raw weights and effective weights, the part of them that the output depends on, correlate with r = "
            f"{r:.2f} in the mean over heads.",
            "nullspace",
        ))  # fmt: skip
    if "norms" in results:
        because.append((_parked(results["norms"].table), "norms"))
    if r is not None and r >= 0.5:
        because.append((
            "Whether a head's output matters to the model's answer is another question, and needs a prediction: texts "
            "with labels and --task classification (faithfulness, adversary).",
            "nullspace",
        ))  # fmt: skip
    if "faithfulness" in results:
        because.append((_faithful(results["faithfulness"].table), "faithfulness"))
    if "adversary" in results and (rivals := _rivals(results["adversary"].table)):
        because.append((rivals, "adversary"))
    return Answer("May attention of this model be read as an explanation?", short, tuple(because))


def _correlation(table: pl.DataFrame) -> float | None:
    rows = first_stack(table).filter((pl.col("paper") == "fig1a") & (pl.col("what") == "pearson"))
    each = rows.filter(pl.col("head").is_not_null() & pl.col("value").is_finite())["value"].to_list()
    return sum(each) / len(each) if each else None


def _faithful(table: pl.DataFrame) -> str:
    """How far attention and the best other explanation beat random tokens, with intervals."""
    rivals = ~pl.col("method").is_in(["random", "leave-one-out"])
    gains = table.filter(rivals & pl.col("comprehensiveness_gain").is_finite())
    if gains.is_empty():
        return "No text was long enough to remove tokens from."
    ranked = gains.sort("comprehensiveness_gain", descending=True).with_row_index("place")
    shown = ranked.filter((pl.col("place") == 0) | (pl.col("method") == "raw-attention"))
    told = "; ".join(
        f"{row['method']} {row['comprehensiveness_gain']:+.3f} ({row['comprehensiveness_gain_low']:+.3f} to "
        f"{row['comprehensiveness_gain_high']:+.3f})"
        for row in shown.iter_rows(named=True)
    )
    return (
        f"How far the prediction falls without the tokens that an explanation names, beyond random ones: {told}; the "
        f"first is the best of {len(gains)} here."
    )


def _rivals(table: pl.DataFrame) -> str | None:
    whole = table.filter((pl.col("form") == "per-instance") & pl.col("head").is_null())
    found = dict(zip(whole["what"].to_list(), whole["value"].to_list(), strict=True))
    if not found:
        return None
    return (
        f"For one text at a time, attention can be moved by {found['js']:.2f} nats of Jensen–Shannon divergence (at "
        f"most 0.69) while the prediction moves by {found['tvd']:.3f} (total variation), in the mean over texts."
    )


def _parked(table: pl.DataFrame) -> str:
    kind, weight, norm = parked_shares(table)
    return (
        f"{NAMES[kind].capitalize()}: {percent(weight)} of all weight, {percent(norm)} of the length of the "
        "vectors that the weights carry. A large weight on a short vector moves little."
    )


def doing(results: Results) -> Answer | None:
    if "distances" not in results and "surface" not in results:
        return None
    because, short = [], ""
    if "distances" in results:
        table = first_stack(results["distances"].table)
        each = table.unique("a", maintain_order=True).select("behaviour_a", name="a")
        total = len(each)
        known = {kind: each.filter(pl.col("behaviour_a") == kind) for kind in BEHAVIOURS}
        because += [
            (f"{len(group)} of {total} {BEHAVIOURS[kind]}: {heads(group)}.", "distances")
            for kind, group in known.items()
            if len(group)
        ]
        plain = sum(len(group) for group in known.values())
        short = f"{plain} of {total} heads have a behaviour that can be named by position; {total - plain} have none."
    if "surface" in results:
        rows = raw(results["surface"].table).sort("entropy")
        sharp, broad = rows.row(0, named=True), rows.row(-1, named=True)
        because.append((
            f"The sharpest head is {sharp['name']} (entropy {sharp['entropy']:.2f} nats), the broadest {broad['name']} "
            f"({broad['entropy']:.2f}).",
            "surface",
        ))  # fmt: skip
        short = short or "Each head's attention by position and by kind of token is in the section on surface patterns."
    for study, what in (("syntax", "relation"), ("coref", "type")):
        if study in results:
            because.append((_best_heads(first_stack(results[study].table), what), study))
    if "alignment" in results:
        because.append((_aligns(results["alignment"].table), "alignment"))
    return Answer("Which heads do what?", short, tuple(because))


def _best_heads(table: pl.DataFrame, what: str) -> str:
    best = table.filter(pl.col("best") & (pl.col("quantity") == "raw") & (pl.col("count") >= 50))
    top = best.filter(~pl.col(what).str.starts_with("all")).sort("accuracy", descending=True).head(4)
    named = ", ".join(f"{row[what]} {row['name']} ({row['accuracy']:.0%})" for row in top.iter_rows(named=True))
    return f"Best heads, chosen on one part of the texts and scored on the other: {named or 'none with 50 examples'}."


def _aligns(table: pl.DataFrame) -> str:
    """The best map of all heads together, by its error where gold links are, else by the agreement of both sides."""
    together = table.filter(pl.col("head").is_null() & pl.col("layer").is_not_null())
    if together.is_empty():
        return "Single heads were scored, and no map of all heads together; they are in the section."
    scored = together.filter(pl.col("aer").is_finite() & pl.col("best")).sort("chosen_aer")
    if len(scored):
        row = scored.row(0, named=True)
        error = f"alignment error {percent(row['aer'])} ({percent(row['low'])} to {percent(row['high'])})"
    else:
        row = together.sort("agreement", descending=True, nulls_last=True).row(0, named=True)
        error = f"{percent(row['agreement'])} of its links are found from both sides"
    where = f"{row['quantity']} of decoder layer {row['layer']}, {row['position']} position"
    return f"Words are aligned best by {where}: {error}."


def mixing(results: Results) -> Answer | None:
    if "mixing" not in results and "identity" not in results:
        return None
    because, short = [], "Where a hidden token's word can still be told is in the section on identity."
    if "mixing" in results:
        table = results["mixing"].table
        own = [value for value in mixing_rows(table, "own", "median") if value == value]
        lost = [value for value in mixing_rows(table, "not-own", "share") if value == value]
        chance = mixing_rows(table, "own", "chance")[0]
        short = (
            f"From the first layer on: the median token is {percent(own[0])} itself after it, and {percent(own[-1])} "
            "after the last."
        )
        because.append((
            f"A token's own share in its hidden vector, layer by layer: {told(own)} (median; an even mixture would be "
            f"{percent(chance)}).",
            "mixing",
        ))  # fmt: skip
        because.append(
            (f"Hidden tokens whose largest part is another token's: {told(lost)}, layer by layer.", "mixing")
        )
    if "identity" in results:
        table = results["identity"].table
        maps = set(table.filter(pl.col("distance") == "cosine")["map"])
        linear, none = (own_layers(table, kind=kind) if kind in maps else [] for kind in ("linear", "none"))
        if linear:
            because.append((f"A linear map still finds a token's own place among its sentence in {told(linear)} of the "
                            "cases, layer by layer.", "identity"))  # fmt: skip
        if none:
            because.append((f"Without a map, by the nearest vector alone: {told(none)}.", "identity"))
    return Answer("Where does information mix?", short, tuple(because))


def noise(results: Results) -> Answer | None:
    because, short = [], ""
    if "nullspace" in results:
        table = first_stack(results["nullspace"].table)
        share = table.filter(
            (pl.col("paper") == "mass") & (pl.col("what") == "null_share") & pl.col("head").is_not_null()
        )
        if len(share):
            each = share.group_by("name", maintain_order=True).agg(pl.col("value").mean()).sort("value")
            most = each.row(-1)
            half = each.filter(pl.col("value") > 0.5)
            short = f"In {len(half)} of {len(each)} heads over half of the squared weights change nothing."
            because.append((f"The most is {percent(most[1])}, in {most[0]}.", "nullspace"))
    if "distances" in results:
        pairs = first_stack(results["distances"].table).filter(pl.col("a") < pl.col("b"))
        copies = pairs.filter(pl.col("js") < SAME)
        because.append((f"{len(copies) or 'None'} of {len(pairs):,} pairs of heads attend nearly alike (below {SAME} "
                        "nats of Jensen–Shannon divergence); what they carry may differ.", "distances"))  # fmt: skip
    if "surface" in results:
        parked = raw(results["surface"].table).filter(pl.max_horizontal("to_first", "to_separator") > 0.5)
        because.append((f"Heads with over half of their weight on the first token or on separators: {heads(parked)}.",
                        "surface"))  # fmt: skip
    if "importance" in results:
        because.append(("How much the loss depends on each of these weights is in its section.", "importance"))
    if not because:
        return None
    return Answer("What is noise?", short or "Heads that repeat each other or park their attention.", tuple(because))


def summary(results: Results) -> dict[str, Any]:
    """What the page's head says of the run."""
    manifest = next(iter(results.values())).manifest
    stacks = ", ".join(f"{name} {layers} × {heads_}" for name, (layers, heads_, _) in manifest["stacks"].items())
    return {
        "model": manifest["model"]["name"], "type": manifest["model"]["type"], "stacks": stacks,
        "corpus": manifest["plan"]["corpus"]["name"], "documents": manifest["documents"], "tokens": manifest["tokens"],
        "proof": manifest["proof"]["projection_error"],
    }  # fmt: skip

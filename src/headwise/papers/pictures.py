"""Maps of single heads of one text, as papers show them: which heads, a study over the whole corpus has chosen.

Each function takes the study's table, the model and a document of the corpus, and gives charts by name; what the model
does not have (no separators, no null space) is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import torch

from headwise.models.model import Model
from headwise.papers.claim import Table, first_stack, percent
from headwise.plots.bipartite import lines_between
from headwise.plots.head import Panel, head_figure
from headwise.plots.lines import line_by
from headwise.plots.plane import named
from headwise.plots.theme import themed
from headwise.text.conllu import Sentence, words_of
from headwise.text.corpus import Document
from headwise.traces import Trace

FEW, MANY = 12, 96  # words of a text: as lines, and as a map in which more keys are seen than a head has dimensions
KINDS = {"entropy": "attends broadly", "previous": "attends to the previous token", "next": "attends to the next token",
         "to_separator": "attends to separators", "to_first": "attends to the first token"}  # fmt: skip
RELATIONS = 4
FEW_PAIRS = 20
SHARES = (0.5, 0.8, 0.9, 1.0)  # of the sentences to learn from

Charts = Mapping[str, Any]


def heads_that_stand_out(table: Table, model: Model, document: Document) -> Charts:
    """Clark et al. fig1: the broadest head, and those that give most to a neighbour or to a special token."""
    trace, rows = beginning(model, document, FEW), first_stack(table).filter(pl.col("quantity") == "raw")
    drawn = []
    for column, does in KINDS.items():
        there = rows.filter(pl.col(column).is_finite() & (pl.col(column) > 0)).sort(column, descending=True)
        if len(there):
            best = there.row(0, named=True)
            size = f"{best[column]:.1f} nats" if column == "entropy" else percent(best[column])
            drawn.append(_lines(trace, best["layer"], best["head"], f"{best['name']} {does} ({size})"))
    return _side_by_side(drawn, f"{model.name}: heads that stand out", "In brackets: the mean over the corpus.")


def heads_of_relations(table: Table, model: Model, document: Document) -> Charts:
    """Clark et al. fig5: the relations that a head does best, and its lines; those of the relation are coloured."""
    rows = first_stack(table).filter(pl.col("best") & (pl.col("quantity") == "raw") & (pl.col("count") >= FEW_PAIRS))
    rows = rows.filter(~pl.col("relation").str.starts_with("all")).sort("accuracy", descending=True)
    rows = rows.unique("relation", keep="first", maintain_order=True)  # of its two directions the better one
    trace, sentence = beginning(model, document, None), document.notes
    drawn = []
    for row in rows.head(RELATIONS).iter_rows(named=True):
        title = f"{row['relation']}: {row['name']} ({row['accuracy']:.0%} in the corpus)"
        weights = between_words(trace, sentence, row["layer"], row["head"])
        marked = gold(sentence, row["relation"], from_dependent=row["direction"] == "from-dependent")
        drawn.append(lines_between(weights, sentence.forms, title=title, marked=marked, names=row["relation"]))
    return _side_by_side(drawn, f"{model.name}: the relations that a head does best", "Coloured: the parse.")


def heads_by_name(
    table: Table, model: Model, _: Document, syntax: Table | None = None, coref: Table | None = None
) -> Charts:
    """Clark et al. fig6: the plane of the heads, in which those that do a relation or find antecedents have names."""
    names = ([] if syntax is None else relation_heads(syntax)) + ([] if coref is None else antecedent_heads(coref))
    if not names:
        return {}
    does = pl.DataFrame(names, schema=["name", "does", "kind"], orient="row")
    told = does.group_by("name", maintain_order=True).agg(pl.col("does").str.join(", "), pl.col("kind").first())
    places = first_stack(table).unique("a", maintain_order=True).select(name="a", x="x_a", y="y_a")
    chart = named(places.join(told, on="name", how="left"), "nats a token (distances only)")
    return {"named": themed(
        chart, f"{model.name}: heads by their distances, and what some of them do",
        "One point a head, near where they attend alike. Named by a relation: the best head for it, where its interval "
        "is above the best fixed",
        "offset; by coreference: the best head for antecedents, where its interval is above the nearest mention. Heads "
        "are chosen on other texts.",
    )}  # fmt: skip


def relation_heads(table: Table) -> list[tuple[str, str, str]]:
    """The head, the relation, and "a relation", wherever the best head beats the best fixed offset beyond doubt."""
    best = first_stack(table).filter(pl.col("best") & (pl.col("count") >= FEW_PAIRS))
    best = best.filter(~pl.col("relation").str.starts_with("all"))
    offset = dict(best.filter(quantity="offset").select("relation", "accuracy").iter_rows())
    heads = best.filter(quantity="raw").sort("accuracy", descending=True).unique("relation", maintain_order=True)
    won = heads.filter(pl.col("low") > pl.col("relation").replace_strict(offset, default=0.0, return_dtype=pl.Float64))
    return [(name, relation, "a relation") for name, relation in won.select("name", "relation").iter_rows()]


def antecedent_heads(table: Table) -> list[tuple[str, str, str]]:
    """The head that is best at antecedents, where it beats the nearest mention beyond doubt."""
    rows = first_stack(table).filter((pl.col("type") == "all") & (pl.col("reading") == "mentions"))
    nearest = rows.filter((pl.col("quantity") == "rules") & (pl.col("name") == "nearest"))["accuracy"].to_list()
    best = rows.filter(pl.col("best") & (pl.col("quantity") == "raw") & (pl.col("low") > max(nearest, default=1.0)))
    return [(name, "coreference", "antecedents") for name in best["name"].to_list()]


def between_words(trace: Trace, sentence: Sentence, layer: int, head: int) -> np.ndarray:
    """The weights between words of a parse: what a word's tokens get is summed, what they give is averaged."""
    owner = torch.tensor(words_of(trace.queries(), sentence.spans))
    member = (owner == torch.arange(len(sentence))[:, None]).double()
    weights = trace.attention("raw")[layer, head].double()
    given = member / member.sum(-1, keepdim=True).clamp(min=1)
    return (given @ weights @ member.T).numpy()


def gold(sentence: Sentence, relation: str, *, from_dependent: bool) -> list[tuple[int, int]]:
    """The lines of a relation: from the dependent to its head, or back."""
    pairs = [(word, head) for word, head in enumerate(sentence.heads) if sentence.relations[word] == relation]
    return [(word, head) if from_dependent else (head, word) for word, head in pairs if head >= 0]


def raw_effective_null(table: Table, model: Model, document: Document) -> Charts:
    """Brunner et al. 2020 fig6: the weights, what of them reaches the output, and what does not, of one head."""
    trace, layer, head = _least_pinned(table, model, document)
    maps = {name: trace.attention(name)[layer, head].double().numpy() for name in ("raw", "effective", "null")}
    top, words = beside_the_sink(maps["raw"], trace.keys().tokens)
    panels = [Panel(name, name, matrix, name != "raw", top, "weight") for name, matrix in maps.items()]
    caption = [
        f"L{layer}.H{head}: the head with most of its squared weights in the null space, over the corpus.",
        words,
    ]
    return {"maps": _panels(panels, trace, f"{model.name}: raw, effective and null attention", caption)}


def another_attention(table: Table, model: Model, document: Document) -> Charts:
    """Brunner et al. 2020 §3.3: weights as far from the head's as can be, with the same output."""
    trace, layer, head = _least_pinned(table, model, document)
    raw, found = trace.attention("raw")[layer, head].double().numpy(), trace.alternative_attention(layer, head)
    maps = {"raw": raw, "another": found.alpha.double().numpy()}
    top, words = beside_the_sink(raw, trace.keys().tokens)
    panels = [Panel(name, name, matrix, False, top, "weight") for name, matrix in maps.items()]
    caption = [
        f"L{layer}.H{head}: Jensen-Shannon {float(found.js.mean()):.2f} nats in the mean of the rows; the output "
        f"changes by {found.change:.0e} of itself at the most (rounding).",
        words,
    ]
    return {"maps": _panels(panels, trace, f"{model.name}: two attentions with one output", caption)}


def beside_the_sink(weights: np.ndarray, tokens: Sequence[str]) -> tuple[float, str]:
    """Where the colours end, and why: a token that gets most of the weight would leave the rest white.

    >>> beside_the_sink(np.array([[0.9, 0.1], [0.8, 0.2]]), ["[CLS]", "cat"])
    (0.2, 'Colours end at 0.20, the largest weight to any token but the most attended one, [CLS].')
    """
    sink = int(weights.mean(0).argmax())
    rest = np.delete(weights, sink, axis=1)
    top, most = float(rest.max(initial=0.0)), float(weights.max())
    if not 0 < top < most:
        return most, ""
    return top, f"Colours end at {top:.2f}, the largest weight to any token but the most attended one, {tokens[sink]}."


def with_less_data(table: Table, model: Model, _: Document, *less: Table | None) -> Charts:
    """Brunner et al. 2020 B.2: tokens recovered by maps that saw a part of the sentences; `table` saw all of them."""
    there = {share: one for share, one in zip(SHARES, (*less, table), strict=True) if one is not None}
    rows = pl.concat([one.with_columns(share=pl.lit(round(100 * share))) for share, one in there.items()])
    rows = rows.filter(
        (pl.col("what") == "rate") & (pl.col("layer") == pl.col("tested")) & (pl.col("set") == "test")
        & (pl.col("offset") == 0)
    )  # fmt: skip
    panels = [
        line_by(rows.filter(map=kind).select("layer", "share", "value"), "share", colour="layer",
                titles=("sentences to learn from (%)", f"tokens recovered, {kind} (share)"))
        for kind in rows["map"].unique(maintain_order=True).to_list()
    ]  # fmt: skip
    words = "One line a layer; test sentences, cosine distance. A line that still rises would gain by more sentences."
    return {"fractions": themed(alt.hconcat(*panels), f"{model.name}: tokens recovered with less data", words)}


def beginning(model: Model, document: Document, words: int | None) -> Trace:
    """The trace of the first words of a document."""
    cut = lambda text: None if text is None else " ".join(text.split()[:words])  # noqa: E731
    text = document.text if words is None else cut(document.text)
    return model.trace(str(text), cut(document.pair) if model.is_encoder_decoder else None, truncate=True)


def _least_pinned(table: Table, model: Model, document: Document) -> tuple[Trace, int, int]:
    rows = first_stack(table).filter((pl.col("what") == "null_share") & pl.col("head").is_not_null())
    best = rows.sort("value", descending=True).row(0, named=True)
    return beginning(model, document, MANY), best["layer"], best["head"]


def _lines(trace: Trace, layer: int, head: int, title: str) -> Any:
    weights = trace.words("raw")[layer, head].double().numpy()
    return lines_between(weights, trace.queries().words, title=title)


def _side_by_side(drawn: list[Any], title: str, caption: str) -> Charts:
    if not drawn:
        return {}
    row = alt.hconcat(*drawn).resolve_scale(color="independent", opacity="independent")
    return {"maps": themed(row, title, caption)}


def _panels(panels: list[Panel], trace: Trace, title: str, caption: list[str]) -> Any:
    tokens = trace.queries().tokens
    return head_figure(panels, tokens, trace.keys().tokens, title=title, caption=[line for line in caption if line])

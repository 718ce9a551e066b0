"""Yang, adversarial attention on sequence tagging, after Jain & Wallace 2019 and Wiegreffe & Pinter 2019."""

from __future__ import annotations

import polars as pl

from headwise.papers.claim import Claim, Found, Item, Paper, Table, Training, asked, graded
from headwise.papers.data import CHUNKS, CHUNKS_GET

NEAR = 0.02  # of F1


def trained(table: str) -> Training:
    return Training(table, CHUNKS, CHUNKS_GET)


def f1(table: Table, **of: object) -> float:
    """Mean test F1 over seeds of the rows with these values."""
    rows = table.filter(*(pl.col(name) == value for name, value in of.items()))
    return float(asked(rows)["f1"].mean())  # pyright: ignore[reportArgumentType]


def tagger(table: Table) -> Found:
    value = f1(table, kind="base")
    return Found(f"{value:.3f}", graded([abs(value - 0.9) <= NEAR]))


def adversary_tags_as_well(table: Table) -> Found:
    base, other = f1(table, kind="base"), f1(table, kind="adversary", **{"lambda": 0.2})
    return Found(f"{other:.3f} against {base:.3f}", graded([base - other <= NEAR]))


def much_divergence_costs(table: Table) -> Found:
    base, other = f1(table, kind="base"), f1(table, kind="adversary", **{"lambda": 3.0})
    return Found(f"{other:.3f} against {base:.3f}", graded([base - other > 0.05]))


def other_seeds_differ(table: Table) -> Found:
    rows = asked(table.filter(pl.col("kind") == "other seed"))
    js = float(rows["js"].mean())  # pyright: ignore[reportArgumentType]
    near = abs(f1(table, kind="other seed") - f1(table, kind="base")) <= NEAR
    return Found(f"{js:.2f} nats of Jensen–Shannon between seeds, at the same F1", graded([js > 0.3 and near]))


def a_knee(table: Table) -> Found:
    row = asked(table.filter((pl.col("divergence") == "kl") & (pl.col("loss") == "nll"))).row(0, named=True)
    words = f"λ = {row['lambda']:g}, KL {row['at']:.1f} nats ({row['low']:.1f} to {row['high']:.1f})"
    return Found(words, graded([row["found"] >= 0.95]))


def any_guide_will_do(table: Table) -> Found:
    guides = ("base", "adversary λ=0.2", "adversary λ=3")
    values = [f1(table, form="values", guide=guide) for guide in guides]
    near = [values[0] - value <= NEAR for value in values[1:]]
    return Found(", ".join(f"{value:.3f}" for value in values), graded(near))


def rivals_for_single_words(table: Table) -> Found:
    rival = (pl.col("js") > 0.5) & (pl.col("tvd") <= 0.05 + 1e-6)
    far, change = asked(table).select(far=rival.mean(), change=pl.col("tvd").mean()).row(0)
    return Found(f"{far:.0%} of the words; mean change over all {change:.3f} (TVD)", graded([far > 0.5]))


def attention_is_not_importance(table: Table) -> Found:
    means = asked(table).group_by("method", maintain_order=True).agg(pl.col("kendall").mean())
    told = dict(zip(means["method"].to_list(), means["kendall"].to_list(), strict=True))
    against = [value for name, value in told.items() if name != "random"]
    return Found(", ".join(f"{name} {value:.2f}" for name, value in told.items()), graded([max(against) < 0.5]))


PAPER = Paper(
    "yang",
    "Yang, adversarial attention on a tagging task",
    "",
    (
        Item("model", "a one-layer tagger on CoNLL-2000, F1", trained("curve"), (), (
            Claim("a tagger of one layer and four heads does the task", "F1 0.90", "within 0.02", tagger),
        )),
        Item("table1", "adversaries trained from scratch, over λ", trained("curve"), ("three-kinds",), (
            Claim("an adversary of λ = 0.2 tags as well as the base", "0.90 and 0.90", "within 0.02 of F1",
                  adversary_tags_as_well),
            Claim("one of λ = 3 does not", "0.75 against 0.90", "0.05 of F1 lower, or more", much_divergence_costs),
        )),
        Item("fig1", "loss of prediction against divergence of attention, the knee", trained("knees"), ("fig1",), (
            Claim("divergence is free up to a knee, and dear beyond", "KL about 0.33, on a scale of its own",
                  "a knee in 95 % of the draws of seeds", a_knee),
        )),
        Item("table2", "frozen attention guiding a fresh model", trained("probes"), ("table2",), (
            Claim("attention of adversaries guides a fresh model as well as the base's",
                  "0.90 (base), 0.90 (λ = 0.2), 0.89 (λ = 3)", "within 0.02 of F1", any_guide_will_do),
        )),
        Item("parents", "JSD against TVD, seeds, uniform attention, per-instance adversaries, Kendall τ",
             trained("instances"), ("three-kinds", "matched"), (
            Claim("for most single predictions there is a rival attention (Jain & Wallace)", "easily found",
                  "over half of the words have one beyond 0.5 nats, and the prediction moves by at most 0.05 (TVD)",
                  rivals_for_single_words),
        )),
        Item("parents-seeds", "another seed of the base (Wiegreffe & Pinter)", trained("curve"), (), (
            Claim("seeds alone make attention differ", "much of the adversaries' divergence",
                  "over 0.3 nats at the same F1", other_seeds_differ),
        )),
        Item("parents-tau", "attention against importance (Jain & Wallace)", trained("importance"), ("importance",), (
            Claim("attention hardly goes with importance", "weak correlations, recurrent encoders",
                  "Kendall's τ below 0.5 with gradients and with leave-one-out", attention_is_not_importance),
        )),
        Item("open", "rankings before and after the knee; a probe with no query or key of its own", trained("ranks"),
             ("ranks",)),
    ),
)  # fmt: skip

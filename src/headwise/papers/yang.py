"""Yang, adversarial attention on sequence tagging, after Jain & Wallace 2019 and Wiegreffe & Pinter 2019."""

from __future__ import annotations

from typing import Any

import polars as pl

from headwise.papers.claim import Claim, Item, NotComparableError, Paper, Seen, Table, Training, asked
from headwise.papers.data import CHUNKS, CHUNKS_GET
from headwise.papers.printed import by_guide
from headwise.papers.verdict import over_repeats
from headwise.studies.adversary.tagging.knee import knee

NEAR = 0.02  # of F1
DEEP = 0.25  # below the straight line, as a share: less is no knee
FRESH = "an untrained tagger"
UNTRAINED_SEEDS = "other seed, both untrained"  # a kind of the table `curve`


def trained(table: str) -> Training:
    return Training(table, CHUNKS, CHUNKS_GET)


def by_seed(table: Table, *, column: str = "f1", **of: Any) -> list[float]:
    """A number of the rows with these values, seed by seed."""
    rows = asked(table.filter(*(pl.col(name) == value for name, value in of.items())))
    return rows.group_by("seed").agg(pl.col(column).mean()).sort("seed")[column].to_list()


def over_seeds(values: list[float], words: str, controls: tuple[float, ...] = ()) -> Seen:
    low, high = over_repeats(values)
    return Seen(sum(values) / len(values), words, low, high, len(values), controls=controls)


def lost(table: Table, **of: Any) -> list[float]:
    """What a tagger of each seed has less of F1 than its base."""
    base, other = by_seed(table, kind="base"), by_seed(table, **of)
    return [left - right for left, right in zip(base, other, strict=True)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _against(table: Table, **of: Any) -> str:
    return f"F1 {_mean(by_seed(table, **of)):.3f} against {_mean(by_seed(table, kind='base')):.3f}"


def tagger(table: Table) -> Seen:
    return over_seeds(by_seed(table, kind="base"), "", (_mean(by_seed(table, kind="uniform put in")),))


def adversary_tags_as_well(table: Table) -> Seen:
    of = {"kind": "adversary", "lambda": 0.2}
    return over_seeds(lost(table, **of), _against(table, **of), (_mean(lost(table, kind="uniform put in")),))


def much_divergence_costs(table: Table) -> Seen:
    of = {"kind": "adversary", "lambda": 3.0}
    return over_seeds(lost(table, **of), _against(table, **of), (_mean(lost(table, **{**of, "lambda": 0.0})),))


def other_seeds_differ(table: Table) -> Seen:
    """Heads paired: head by head, the same heads in another order would count as different."""
    js = _mean(by_seed(table, column="js", kind="other seed"))
    words = f"{js:.2f} head by head; {_against(table, kind='other seed')}"
    control = _mean(by_seed(table, column="matched", kind=UNTRAINED_SEEDS))
    return over_seeds(by_seed(table, column="matched", kind="other seed"), words, (control,))


def a_knee(table: Table) -> Seen:
    row = asked(table.filter((pl.col("divergence") == "kl") & (pl.col("loss") == "nll"))).row(0, named=True)
    words = f"λ = {row['lambda']:g}, KL {row['at']:.1f} nats ({row['low']:.1f} to {row['high']:.1f})"
    return Seen(row["depth"], words, row["shallow"], row["deep"], controls=(row["straight"],))


def free_up_to_the_knee(table: Table) -> Seen:
    """F1 lost at the knee of the mean curve of KL against NLL: free is what costs next to nothing."""
    rows = asked(table.filter(pl.col("kind") == "adversary"))
    curve = rows.group_by("lambda").agg(pl.col("kl", "nll").mean()).sort("lambda")
    at = knee(curve["kl"].to_numpy(), curve["nll"].to_numpy())
    if at is None:
        raise NotComparableError("the curve has no knee")
    of = {"kind": "adversary", "lambda": curve["lambda"][at]}
    words = f"at the knee, λ = {of['lambda']:g}: {_against(table, **of)}"
    return over_seeds(lost(table, **of), words, (_mean(lost(table, kind="uniform put in")),))


def any_guide_will_do(table: Table) -> Seen:
    guides = ("base", "adversary λ=0.2", "adversary λ=3", "uniform")
    values = {guide: by_seed(table, form="values", guide=guide) for guide in guides}
    words = ", ".join(f"{guide} {_mean(value):.3f}" for guide, value in values.items())

    def worse(guide: str) -> list[float]:
        return [base - other for base, other in zip(values["base"], values[guide], strict=True)]

    worst = max(guides[1:3], key=lambda guide: _mean(worse(guide)))
    return over_seeds(worse(worst), words, (_mean(worse("uniform")),))


def rivals_for_single_words(table: Table) -> Seen:
    rival = (pl.col("js") > 0.5) & (pl.col("tvd") <= 0.05 + 1e-6)
    shares = asked(table).group_by("kind", "sentence").agg(rival=rival.mean())
    of = {kind: shares.filter(pl.col("kind") == kind)["rival"].to_list() for kind in ("base", "untrained")}
    change = table.filter(pl.col("kind") == "base")["tvd"].mean()
    return over_seeds(of["base"], f"mean change of the prediction {change:.3f} (TVD)", (_mean(of["untrained"]),))


def attention_is_not_importance(table: Table) -> Seen:
    means = asked(table).group_by("kind", "method", "sentence").agg(pl.col("kendall").mean())
    methods = sorted(set(means["method"]) - {"random"})
    of = {(kind, method): means.filter((pl.col("kind") == kind) & (pl.col("method") == method))["kendall"].to_list()
          for kind in ("base", "untrained") for method in methods}  # fmt: skip
    words = ", ".join(f"{method} {_mean(of['base', method]):.2f}" for method in methods)
    control = max(_mean(of["untrained", method]) for method in methods)
    return over_seeds(max((of["base", method] for method in methods), key=_mean), words, (control,))


def by_lambda(table: Table) -> Table:
    """table1: means over seeds, a row a kind and λ."""
    numbers = [name for name in ("f1", "nll", "tvd", "kl", "js", "matched") if name in table.columns]
    return (
        table.filter(pl.col("kind") != UNTRAINED_SEEDS)
        .group_by("kind", "lambda", maintain_order=True)
        .agg(
            pl.col(numbers).mean().clip(lower_bound=0.0),
            seeds=pl.len(),  # a divergence of 0 may come out as −1e-17
        )
    )


SEEDS: dict[str, Any] = {"unit": "seeds", "least": 3}
SENTENCES: dict[str, Any] = {"unit": "sentences", "least": 20}
PAPER = Paper(
    "yang",
    "Yang, adversarial attention on a tagging task",
    "",
    (
        Item("model", "a one-layer tagger on CoNLL-2000, F1", trained("curve"), (), (
            Claim("a tagger of one layer and four heads does the task", "F1 0.90", "test F1", tagger,
                  above=0.9 - NEAR, control="uniform attention put in", form="number", **SEEDS),
        ), rows=by_lambda),
        Item("table1", "adversaries trained from scratch, over λ", trained("curve"), ("table1", "three-kinds"), (
            Claim("an adversary of λ = 0.2 tags as well as the base", "0.90 and 0.90", "F1 lost",
                  adversary_tags_as_well, below=NEAR, control="uniform attention put in", form="points", **SEEDS),
            Claim("one of λ = 3 does not", "0.75 against 0.90", "F1 lost", much_divergence_costs, above=0.05,
                  control="an adversary of λ = 0", form="points", **SEEDS),
        ), rows=by_lambda),
        Item("fig1", "loss of prediction against divergence of attention, the knee", trained("knees"), ("fig1",), (
            Claim("the loss turns at a knee: little up to it, much beyond", "KL about 0.33, on a scale of its own",
                  "share of the divergence less share of the loss at the knee", a_knee, above=DEEP,
                  control="a straight line with the seeds' spread", interval="bootstrap over seeds", **SEEDS),
        )),
        Item("fig1-f1", "what the divergence at the knee costs in F1", trained("curve"), ("fig1",), (
            Claim("divergence is free up to the knee", "0.90 and 0.90", "F1 lost at the knee", free_up_to_the_knee,
                  below=NEAR, control="uniform attention put in", form="points", **SEEDS),
        ), rows=by_lambda),
        Item("table2", "frozen attention guiding a fresh model", trained("probes"), ("table2",), (
            Claim("attention of adversaries guides a fresh model as well as the base's",
                  "0.90 (base), 0.90 (λ = 0.2), 0.89 (λ = 3)", "F1 lost by the worse of the two adversaries' attention",
                  any_guide_will_do, below=NEAR, control="uniform attention", form="points", **SEEDS),
        ), rows=by_guide),
        Item("parents", "JSD against TVD, seeds, uniform attention, per-instance adversaries, Kendall τ",
             trained("instances"), ("three-kinds", "matched"), (
            Claim("for most single predictions there is a rival attention (Jain & Wallace)", "easily found",
                  "share of a sentence's words that have one beyond 0.5 nats which moves the prediction by at most "
                  "0.05 (TVD), mean over sentences",
                  rivals_for_single_words, above=0.5, control=FRESH, **SENTENCES),
        )),
        Item("parents-seeds", "another seed of the base (Wiegreffe & Pinter)", trained("curve"), ("matched",), (
            Claim("seeds alone make attention differ", "much of the adversaries' divergence",
                  "Jensen–Shannon between seeds with heads paired, nats", other_seeds_differ, above=0.3,
                  control="an untrained pair of seeds", form="number", **SEEDS),
        )),
        Item("parents-tau", "attention against importance (Jain & Wallace)", trained("importance"), ("importance",), (
            Claim("attention hardly goes with importance", "weak correlations, recurrent encoders",
                  "Kendall's τ with gradients or with leave-one-out, the larger, mean over sentences",
                  attention_is_not_importance,
                  below=0.5, control=FRESH, form="number", **SENTENCES),
        )),
        Item("open", "rankings before and after the knee; a probe with no query or key of its own", trained("ranks"),
             ("ranks",)),
    ),
)  # fmt: skip

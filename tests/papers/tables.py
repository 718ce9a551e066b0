"""Hand-made tables of the studies, as the claims read them."""

from __future__ import annotations

import polars as pl


def heads(**columns: list[float]) -> pl.DataFrame:
    """`surface` or `importance`: one head a layer."""
    size = len(next(iter(columns.values())))
    return pl.DataFrame(
        {"stack": ["self"] * size, "quantity": ["raw"] * size, "layer": list(range(size)), "head": [0] * size,
         "name": [f"L{at}.H0" for at in range(size)], **columns}
    )  # fmt: skip


def distances(within: float, between: float) -> pl.DataFrame:
    return pl.DataFrame(
        {"stack": ["self"] * 3, "a": ["x", "x", "y"], "b": ["y", "z", "z"], "layer_a": [0, 0, 0], "layer_b": [0, 1, 1],
         "js": [within, between, between]}
    )  # fmt: skip


def norms(rows: list[tuple[str, str, str | None, float]]) -> pl.DataFrame:
    return pl.DataFrame(
        [("self", "L0.H0", *row) for row in rows],
        schema=["stack", "name", "paper", "what", "category", "value"], orient="row",
    )  # fmt: skip


def parked(weight: float, norm: float, **rho: float) -> pl.DataFrame:
    """A first token with shares of the weight and of the norms."""
    shares = [("fig3", what, kind, value) for what, share in (("alpha", weight), ("norm", norm))
              for kind, value in (("first", share), ("separator", 0.0), ("other", 1 - share))]  # fmt: skip
    told = [("table2", "rho", kind, value) for kind, value in rho.items()]
    return norms([*shares, *told, ("table2", "error_bound", None, 0.02)])


def by_length(item: str, **what: dict[float, float]) -> pl.DataFrame:
    rows = [("self", item, name, length, value) for name, of in what.items() for length, value in of.items()]
    return pl.DataFrame(rows, schema=["stack", "paper", "what", "length", "value"], orient="row")


def peaks(raw: float, effective: float) -> pl.DataFrame:
    rows = [("self", item, what, kind, 0, value if kind == "separator" else 0.0)
            for item, what, value in (("fig1b", "raw", raw), ("fig1c", "effective", effective))
            for kind in ("first", "separator")]  # fmt: skip
    return pl.DataFrame(rows, schema=["stack", "paper", "what", "category", "layer", "value"], orient="row")


def rates(cells: dict[tuple[int, int, int], float], kind: str = "linear") -> pl.DataFrame:
    """`identity`: {(learned on, tested on, offset): rate}, each ± 0.01."""
    rows = [("rate", "test", kind, "cosine", *cell, value, value - 0.01, value + 0.01) for cell, value in cells.items()]
    names = ["what", "set", "map", "distance", "layer", "tested", "offset", "value", "low", "high"]
    return pl.DataFrame(rows, schema=names, orient="row")


def mixing(kind: str, statistic: str, values: list[float], counts: list[float] | None = None) -> pl.DataFrame:
    size = len(values)
    return pl.DataFrame(
        {"kind": [kind] * size, "statistic": [statistic] * size, "group": [""] * size, "layer": list(range(size)),
         "value": values, "count": counts or [100.0] * size}
    )  # fmt: skip


def offsets(near: list[float]) -> pl.DataFrame:
    rows = [("offset", "share", group, layer, value / 2) for layer, value in enumerate(near) for group in ("-1", "5")]
    rows += [("offset", "share", "6", layer, 1 - value) for layer, value in enumerate(near)]
    return pl.DataFrame(rows, schema=["kind", "statistic", "group", "layer", "value"], orient="row")


def relations(heads_: list[float], offset: float, *, pairs: int = 60) -> pl.DataFrame:
    """`syntax`: a best head for each relation, ± 0.05, beside one offset, ± 0.01."""
    rows = [
        ("self", quantity, f"r{at}", True, value, value - width, pairs)
        for at, head in enumerate(heads_)
        for quantity, value, width in (("raw", head, 0.05), ("offset", offset, 0.01))
    ]
    return pl.DataFrame(
        rows, schema=["stack", "quantity", "relation", "best", "accuracy", "low", "count"], orient="row"
    )  # fmt: skip


def mentions(head: float, nearest: float, *, count: int = 400) -> pl.DataFrame:
    rows = [
        ("self", quantity, "all", name, best, value, value - 0.03, value + 0.03, count)
        for quantity, name, best, value in (("raw", "L1.H2", True, head), ("rules", "nearest", False, nearest))
    ]
    names = ["stack", "quantity", "type", "name", "best", "accuracy", "low", "high", "count"]
    return pl.DataFrame(rows, schema=names, orient="row")  # fmt: skip


def parses(alone: float, vectors: float, untrained: float, right: float = 30.0) -> pl.DataFrame:
    of = [("attention", "raw", alone), ("attention+vectors", "raw", vectors), ("untrained+vectors", "raw", untrained),
          ("right-branching", None, right)]  # fmt: skip
    rows = [("uas", "argmax", probe, quantity, value, value - 0.5, value + 0.5) for probe, quantity, value in of]
    names = ["what", "decoder", "probe", "quantity", "value", "low", "high"]
    return pl.DataFrame(rows, schema=names, orient="row")


def alignment(errors: dict[tuple[str, str], list[float]], diagonal: float = 0.75) -> pl.DataFrame:
    """AER by layer, each ± 0.01."""
    rows = [(quantity, position, "argmax", layer, None, value, value - 0.01, value + 0.01)
            for (quantity, position), values in errors.items() for layer, value in enumerate(values)]  # fmt: skip
    rows.append(("the diagonal", None, None, None, None, diagonal, diagonal - 0.01, diagonal + 0.01))
    names = {"quantity": pl.String, "position": pl.String, "extraction": pl.String, "layer": pl.Int64, "head": pl.Int64,
             "aer": pl.Float64, "low": pl.Float64, "high": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema=names, orient="row")


def curve(
    base: float = 0.9, *, adversary: dict[float, float] | None = None, uniform: float = 0.3, **more: float
) -> pl.DataFrame:
    """`headwise reproduce yang`: F1 of three seeds around these means, which keep their distances from the base."""
    kinds = [("base", None, base), ("uniform put in", None, uniform), ("other seed", None, base)]
    kinds.append(("other seed, both untrained", None, 0.0))
    kinds += [("adversary", strength, value) for strength, value in (adversary or {}).items()]
    names = {"kind": pl.String, "lambda": pl.Float64, "seed": pl.Int64, "f1": pl.Float64, "js": pl.Float64,
             "matched": pl.Float64, "tvd": pl.Float64}  # fmt: skip
    js, near = more.get("js", 0.5), more.get("matched", 0.5)
    rows = [(kind, strength, seed, value + 0.001 * seed, js, 0.05 if "untrained" in kind else near, 0.1)
            for kind, strength, value in kinds for seed in range(3)]  # fmt: skip
    return pl.DataFrame(rows, schema=names, orient="row")


def guides(**f1: float) -> pl.DataFrame:
    named = {"base": "base", "weak": "adversary λ=0.2", "strong": "adversary λ=3", "uniform": "uniform"}
    rows = [("values", named[guide], seed, value) for guide, value in f1.items() for seed in range(3)]
    return pl.DataFrame(rows, schema=["form", "guide", "seed", "f1"], orient="row")

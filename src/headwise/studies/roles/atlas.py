"""The table, figures and words of `roles`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch

from headwise.plots import intervals
from headwise.plots.atlas import atlas
from headwise.plots.theme import themed
from headwise.results.shown import finite, number
from headwise.studies.ablation.answers import MATTER, amount
from headwise.studies.ablation.facts import Array, ends, resampled
from headwise.studies.answers import DOING, Answer
from headwise.studies.roles.scores import ROLES
from headwise.studies.roles.trials import IDLE, TASKS, Head, threshold
from headwise.studies.study import Setting, State, each_stack
from headwise.studies.tables import counted

BEATEN = 0.9  # of the random draws that must change less (of idle heads: more)
PASSED, FAILED = "role", "looks like"
SCHEMA = {"part": pl.String, "role": pl.String, "stack": pl.String, "layer": pl.Int64, "head": pl.Int64,
          "name": pl.String, "value": pl.Float64, "looks": pl.Boolean, "task": pl.String, "heads": pl.String,
          "control": pl.Float64, "gain": pl.Float64, "low": pl.Float64, "high": pl.Float64, "beaten": pl.Float64,
          "verdict": pl.String, "texts": pl.Int64, "unit": pl.String}  # fmt: skip


def table_of(
    state: State, scores: Mapping[str, Mapping[Head, float]], stacks: Sequence[str], *, seed: int, unit: str | None
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = [
        {"part": "head", "role": role, "stack": stack, "layer": layer, "head": head, "name": f"L{layer}.H{head}",
         "value": score, "looks": score >= threshold(role)}
        for role, heads in scores.items() for (stack, layer, head), score in heads.items()
    ]  # fmt: skip
    for key in state:
        if key.startswith("trial@"):
            _, role, task = key.split("@")
            row = _trial(state, key, role, stacks, seed)
            rows.append({"part": "trial", "role": role, "task": task, "unit": unit, **row})
    return pl.DataFrame(rows, schema=SCHEMA)


def _trial(state: State, key: str, role: str, stacks: Sequence[str], seed: int) -> dict[str, Any]:
    named, pieces = state.pieces(f"named@{role}"), state.pieces(key)
    several = len(stacks) > 1
    names = [
        f"{stacks[stack]} L{layer}.H{head}" if several else f"L{layer}.H{head}"
        for stack, layer, head in named.tensors[0].tolist()
    ]
    if not pieces.tensors:
        return {"heads": ", ".join(names), "verdict": FAILED, "texts": 0}
    return {"heads": ", ".join(names), **judged(torch.cat(pieces.tensors).numpy(), role in IDLE, seed)}


def judged(effects: Array, idle: bool, seed: int) -> dict[str, Any]:
    """Of effects [text set], the first set the role's own: means, the difference with its interval, and the verdict."""
    own, controls = effects[:, 0], effects[:, 1:]
    gain = own - controls.mean(1)
    low = high = None
    weights = resampled(len(own), seed)
    if weights is not None:
        low, high = (float(end) for end in ends(weights @ gain))
    less = controls.mean(0) > own.mean() if idle else controls.mean(0) < own.mean()
    beaten = float(np.mean(less))
    sure = low is not None and high is not None and (high < 0 if idle else low > 0)
    return {
        "value": float(own.mean()), "control": float(controls.mean()), "gain": float(gain.mean()), "low": low,
        "high": high, "beaten": beaten, "verdict": PASSED if sure and beaten >= BEATEN else FAILED, "texts": len(own),
    }  # fmt: skip


def drawn_atlas(table: pl.DataFrame, setting: Setting) -> dict[str, Any]:
    if table.is_empty():
        return {}
    trials = table.filter((pl.col("part") == "trial") & pl.col("gain").is_not_null())
    passed = [
        (row["role"], name) for row in trials.filter(verdict=PASSED).to_dicts() for name in row["heads"].split(", ")
    ]
    heads, several = table.filter(part="head"), len(setting.stacks) > 1

    def one(stack: str, where: str) -> dict[str, Any]:
        own = {(role, name.removeprefix(f"{stack} ")) for role, name in passed if not several or name.startswith(stack)}
        rows = most_like(heads.filter(stack=stack), own)
        return {
            "atlas": themed(
                atlas(rows, [*ROLES, "none"]),
                f"{where}: what each head looks like most",
                "The role whose score is highest in terms of its threshold; grey: none reaches it. A dot: taken away",
                "with those most like it, more is lost than without random heads (first, separator, null: less); all",
                "others only look like it.",
            )
        }

    charts = each_stack(setting, one)
    return charts | ({"trials": _trials(trials, setting)} if len(trials) else {})


def most_like(heads: pl.DataFrame, passed: set[tuple[str, str]]) -> pl.DataFrame:
    """For every head the role with the highest score over its threshold; `none` where no score reaches it.

    `passed`: roles that are ones, with the heads that were taken away; those are `tested`.
    """
    over = pl.col("value") / pl.col("role").replace_strict({role: threshold(role) for role in ROLES})
    best = (
        heads.with_columns(over=over)
        .sort("over", descending=True)
        .group_by("layer", "head", maintain_order=True)
        .first()
    )
    role = pl.when(pl.col("over") >= 1).then(pl.col("role")).otherwise(pl.lit("none"))
    named = pl.concat_str("role", "name", separator=" ")
    best = best.with_columns(role=role)
    return best.with_columns(tested=named.is_in([f"{r} {head}" for r, head in passed])).sort("layer", "head")


def _trials(trials: pl.DataFrame, setting: Setting) -> Any:
    label = pl.col("role") + " (" + pl.col("task") + ")"
    bounds = {end: pl.coalesce(end, "gain") for end in ("low", "high")}
    rows = trials.with_columns(what=pl.lit("gain"), name=label, value=pl.col("gain"), **bounds)
    none = pl.DataFrame({"what": "gain", "name": "random heads", "value": 0.0, "low": 0.0, "high": 0.0})
    rows = pl.concat([rows.select(none.columns), none])
    panel = {"gain": "lost without them, beyond random heads of the same layers"}
    return themed(
        intervals.dots(rows, panel, order=rows["name"].to_list(), control="random heads"),
        f"{setting.model}: do heads do what they look like?",
        "Bars: 95 % bootstrap intervals over texts. Right of the dashed line: the task needs these heads more than",
        "others.",
    )


def answers(table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG001
    trials = table.filter(part="trial")
    if trials.is_empty():
        return
    heads = table.filter(part="head")
    total = heads.select("stack", "layer", "head").n_unique()
    looks = heads.filter("looks").select("stack", "layer", "head").n_unique()
    yield Answer(
        DOING,
        f"{looks} of {total} heads look like one of {len(ROLES)} roles. Taken away, against random heads of the same "
        f"layers: {'; '.join(_outcomes(trials))}.",
    )
    best = finite(trials.filter(verdict=PASSED), "gain").filter(~pl.col("role").is_in(IDLE))
    for row in best.sort(pl.col("task") == "plain", -pl.col("gain")).head(1).to_dicts():
        yield Answer(MATTER, _told(row))


def _outcomes(trials: pl.DataFrame) -> Iterator[str]:
    """What came of the trials, each kind in words of its own: only a task made for a role tells what it is for."""
    came, idle, plain = pl.col("verdict") == PASSED, pl.col("role").is_in(IDLE), pl.col("task") == "plain"
    kinds = {
        "a task made for them loses more without": came & ~idle & ~plain,
        "the answer as a whole moves more without": came & ~idle & plain,
        "the answer moves less, as it should without heads that only park, without": came & idle,
    }
    for says, those in kinds.items():
        names = [f"{row['role']} ({row['heads']})" for row in trials.filter(those).to_dicts()]
        if names:
            yield f"{says} {', '.join(names)}"
    yield f"only look like it: {', '.join(trials.filter(~came)['role'].to_list()) or 'none'}"


def _told(row: Mapping[str, Any]) -> str:
    """The role that is needed most; what a plain text loses does not tell what its heads are for."""
    who, texts = f"The heads that look like {row['role']} ({row['heads']})", counted(row["texts"], "text")
    lost, others = amount(number(row["value"], ".2g"), row.get("unit")), number(row["control"], ".2g")
    if row["task"] != "plain":
        return (
            f"{who} do it: without them the task `{row['task']}` loses {lost}, without as many others of their layers "
            f"{others} ({texts})."
        )
    needs = "that needs a next-token head" if row["role"] in TASKS else "there is no task for it"
    return (
        f"{who} matter to the answer as a whole: without them it moves by {lost}, without as many others of their "
        f"layers by {others} ({texts}). Whether for what they look like was not tested: {needs}."
    )

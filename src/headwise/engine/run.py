"""`hw.run`: studies over a corpus into a folder, resumable at every shard, and within one after a minute's work.

    OUT/manifest.json …          the result of a single study
    OUT/STUDY/manifest.json …    one folder each of several
    OUT/.run/                    while it runs: run.json (the plan), the states of finished shards, of begun ones

The same command again goes on where the last one stopped, and after it has finished opens what is there.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headwise.allowed import check_all
from headwise.engine.fold import Folded
from headwise.engine.forecast import Forecast, forecast, foretold
from headwise.engine.local import Within, fold_locally
from headwise.engine.options import OPTIONS
from headwise.engine.parts import dealt, tables_without
from headwise.engine.plan import Plan, model_facts
from headwise.engine.progress import SECONDS, Progress, Shown, teller, visible, watched
from headwise.engine.witness import proved
from headwise.errors import InputError
from headwise.interventions.labels import check_labels
from headwise.interventions.outcomes import kind_of
from headwise.measures.gradients import differentiating
from headwise.models.heads import own_task
from headwise.models.load import load
from headwise.models.model import Model
from headwise.models.packaged import cache_root, shown_name
from headwise.results import RUN, Result, Results, claim, open_result, provenance, read_shard, write_result, write_shard
from headwise.results.files import write_files
from headwise.results.records import DamagedError, read_record
from headwise.studies import STUDIES
from headwise.studies.study import Setting, State, Study, packed, plus
from headwise.text.corpus import CorpusSpec, Shard, open_corpus
from headwise.text.remote import is_address, pull, push

WORK = ".run"
LABELS = 256  # texts whose labels are looked at before anything is run


@differentiating()  # some studies learn or differentiate, whatever the caller switched off
def run(
    studies: str | Sequence[str],
    model: str | Model = "demo",
    *,
    corpus: Any = "sample",
    out: str | Path,
    segments: int | None = None,
    kind: str | None = None,
    columns: str | Sequence[str | int] | None = None,
    label: str | int | None = None,
    first: int | None = None,
    task: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    shard_documents: int = 64,
    batch_tokens: int = 2048,
    truncate: bool = False,
    max_tokens: int | None = None,
    seed: int = 0,
    parts: int = 0,
    figures: bool = True,
    progress: Shown = None,
) -> Results:
    """Run one study, or several in one pass, and write the results; returns them by the names of the studies.

    `settings` are per study, e.g. {"surface": {"quantities": ("raw", "effective")}}. With `first`, only so many
    documents are read. `parts`: also write each table of all shards but one in so many, for intervals over texts.
    Without `figures` only tables are written, which is quicker; what is finished is opened as it is. `progress`: None,
    a bar on a terminal; "lines", and lines elsewhere; True or False.
    `corpus` may be a table of polars, pandas or datasets; `out` an address (s3://…), where finished results go.
    """
    names = _named(studies)
    check_all(
        {"first": first, "segments": segments, "max_tokens": max_tokens, "threads": threads, "workers": workers,
         "shard_documents": shard_documents, "batch_tokens": batch_tokens, "seed": seed}, OPTIONS,
    )  # fmt: skip
    chosen = [STUDIES[name].from_settings((settings or {}).get(name, {})) for name in names]
    if threads is not None:
        torch.set_num_threads(threads)
    loaded = _loaded(model, names, task=task, dtype=dtype, device=device)
    if not isinstance(corpus, CorpusSpec):
        corpus = open_corpus(corpus, kind=kind, columns=columns, segments=segments, label=label, first=first)
    _check(chosen, loaded, corpus)
    plan = Plan(
        {study.name: study.settings() for study in chosen}, model_facts(loaded), corpus, shard_documents, batch_tokens,
        truncate, max_tokens, seed,
    )  # fmt: skip
    there, home = _home(out, plan)
    with claim(home):
        crew = Crew(engine, address, workers, threads)
        results = Results(_carried_out(chosen, loaded, plan, home, crew, parts, figures, progress))
    if there:
        push(home, there)
    return results


@dataclass(frozen=True)
class Crew:
    """Who does the work."""

    engine: str
    address: str | None
    workers: int | None
    threads: int | None


def _named(studies: str | Sequence[str]) -> list[str]:
    names = [name.strip() for name in studies.split(",")] if isinstance(studies, str) else list(studies)
    if not names:
        raise InputError("At least one study must be named; `headwise list studies` shows them.")
    return names


def _loaded(model: str | Model, names: Sequence[str], *, task: str | None, dtype: str, device: str) -> Model:
    """The model itself, or the one of that name, with its own head where a study asks about that."""
    if not isinstance(model, str):
        return model
    if task is None and any(STUDIES[name].own_head for name in names):
        task = own_task(model)
    return load(model, task=task, dtype=dtype, device=device)


def _check(studies: Sequence[Study], model: Model, corpus: CorpusSpec) -> None:
    """What would fail after hours fails before anything is run."""
    for study in studies:
        study.check(model)
    if corpus.label is not None and kind_of(model) == "label":
        check_labels(model, islice(corpus.documents(), LABELS))


def _carried_out(
    chosen: Sequence[Study], model: Model, plan: Plan, out: Path, crew: Crew, parts: int, figures: bool,
    progress: Shown,
) -> dict[str, Result]:  # fmt: skip
    """Fold what is not done, add up, write; what is finished is opened."""
    folders = {study.name: out / study.name if len(chosen) > 1 else out for study in chosen}
    if (done := _finished(plan, folders)) is not None:
        shutil.rmtree(out / WORK, ignore_errors=True)  # of a run that was killed when all but this was done
        return done
    proof = proved(model, plan)
    found = forecast(model, plan, chosen, parts=parts) if visible(progress) else None
    _foretell(found, chosen, progress, done=_done(out / WORK))
    work, began = _work_folder(out / WORK, plan), time.monotonic()
    total = _fold_all(model, plan, work, _workforce(crew, model, plan, work, teller("ray", progress)), progress, found)
    if time.monotonic() - began > SECONDS:
        teller("headwise", progress)(f"all texts are read; the tables and figures of {', '.join(folders)} follow")
    facts = _facts(plan, model, total, proof, crew)
    sums = dealt(work, total.counts["shards"], parts, plan=plan.digest) if parts else []
    results = {
        study.name: _write(study, total, sums, folders[study.name], facts, model, figures, teller(study.name, progress))
        for study in chosen
    }
    shutil.rmtree(work)
    return results


def _foretell(found: Forecast | None, studies: Sequence[Study], progress: Shown, *, done: Set[int]) -> None:
    """Before it starts: how long all studies together will take, and how to make that shorter."""
    for line in () if found is None else foretold(found, studies, done):
        teller("headwise", progress)(line)


def _done(work: Path) -> set[int]:
    """The shards that an interrupted run has behind it."""
    return {int(path.stem.removeprefix("shard-")) for path in work.glob("shard-*.json")}


def _home(out: str | Path, plan: Plan) -> tuple[str | None, Path]:
    """The address where the results go in the end, if they do, and the folder here, with what is at the address.

    subtle: a folder a plan, for what was made here and has gone from the address must not stand in another run's way.
    """
    if not isinstance(out, str) or not is_address(out):
        return None, Path(out)
    home = cache_root() / "runs" / hashlib.sha256(f"{out} {plan.digest}".encode()).hexdigest()[:16]
    pull(out, home)
    return out, home


def _finished(plan: Plan, folders: Mapping[str, Path]) -> dict[str, Result] | None:
    """The results of this very plan, if they are all there."""
    if not all((folder / "manifest.json").is_file() for folder in folders.values()):
        return None
    results = {name: open_result(folder, RUN) for name, folder in folders.items()}
    for name, result in results.items():
        if result.manifest.get("plan_digest") != plan.digest:
            raise InputError(
                f"Folder {folders[name]} holds the result of another run (model, corpus or settings differ); choose "
                "another --out, or remove it."
            )
    return results


def _work_folder(work: Path, plan: Plan) -> Path:
    """The folder of finished shards, new or of an interrupted run of the same plan."""
    note = work / "run.json"
    try:
        before = read_record(note, {"digest": str, "plan": {"corpus": {"fingerprint": str}}})
    except (FileNotFoundError, DamagedError):  # lost: the shards themselves say which plan they belong to
        before = None
    if before is not None:
        if before["digest"] != plan.digest:
            raise InputError(
                f"{_difference(before['plan'], plan.to_json())} Resume with the same command, or remove {work}."
            )
        return work
    write_files(work, {"run.json": json.dumps({"digest": plan.digest, "plan": plan.to_json()}, default=list).encode()})
    return work


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if before["corpus"]["fingerprint"] != now["corpus"]["fingerprint"]:
        return "An interrupted run is resumed on the same corpus, but the corpus has changed since."
    now = json.loads(json.dumps(now, default=list))
    changed = [key for key in now if before.get(key) != now[key]]
    return f"An interrupted run is resumed as it was begun, but {', '.join(changed)} differ."


Workforce = Callable[[Iterable[Shard], Within], Iterator[tuple[int, Folded]]]


def _workforce(crew: Crew, model: Model, plan: Plan, work: Path, say: Callable[[str], None]) -> Workforce:
    if crew.engine == "local":
        return lambda shards, within: fold_locally(model, shards, plan, within, work)
    if crew.engine == "ray":
        from headwise.engine.ray import fold_on_ray

        opening = plan.opening(model)
        return lambda shards, within: fold_on_ray(
            shards, plan, opening=opening, address=crew.address, workers=crew.workers, threads=crew.threads, say=say,
            within=within, work=work,
        )  # fmt: skip
    raise InputError(f"An engine is local or ray, but {crew.engine!r} was asked for.")


def _fold_all(
    model: Model, plan: Plan, work: Path, workforce: Workforce, progress: Shown, found: Forecast | None = None
) -> Folded:
    """Fold every shard that is not done, then add up all of them in order."""
    skipped: Counter[str] = Counter()
    count = resumed = 0

    def missing() -> Iterator[Shard]:
        nonlocal count, resumed
        for shard in plan.shards(model, skipped):
            count = shard.number + 1
            if read_shard(work, shard.number, plan=plan.digest) is None:
                bar.start(shard.number, len(shard.documents))
                yield shard
            else:
                resumed += 1
                bar.skip(shard.number, len(shard.documents))

    with watched(plan, shown=progress, forecast=found) as bar:
        for number, folded in workforce(missing(), bar.within):
            write_shard(work, number, folded.tensors(), {"counts": dict(folded.counts)}, plan=plan.digest)
            bar.finish(number, folded.counts.get("tokens", 0))
    plan.corpus.verify()
    total = _merged(work, plan, count, {f"skipped: {reason}": number for reason, number in skipped.items()})
    return Folded(total.states, {**total.counts, "shards": count, "shards resumed": resumed})


def _merged(work: Path, plan: Plan, shards: int, skipped: Mapping[str, int]) -> Folded:
    total = Folded({}, {})
    for number in range(shards):
        read = read_shard(work, number, plan=plan.digest)
        if read is None:
            raise InputError(f"Shard {number} in {work} was altered while the run went on; run the same command again.")
        tensors, meta = read
        total = total + Folded.from_tensors(tensors, meta["counts"], plan.digest)
    if not total.counts.get("documents"):
        told = _told(skipped, total.counts)
        cut = "; pass --truncate, or shorter texts" if "too many tokens" in told else ""
        raise InputError(f"At least one document must be readable, but none was ({told}){cut}.")
    return Folded(total.states, Counter(total.counts) + Counter(skipped))


def _told(*counts: Mapping[str, int]) -> str:
    pairs = [
        f"{number} {reason.removeprefix('skipped: ')}" for count in counts for reason, number in count.items() if number
    ]
    return ", ".join(pairs) or "the corpus is empty"


def _facts(plan: Plan, model: Model, total: Folded, proof: Mapping[str, Any] | None, crew: Crew) -> dict[str, Any]:
    """The manifest's part that all studies of a run share."""
    threads = crew.threads or (1 if crew.engine == "ray" else torch.get_num_threads())
    skipped = {key.removeprefix("skipped: "): n for key, n in total.counts.items() if key.startswith("skipped: ")}
    return {
        **provenance(seed=plan.seed),
        "plan": json.loads(json.dumps(plan.to_json(), default=list)),
        "plan_digest": plan.digest,
        "model": dict(plan.model),
        "proof": {
            "projection_error": model.proof.projection_error,
            "output_error": model.proof.output_error,
            "text": proof,
        },
        "stacks": {stack: [model.layers(stack), model.heads(stack), model.head_size(stack)] for stack in model.stacks},
        "causal": model.causal,
        "documents": total.counts["documents"],
        "tokens": total.counts["tokens"],
        "skipped": skipped,
        "engine": {"name": crew.engine, "threads": threads},
        "shards": {"all": total.counts["shards"], "found done": total.counts["shards resumed"]},
    }


def _write(
    study: Study, total: Folded, sums: Sequence[Folded], folder: Path, facts: Mapping[str, Any], model: Model,
    drawn: bool, report: Callable[[str], None],
) -> Result:  # fmt: skip
    of_model = study.of_model(model)
    state = State(study.conclude(plus(total.states[study.name], of_model), model, report))
    setting = setting_of(facts)
    charts = study.figures(state, setting) if drawn else {}
    # subtle: altair's validation takes longer than the drawing; tests/studies/test_figures.py does it
    figures = {name: chart.to_dict(validate=False) for name, chart in charts.items()}
    manifest = {"study": study.name, "settings": json.loads(json.dumps(study.settings(), default=list)), **facts}
    without = tables_without(study, sums, of_model, setting)
    return write_result(folder, manifest, study.table(state, setting), packed(state), figures, parts=without)


def setting_of(facts: Mapping[str, Any]) -> Setting:
    """What tables and figures may say about the run, from its manifest."""
    stacks = {stack: (sizes[0], sizes[1], sizes[2]) for stack, sizes in facts["stacks"].items()}
    return Setting(
        shown_name(facts["model"]["name"]), stacks, facts["causal"], {k: facts[k] for k in ("documents", "tokens")}
    )


__all__ = ["Progress", "run", "setting_of"]

"""The engine: whatever happens on the way, the same plan gives the same bits, and nothing is lost in silence."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import torch

from headwise.engine.fold import Folded
from headwise.engine.local import fold_locally
from headwise.engine.progress import Progress
from headwise.engine.run import run as whole_run
from headwise.engine.run import setting_of
from headwise.errors import HeadwiseError, InputError
from headwise.models.load import load
from headwise.results import open_result
from references.patience import patience

MODEL = "tiny:bert"
run = partial(whole_run, figures=False)  # tests/studies look at figures; here it is states and tables


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty short texts, one a line."""
    words = [
        "the",
        "river",
        "of",
        "a",
        "city",
        "was",
        "in",
        "to",
        "and",
        "it",
        "that",
        "with",
        "as",
        "from",
        "by",
        "on",
        "for",
        "is",
        "its",
        "which",
    ]
    lines = [" ".join(words[at % 7 : at % 7 + 3 + at % 13]) + "." for at in range(40)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def bits(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "state.safetensors").read_bytes(), (folder / "table.parquet").read_bytes()


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    base = [sys.executable, "-m", "headwise", "run", "surface", "--model", MODEL, "--corpus", str(corpus)]
    return [*base, "--out", str(out), "--shard", "1", "--threads", "1", *more]


def test_a_run_opens_again_without_work(corpus, tmp_path):
    first = run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=7)
    again = run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=7)
    assert again.manifest["time"] == first.manifest["time"]
    assert again.table.equals(first.table)
    assert not (tmp_path / "out" / ".run").exists()


def test_several_studies_share_a_folder_and_a_pass(corpus, tmp_path):
    results = run(["surface"], MODEL, corpus=corpus, out=tmp_path / "out")
    assert results.folder == tmp_path / "out"
    both = run("surface,nullspace", MODEL, corpus=corpus, out=tmp_path / "both")
    assert sorted(both) == ["nullspace", "surface"]
    assert both["surface"].table.equals(results.table)


def test_shards_and_batches_do_not_decide_the_numbers(corpus, tmp_path):
    tables = [
        run("surface", MODEL, corpus=corpus, out=tmp_path / f"{at}", shard_documents=size, batch_tokens=tokens).table
        for at, (size, tokens) in enumerate([(40, 4096), (7, 64), (1, 1)])
    ]
    for table in tables[1:]:
        for column in table.select(pl.selectors.float()).columns:
            left, right = tables[0][column].to_numpy(), table[column].to_numpy()
            torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=1e-5, atol=1e-6, equal_nan=True)


def test_killed_in_the_middle_and_run_again(corpus, tmp_path):
    undisturbed = run("surface", MODEL, corpus=corpus, out=tmp_path / "whole", shard_documents=1, threads=1)
    out = tmp_path / "killed"
    process = subprocess.Popen(command(corpus, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    marks = lambda: list((out / ".run").glob("shard-*.json"))  # noqa: E731
    deadline = time.monotonic() + patience()
    while len(marks()) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(marks())
    assert 3 <= done < 40, "the run must have been killed in its middle"
    assert not (out / "manifest.json").exists()

    subprocess.run(command(corpus, out), check=True, capture_output=True)
    assert open_result(out).manifest["shards"] == {"all": 40, "found done": done}
    assert bits(out) == bits(tmp_path / "whole")
    assert open_result(out).table.equals(undisturbed.table)


def test_a_run_that_is_terminated_leaves_no_lock_and_can_be_resumed(corpus, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(command(corpus, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + patience()
    while not list((out / ".run").glob("shard-*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    assert (out / ".lock").exists()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=patience())
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert not (out / ".lock").exists()
    assert list((out / ".run").glob("shard-*.json"))


def interrupted(corpus: Path, out: Path, monkeypatch) -> None:
    """A run that fails while writing its sixth shard."""
    from headwise.engine import run as module

    real, written = module.write_shard, []

    def failing(*arguments, **named):
        if len(written) == 5:
            raise RuntimeError("power cut")
        written.append(real(*arguments, **named))

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_shard", failing)
        with pytest.raises(RuntimeError, match="power cut"):
            run("surface", MODEL, corpus=corpus, out=out, shard_documents=4)


@pytest.mark.parametrize("damage", ["truncate", "alter", "unmark"])
def test_a_damaged_shard_is_computed_again(corpus, tmp_path, monkeypatch, damage):
    whole = run("surface", MODEL, corpus=corpus, out=tmp_path / "whole", shard_documents=4)
    interrupted(corpus, tmp_path / "out", monkeypatch)
    state = tmp_path / "out" / ".run" / "shard-00002.safetensors"
    if damage == "truncate":
        state.write_bytes(state.read_bytes()[:-9])
    elif damage == "alter":
        content = bytearray(state.read_bytes())
        content[-5] ^= 1
        state.write_bytes(bytes(content))
    else:
        state.with_suffix(".json").unlink()
    result = run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=4)
    assert result.manifest["shards"] == {"all": 10, "found done": 4}
    assert bits(result.folder) == bits(whole.folder)


OTHER_PLANS = ({}, {"dtype": "float64"}, {"max_tokens": 6, "truncate": True}, {"model": "tiny:roberta"})
DAMAGED = (b"", b'{"digest": "', b"[]", b"{}", b'{"digest": "x"}', b"\xff\x00", b"[" * 99_999)


@pytest.mark.parametrize(
    ("note", "other"),
    [*((None, other) for other in OTHER_PLANS), *((note, OTHER_PLANS[at % 2]) for at, note in enumerate(DAMAGED))],
)
def test_shards_of_another_plan_are_never_added(corpus, tmp_path, monkeypatch, note, other):
    """The note of the plan is lost or damaged; the shards say themselves what they belong to."""
    out, asked = tmp_path / "out", {"model": MODEL, "corpus": corpus, "shard_documents": 4, **other}
    interrupted(corpus, out, monkeypatch)
    place = out / ".run" / "run.json"
    place.unlink() if note is None else place.write_bytes(note)
    result = run("surface", out=out, **asked)
    assert result.manifest["shards"] == {"all": 10, "found done": 0 if other else 5}
    assert bits(out) == bits(run("surface", out=tmp_path / "whole", **asked).folder)


def test_statistics_of_two_plans_do_not_add_up():
    one, empty = Folded({}, {"documents": 1}, "a"), Folded({}, {})
    assert (empty + one + one).plan == "a"
    with pytest.raises(InputError, match=r"must be of one plan and model, but these are of a and b; run both"):
        one + Folded({}, {}, "b")


def test_a_corpus_that_changed_is_not_resumed(corpus, tmp_path, monkeypatch):
    interrupted(corpus, tmp_path / "out", monkeypatch)
    corpus.write_text(corpus.read_text() + "one more line.\n")
    with pytest.raises(InputError, match="corpus has changed"):
        run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=4)
    assert len(list((tmp_path / "out" / ".run").glob("shard-*.json"))) == 5


def test_other_settings_are_not_resumed_nor_overwrite(corpus, tmp_path, monkeypatch):
    interrupted(corpus, tmp_path / "out", monkeypatch)
    with pytest.raises(InputError, match="seed differ"):
        run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=4, seed=1)
    run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=4)
    with pytest.raises(InputError, match="another run"):
        run("surface", MODEL, corpus=corpus, out=tmp_path / "out", shard_documents=4, seed=1)


def test_two_runs_into_one_folder(corpus, tmp_path):
    from headwise.results import claim

    with claim(tmp_path / "out"):
        refused = subprocess.run(command(corpus, tmp_path / "out"), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "one run at a time" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_bad_lines_are_counted_by_reason_and_named(tmp_path, capsys):
    lines = [b"the river runs.", b"\xff\xfe broken", b"zero\x00byte", b"", b"word " * 400, b"a city."]
    path = tmp_path / "bad.txt.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    result = run("surface", MODEL, corpus=path, out=tmp_path / "out", kind="lines")
    skipped = result.manifest["skipped"]
    assert result.manifest["documents"] == 2
    assert sum(skipped.values()) == 4
    assert skipped["too many tokens"] == 1
    from headwise.cli.run import _summary

    _summary(result)
    assert "1 too many tokens" in capsys.readouterr().out
    cut = run("surface", MODEL, corpus=path, out=tmp_path / "cut", kind="lines", truncate=True)
    assert cut.manifest["documents"] == 3


def test_manifest_says_what_was_run(corpus, tmp_path):
    manifest = run("surface", MODEL, corpus=corpus, out=tmp_path / "out", seed=3).manifest
    assert manifest["model"]["name"] == MODEL
    assert manifest["proof"]["projection_error"] < 1e-5
    assert manifest["plan"]["corpus"]["fingerprint"]
    assert manifest["seed"] == 3
    assert {"python", "torch", "transformers", "headwise"} <= set(manifest["versions"])
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["study"] == "surface"


def test_figures_call_a_model_by_the_name_of_its_checkpoint(corpus, tmp_path):
    """“demo: where to look” stood under a line that says all-MiniLM-L6-v2, and a folder as its whole path."""
    result = whole_run("surface", model=load(MODEL), corpus=corpus, out=tmp_path / "out")
    (name, *_) = result.figures
    assert result.figure(name).to_dict()["title"]["text"].startswith("tiny:bert")
    for asked, shown in {
        "demo": "all-MiniLM-L6-v2",
        str(tmp_path / "mine"): "mine",
        "../mine": "mine",
        "my/own": "my/own",
    }.items():
        facts = {**result.manifest, "model": {**result.manifest["model"], "name": asked}}
        assert setting_of(facts).model == shown


def test_manifest_says_that_workers_have_one_thread_where_none_are_named(corpus, tmp_path, monkeypatch):
    from headwise.engine import ray as on_ray

    model = load(MODEL)
    monkeypatch.setattr(on_ray, "fold_on_ray", lambda shards, plan, **_: fold_locally(model, shards, plan))
    torch.set_num_threads(2)
    manifest = run("surface", model, corpus=corpus, out=tmp_path / "out", engine="ray").manifest
    assert manifest["engine"] == {"name": "ray", "threads": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"studies": "surfce"}, "Did you mean 'surface'"),
        ({"studies": "surface", "engine": "dask"}, "local or ray"),
        ({"studies": "surface", "corpus": "no/such/file.txt"}, "there is no no/such/file.txt"),
        ({"studies": "surface", "max_tokens": 2}, "none was"),
    ],
)
def test_mistakes_are_one_line(corpus, tmp_path, arguments, message):
    arguments = {"corpus": corpus, **arguments}
    with pytest.raises(HeadwiseError, match=message) as caught:
        run(arguments.pop("studies"), MODEL, out=tmp_path / "out", **arguments)
    assert "\n" not in str(caught.value)


ray = pytest.importorskip("ray", reason="the [ray] extra is not installed")


@pytest.fixture(scope="module")
def cluster():
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def worker_processes() -> list[int]:
    """Ray names an actor's process after its class."""
    commands = {int(path.parent.name): path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [number for number, command in commands.items() if command.startswith(b"ray::Worker")]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray leaves pipes and files of its own open
@pytest.mark.usefixtures("cluster")
class TestRay:
    def test_same_bits_as_one_process(self, corpus, tmp_path):
        run("surface", MODEL, corpus=corpus, out=tmp_path / "local", shard_documents=3, threads=1)
        run(
            "surface", MODEL, corpus=corpus, out=tmp_path / "ray", shard_documents=3, threads=1, engine="ray", workers=2
        )
        assert bits(tmp_path / "ray") == bits(tmp_path / "local")

    def test_a_killed_worker_changes_nothing(self, corpus, tmp_path, monkeypatch):
        from headwise.engine import run as module

        run("surface", MODEL, corpus=corpus, out=tmp_path / "local", shard_documents=1, threads=1)
        real, killed = module.write_shard, []

        def write_and_kill(*arguments, **named):
            real(*arguments, **named)
            if not killed:
                killed.append(worker_processes()[0])
                os.kill(killed[0], signal.SIGKILL)

        monkeypatch.setattr(module, "write_shard", write_and_kill)
        run(
            "surface", MODEL, corpus=corpus, out=tmp_path / "ray", shard_documents=1, threads=1, engine="ray", workers=2
        )
        assert killed
        assert bits(tmp_path / "ray") == bits(tmp_path / "local")

    def test_it_tells_of_texts_within_a_shard_and_goes_on_there(self, corpus, tmp_path, monkeypatch):
        from headwise.engine import ray as module

        class StoppedError(Exception):
            """As a kill of the command would."""

        heard, stop = [], [True]
        within = Progress.within

        def told(self, shard, documents, tokens, doing, earlier):
            heard.append((shard, documents))
            within(self, shard, documents, tokens, doing, earlier)
            if stop[0] and (tmp_path / "ray" / ".run" / "begun" / f"shard-{shard:05d}.json").is_file():
                raise StoppedError

        monkeypatch.setattr(module, "TOLD_SECONDS", 0.0)
        monkeypatch.setattr(module.kept, "SECONDS", 0.0)
        monkeypatch.setattr(Progress, "within", told)
        given = {"corpus": corpus, "shard_documents": 100, "batch_tokens": 1, "threads": 1, "progress": "lines"}
        run("surface", MODEL, out=tmp_path / "local", **given)
        assert len(heard) > 5
        heard.clear()
        with pytest.raises(StoppedError):
            run("surface", MODEL, out=tmp_path / "ray", engine="ray", workers=1, **given)
        begun, stop[0] = heard[-1][1], False
        assert 1 <= begun < 40
        heard.clear()
        run("surface", MODEL, out=tmp_path / "ray", engine="ray", workers=1, **given)
        assert min(documents for _, documents in heard) >= begun, "what was kept is not read again"
        assert bits(tmp_path / "ray") == bits(tmp_path / "local")

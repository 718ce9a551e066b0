"""What a slip of the pen costs: nothing. Names of files are looked at before torch is imported, and waits are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headwise.cli import main, options

RUN = """
import io, json, sys
from contextlib import redirect_stderr
from headwise.cli import main
for line in json.load(sys.stdin):
    sys.argv, said = ["headwise", *line], io.StringIO()
    try:
        with redirect_stderr(said):
            main()
    except SystemExit as end:
        print(json.dumps([end.code, "torch" in sys.modules, said.getvalue()]))
"""
NO_CORPUS = "headwise: A corpus must be a file, '-', 'sample' or hf:PATH:SPLIT; there is no nope.jsonl. Check it.\n"
SLIPS = [
    (["verdict", "demo", "--corpus", "nope.jsonl"], NO_CORPUS),
    (["report", "--corpus", "nope.jsonl"], NO_CORPUS),
    (["compare", "demo", "--corpus-b", "nope.jsonl", "--out", "out"], NO_CORPUS),
    (["run", "surface", "--corpus", "nope.jsonl", "--out", "out"], NO_CORPUS),
    (["run", "surface", "--out", "file"], "headwise: Folder file must be a folder; there is a file of that name."),
    (["inspect", "a text", "--model", "./nope"], "headwise: A model's folder must exist, but ./nope does not ("),
    (["view", "a text", "--model", "./nope"], "headwise: A model's folder must exist, but ./nope does not ("),
    (["verdict", "./nope"], "headwise: A model's folder must exist, but ./nope does not ("),
    (["doctor", "nope.gguf"], "headwise: A model's folder must exist, but nope.gguf does not ("),
    (["explain", "a text", "--model", "./file"], "headwise: A model is a folder (or a .gguf file, or a name "),
    (["reproduce", "clark2019", "--data", ".", "--model", "./nope"], "headwise: A model's folder must exist"),
    (["report", "--out", "file"], "headwise: Folder file must be a folder; there is a file of that name. Choose "),
    (["report", "--out", "file/out"], "headwise: Folder file/out must be a folder; there is a file in its way."),
    (["align", "--model", "demo-nmt", "--source", "nope", "--target", "file", "--out", "out"],
     "headwise: nope must be readable, but it is not (No such file or directory); check the name.\n"),
    (["compare", "a", "b", "--fail-if", "sink_share.mean>few", "--out", "out"],
     'headwise: sink_share.mean of --fail-if must be compared with a number, as "sink_share.mean<0.5", but'),
    (["verdict", "--fail-if", "carried<<3"], "headwise: A condition of --fail-if must be NAME OPERATOR VALUE, as "),
]  # fmt: skip


def test_a_slip_is_told_before_torch_is_imported(tmp_path: Path) -> None:
    """It took 9 to 12 seconds: the model was loaded first."""
    (tmp_path / "file").write_text("a sentence", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps([line for line, _ in SLIPS]), capture_output=True, text=True,
        cwd=tmp_path, check=True,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (line, said), (code, torch, told) in zip(SLIPS, found, strict=True):
        assert (code, torch, told[: len(said)]) == (2, False, said), line


@pytest.mark.parametrize("name", ["sample", "-", "hf:glue:test", "s3://bucket/a.txt", "x" * 5000, "a\0b"])
def test_what_is_no_plain_file_is_left_to_whoever_opens_it(name: str) -> None:
    options.check_first(corpora=[name, None])


@pytest.mark.parametrize("name", ["demo", "tiny:bert", "org/model", "x" * 5000, "org/model.v2"])
def test_what_may_be_a_name_of_the_hub_is_left_to_load(name: str) -> None:
    options.check_first(models=[name])


def test_a_result_is_as_good_as_a_model_and_a_new_folder_as_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    options.check_first(models=[str(tmp_path)], out=tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("condition", ["carried<<3", "verdict<maybe", "verdict>0.5", "carried<yes", "nothing>1"])
def test_a_condition_is_read_before_anything_is_loaded(tmp_path, monkeypatch, capsys, condition: str) -> None:
    """ "carried<<3" was found when all was run and written."""
    monkeypatch.setattr("headwise.reports.make.verdict", lambda *_, **__: pytest.fail("it was run"))
    monkeypatch.setattr(sys, "argv", ["headwise", "verdict", "--fail-if", condition, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "--fail-if" in capsys.readouterr().err


def test_what_is_told_next_ends_a_phase_and_begins_its_own(capsys, monkeypatch) -> None:
    monkeypatch.setattr(options, "LATE", 0.01)
    said, wait = "", threading.Event()

    def until(words: str) -> str:
        told = ""
        while words not in told:
            told += capsys.readouterr().err
            wait.wait(0.005)
        return told

    with options.telling("loading demo") as say:
        said = until("still loading demo, for 0 s …\n")
        say("drawing the page")
        said += until("still drawing the page, for 0 s …\n")
        say("running surface on sample")
        capsys.readouterr()
        wait.wait(0.05)
        assert "still running" not in capsys.readouterr().err, "a run tells itself how far it is"
    assert said.startswith("loading demo …\nstill loading demo, for 0 s …\n")


def test_a_phase_says_how_far_it_is_where_it_knows(capsys) -> None:
    wait, said = threading.Event(), ""
    with options.phase("asking", after=0.01, far=lambda: "7 passes so far"):
        while "asking" not in said:
            said += capsys.readouterr().err
            wait.wait(0.005)
    assert said.startswith("still asking, for 0 s, 7 passes so far …\n")


THRIFT = """
import atexit, gc, os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ["OMP_WAIT_POLICY"], gc.isenabled(), file=sys.stderr)
atexit.register(lambda: print(gc.get_freeze_count() > 100_000, gc.isenabled(), file=sys.stderr))
sys.meta_path.insert(0, Watch())
from headwise.cli import main
sys.argv = ["headwise", "inspect", "a b", "--model", "tiny:bert"]
main()
"""


@pytest.mark.parametrize("policy", [None, "ACTIVE"])
def test_a_command_does_not_spin_or_look_for_garbage_where_there_is_none(policy: str | None) -> None:
    """Of 12 processor seconds of a page of 14 tokens on a busy machine 8 were threads that waited, 1 the collector."""
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    env |= {} if policy is None else {"OMP_WAIT_POLICY": policy}
    done = subprocess.run([sys.executable, "-c", THRIFT], capture_output=True, text=True, check=True, env=env)
    assert done.stderr.split() == [policy or "PASSIVE", "False", "True", "True"]

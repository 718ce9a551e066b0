"""A trace to a file and back; files that are not whole, or not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import headwise as hw
from headwise.errors import InputError
from headwise.measures import ATTENTION, MIXING


@pytest.mark.parametrize(
    ("family", "pair"), [("bert", "it is"), ("gemma2", None), ("gpt-neox", None), ("t5", "so it is")]
)
def test_round_trip(load: Callable[..., hw.Model], tmp_path: Path, family: str, pair: str | None) -> None:
    trace = load(f"tiny:{family}").trace("The old dog sat in the sun, naïve 😀.", pair)
    path = tmp_path / "a trace.safetensors"
    assert trace.save(path) == path
    again = hw.open(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name], "nothing else is left behind"
    assert (again.text, again.target) == (trace.text, trace.target)
    assert (again.model_name, again.revision, again.proof_error) == (trace.model_name, None, trace.proof_error)
    assert again.stacks == trace.stacks
    assert set(again.hidden) == set(trace.hidden)
    for name, states in trace.hidden.items():
        assert torch.equal(again.hidden[name], states)
    for stack in trace.stacks:
        for name in ATTENTION:
            assert torch.equal(again.attention(name, stack=stack), trace.attention(name, stack=stack))
        for name in MIXING:
            blocks = ("self", "encoder") if name in ("globenc", "alti") else ("self", "encoder", "decoder")
            if (family != "gpt-neox" and stack in blocks) or name in ("raw-mean", "norm-sum"):
                assert torch.equal(again.mixing(name, stack=stack), trace.mixing(name, stack=stack))
        assert torch.equal(again.nullspace(stack=stack).rank, trace.nullspace(stack=stack).rank)
        assert torch.equal(again.words("norm", stack=stack), trace.words("norm", stack=stack))
    assert torch.equal(again.alternative_attention(0, 0).alpha, trace.alternative_attention(0, 0).alpha)


@pytest.fixture
def saved(load: Callable[..., hw.Model], tmp_path: Path) -> Path:
    return load("tiny:bert").trace("the dog").save(tmp_path / "trace")


def refused(path: Path) -> str:
    with pytest.raises(InputError) as error:
        hw.open(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated(saved: Path, share: float) -> None:
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    assert "whole" in refused(saved)


def test_foreign(tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_file({"x": torch.zeros(3)}, other)
    assert "another kind" in refused(other)
    other.write_bytes(b"\x80\x04pickle" * 1000)
    refused(other)
    other.write_text("{}")
    refused(other)


def test_missing_and_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nothing")
    refused(tmp_path)


def test_saving_over_a_file_replaces_it(load: Callable[..., hw.Model], saved: Path) -> None:
    load("tiny:bert").trace("another text").save(saved)
    assert hw.open(saved).text.words[1] == "another"


def test_saving_where_no_folder_is(load: Callable[..., hw.Model], tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load("tiny:bert").trace("the dog").save(tmp_path / "no" / "folder")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "lost", ["model_name", "text", "target", "layers", "revision", "proof_error", "text.ids", "layers.0.stack"]
)
def test_a_trace_that_lacks_a_fact_is_one_line(saved: Path, lost: str) -> None:
    with safe_open(saved, framework="pt") as file:
        metadata = file.metadata()
    facts = json.loads(metadata["facts"])
    *path, name = lost.split(".")
    within = facts
    for step in path:
        within = within[int(step) if step.isdigit() else step]
    del within[name]
    save_file(load_file(saved), saved, metadata={**metadata, "facts": json.dumps(facts)})
    assert "must be as it was saved" in refused(saved)


def test_facts_are_json_that_every_reader_takes(saved: Path) -> None:
    with safe_open(saved, framework="pt") as file:
        json.loads(file.metadata()["facts"], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_what_is_not_there_may_be_a_trace_or_a_result(tmp_path) -> None:
    with pytest.raises(InputError, match=r"^A saved trace is a file .*, a result a folder, but .*nope is neither"):
        hw.open(tmp_path / "nope")

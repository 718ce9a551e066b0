"""A shard is either as it was written or not done."""

import random

import pytest
import torch

from headwise.results import read_shard, write_shard
from headwise.results.shards import mark_file, state_file

STATE = {"a": torch.arange(6.0).double().view(2, 3), "b": torch.tensor(5)}
PLAN = "0123456789abcdef"
META = {"documents": 64, "skipped": {"empty": 1}}


def test_round_trip(tmp_path):
    write_shard(tmp_path, 3, {"a": STATE["a"].T, "b": STATE["b"]}, META, plan=PLAN)
    found = read_shard(tmp_path, 3, plan=PLAN)
    assert found is not None
    state, meta = found
    assert meta == META
    assert torch.equal(state["a"], STATE["a"].T)
    assert torch.equal(state["b"], STATE["b"])
    assert state["a"].dtype == torch.float64


def test_a_shard_that_was_never_written(tmp_path):
    assert read_shard(tmp_path, 0, plan=PLAN) is None
    assert read_shard(tmp_path / "none", 0, plan=PLAN) is None


@pytest.mark.parametrize("name", [state_file(3), mark_file(3)])
def test_every_truncation_is_detected(tmp_path, name):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    whole = (tmp_path / name).read_bytes()
    for size in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:size])
        assert read_shard(tmp_path, 3, plan=PLAN) is None, size
    (tmp_path / name).write_bytes(whole)
    assert read_shard(tmp_path, 3, plan=PLAN) is not None


@pytest.mark.parametrize("name", [state_file(3), mark_file(3)])
def test_every_flipped_byte_is_detected(tmp_path, name):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    whole = (tmp_path / name).read_bytes()
    draw = random.Random(0)
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1 << draw.randrange(8)
        (tmp_path / name).write_bytes(altered)
        assert read_shard(tmp_path, 3, plan=PLAN) is None, place


def test_a_state_without_its_mark_or_with_that_of_another_write_is_not_done(tmp_path):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    mark = (tmp_path / mark_file(3)).read_bytes()
    write_shard(tmp_path, 3, {"a": STATE["a"] + 1}, META, plan=PLAN)
    (tmp_path / mark_file(3)).write_bytes(mark)
    assert read_shard(tmp_path, 3, plan=PLAN) is None
    (tmp_path / mark_file(3)).unlink()
    assert read_shard(tmp_path, 3, plan=PLAN) is None


def test_a_shard_under_another_number_is_not_done(tmp_path):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    (tmp_path / state_file(3)).rename(tmp_path / state_file(4))
    (tmp_path / mark_file(3)).rename(tmp_path / mark_file(4))
    assert read_shard(tmp_path, 4, plan=PLAN) is None


def test_writing_leaves_two_files(tmp_path):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    assert sorted(path.name for path in tmp_path.iterdir()) == [mark_file(3), state_file(3)]


def test_a_shard_of_another_plan_is_not_done(tmp_path):
    write_shard(tmp_path, 3, STATE, META, plan="another")
    assert read_shard(tmp_path, 3, plan=PLAN) is None
    mark = tmp_path / mark_file(3)
    mark.write_text(mark.read_text().replace("another", PLAN))  # its seal is of the other plan
    assert read_shard(tmp_path, 3, plan=PLAN) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff\x00", b"[" * 100_000, b'{"sha256": 1, "plan": [], "meta": 2}']
)
def test_damaged_marks_are_not_done(tmp_path, content):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    (tmp_path / mark_file(3)).write_bytes(content)
    assert read_shard(tmp_path, 3, plan=PLAN) is None


@pytest.mark.parametrize("name", [state_file(3), mark_file(3)])
def test_a_folder_or_a_loop_of_links_in_place_of_a_file(tmp_path, name):
    write_shard(tmp_path, 3, STATE, META, plan=PLAN)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / name)
    assert read_shard(tmp_path, 3, plan=PLAN) is None
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert read_shard(tmp_path, 3, plan=PLAN) is None

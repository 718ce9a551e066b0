"""Two runs cannot hold one folder; a killed one holds nothing."""

import signal
import subprocess
import sys

import pytest

from headwise.errors import InputError
from headwise.results import claim

HOLD = """
import sys
from headwise.results import claim
with claim(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_is_refused_and_told_who_holds_the_folder(tmp_path, holder):
    with (
        pytest.raises(InputError, match=rf"one run at a time; process {holder.pid} on ") as caught,
        claim(tmp_path),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert holder.poll() is None


def test_a_killed_run_leaves_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / ".lock").exists()
    with claim(tmp_path):
        pass


def test_a_finished_run_leaves_no_file(tmp_path):
    with claim(tmp_path / "new"):
        assert (tmp_path / "new" / ".lock").exists()
    assert list((tmp_path / "new").iterdir()) == []


def test_within_one_process_too(tmp_path):
    with claim(tmp_path), pytest.raises(InputError, match="one run at a time"), claim(tmp_path):
        pass
    with claim(tmp_path):
        pass


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"), claim(tmp_path / "file"):
        pass

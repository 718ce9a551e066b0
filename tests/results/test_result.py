"""A result survives the disk, and anything less than the whole of it is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import altair as alt
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from headwise.errors import InputError, UnknownNameError
from headwise.results import files, open_result, provenance, write_result
from headwise.results.result import Result

TABLE = pl.DataFrame({"layer": [0, 1], "name": ["L0.H1", "é"], "value": [0.5, float("nan")]})
STATE = {"entropy/mean": torch.tensor([[1.5, float("inf")]], dtype=torch.float64), "n": torch.tensor(3)}


def figures() -> dict[str, dict]:
    chart = alt.Chart(alt.Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q", y="y:Q")
    return {"fig2": chart.to_dict(), "fig1": chart.to_dict()}


def write(folder: Path, **manifest) -> Result:
    return write_result(folder, {"study": "surface", **manifest}, TABLE, STATE, figures())


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_round_trip(tmp_path):
    result = open_result(write(tmp_path / "new" / "out", **provenance(seed=7)).folder)
    assert_frame_equal(result.table, TABLE)
    assert result.state.keys() == STATE.keys()
    assert all(torch.equal(result.state[name], value) for name, value in STATE.items())
    assert result.manifest["study"] == "surface"
    assert result.manifest["seed"] == 7
    assert result.figures == ("fig2", "fig1")
    assert result.spec("fig2") == figures()["fig2"]
    assert result.figure("fig1").to_dict()["mark"] == figures()["fig1"]["mark"]
    expected = {
        "manifest.json",
        "table.parquet",
        "state.safetensors",
        "figures/fig1.json",
        "figures/fig2.json",
    }
    assert set(listing(result.folder)) == expected


def test_an_unknown_figure_lists_the_known(tmp_path):
    with pytest.raises(UnknownNameError, match=r"no figure 'fig9'.*there are fig2, fig1"):
        write(tmp_path).spec("fig9")


def test_provenance_names_versions_and_time():
    facts = provenance(seed=3)
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["python"] == sys.version.split()[0]
    assert facts["time"].endswith("+00:00")
    assert facts["seed"] == 3
    json.dumps(facts)


@pytest.mark.parametrize("name", ["table.parquet", "state.safetensors", "figures/fig1.json"])
@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_an_altered_file_is_named(tmp_path, name, harm):
    write(tmp_path)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(content if harm == "flip" else content[:-1])
    with pytest.raises(InputError, match=name) as caught:
        open_result(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "must be a folder with a manifest"),
        (b"{", "must be as it was written"),
        (b'{"format": 2}', "must be of format 1"),
    ],
)
def test_a_folder_without_a_good_manifest_is_no_result(tmp_path, content, message):
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_result(tmp_path)


def test_a_missing_folder_is_no_result(tmp_path):
    with pytest.raises(InputError, match="must be a folder"):
        open_result(tmp_path / "none")


def test_writing_again_leaves_no_old_figure(tmp_path):
    write(tmp_path)
    write_result(tmp_path, {"study": "surface"}, TABLE, STATE, {"fig3": figures()["fig1"]})
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["fig3.json"]


@pytest.mark.parametrize("failing", range(5))
def test_a_full_disk_changes_nothing(tmp_path, monkeypatch, failing):
    """Whichever file meets it: an earlier result stays as it was, and nothing half-written stays behind."""
    write(tmp_path, run=1)
    before = listing(tmp_path)
    calls = iter(range(99))

    def full(_handle: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match="must have room; its disk is full") as caught:
        write(tmp_path, run=2)
    assert "\n" not in str(caught.value)
    assert listing(tmp_path) == before


def test_a_disk_that_is_really_full(tmp_path):
    """/dev/full answers every write with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with pytest.raises(InputError, match="full"), files.writing_to(tmp_path), open("/dev/full", "wb") as file:
        file.write(b"x" * 100_000)


def test_an_unwritable_folder_is_an_error_in_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="must be a folder") as caught:
            write(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the mapping itself is tested below")
def test_a_read_only_folder_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="must be writable"):
        write(tmp_path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO])
def test_every_refusal_becomes_an_input_error(tmp_path, code):
    with pytest.raises(InputError, match="must be writable"), files.writing_to(tmp_path):
        raise OSError(code, os.strerror(code))


def test_a_run_killed_before_its_manifest_left_no_result(tmp_path):
    program = f"""
import os, signal, headwise.results.result as r, headwise.results.files as f, polars as pl
replace = os.replace
def kill(source, target):
    if str(target).endswith("manifest.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
f.os.replace = kill
r.write_result({str(tmp_path)!r}, {{}}, pl.DataFrame({{"a": [1]}}), {{}}, {{}})
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == -9
    assert (tmp_path / "table.parquet").exists()
    with pytest.raises(InputError, match="was not finished; the same command again goes on"):
        open_result(tmp_path)


def test_a_missing_folder_is_said_to_be_missing_with_the_results_nearby(tmp_path):
    make = "`headwise run` and `headwise report` make results"
    with pytest.raises(InputError) as empty:
        open_result(tmp_path / "nix")
    assert (
        str(empty.value) == f"A result must be a folder with a manifest.json, but there is no {tmp_path}/nix; {make}."
    )
    write(tmp_path / "out" / "results" / "surface")
    with pytest.raises(InputError, match=f"there is no {tmp_path}/nix; nearby is {tmp_path}/out/results/surface."):
        open_result(tmp_path / "nix")
    with pytest.raises(InputError, match=f"but {tmp_path}/out has none; nearby is {tmp_path}/out/results/surface."):
        open_result(tmp_path / "out")
    with pytest.raises(InputError, match=f"nearby is {tmp_path}/out/results/surface."):  # a run of one study
        open_result(tmp_path / "out" / "results" / "surface" / "surface")
    for number in range(4):
        write(tmp_path / f"more{number}")
    with pytest.raises(InputError, match=r"nearby are .* and 1 more"):
        open_result(tmp_path / "nix")


def test_nan_cannot_reach_a_manifest(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write(tmp_path, error=float("nan"))
    assert listing(tmp_path) == {}


def test_a_notebook_shows_a_line_and_the_head_of_the_table(tmp_path):
    facts = {"model": {"name": "<b>m</b>"}, "plan": {"corpus": {"name": "c.txt"}}, "documents": 1200}
    table = pl.DataFrame({"<i>": [f"row {n} <u>" for n in range(7)], "x": [0.123456, *[float("nan")] * 6]})
    result = write_result(tmp_path / "out", {"study": "surface", **facts}, table, STATE, figures())
    line = f"surface of <b>m</b> on c.txt, 1,200 texts, 7 rows, figures fig2, fig1, in {tmp_path / 'out'}"
    assert repr(result) == f"<headwise.Result {line}: .table, .figure(name)>"
    html = result._repr_html_()
    assert html.startswith("<p>surface of &lt;b&gt;m&lt;/b&gt; on c.txt, 1,200 texts")
    assert "<th>&lt;i&gt;</th><th>x</th></tr><tr><td>row 0 &lt;u&gt;</td><td>0.1235</td></tr>" in html
    assert (html.count("<tr>"), "<td>–</td>" in html) == (6, True)
    assert html.endswith("<p>… 7 rows in all: .table</p>")


def test_what_was_altered_is_still_told(tmp_path):
    folder = write(tmp_path / "out").folder
    result = open_result(folder)
    (folder / "table.parquet").write_bytes(b"")
    assert repr(result).startswith(
        "<headwise.Result surface of None on None, a table that cannot be read, figures fig2"
    )
    assert "open it again" in result._repr_html_()

"""A result that is opened while another is being written into its folder: the old one, the new one, or one line."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
import torch

from headwise.errors import InputError
from headwise.results import Result, open_result, write_result
from headwise.results import files as module


def written(folder: Path, number: int) -> Result:
    table, state = pl.DataFrame({"x": [number] * 3}), {"x": torch.full((3,), number)}
    return write_result(folder, {"study": "s", "number": number}, table, state, {"f": {"number": number}})


def test_at_every_step_of_writing_what_is_read_belongs_together(tmp_path: Path, monkeypatch) -> None:
    seen: list[int | str] = []
    plain = os.replace

    def look() -> None:
        try:
            result = open_result(tmp_path)
            assert result.table["x"].to_list() == [result.manifest["number"]] * 3
            assert result.state["x"].tolist() == [result.manifest["number"]] * 3
            seen.append(result.manifest["number"])
        except InputError as error:
            seen.append("a line" if "\n" not in str(error) else str(error))

    def replace(old: Path, new: Path) -> None:
        look()
        plain(old, new)

    monkeypatch.setattr(module.os, "replace", replace)
    for number in (1, 2):
        written(tmp_path, number)
        look()
    assert seen == ["a line"] * 4 + [1] + [1] + ["a line"] * 3 + [2]


def test_a_result_that_is_written_anew_after_it_was_opened_is_not_mixed(tmp_path: Path) -> None:
    first = written(tmp_path, 1)
    written(tmp_path, 2)
    for ask in (lambda: first.table, lambda: first.state, lambda: first.spec("f")):
        with pytest.raises(InputError, match="was written anew after the result was opened; open it again"):
            ask()


def test_a_result_that_is_removed_after_it_was_opened_is_one_line(tmp_path: Path) -> None:
    first = written(tmp_path, 1)
    (tmp_path / "table.parquet").unlink()
    with pytest.raises(InputError, match=r"table.parquet must be there; got: No such file or directory. Open it again"):
        first.table  # noqa: B018 - reading is the test

"""Links as words."""

import os
import threading
from pathlib import Path

from headwise.cli.align import align, linked
from headwise.text.alignments import Pair


def test_links_are_printed_as_words_in_the_order_of_the_source() -> None:
    pair = Pair("Der Hund bellt .", "The dog barks .")
    assert linked(pair, {(1, 1), (0, 0), (2, 2)}) == "Der–The  Hund–dog  bellt–barks"
    assert linked(pair, set()) == "(no links)"


def test_pipes_are_read_once(tmp_path: Path, capsys) -> None:
    """`align --source <(…) --target <(…)` read both again when it printed, and found them empty."""
    said = {"source": "the dog barks\nthe  cat\n", "target": "der Hund bellt\ndie Katze\n"}
    for name, text in said.items():
        os.mkfifo(tmp_path / name)
        threading.Thread(target=(tmp_path / name).write_text, args=(text, "utf-8"), daemon=True).start()
    align(source=tmp_path / "source", target=tmp_path / "target", model="tiny:marian", out=tmp_path / "out")
    assert capsys.readouterr().out.startswith("2 pairs, tiny:marian")

"""Links as words."""

from headwise.cli.align import linked
from headwise.text.alignments import Pair


def test_links_are_printed_as_words_in_the_order_of_the_source() -> None:
    pair = Pair("Der Hund bellt .", "The dog barks .")
    assert linked(pair, {(1, 1), (0, 0), (2, 2)}) == "Der–The  Hund–dog  bellt–barks"
    assert linked(pair, set()) == "(no links)"

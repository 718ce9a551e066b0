"""How far a run is: texts inside a shard, who is at work, how long it will take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import headwise as hw
from headwise.engine import progress as progress_
from headwise.engine.fold import EVERY, Folded, Step, steps
from headwise.engine.forecast import SPECIAL, Forecast, Pass, of_texts
from headwise.engine.plan import Plan
from headwise.engine.progress import SECONDS, Lines, Progress, pace
from headwise.studies import STUDIES
from headwise.text.corpus import Document, Shard, open_corpus


class Bar:
    """What a bar is told."""

    def __init__(self) -> None:
        self.tasks, self.told = [SimpleNamespace(elapsed=2.0)], []

    def update(self, _task: object, **fields: object) -> None:
        self.told.append(fields)


def test_texts_are_counted_inside_a_shard_and_finished_ones_once() -> None:
    bar = Bar()
    progress = Progress(bar, None, wide=9)
    progress.skip(0, 64)  # done before
    progress.start(1, 64)
    progress.start(2, 10)
    progress.within(1, 8, 100, "reading")
    progress.within(2, 3, 60, "mixing")
    progress.finish(1, 700)
    progress.finish(2, 90)
    assert [one["completed"] for one in bar.told] == [64, 72, 75, 131, 138]
    assert [one.get("description") for one in bar.told] == [None, "reading  ", "mixing   ", None, None]
    assert bar.told[-1]["rate"].split() == ["395", "tokens/s"]
    assert len({len(one["rate"]) for one in bar.told}) == 1, "the bar keeps its width"


def test_a_log_gets_a_line_now_and_then_and_the_last_one_always() -> None:
    now, said = [100.0], []
    shards = Forecast([0.0, 640.0, 100.0], [0, 64, 10], {}, after=2.0)
    progress = Progress(Lines(74, said.append, clock=lambda: now[0]), None, forecast=shards)
    progress.start(1, 64)
    progress.start(2, 10)
    for later, done in (
        (SECONDS, 0),
        (2 * SECONDS - 1, 8),
        (2 * SECONDS, 16),
        (2 * SECONDS + 1, 20),
        (3 * SECONDS, 32),
    ):
        now[0] = 100 + later
        progress.within(1, done, 10 * done, "reading" if done else "mixing")
    progress.finish(1, 640)
    now[0] += 1
    progress.finish(2, 100)
    assert said == [
        "0 of 74 texts, about 12 minutes left, at mixing",  # 740 − 10 + 2 s
        "16 of 74 texts, 8 tokens/s, about 74 s left",  # 20 s for 160 of 740 foretold, and 2
        "32 of 74 texts, 11 tokens/s, about 41 s left",
        "74 of 74 texts, 24 tokens/s",
    ]


def test_what_was_done_before_is_not_taken_for_speed() -> None:
    """With 9 of 24 texts done before, 74 s were told to be left of half an hour."""
    now, said = [0.0], []
    shards = Forecast([90.0, 150.0], [9, 15], {})
    progress = Progress(Lines(24, said.append, clock=lambda: now[0]), None, forecast=shards)
    now[0] = SECONDS
    progress.skip(0, 9)
    progress.start(1, 15)
    now[0] = 100.0
    progress.within(1, 1, 5, EVERY)
    assert said == ["9 of 24 texts, about 2 minutes left", "10 of 24 texts, about 23 minutes left"]


def test_left_is_by_the_speed_of_this_run_also_within_a_shard_that_was_begun_before() -> None:
    """After a kill at 32 of 60 texts: "about 9 s left", then 18, 27, 35, … and "about 2 minutes left"."""
    now, said = [0.0], []
    progress = Progress(Lines(60, said.append, clock=lambda: now[0]), None, forecast=Forecast([240.0], [60], {}))
    progress.start(0, 60)
    for text in range(32, 60):
        progress.within(0, text, 640, "mixing", (32, 640))
        for _ in range(3):  # seconds, foretold with 4
            now[0] += 1.0
            progress.tick()
    progress.finish(0, 1200)
    assert said == [
        *(f"{text} of 60 texts, about {left} s left, at mixing"
          for text, left in ((35, 74), (38, 64), (41, 54), (45, 44), (48, 34), (51, 24), (55, 14), (58, 4))),
        "60 of 60 texts, 7 tokens/s",
    ]  # fmt: skip


def test_what_is_left_does_not_rise_while_a_text_is_at_work() -> None:
    now, said = [0.0], []
    progress = Progress(Lines(10, said.append, clock=lambda: now[0]), None, forecast=Forecast([200.0], [10], {}))
    progress.start(0, 10)
    now[0] = 10.0
    progress.within(0, 1, 20, "mixing")
    for now[0] in (20.0, 30.0, 101.0):
        progress.tick()
    assert said == [
        "1 of 10 texts, 2 tokens/s, about 90 s left, at mixing",
        "1 of 10 texts, 1 tokens/s, about 80 s left, at mixing for 10 s",
        "1 of 10 texts, about 70 s left, at mixing for 20 s",
        "1 of 10 texts, at mixing for 91 s",
    ]


def test_the_shortest_texts_of_a_shard_come_first_and_are_foretold_so() -> None:
    """One text of a shard is as long as all the others together: it is read last."""
    now, said = [0.0], []
    found = of_texts([30.0, 10.0, 10.0, 10.0], [], 24, Pass(1.0, 10 + SPECIAL, 1.0), parts=0, shard=4)
    progress = Progress(Lines(4, said.append, clock=lambda: now[0]), None, forecast=found)
    progress.start(0, 4)
    now[0] = SECONDS
    progress.within(0, 3, 30, EVERY)
    assert said == ["3 of 4 texts, 3 tokens/s, about 7 s left"]  # 10 s for 3 · 18 of 92 foretold; by their number: 3 s


def test_texts_that_few_studies_ask_count_little() -> None:
    """After the first of 8 texts, which all studies asked, an hour was told to be left of ten minutes."""
    now, said = [0.0], []
    shards = Forecast([60.0, 6.0, 6.0, 6.0], [1, 1, 1, 1], {})
    progress = Progress(Lines(4, said.append, clock=lambda: now[0]), None, forecast=shards)
    progress.start(0, 1)
    now[0] = 120.0
    progress.finish(0, 20)
    assert said == ["1 of 4 texts, about 36 s left"]  # naively: 6 minutes


def test_who_is_at_work_is_told_though_no_text_is_done() -> None:
    now, said = [0.0], []
    progress = Progress(Lines(2, said.append, clock=lambda: now[0]), None)
    for doing in ("ablation", "mixing"):
        now[0] += SECONDS
        progress.within(0, 0, 0, doing)
    assert said == ["0 of 2 texts, at ablation", "0 of 2 texts, at mixing"]


def test_a_study_that_works_on_one_batch_for_minutes_is_told_every_ten_seconds() -> None:
    """Between "reading 40 texts" and "40 of 40 texts" nothing was told for 164 s."""
    now, said = [0.0], []
    forecast = Forecast([80.0], [40], {})
    progress = Progress(Lines(40, said.append, clock=lambda: now[0]), None, forecast=forecast)
    progress.start(0, 40)
    now[0] = 1.0
    progress.within(0, 0, 0, "faithfulness")
    for now[0] in range(2, 26):
        progress.tick()
    assert said == [
        "0 of 40 texts, about 70 s left, at faithfulness",
        "0 of 40 texts, about 60 s left, at faithfulness for 19 s",
    ]
    progress.finish(0, 400)
    now[0] = 50.0
    progress.tick()
    assert said[2:] == ["40 of 40 texts, 16 tokens/s"]


def test_it_ticks_while_it_is_watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress_, "TICK", 0.001)
    monkeypatch.setattr(progress_, "SECONDS", 0.0)
    said = ""
    with progress_.watched(Plan({"surface": {}}, {}, open_corpus("sample")), shown="lines"):
        while " texts\n" not in said:
            said += capsys.readouterr().err
    assert f"headwise: 0 of {sum(1 for _ in open_corpus('sample').documents())} texts\n" in said


@pytest.mark.parametrize(("studies", "paced"), [(("surface",), True), (("surface", "mixing"), False)])
def test_tokens_a_second_are_told_where_one_pass_is_all(capsys, studies: tuple[str, ...], paced: bool) -> None:
    """ "2 tokens/s, about 12 s left" of 1,000 tokens: the rate was that of the passes of a study's own."""
    plan = Plan({name: {} for name in studies}, {}, open_corpus("sample", first=2))
    with progress_.watched(plan, shown="lines") as progress:
        progress.start(0, 2)
        progress.finish(0, 10**9)
    assert ("tokens/s" in capsys.readouterr().err) is paced


@pytest.mark.parametrize(
    ("tokens", "seconds", "said"),
    [(2, 1, "2 tokens/s"), (99, 100, ""), (0, 5, "")],
)
def test_a_slow_run_is_not_told_to_read_nothing_a_second(tokens: int, seconds: float, said: str) -> None:
    assert pace(tokens, seconds) == said


@pytest.mark.parametrize(
    ("texts", "said"), [(1, "surface, mixing (the first 1 of them)"), (2, "surface, mixing"), (0, "surface, mixing")]
)
def test_a_study_that_asks_only_the_first_texts_says_so_as_they_are_read(capsys, texts: int, said: str) -> None:
    plan = Plan({"surface": {}, "mixing": {"texts": texts}}, {}, open_corpus("sample", first=2))
    with progress_.watched(plan, shown="lines"):
        pass
    assert f"reading 2 texts of sample for {said}\n" in capsys.readouterr().err


def test_a_run_in_a_log_says_what_it_reads_and_how_far_it_is(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    corpus, model = tmp_path / "c.txt", hw.load("tiny:bert")
    corpus.write_text("the old city\n\nit was big", "utf-8")
    hw.run("surface", model, corpus=corpus, out=tmp_path / "out", progress="lines", figures=False)
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"headwise: reading 2 texts of {corpus} for surface"
    assert last.startswith("headwise: 2 of 2 texts, ")
    hw.run("surface", model, corpus=corpus, out=tmp_path / "other", figures=False)
    assert capsys.readouterr().err == "", "in Python only where it is asked for"


def test_a_shard_tells_after_every_batch_and_before_every_study_that_asks(load) -> None:
    texts = ["the sea", "the old dog", "", "and the cat of the city"]
    documents = tuple(Document(number, text) for number, text in enumerate(texts))
    plan = Plan({}, {}, open_corpus("sample"), batch_tokens=1)
    studies = [STUDIES[name]() for name in ("surface", "mixing")]
    *walked, last = steps(load("tiny:bert"), studies, Shard(0, documents), plan)
    assert isinstance(last, Folded)
    told = [(step.documents, step.tokens, step.doing) for step in walked if isinstance(step, Step)]
    assert [documents for documents, _, doing in told if doing == "mixing"] == [1, 2, 3]
    after = [(documents, doing) for documents, _, doing in told]
    assert after[:3] == [(1, EVERY), (1, "mixing"), (2, EVERY)], "the empty text is counted as read"
    assert told[-1][0] == len(texts)
    assert told[-1][1] == sum(len(load("tiny:bert").encode(text)) for text in texts if text)


def test_a_study_that_asks_one_text_at_a_time_is_told_of_each_text_of_a_batch(load) -> None:
    """The bar of 60 texts showed only 0, 32 and 60."""
    documents = tuple(Document(number, text) for number, text in enumerate(["the sea", "the dog", "a city"]))
    plan = Plan({}, {}, open_corpus("sample"))
    studies = [STUDIES[name]() for name in ("mixing", "faithfulness", "surface")]
    *walked, _ = steps(load("tiny:bert", task="classification"), studies, Shard(0, documents), plan)
    told = [(step.documents, step.doing) for step in walked if isinstance(step, Step)]
    assert told == [(0, EVERY), (0, "faithfulness"), (0, "mixing"), (1, "mixing"), (2, "mixing"), (3, EVERY)]


def test_a_resumed_shard_says_what_was_done_before(load) -> None:
    documents = tuple(Document(number, text) for number, text in enumerate(["the sea", "the old dog", "and the city"]))
    plan, studies = Plan({}, {}, open_corpus("sample"), batch_tokens=1), [STUDIES["surface"]()]
    given = load("tiny:bert"), studies, Shard(0, documents), plan
    begun = next(step.begun for step in steps(*given) if isinstance(step, Step) and step.documents == 2 and step.begun)
    *walked, _ = steps(*given, begun=begun)
    told = [(step.documents, step.tokens, step.earlier) for step in walked if isinstance(step, Step)]
    tokens = [len(load("tiny:bert").encode(document.text)) for document in documents]
    before = (2, sum(sorted(tokens)[:2]))
    assert told == [(*before, before), (*before, before), (3, sum(tokens), before)]


def test_a_run_says_so_before_it_starts(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    corpus = tmp_path / "c.tsv"
    corpus.write_text("text\tlabel\nthe old city was big\t1\nit was not\t0\n", "utf-8")
    hw.run(
        "faithfulness", hw.load("tiny:bert", task="classification"), corpus=corpus, label="label", out=tmp_path / "out",
        settings={"faithfulness": {"methods": ("random",), "fractions": (0.5,)}}, progress=True, figures=False,
    )  # fmt: skip
    said = capsys.readouterr().err
    assert said.startswith("headwise: 2 texts will take less than 15 s, faithfulness ")
    assert "for less" not in said

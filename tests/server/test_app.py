"""Every address: what it answers, and what it refuses to whom."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest
import torch

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from headwise.plots.paper import broken
from headwise.results import write_result
from headwise.server import answer, guard, stored
from headwise.server import app as module
from headwise.server.app import application
from headwise.server.stored import (
    EASY,
    NARROWEST,
    READABLE,
    MissingError,
    below,
    read_first,
    served,
    telling_first,
    width_of,
)
from headwise.viewer.of_trace import page_of_trace
from headwise.viewer.payload import packed
from references.patience import patience

PORT, HERE = 8123, "http://127.0.0.1:8123"
TEXT = "the river of the city was in the north and it was old"
CHART = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "bar", "data": {"values": [{"a": 1}]},
         "encoding": {"x": {"field": "a", "type": "quantitative"}}}  # fmt: skip


def write(folder: Path, figures: dict) -> None:
    manifest = {"study": "<b>surface</b>", "model": {"name": "demo"}, "plan": {"corpus": {"name": "sample"}},
                "documents": 2, "tokens": 30, "skipped": {}, "time": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    table = pl.DataFrame({"name": ["L0.H0", "L0.H1"], "entropy": [1.5, float("nan")], "many": [[1, 2], [3]]})
    write_result(folder, manifest, table, {"x": torch.zeros(1)}, figures)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    top = tmp_path_factory.mktemp("serve")
    (top / "secret.html").write_text("secret")
    out = top / "out"
    write(out / "deep" / "surface", {"fig2": CHART, "leak": {**CHART, "data": {"url": "file:///etc/passwd"}}})
    write(top / "elsewhere", {"fig2": CHART})
    (out / "report.html").write_text("<script>1</script>a report")
    (out / ".hidden.html").write_text("hidden")
    (out / "notes.txt").write_text("notes")
    (out / "link.html").symlink_to(top / "secret.html")
    (out / "up").symlink_to(top)
    (out / "near").symlink_to(out / "deep")
    write(out / "lent", {"fig2": CHART})
    (out / "lent" / "table.parquet").unlink()
    (out / "lent" / "table.parquet").symlink_to(top / "elsewhere" / "table.parquet")
    return out


@pytest.fixture(scope="module")
def client(load, root) -> Iterator[TestClient]:
    models = {"tiny:bert": load("tiny:bert"), "tiny:t5": load("tiny:t5")}
    app = application(models, port=PORT, results=root, max_tokens=32, max_jobs=2)
    with TestClient(app, base_url=HERE) as client:
        yield client


def finished(client: TestClient, **question: object) -> dict:
    job = client.post("/api/jobs", json=question)
    assert job.status_code == 202, job.text
    return waited(client, job.json()["id"])


def waited(client: TestClient, number: str) -> dict:
    deadline = time.monotonic() + patience()
    while (told := client.get(f"/api/jobs/{number}").json())["state"] in ("waiting", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return told


def refused(response, status: int) -> str:
    """The one sentence of a refusal."""
    assert response.status_code == status, response.text
    told = response.json()
    assert set(told) == {"error"}
    assert "\n" not in told["error"]
    assert "Traceback" not in told["error"]
    return told["error"]


def header_of(page: str) -> dict:
    found = re.search(r'id="header">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_a_text_becomes_a_page_of_the_viewer(client):
    told = finished(client, text=TEXT)
    assert told["state"] == "done"
    page = client.get(f"/api/jobs/{told['id']}/page")
    header = header_of(page.text)
    assert header["model"] == "tiny-bert" or "bert" in header["model"]
    assert [q["name"] for q in header["stacks"][0]["quantities"]][:4] == ["raw", "effective", "null", "norm"]
    policy = page.headers["content-security-policy"]
    assert "sandbox allow-scripts allow-downloads" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy


def test_a_pair_a_model_and_a_quantity_can_be_chosen(client):
    told = finished(client, text="the city", pair="the river", model="tiny:t5", quantity="value-zeroing")
    header = header_of(client.get(f"/api/jobs/{told['id']}/page").text)
    assert [stack["name"] for stack in header["stacks"]] == ["encoder", "decoder", "cross"]
    assert [q["name"] for q in header["stacks"][0]["quantities"]] == ["raw", "value-zeroing"]


def test_markup_in_a_text_stays_text(client):
    told = finished(client, text="</script><script>alert")
    assert told["state"] == "done", told
    page = client.get(f"/api/jobs/{told['id']}/page").text
    assert "<script>alert" not in page
    assert "&lt;/script&gt;&lt;script&gt;alert" in page.replace(" ", "")  # in its title


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({}, 400),
        ({"text": "   "}, 400),
        ({"text": 3}, 400),
        ({"text": ["a"]}, 400),
        ({"text": "a", "pair": {}}, 400),
        ({"text": "a", "model": "/etc"}, 400),
        ({"text": "a", "model": "../../tmp"}, 400),
        ({"text": "a", "model": ["tiny:bert"]}, 400),
        ({"text": "a", "model": None}, 400),
        ({"text": "a", "quantity": "nonsense"}, 400),
        ({"text": "a", "quantity": 7}, 400),
        ({"text": "a", "extra": 1}, 400),
        ([], 400),
        ({"text": "a" * (answer.MOST_CHARACTERS + 1)}, 413),
        ({"text": "a", "pair": "a" * answer.MOST_CHARACTERS}, 413),
    ],
)
def test_a_question_that_is_not_as_it_must_be_is_refused(client, question, status):
    refused(client.post("/api/jobs", json=question), status)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"\xff\xfe", b"[" * 50_000, b'{"text": NaN', b'{"text": "\\ud800"}']
)
def test_a_malformed_body_is_refused(client, body):
    refused(client.post("/api/jobs", content=body, headers={"content-type": "application/json"}), 400)


def test_a_form_of_another_site_cannot_ask(client):
    """A plain form, which needs no permission, cannot send this content type."""
    body = json.dumps({"text": "a"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        refused(client.post("/api/jobs", content=body, headers={"content-type": kind}), 415)


def test_a_large_body_is_refused_whether_or_not_it_says_so(client):
    size = guard.MOST_BYTES + 1
    assert "bytes" in refused(client.post("/api/jobs", json={"text": "a" * size}), 413)

    def parts() -> Iterator[bytes]:
        for _ in range(size // 1000 + 1):
            yield b"a" * 1000

    refused(client.post("/api/jobs", content=parts(), headers={"content-type": "application/json"}), 413)


def test_what_was_asked_for_and_is_not_there_is_named(client):
    assert "tiny:t5, but '/etc' was asked for" in refused(
        client.post("/api/jobs", json={"text": "a", "model": "/etc"}), 400
    )
    asked = {"text": "a", "quantity": "x" * 500}
    assert f"but '{'x' * 78}… was asked for" in refused(client.post("/api/jobs", json=asked), 400)
    assert "but 'all' was asked for" in refused(client.post("/api/jobs", json={"text": "a", "show": "all"}), 400)


def test_a_text_of_too_many_tokens_fails_with_the_reason(client):
    told = finished(client, text=" ".join(["city"] * 40))
    assert told["state"] == "failed"
    assert told["error"].startswith("A text may have 32 tokens here, but this has ")
    assert told["error"].endswith("; send a shorter one (start the server with a larger --max-tokens).")
    assert "32" in finished(client, text="a", pair=" ".join(["city"] * 40), model="tiny:t5")["error"]
    refused(client.get(f"/api/jobs/{told['id']}/page"), 409)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "127.0.0.1:8123.evil.example", "[::1]", "",
     "127.0.0.2:8123", "localhost:8123@evil.example", "0.0.0.0:8123"],
)  # fmt: skip
def test_another_host_is_refused(client, host):
    for path in ("/", "/api/about", "/files/report.html"):
        assert HERE in refused(client.get(path, headers={"host": host}), 403)


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123", "[::1]:8123"])
def test_its_own_names_are_answered(client, host):
    assert client.get("/api/about", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8123", "http://127.0.0.1"]
)
def test_another_origin_is_refused(client, origin):
    headers = {"origin": origin}
    refused(client.post("/api/jobs", json={"text": "a"}, headers=headers), 403)
    refused(client.get("/api/stored", headers=headers), 403)
    refused(client.delete("/api/jobs/x", headers=headers), 403)


def test_every_answer_carries_the_policy(client):
    for response in (client.get("/"), client.get("/nowhere"), client.get("/api/about"), client.put("/api/jobs"),
                     client.get("/", headers={"host": "x"})):  # fmt: skip
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in response.headers


def test_unknown_addresses_methods_and_jobs_are_told_in_a_sentence(client):
    refused(client.get("/nowhere"), 404)
    refused(client.get("/static/../app.py"), 404)
    refused(client.get("/static/viewer.js"), 404)
    refused(client.put("/api/jobs"), 405)
    refused(client.get("/api/jobs/nothing"), 404)
    refused(client.delete("/api/jobs/nothing"), 404)


def test_the_list_has_results_and_reports_but_nothing_hidden_or_linked(client):
    told = client.get("/api/stored").json()
    assert [each["at"] for each in told["results"]] == ["deep/surface"]  # a file of "lent" leads out
    assert told["results"][0]["study"] == "<b>surface</b>"
    assert [each["at"] for each in told["reports"]] == ["report.html"]


def test_a_result_is_shown_with_table_and_figures(client):
    at = {"at": "deep/surface"}
    told = client.get("/api/result", params=at).json()
    assert told["columns"] == ["name", "entropy", "many"]
    assert told["rows"] == [["L0.H0", 1.5, "[1, 2]"], ["L0.H1", None, "[3]"]] or told["rows"][1][1] is None
    assert told["figures"] == ["fig2", "leak"]
    table = client.get("/api/table", params=at)
    assert table.headers["content-disposition"].startswith("attachment")
    assert pl.read_csv(table.content)["name"].to_list() == ["L0.H0", "L0.H1"]
    figure = client.get("/api/figure", params={**at, "name": "fig2"})
    assert figure.headers["content-type"] == "image/svg+xml"
    assert figure.text.startswith("<svg")
    refused(client.get("/api/figure", params={**at, "name": "../../x"}), 404)


def test_a_panel_below_another_has_the_labels_that_it_had_left_to_the_one_beside_it() -> None:
    """Of three panels of bars below each other two had no names."""
    axis = {"encoding": {"y": {"axis": {"labels": False, "ticks": False, "title": None}}}}
    assert below({"hconcat": [axis]}) == {"vconcat": [{"encoding": {"y": {"axis": {"title": None}}}}]}


def test_panels_stand_below_each_other_where_they_would_be_too_small(client, root):
    panel = {**CHART, "width": 300}
    wide = {"hconcat": [{key: panel[key] for key in panel if key != "$schema"}] * 3, "$schema": CHART["$schema"],
            "title": {"text": "A title that is longer than a phone is wide, by far"}}  # fmt: skip
    write(root / "wide", {"fig2": wide})
    widths = {}
    for room in ("", "360", "700", "900", "<b>"):
        drawn = client.get("/api/figure", params={"at": "wide", "name": "fig2", "room": room})
        widths[room] = width_of(drawn.text)
    assert widths["360"] <= 360 < widths["700"] < 700, "two in a row"
    assert widths["700"] == pytest.approx(widths[""] * 2 / 3, rel=0.05)
    assert widths["900"] == widths["<b>"] == widths[""] > 900, "small by a sixth at most"


def test_what_is_readable_is_one_number_here_and_in_a_report():
    script = (Path(stored.__file__).parent.parent / "reports" / "static" / "report.js").read_text()
    assert f"const READABLE = {READABLE};" in script
    assert f"const EASY = {EASY};" in script
    assert f"const NARROWEST = {NARROWEST:g};" in script
    assert "broken(title.text, room / 9.5)" in script
    assert broken(["one two", "three four"], 12) == ["one two", "three four"]


def test_columns_stand_in_the_order_in_which_they_are_read():
    table = pl.DataFrame({"stack": ["self"], "layer": [0], "name": ["L0.H0"], "value": [1.0], "text": ["so " * 20]})
    assert read_first(table).columns == ["name", "text", "stack", "layer", "value"]
    assert read_first(table.drop("text")).columns == ["stack", "layer", "name", "value"]


def test_of_a_wide_table_the_telling_columns_stand_first_and_the_others_are_there():
    """Of `lamps` the answers stood behind twenty columns of numbers."""
    numbers = {f"n{at}": [0.1 * at, 0.2] for at in range(8)}
    table = pl.DataFrame(
        {"stack": ["self"] * 2, "layer": [0, 1], "head": [0, 0], "name": ["L0.H0", "L1.H0"], "texts": [9, 9],
         "null_share": [0.1, 0.2], "null_share_low": [0.0, 0.1], "null_share_high": [0.3, 0.4], **numbers,
         "empty": [None, None], "sink": [True, False], "lamp_unique": ["red", "green"], "show": ["no", "yes"]}
    )  # fmt: skip
    found, few = telling_first(table)
    last = ["stack", "layer", "head", "null_share_low", "null_share_high", "empty"]
    telling = ["name", "texts", "show", "lamp_unique", "null_share", "sink"]
    assert found.columns == [*telling, *numbers, *last]
    assert few == 12
    assert set(found.columns) == set(table.columns)
    two = telling_first(table.with_columns(stack=pl.Series(["encoder", "decoder"])))[0]
    assert two.columns[:3] == ["stack", "name", "texts"], "a name does not tell the stack where there are several"
    small = table.select("stack", "name", "n1")
    assert telling_first(small)[0].columns == small.columns
    assert telling_first(small)[1] == 3


FOUND = pl.DataFrame(
    [(stack, name, what, place, value, "a text") for stack in ("self", "cross") for name in ("L0.H0", "L0.H1")
     for what, values in (("next", (0.5, 0.4)), ("sharp", (0.1, 0.2)))
     for place, value in enumerate(values, 1)],
    schema=["stack", "name", "pattern", "place", "value", "text"], orient="row",
)  # fmt: skip


def test_the_texts_of_one_head_are_in_each_pattern_the_strongest_first():
    heads = stored.heads_of(FOUND)
    assert heads == ["self L0.H0", "self L0.H1", "cross L0.H0", "cross L0.H1"]
    assert stored.heads_of(FOUND.filter(stack="self")) == ["L0.H0", "L0.H1"]
    assert stored.heads_of(FOUND.drop("pattern")) == []
    for asked, told in (("L0.H1", "self L0.H1"), ("cross L0.H1", "cross L0.H1")):
        head, rows = stored.texts_of(FOUND.reverse(), heads, asked)
        assert head == told
        assert set(rows["stack"]) == {told.split()[0]}
        assert set(rows["name"]) == {"L0.H1"}
        assert rows.filter(pattern="next")["value"].to_list() == [0.5, 0.4]
        assert rows.filter(pattern="sharp")["value"].to_list() == [0.1, 0.2], "the least entropy is the sharpest"
    assert len(stored.texts_of(FOUND, heads, "")[1]) == len(FOUND)
    with pytest.raises(stored.MissingError, match="no head of that name"):
        stored.texts_of(FOUND, heads, "H1")


def test_a_figure_that_points_elsewhere_is_not_drawn(client):
    assert "address" in refused(client.get("/api/figure", params={"at": "deep/surface", "name": "leak"}), 400)


def test_a_report_is_served_apart(client):
    response = client.get("/files/report.html")
    assert "a report" in response.text
    policy = response.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy


OUTSIDE = [
    "../secret.html", "..%2fsecret.html", "%2e%2e/secret.html", "%2e%2e%2fsecret.html", "..%5csecret.html",
    "deep/../../secret.html", "deep%2f..%2f..%2fsecret.html", "//etc/passwd", "%2fetc%2fpasswd", "/etc/passwd",
    "link.html", "near/surface/table.parquet",
    "up/secret.html", "up/elsewhere/table.parquet", ".hidden.html", "report.html%00", "notes.txt",
    "deep", "deep/surface/manifest.json", "", "~/x.html", "a" * 5000, "report.html/", "deep//surface",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_outside_the_folder_is_served(client, path):
    response = client.get(f"{HERE}/files/{path}")
    assert "secret" not in response.text
    refused(response, 404)


@pytest.mark.parametrize(
    "at",
    [
        "..",
        "../elsewhere",
        "near/surface",
        "up",
        "up/elsewhere",
        "lent",
        "/",
        "",
        ".",
        "deep/../deep/surface",
        "report.html",
        "\0",
    ],
)
def test_no_result_outside_the_folder_is_opened(client, at):
    for path in ("/api/result", "/api/table", "/api/figure"):
        refused(client.get(path, params={"at": at, "name": "fig2"}), 404)


@pytest.mark.parametrize("path", OUTSIDE)
def test_nor_where_no_client_tidies_the_path(root, path):
    with pytest.raises(MissingError):
        served(root, unquote(path))


def test_two_jobs_wait_a_third_is_refused_and_one_is_cancelled(client, monkeypatch):
    """The model is held at its first module until the test lets it go on."""
    hold, inside = threading.Event(), threading.Event()
    stopping = answer.stopping

    def held(check):
        def slow() -> None:
            inside.set()
            while not hold.is_set():
                check()
                time.sleep(0.002)

        return stopping(slow)

    monkeypatch.setattr(answer, "stopping", held)
    first, second = (client.post("/api/jobs", json={"text": TEXT}).json() for _ in range(2))
    full = client.post("/api/jobs", json={"text": TEXT})
    assert "At most 2 jobs" in refused(full, 429)
    assert int(full.headers["retry-after"]) >= 1
    assert inside.wait(patience())
    assert client.get(f"/api/jobs/{second['id']}").json()["ahead"] == 1
    client.delete(f"/api/jobs/{first['id']}")
    assert waited(client, first["id"])["state"] == "cancelled"
    hold.set()
    assert waited(client, second["id"])["state"] == "done"
    assert finished(client, text=TEXT)["state"] == "done"


def test_a_defect_is_told_without_its_details(load, root, monkeypatch):
    app = application({"tiny:bert": load("tiny:bert")}, port=PORT, results=root, max_tokens=24, max_jobs=2)

    def broken(_root: Path) -> None:
        raise ZeroDivisionError("inner detail")

    monkeypatch.setattr(module.stored, "listed", broken)
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        assert "inner detail" not in refused(client.get("/api/stored"), 500)


@pytest.mark.parametrize(
    ("name", "task", "first"),
    [
        ("tiny:bert", None, ("The trophy does not fit in the suitcase because it is too big.", "")),
        ("tiny:bert", "masked-lm", ("The capital of France is [MASK].", "")),
        ("tiny:bert", "question-answering", ("What is too big?", answer.TEXTS[0])),
        ("tiny:gpt2", "causal-lm", (answer.TEXTS[0], "")),
        ("tiny:t5", "translation", (answer.TEXTS[0], "")),
        ("demo-nmt", "translation", ("Ich habe das Buch gestern gelesen.", "I read the book yesterday.")),
    ],
)
def test_every_model_of_texts_has_examples_of_its_own_kind(load, name: str, task: str | None, first) -> None:
    found = answer.examples(load(name, task))
    assert found[0] == first
    assert len(found) >= 2


def test_a_model_that_reads_no_text_has_no_examples(load) -> None:
    assert answer.examples(load("tiny:vit")) == ()


def test_a_page_has_the_vector_of_a_sentence_only_where_its_frame_compares(load) -> None:
    page = page_of_trace(load("tiny:bert").trace("the river"), quantities=["raw"])
    assert len(page.vector) == load("tiny:bert").hf.config.hidden_size
    assert sum(one * one for one in page.vector) == pytest.approx(1, abs=1e-5)
    assert packed(page).header["vector"] == []
    assert packed(replace(page, live=True)).header["vector"] == pytest.approx(page.vector, rel=1e-5)
    assert page_of_trace(load("tiny:gpt2", "causal-lm").trace("the river"), quantities=["raw"]).vector == ()

"""What is asked of Ray is looked at before anything is waited for."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from headwise.errors import InputError

pytest.importorskip("ray")
from headwise.engine.ray import _answers, _connect, asked_for, crew


@pytest.mark.parametrize(
    ("machines", "free", "workers", "threads", "count"),
    [([2], 2, None, 1, 2), ([2], 2, 2, 1, 2), ([4, 2], 6, None, 2, 3), ([3, 3], 6, None, 2, 2), ([8], 3, None, 1, 3)],
)
def test_workers_that_fit(machines, free, workers, threads, count) -> None:
    assert crew(machines, free, workers, threads) == count


@pytest.mark.parametrize(
    ("machines", "free", "workers", "threads", "told"),
    [
        ([2], 2, 6, 1, "6 workers with 1 thread each must fit, a worker on one machine, but Ray has 2 cores, 2 of them "
         "free; ask for at most --workers 2."),
        ([2], 2, None, 4, "1 worker with 4 threads each must fit, a worker on one machine, but Ray has 2 cores, 2 of "
         "them free; ask for fewer --threads, or wait until the cluster is free."),
        ([3, 3], 6, 3, 2, "3 workers with 2 threads each must fit, a worker on one machine, but Ray has 3 + 3 cores, 6 "
         "of them free; ask for at most --workers 2."),
        ([2], 0, None, 1, "1 worker with 1 thread each must fit, a worker on one machine, but Ray has 2 cores, 0 of "
         "them free; ask for fewer --threads, or wait until the cluster is free."),
    ],
)  # fmt: skip
def test_workers_that_would_be_waited_for_for_ever(machines, free, workers, threads, told) -> None:
    with pytest.raises(InputError) as refused:
        crew(machines, free, workers, threads)
    assert str(refused.value) == told


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379", "host:port", "host:99999", "ray://host"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InputError, match="must be HOST:PORT or auto"):
        _answers(address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_and_one_where_somebody_does(scheme: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InputError, match=f"must answer at {address}, but it does not .*; start it first"):
            _answers(address)
        listener.listen()
        _answers(address)
    _answers("auto")


@pytest.mark.parametrize(
    ("given", "environment", "address"),
    [(None, None, None), (None, "", None), (None, "local", None), ("local", "host:1", None), (None, "host:1", "host:1"),
     ("host:2", "host:1", "host:2"), ("auto", None, "auto")],
)  # fmt: skip
def test_whose_ray_it_is(given, environment, address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if environment is not None:
        monkeypatch.setenv("RAY_ADDRESS", environment)
    assert asked_for(given) == address


def test_without_an_address_a_ray_of_one_s_own_is_started_whatever_runs_on_this_machine() -> None:
    """Ray asked for `None` joins the cluster that /tmp/ray names, which may be anybody's."""
    asked: list[dict[str, object]] = []
    paper = SimpleNamespace(is_initialized=lambda: False, init=lambda **given: asked.append(given))
    assert _connect(paper, None)
    assert _connect(paper, "auto")
    assert [one["address"] for one in asked] == ["local", "auto"]

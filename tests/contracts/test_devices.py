"""The core runs on the device of the model: on a stand-in that refuses to mix devices, to the same numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from polars.testing import assert_frame_equal

import headwise as hw
from headwise.cli import app
from headwise.engine.ray import needs_of
from headwise.errors import InputError
from references.elsewhere import Elsewhere, is_there

TEXTS = ("The old dog sat in the sun, and it was red.", "A cat, a dog and a bird ran far away from here.")
STUDIES = ["surface", "norms", "nullspace", "distances"]


close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5, equal_nan=True)
same = partial(assert_frame_equal, rel_tol=1e-4, abs_tol=1e-5)


@pytest.fixture(scope="module", params=["tiny:bert", "tiny:llama"])
def there(request: pytest.FixtureRequest) -> hw.Model:
    with Elsewhere():
        return hw.load(request.param, device="cpu:0")


@pytest.mark.parametrize(
    "mixed",
    [
        lambda there: there + torch.arange(3),
        lambda there: torch.where(torch.arange(3) > 1, there, 0.0),
        lambda there: torch.stack([there, torch.zeros(3)]),
        lambda there: torch.arange(3)[there.long()],
        lambda there: there.numpy(),
    ],
)
def test_the_stand_in_refuses_what_a_gpu_refuses(mixed: Any) -> None:
    with Elsewhere():
        there = torch.ones(3, device="cpu:0")
        with pytest.raises((RuntimeError, TypeError), match="device"):
            mixed(there)


def test_the_stand_in_lets_pass_what_a_gpu_lets_pass() -> None:
    with Elsewhere():
        there = torch.ones(3, device="cpu:0")
        results = [
            there * torch.tensor(2.0),
            there[torch.tensor([0, 1])],
            torch.arange(3).to(there),
            there.max(0).values,
        ]
        results += [torch.zeros(3, device=there.device), there.new_zeros(2), *there.split(1)]
        assert all(is_there(result) for result in results)
        assert there.device != torch.zeros(3).device
        back = [there.cpu(), there.to("cpu"), there.to(torch.zeros(3)), torch.arange(3)]
        assert not any(is_there(result) for result in back)
        assert torch.equal(there.cpu() + torch.zeros(3), torch.ones(3))


def test_every_quantity_of_a_text(there: hw.Model, load: Any) -> None:
    own = load(there.name).trace(TEXTS[0])
    with Elsewhere():
        trace = there.trace(TEXTS[0])
        assert is_there(trace.layers[0].alpha)
        for name in [*hw.ATTENTION, *hw.MIXING, "rollout", "globenc-rollout", "flow"]:
            close(trace.quantity(name).cpu(), own.quantity(name))
        same(trace.heads(), own.heads())
        close(trace.words("norm").cpu(), own.words("norm"))
        close(torch.stack(trace.attention_interval(1, 1, 2)).cpu(), torch.stack(own.attention_interval(1, 1, 2)))
        assert trace.alternative_attention(1, 1).change < 1e-4


def test_the_page_of_a_text(there: hw.Model) -> None:
    with Elsewhere():
        page = hw.view(there.trace("the old dog"), quantities=["raw", "effective"], alternatives=1).page
    assert [maps.name for maps in page.stacks[0].quantities] == ["raw", "effective"]


def test_studies_over_a_corpus(load: Any, tmp_path: Path) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n".join(TEXTS), encoding="utf-8")
    own = hw.run(STUDIES, load("tiny:bert"), corpus=corpus, out=tmp_path / "own", progress=False, figures=False)
    with Elsewhere():
        found = hw.run(STUDIES, "tiny:bert", device="cpu:0", corpus=corpus, out=tmp_path / "there", progress=False)
    for name in STUDIES:
        same(found[name].table, own[name].table)


@pytest.mark.parametrize("device", ["cuda:7", "nowhere"])
def test_a_device_that_is_not_there_is_one_line(device: str) -> None:
    with pytest.raises(InputError, match=rf"A device is cpu, cuda, .* must be there, but '{device}' is not") as error:
        hw.load("tiny:bert", device=device)
    assert "\n" not in str(error.value)


def test_every_verb_with_a_model_has_a_device() -> None:
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    given = {verb: {p.name: p for p in command.params} for verb, command in commands.items()}
    with_model = [verb for verb, options in given.items() if {"model", "models", "a"} & set(options)]
    assert {"run", "report", "view", "inspect", "explain", "cite", "serve", "doctor", "align"} <= set(with_model)
    for verb in with_model:
        assert given[verb]["device"].default == "cpu", verb
        assert given[verb]["device"].help == "Where the model runs: cpu, cuda, cuda:1 or mps.", verb


@pytest.mark.parametrize(
    ("device", "needs"),
    [
        ("cpu", {"num_cpus": 3}),
        ("cuda", {"num_cpus": 3, "num_gpus": 1}),
        ("cuda:1", {"num_cpus": 3, "num_gpus": 1}),
    ],
)
def test_a_worker_on_ray_gets_a_gpu_of_its_own(device: str, needs: dict[str, int]) -> None:
    assert needs_of(3, device) == needs

"""Which head a checkpoint is loaded with when nobody says: the one it was saved with, if its weights were saved too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwise.cli import app
from headwise.errors import ModelError
from headwise.models.capture import quiet
from headwise.models.heads import own_task
from headwise.models.tiny import tiny_model


def saved(folder: Path, family: str, task: str, *, head: bool) -> str:
    """A checkpoint whose configuration names the class of a task, with the head's weights or without."""
    model, tokenizer = tiny_model(family, task=task)
    with quiet():
        body = model if head else getattr(model, model.base_model_prefix)
        body.config.architectures = None
        body.save_pretrained(folder)
        body.config.architectures = [type(model).__name__]
        body.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("bert", "masked-lm"),
        ("roberta", "classification"),
        ("gpt2", "causal-lm"),
        ("llama", "causal-lm"),
        ("bert", "token-classification"),
    ],
)
def test_a_head_is_there_when_its_weights_are(tmp_path: Path, family: str, task: str) -> None:
    assert own_task(saved(tmp_path, family, task, head=True)) == task


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "masked-lm"), ("mpnet", "masked-lm"), ("bert", "classification")]
)
def test_a_name_without_weights_is_no_head(tmp_path: Path, family: str, task: str) -> None:
    """As all-mpnet-base-v2 is on the hub, which could not be viewed, inspected or served."""
    assert own_task(saved(tmp_path, family, task, head=False)) is None


def test_a_token_classifier_is_inspected_with_its_head(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "bert", "token-classification", head=True)
    result = CliRunner().invoke(app, ["inspect", "the city was old .", "--model", folder])
    assert result.exit_code == 0, result.output


def test_such_a_model_is_viewed_and_inspected(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "mpnet", "masked-lm", head=False)
    for verb in (["view", "-o", str(tmp_path / "page.html")], ["inspect"]):
        result = CliRunner().invoke(app, [verb[0], "the city was old .", *verb[1:], "--model", folder])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "wrong",
    [{"hidden_act": "nope"}, {"hidden_size": "24"}, {"hidden_size": None}, {"num_attention_heads": 5},
     {"num_hidden_layers": 10**7}],
)  # fmt: skip
def test_a_broken_configuration_is_one_line_of_the_load(tmp_path: Path, wrong: dict) -> None:
    """The head is looked for before the model is loaded: that must not end in a traceback, nor build for hours."""
    folder = Path(saved(tmp_path / "model", "bert", "masked-lm", head=True))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | wrong))
    result = CliRunner().invoke(app, ["inspect", "the city was old .", "--model", str(folder)])
    assert isinstance(result.exception, ModelError), result.output


@pytest.mark.parametrize("index", ["[]", '{"weight_map": 3}', "{"])
def test_an_index_that_is_none_says_nothing_of_the_head(tmp_path: Path, index: str) -> None:
    folder = Path(saved(tmp_path / "model", "bert", "masked-lm", head=True))
    (folder / "model.safetensors.index.json").write_text(index)
    assert own_task(str(folder)) == "masked-lm"

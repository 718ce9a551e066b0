"""What other tools take for the same work on the same weights and text, in one table: processor seconds of one thread.

    pip install --target peers --no-deps captum inseq bertviz …      # none of them is a dependency of headwise
    python -m venv lens && lens/bin/pip install transformer-lens -c constraints.txt
    python benchmarks/peers.py --packages peers --lens lens/bin/python [--rounds 3]

    bertviz            the page of raw attention of a text           hw.Trace.save_html, quantities=["raw"]
    captum, inseq      integrated gradients of the next word         model.explain(method="integrated-gradients")
    TransformerLens    a pass that keeps every activation            model.trace
    the papers         effective attention by the SVD of every T; every vector α f(x) made and measured

Peer and headwise take turns; the table has medians. A peer that is not there, or fails, is a line that says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bench import fresh
from foundation import capture, naive_effective, naive_norm_sum, sample_batch

import headwise as hw
from headwise.measures import ATTENTION, MIXING

STEPS, WORDS = 16, 64
Task = Callable[[], object]
Row = tuple[str, str, float, float, str]  # what, peer, its seconds, ours, beside it


def seconds(task: Task) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def turns(theirs: Task, ours: Task, rounds: int) -> tuple[float, float]:
    theirs(), ours()
    pairs = [(seconds(theirs), seconds(ours)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def text_of(model: hw.Model, tokens: int) -> str:
    (text,) = sample_batch(model, 1, tokens).texts
    return model.tokenizer.decode(list(text.ids), skip_special_tokens=True)


def bertviz(rounds: int, folder: Path) -> Iterator[Row]:
    from bertviz import model_view

    model = hw.load("demo")
    trace = model.trace(text_of(model, 128), truncate=True)
    pages: dict[str, int] = {}

    def theirs() -> None:
        maps = [layer[None] for layer in trace.attention("raw")]
        page = model_view(maps, list(trace.tokens), html_action="return", display_mode="light")
        pages["bertviz"] = len(page.data.encode())

    def ours() -> None:
        pages["headwise"] = trace.save_html(folder / "page.html", quantities=["raw"]).stat().st_size

    sizes = lambda: f"{pages['bertviz'] / 1e6:.1f} against {pages['headwise'] / 1e6:.1f} MB"  # noqa: E731
    taken = turns(theirs, ours, rounds)
    yield ("page of all raw maps, demo, 128 tokens", "bertviz", *taken, sizes())


def gradients(model: hw.Model, text: str, name: str) -> Task:
    return lambda: model.explain(
        text, method=name, units="tokens", beside=(), tests=False, **({"steps": STEPS} if "integrated" in name else {})
    )


def captum(rounds: int, folder: Path) -> Iterator[Row]:  # noqa: ARG001
    from captum.attr import LayerIntegratedGradients

    model = hw.load("demo-llm", task="causal-lm")
    text = text_of(model, WORDS)
    ids = torch.tensor([model.encode(text).ids])
    with torch.no_grad():
        word = int(model.hf(input_ids=ids).logits[0, -1].argmax())
    number = lambda x: model.hf(input_ids=x).logits[:, -1, word]  # noqa: E731
    method = LayerIntegratedGradients(number, model.hf.get_input_embeddings())
    theirs = lambda: method.attribute(  # noqa: E731
        ids, baselines=torch.zeros_like(ids), n_steps=STEPS, internal_batch_size=8
    )
    for name in ("integrated-gradients", "paths"):
        taken = turns(theirs, gradients(model, text, name), rounds)
        beside = f"{STEPS} steps each" if name != "paths" else "ours exact, by one pass back"
        yield (f"a next word, demo-llm, {ids.shape[1]} tokens: {name}", "captum IntegratedGradients", *taken, beside)


def inseq(rounds: int, folder: Path) -> Iterator[Row]:
    import inseq as package

    model = hw.load("demo-llm", task="causal-lm")
    model.hf.save_pretrained(folder / "llm")
    model.tokenizer.save_pretrained(folder / "llm")
    held = package.load_model(str(folder / "llm"), "integrated_gradients")
    text = text_of(model, WORDS)
    with torch.no_grad():
        word = int(model.hf(input_ids=torch.tensor([model.encode(text).ids])).logits[0, -1].argmax())
    said = text + model.tokenizer.decode([word])
    theirs = lambda: held.attribute(text, said, n_steps=STEPS, internal_batch_size=8, show_progress=False)  # noqa: E731
    taken = turns(theirs, gradients(model, text, "integrated-gradients"), rounds)
    yield (f"a next word, demo-llm, {WORDS} tokens: integrated-gradients", "inseq", *taken, f"{STEPS} steps each")


LENS = """
import json, statistics, sys, time, torch
from transformer_lens.model_bridge import TransformerBridge
torch.set_num_threads(1)
peer = TransformerBridge.boot_transformers(sys.argv[1], device="cpu")
tokens = torch.tensor([json.loads(open(sys.argv[1] + "/ids.json").read())])
def once():
    start = time.process_time()
    with torch.no_grad():
        peer.run_with_cache(tokens)
    return time.process_time() - start
once()
print(statistics.median(once() for _ in range(int(sys.argv[2]))))
"""


def lens(rounds: int, folder: Path, python: str) -> Iterator[Row]:
    """A GPT-2 of its usual size with random weights, which that package knows; it runs in its own environment."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = hw.load("tiny:gpt2").tokenizer
    hf = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer))).eval()
    hf.save_pretrained(folder / "gpt2")
    tokenizer.save_pretrained(folder / "gpt2")
    model = hw.load((hf, tokenizer))
    (text,) = sample_batch(model, 1, 128).texts
    (folder / "gpt2" / "ids.json").write_text(json.dumps(list(text.ids)))
    command = [python, "-c", LENS, str(folder / "gpt2"), str(rounds)]
    theirs = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    said = tokenizer.decode(list(text.ids), skip_special_tokens=True)
    model.trace(said, truncate=True)
    ours = statistics.median(seconds(lambda: model.trace(said, truncate=True)) for _ in range(rounds))
    yield ("a pass that keeps what is to be looked at, GPT-2 12 × 12, 128 tokens", "TransformerLens run_with_cache",
           theirs, ours, "ours with its proof: a second, unwatched pass")  # fmt: skip


def papers(rounds: int, folder: Path) -> Iterator[Row]:  # noqa: ARG001
    model = hw.load("demo")
    layers = capture(model, sample_batch(model, 1, 128))
    for what, naive, ours in (
        ("effective attention of all heads, demo, 128 tokens", naive_effective, ATTENTION["effective"]),
        ("norm-sum of all layers, demo, 128 tokens", naive_norm_sum, MIXING["norm-sum"]),
    ):
        work: Any = lambda ours=ours: [ours(layer) for layer in fresh(layers)]  # noqa: E731
        yield (what, "the paper's formula", *turns(lambda naive=naive: naive(layers), work, rounds), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packages", type=Path, help="a folder with captum, inseq and bertviz (pip install --target)")
    parser.add_argument("--lens", help="the python of an environment with transformer-lens")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.packages:
        sys.path.append(str(chosen.packages))
    parts: dict[str, Any] = {"papers": papers, "bertviz": bertviz, "captum": captum, "inseq": inseq}
    if chosen.lens:
        parts["TransformerLens"] = lambda rounds, folder: lens(rounds, folder, chosen.lens)
    print("| work | peer | its seconds | headwise | ratio | |\n|---|---|---|---|---|---|", flush=True)
    for name, part in parts.items():
        try:
            with tempfile.TemporaryDirectory() as folder:
                for what, peer, theirs, ours, beside in part(chosen.rounds, Path(folder)):
                    ratio = f"{theirs / ours:.2g} ×"
                    print(f"| {what} | {peer} | {theirs:.2f} | {ours:.2f} | {ratio} | {beside} |", flush=True)
        except Exception as error:  # whatever a peer does is a line here
            said = str(error).splitlines() or [""]
            print(f"| – | {name} | left out: {type(error).__name__}: {said[-1][:160]} | | | |", flush=True)


if __name__ == "__main__":
    main()

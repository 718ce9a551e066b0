"""The scores of `roles` against TransformerLens `detect_head`, on the same weights and texts: they must agree to 1e-4.

    python -m venv peer && peer/bin/pip install transformer-lens -c constraints.txt
    python benchmarks/detect_head.py --peer peer/bin/python [--model tiny:gpt2]

`detect_head` (error measure "mul", https://transformerlensorg.github.io) divides the attention on a pattern by
all of a head's attention, n for n rows; `roles` takes the mean over the rows that the pattern has a key for. So

    detect_head = roles × (rows with such a key) / n

The peer runs in its own environment and builds its own model from the weights: a GPT-2, which it knows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PATTERNS = {"previous": "previous_token_head", "duplicate": "duplicate_token_head", "induction": "induction_head"}
TEXT = "the river of the city and the river of the north and the old city of the river"


def ours(name: str, folder: Path) -> dict[str, list]:
    """Scores by role in terms of `detect_head`, [layer head]; the weights and the tokens are left in `folder`."""
    import torch

    import headwise as hw
    from headwise.studies.roles import made

    model = hw.load(name, task="causal-lm")
    model.hf.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    (folder / "text.txt").write_text(TEXT)
    settings = {"roles": {"texts": 1, "sequences": 1, "draws": 1}}
    result = hw.run("roles", model, corpus=folder / "text.txt", out=folder / "out", settings=settings)
    table = result.table.filter(part="head")
    ids = model.encode(TEXT).ids
    rows = {"previous": len(ids) - 1, "duplicate": sum(token in ids[:at] for at, token in enumerate(ids))}
    found = {role: _grid(table.filter(role=role), rows[role] / len(ids)) for role in rows}
    (twice,) = made.repeated(model, 1, seed=3)
    source = twice.source.clone()
    source[-1] = source[-2] + 1  # the peer also asks the last row, whose next token nobody knows
    scores = made.seen(model, [made.Made(twice.text, source)], "raw").scores
    share = int((source >= 0).sum()) / len(source)
    found["induction"] = [(scores["self", layer][0] * share).tolist() for layer in range(model.layers())]
    tokens = {"previous": list(ids), "duplicate": list(ids), "induction": list(twice.text.ids)}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    assert torch.tensor(found["induction"]).isfinite().all()
    return found


def _grid(table, share: float) -> list:
    layers = table["layer"].max() + 1
    return [[value * share for value in table.filter(layer=layer).sort("head")["value"]] for layer in range(layers)]


def theirs(folder: Path) -> dict[str, list]:
    """The same by the peer; runs in its environment."""
    import torch
    from transformer_lens.head_detector import detect_head
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import GPT2LMHeadModel

    hf = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    peer = TransformerBridge.boot_transformers(str(folder), device="cpu")
    found = {}
    for role, ids in json.loads((folder / "tokens.json").read_text()).items():
        tokens = torch.tensor([ids])
        with torch.no_grad():
            same = (peer(tokens).softmax(-1) - hf(tokens).logits.softmax(-1)).abs().max()
            assert same < 1e-4, f"the peer's model is not ours: {same}"
        peer.to_tokens = lambda _seq, tokens=tokens: tokens  # it has no tokenizer here
        found[role] = detect_head(peer, TEXT, PATTERNS[role]).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="the python of an environment with transformer-lens")
    parser.add_argument("--model", default="tiny:gpt2")
    parser.add_argument("--there", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.there is not None:
        print(json.dumps(theirs(chosen.there)))
        return
    with tempfile.TemporaryDirectory() as folder:
        own = ours(chosen.model, Path(folder))
        command = [chosen.peer or sys.executable, __file__, "--there", folder]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"the peer failed:\n{ended.stderr[-2000:]}")
    other = json.loads(ended.stdout.splitlines()[-1])
    for role, pattern in PATTERNS.items():
        pairs = [(a, b) for x, y in zip(own[role], other[role], strict=True) for a, b in zip(x, y, strict=True)]
        apart = max(abs(a - b) for a, b in pairs)
        verdict = "agree" if apart <= 1e-4 else "DIFFER"
        print(f"{role:10} {pattern:22} {len(pairs)} heads, {min(b for _, b in pairs):.3f} to "
              f"{max(b for _, b in pairs):.3f}, largest difference {apart:.1e} (≤ 1e-4): {verdict}")  # fmt: skip


if __name__ == "__main__":
    main()

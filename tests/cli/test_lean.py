"""What the command line leaves asleep stays so, is there when it is asked for, and changes no number of a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = "The old dog ran to the city."
VIEW = """
import json, sys
from headwise.cli import main
sys.argv = ["headwise", "view", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    import transformers, torch
    told = transformers.utils.is_scipy_available(), torch.distributed.is_available()
    names = "torch.fx", "torch._dynamo.convert_frame", "torch.distributed.tensor", "scipy.optimize"
    print(json.dumps([end.code, told, {name: name in sys.modules for name in names}]))
"""
LIBRARY = """
import sys
import headwise as hw
chosen = {"matters": True} if sys.argv[4:] else {"besides": []}
hw.load(sys.argv[1]).trace(sys.argv[2]).save_html(sys.argv[3], **chosen)
"""
WAKE = """
from headwise.cli.lean import lean
lean()
import sys, torch
assert "torch._dynamo" not in sys.modules and "torch._dynamo" not in vars(torch)
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
import transformers.masking_utils
assert transformers.masking_utils.TransformGetItemToIndex is TransformGetItemToIndex
assert torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(2)).tolist() == [2, 2]
assert torch._dynamo.disable(sorted) is not sorted and transformers.models.llama.LlamaConfig
"""


def ran(code: str, *given: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("model", "everything"), [("demo", False), ("tiny:llama", True), ("tiny:bert", True)])
def test_a_page_is_the_library_s_and_what_no_page_uses_sleeps(tmp_path: Path, model: str, everything: bool) -> None:
    own, other = (str(tmp_path / name) for name in ("own.html", "other.html"))
    said = ran(VIEW, TEXT, "--model", model, "-o", own, *(["--everything"] if everything else []))
    code, told, there = json.loads(said.splitlines()[-1])
    assert (code, told) == (0, [True, True]), "what transformers was told is not said any more"
    if not everything:
        assert there == {"torch.fx": True, "torch._dynamo.convert_frame": False, "torch.distributed.tensor": False,
                         "scipy.optimize": False}  # fmt: skip
    ran(LIBRARY, model, TEXT, other, *(["all"] if everything else []))
    assert Path(own).read_bytes() == Path(other).read_bytes()


def test_the_compiler_wakes_when_it_is_asked_to_compile() -> None:
    ran(WAKE)

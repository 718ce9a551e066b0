"""`headwise doctor`: what was found of a model, proved, and what can be done with it; one page to send."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli import options
from headwise.cli.lean import lasting, lean

if TYPE_CHECKING:
    from headwise.models.capture import Site
    from headwise.models.model import Model as Loaded
    from headwise.traces.trace import Trace

HELP = """What headwise finds of a model and proves, what each quantity can do on it, and what a trace costs.

  headwise doctor tiny:llama
  headwise doctor my-folder --task causal-lm --json doctor.json

Where a model is refused this prints the reason in a line. The page holds no weights and no text of yours."""

SENTENCE = "The old dog and the young cat sat in the sun, and so it was."
LENGTHS = (128, 512, 2048)

Model = Annotated[str, typer.Argument(help="Hub id, folder, demo … or tiny:NAME.", show_default=False)]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run the checkpoint's own code.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, float16 or float64.")]


def doctor(
    model: Model,
    task: options.Task = None,
    dtype: Dtype = "float32",
    device: options.Device = "cpu",
    trust: Trust = False,
    json_: options.Json = None,
) -> None:
    options.check_first(models=[model])
    options.check_json(json_)
    with options.telling(f"loading {model}"), lasting():
        lean()
        from headwise.models.heads import own_task
        from headwise.models.load import load

        started = time.perf_counter()
        task = own_task(model) if task is None else task
        loaded = load(model, task=task, dtype=dtype, device=device, trust_remote_code=trust)
        took = time.perf_counter() - started
    tried: list[str] = []
    print("trying every quantity on a sentence …", file=sys.stderr, flush=True)
    with options.phase("trying them", far=lambda: f"{len(tried)} tried, {tried[-1]} last" if tried else ""):
        found = facts(loaded, took, tried.append)
    if json_ is not None:
        options.write_json(json_, found)
    if json_ != "-":
        for line in page(found):
            print(line)


def facts(model: Loaded, seconds: float, tried: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """All that is told, as JSON (docs/schemas/doctor.json)."""
    import torch
    import transformers

    hf, proof = model.hf, model.proof
    return {
        "schema": "headwise-doctor-1",
        "model": model.name,
        "class": type(hf).__name__,
        "model_type": hf.config.model_type,
        "weights": sum(parameter.numel() for parameter in hf.parameters()),
        "dtype": str(hf.dtype),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seconds": seconds,
        "projection_error": proof.projection_error,
        "output_error": proof.output_error,
        "long": _long(model),
        "bare": {stack: list(blocks) for stack, blocks in proof.bare.items()},
        "unseen": list(proof.unseen),
        "layers": _layers(model),
        **_quantities(model, tried),
        "memory": _costs(model),
    }


def page(found: Mapping[str, Any]) -> Iterator[str]:
    """The whole report, line by line."""
    size = f"{found['weights'] / 1e6:.1f} M weights, {found['dtype']}"
    yield f"{found['model']}: {found['class']} ({found['model_type']}), {size}"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield f"{versions}; loaded and proved in {found['seconds']:.1f} s"
    yield ""
    yield f"proved: Σ_h α V W_O + b_O is each projection's own output to {found['projection_error']:.1e}"
    yield f"        the output, watched, is the model's own to {found['output_error']:.1e}"
    yield f"        {found['long']}"
    for stack, blocks in found["bare"].items():
        yield f"        no attention in {stack} block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}"
    if found["unseen"]:
        yield f"        not seen, and so not shown: the attention of {', '.join(found['unseen'])}"
    yield ""
    yield f"{'layer':<12} {'heads':<9} {'attention':<44} {'projection':<48} around it"
    for one in found["layers"]:
        where, heads = f"{one['stack']} {one['layer']}", f"{one['heads']} × {one['head_size']}"
        yield f"{where:<12} {heads:<9} {one['attention']:<44} {one['projection']:<48} {one['around']}"
    yield ""
    yield f"quantities, on a sentence of {found['tokens']} tokens"
    for one in found["quantities"]:
        said = one["refused"] or f"{one['milliseconds']:.0f} ms"
        yield f"  {one['name']:<20} {said}"
    yield ""
    yield "a trace keeps in memory (weights of all stacks, and one quantity of them)"
    for one in found["memory"]:
        yield f"  {one['tokens']:>5} tokens   {one['bytes'] / 2**20:,.0f} MB"


def _long(model: Loaded) -> str:
    from headwise.models.capture import OUTSIDE

    if model.hf in OUTSIDE:
        return "attention outside transformers' registry, followed by softmax and product: whole maps always"
    if not model.proof.blocks:
        return "long texts as whole maps: rows of the scores cannot be computed by themselves"
    fused = model.proof.sdpa and model.hf._supports_sdpa
    return f"long texts in blocks of rows, the pass itself {'on SDPA' if fused else 'eager'}"


def _layers(model: Loaded) -> list[dict[str, Any]]:
    names = {module: name for name, module in model.hf.named_modules()}
    return [
        {
            "stack": site.stack, "layer": site.index,
            "heads": site.circuit.stored.shape[0], "head_size": site.circuit.stored.shape[1],
            "attention": names[site.module], "projection": names[site.projection], "around": _around(site),
        }
        for site in model.proof.sites
    ]  # fmt: skip


def _around(site: Site) -> str:
    circuit = site.circuit
    found = ["causal" if site.causal else "sees all"]
    found += ["gated before W_O"] if site.gated else []
    if site.residual_of is None:
        return ", ".join([*found, "no sum of attention and residual is read by itself"])
    found.append("residual" if abs(circuit.scale - 1) < 1e-3 else f"residual + {circuit.scale:.3g} · out")
    norms = {"before the sum": circuit.inner, "after it": circuit.outer, "after the block": circuit.last}
    found += [f"{'LayerNorm' if n.centred else 'RMSNorm'} {place}" for place, n in norms.items() if n is not None]
    return ", ".join(found)


def _quantities(model: Loaded, tried: Callable[[str], None]) -> dict[str, Any]:
    """What each quantity takes on one sentence, or why it is not there."""
    from headwise.quantities import every

    trace = model.trace(SENTENCE, SENTENCE if model.is_encoder_decoder else None)
    names = [quantity.name for quantity in every() if quantity.kind != "explanation"]
    found: list[dict[str, Any]] = []
    for name in names:
        found.append({"name": name, **_tried(trace, name)})
        tried(name)
    return {"tokens": len(trace.text), "quantities": found}


def _tried(trace: Trace, name: str) -> dict[str, Any]:
    from headwise.errors import HeadwiseError

    started = time.perf_counter()
    try:
        trace.quantity(name)
    except HeadwiseError as error:
        return {"milliseconds": None, "refused": f"no: {error}"}
    except Exception as error:  # the page is there to be sent: what breaks is part of it
        said = f"broken: {type(error).__name__}: {next(iter(str(error).splitlines()), '')[:120]}"
        return {"milliseconds": None, "refused": said}
    return {"milliseconds": 1000 * (time.perf_counter() - started), "refused": None}


def _costs(model: Loaded) -> list[dict[str, int]]:
    from headwise.models.model import map_bytes

    lengths = [n for n in LENGTHS if model.limit is None or n <= model.limit]
    return [
        {"tokens": n, "bytes": map_bytes(model.proof.sites, n, n if model.is_encoder_decoder else 0)} for n in lengths
    ]

"""`headwise doctor`: what was found of a model, proved, and what can be done with it; one page to send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli import options

if TYPE_CHECKING:
    from headwise.models.capture import Site
    from headwise.models.model import Model as Loaded

HELP = """What headwise finds of a model and proves, what each quantity can do on it, and what a trace costs.

  headwise doctor tiny:llama
  headwise doctor my-folder --task causal-lm

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
) -> None:
    from headwise.models.load import load

    started = time.perf_counter()
    loaded = load(model, task=task, dtype=dtype, device=device, trust_remote_code=trust)
    seconds = time.perf_counter() - started
    for line in page(loaded, seconds):
        print(line)


def page(model: Loaded, seconds: float) -> Iterator[str]:
    """The whole report, line by line."""
    import torch
    import transformers

    hf, proof = model.hf, model.proof
    weights = sum(parameter.numel() for parameter in hf.parameters())
    yield f"{model.name}: {type(hf).__name__} ({hf.config.model_type}), {weights / 1e6:.1f} M weights, {hf.dtype}"
    yield f"torch {torch.__version__}, transformers {transformers.__version__}; loaded and proved in {seconds:.1f} s"
    yield ""
    yield f"proved: Σ_h α V W_O + b_O is each projection's own output to {proof.projection_error:.1e}"
    yield f"        the output, watched, is the model's own to {proof.output_error:.1e}"
    yield f"        {_long(model)}"
    for stack, blocks in proof.bare.items():
        yield f"        no attention in {stack} block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}"
    if proof.unseen:
        yield f"        not seen, and so not shown: the attention of {', '.join(proof.unseen)}"
    yield ""
    yield from _sites(model)
    yield ""
    yield from _quantities(model)
    yield ""
    yield from _costs(model)


def _long(model: Loaded) -> str:
    from headwise.models.capture import OUTSIDE

    if model.hf in OUTSIDE:
        return "attention outside transformers' registry, followed by softmax and product: whole maps always"
    if not model.proof.blocks:
        return "long texts as whole maps: rows of the scores cannot be computed by themselves"
    fused = model.proof.sdpa and model.hf._supports_sdpa
    return f"long texts in blocks of rows, the pass itself {'on SDPA' if fused else 'eager'}"


def _sites(model: Loaded) -> Iterator[str]:
    names = {module: name for name, module in model.hf.named_modules()}
    yield f"{'layer':<12} {'heads':<9} {'attention':<44} {'projection':<48} around it"
    for site in model.proof.sites:
        heads, size, _ = site.circuit.stored.shape
        where = f"{site.stack} {site.index}"
        modules = f"{names[site.module]:<44} {names[site.projection]:<48}"
        yield f"{where:<12} {f'{heads} × {size}':<9} {modules} {_around(site)}"


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


def _quantities(model: Loaded) -> Iterator[str]:
    from headwise.errors import HeadwiseError
    from headwise.quantities import every

    pair = SENTENCE if model.is_encoder_decoder else None
    trace = model.trace(SENTENCE, pair)
    yield f"quantities, on a sentence of {len(trace.text)} tokens"
    for quantity in every():
        if quantity.kind == "explanation":
            continue
        started = time.perf_counter()
        try:
            trace.quantity(quantity.name)
            said = f"{1000 * (time.perf_counter() - started):.0f} ms"
        except HeadwiseError as error:
            said = f"no: {error}"
        except Exception as error:  # the page is there to be sent: what breaks is part of it
            said = f"broken: {type(error).__name__}: {next(iter(str(error).splitlines()), '')[:120]}"
        yield f"  {quantity.name:<20} {said}"


def _costs(model: Loaded) -> Iterator[str]:
    from headwise.models.model import map_bytes

    yield "a trace keeps in memory (weights of all stacks, and one quantity of them)"
    for n in LENGTHS:
        if model.limit is None or n <= model.limit:
            need = map_bytes(model.proof.sites, n, n if model.is_encoder_decoder else 0)
            yield f"  {n:>5} tokens   {need / 2**20:,.0f} MB"

"""A trace in one safetensors file: tensors as they are, everything else as JSON in the file's own metadata."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from headwise.changes import Change, called, from_json, to_json
from headwise.errors import InputError
from headwise.results.files import write_files
from headwise.results.records import DamagedError, parse_record
from headwise.results.result import finite
from headwise.traces.long import LongTrace, TopMaps
from headwise.traces.trace import Trace
from headwise.types import Circuit, Encoding, Layer, Norm

FORMAT, LONG = "headwise-trace-2", "headwise-long-trace-1"
FACTS = {"model_name": str, "text": dict, "target": dict | None, "layers": list, "revision": str | None,
         "proof_error": float | None}  # fmt: skip
LONG_FACTS = {"model_name": str, "text": dict, "target": dict | None, "maps": dict, "revision": str | None,
              "proof_error": float | None}  # fmt: skip
LAYER_TENSORS = ("alpha", "value", "visible", "query_mask", "key_mask", "out", "residual", "gate")
NORMS = ("inner", "outer", "last")


def save_trace(trace: Trace, path: Path) -> Path:
    """Write `trace` to `path`; the file is whole or not there."""
    tensors = {f"hidden.{stack}": states for stack, states in trace.hidden.items()}
    tensors |= {f"given.{name}": tensor for name, tensor in trace.text.given.items()}
    for number, layer in enumerate(trace.layers):
        tensors |= {f"{number}.{name}": tensor for name, tensor in _layer_tensors(layer).items()}
    facts = {**_said(trace), "layers": [_layer_facts(layer) for layer in trace.layers],
             "change": to_json(trace.change)}  # fmt: skip
    contents = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return _written(path, contents, FORMAT, facts)


def save_long(trace: LongTrace, path: Path) -> Path:
    """The same for a long text, of which the strongest entries are kept."""
    tensors = {f"fact.{stack}.{name}": fact for stack, facts in trace.facts.items() for name, fact in facts.items()}
    for stack, maps in trace.maps.items():
        for name, kept in maps.items():
            tensors |= {f"{stack}.{name}.{part.name}": getattr(kept, part.name) for part in fields(kept)}
    facts = {**_said(trace), "maps": {stack: list(maps) for stack, maps in trace.maps.items()}}
    return _written(path, tensors, LONG, facts)


def _said(trace: Trace | LongTrace) -> dict[str, Any]:
    return {
        "model_name": trace.model_name, "revision": trace.revision, "proof_error": trace.proof_error,
        "output_error": trace.output_error, "answer": trace.answer,
        "text": _facts_of(trace.text), "target": None if trace.target is None else _facts_of(trace.target),
    }  # fmt: skip


def _written(path: Path, tensors: dict[str, Tensor], kind: str, facts: dict[str, Any]) -> Path:
    if not path.parent.is_dir():
        raise InputError(f"The folder of a saved trace must exist, but {path.parent} does not; make it first.")
    whole = save(tensors, metadata={"format": kind, "facts": json.dumps(finite(facts), allow_nan=False)})
    write_files(path.parent, {path.name: whole})
    return path


def open_trace(path: str | Path) -> Trace | LongTrace:
    """The trace that `save_trace` or `save_long` wrote."""
    if not Path(path).is_file():
        raise InputError(
            f"A saved trace is a file (trace.save writes it), a result a folder, but {path} is neither; check the path."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise InputError(f"{path} is not a whole safetensors file ({error}); save the trace again.") from None
    kind, facts = metadata.get("format"), metadata.get("facts", "")
    if kind not in (FORMAT, LONG):
        raise InputError(f"{path} must be a trace saved by headwise, but it is another kind of file.")
    try:
        if kind == LONG:
            return _long(parse_record(facts, LONG_FACTS), tensors)
        return _trace(parse_record(facts, FACTS), tensors)
    except (DamagedError, LookupError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path} must be as it was saved, but {reason}; save the trace again.") from None


def _trace(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Trace:
    return Trace(
        **_told(facts, tensors),
        layers=tuple(_layer(number, fact, tensors) for number, fact in enumerate(facts["layers"])),
        hidden=_under("hidden.", tensors),
        change=_changes(facts.get("change", [])),
    )


def _changes(facts: Any) -> tuple[Change, ...]:
    """What was changed in the model; each can be told, or the file is damaged."""
    changes = from_json(facts)
    for change in changes:
        called(change)
    return changes


def _long(facts: dict[str, Any], tensors: dict[str, Tensor]) -> LongTrace:
    maps = {
        stack: {name: TopMaps(**_under(f"{stack}.{name}.", tensors)) for name in names}
        for stack, names in facts["maps"].items()
    }
    known = {stack: _under(f"fact.{stack}.", tensors) for stack in maps}
    trace = LongTrace(**_told(facts, tensors), maps=maps, facts=known)
    _check_long(trace)
    return trace


def _check_long(trace: LongTrace) -> None:
    """Every tensor has the sizes that the tokens and the other tensors say, and keys are keys of the text."""
    if not trace.maps or not all(trace.maps.values()):
        raise ValueError("it keeps no map")
    for stack, maps in trace.maps.items():
        queries, keys = len(trace.queries(stack)), len(trace.keys(stack))
        layers, heads = next(iter(maps.values())).key.shape[:2]
        for name, kept in maps.items():
            top = kept.key.shape[-1]
            wanted = TopMaps.empty(layers, heads, queries, keys, top)
            for part in fields(kept):
                got, due = getattr(kept, part.name), getattr(wanted, part.name)
                if (got.shape, got.dtype) != (due.shape, due.dtype):
                    raise ValueError(f"{part.name} of {name} is {got.dtype} {tuple(got.shape)}")
            if top < 1 or int(kept.key.min()) < 0 or int(kept.key.max()) >= keys:
                raise ValueError(f"{name} names keys that the text does not have")
        if any(name not in trace.facts[stack] for name in ("entropy", "first")) or any(
            fact.shape != (layers, heads) for fact in trace.facts[stack].values()
        ):
            raise ValueError(f"the numbers of its heads are not {layers} × {heads}")


def _told(facts: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {
        "model_name": facts["model_name"],
        "text": replace(_encoding(facts["text"]), given=_under("given.", tensors)),
        "target": None if facts["target"] is None else _encoding(facts["target"]),
        "revision": facts["revision"],
        "proof_error": _number(facts["proof_error"]),
        "output_error": _number(facts.get("output_error")),
        "answer": facts.get("answer"),
    }


def _number(value: float | None) -> float:
    """JSON has no NaN: null stands for it."""
    return float("nan") if value is None else value


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _facts_of(text: Encoding) -> dict[str, Any]:
    return {name: value for name, value in asdict(replace(text, given={})).items() if name != "given"}


def _layer_tensors(layer: Layer) -> dict[str, Tensor]:
    named = {name: getattr(layer, name) for name in LAYER_TENSORS}
    circuit = layer.circuit
    named |= {"w_o": circuit.w_o, "b_o": circuit.b_o}
    for place in NORMS:
        norm: Norm | None = getattr(circuit, place)
        named |= {} if norm is None else {f"{place}.gain": norm.gain, f"{place}.bias": norm.bias}
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def _layer_facts(layer: Layer) -> dict[str, Any]:
    circuit = layer.circuit
    norms = {place: getattr(circuit, place) for place in NORMS}
    described = {place: None if n is None else {"eps": n.eps, "centred": n.centred} for place, n in norms.items()}
    return {"stack": layer.stack, "index": layer.index, "scale": circuit.scale, "post": circuit.post,
            "shared": circuit.shared, **described}  # fmt: skip


def _layer(number: int, fact: dict[str, Any], tensors: dict[str, Tensor]) -> Layer:
    prefix = f"{number}."
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    norms = {
        place: None if fact[place] is None else Norm(own[f"{place}.gain"], own[f"{place}.bias"], **fact[place])
        for place in NORMS
    }
    circuit = Circuit(
        own["w_o"], own["b_o"], scale=fact["scale"], inner=norms["inner"], outer=norms["outer"], last=norms["last"],
        post=fact["post"], shared=fact.get("shared", False),
    )  # fmt: skip
    parts = {name: own.get(name) for name in LAYER_TENSORS}
    return Layer(stack=fact["stack"], index=fact["index"], first_row=0, circuit=circuit, **parts)  # type: ignore[arg-type]


def _encoding(fact: dict[str, Any]) -> Encoding:
    fact = {name: tuple(value) for name, value in fact.items()}
    places = tuple(tuple(place) for place in fact.get("places", ()))
    return Encoding(**{**fact, "offsets": tuple((a, b) for a, b in fact["offsets"]), "places": places})
